package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/internal/trigger"
)

// watchPause is the time during which changes are merged into one call, and the delay after an error of a subscription.
const watchPause = 100 * time.Millisecond

// Watch calls changed after objects that own lists may have changed: links, addresses, neighbours, routes, rules or the nftables table. It
// does not matter who changed them; Apply counts too. Watch merges changes that follow each other closely into one call, and calls changed
// once at the start. It returns when ctx is done, or an error if it cannot subscribe. The kernel does not report changes of WireGuard
// devices.
func (k *Kernel) Watch(ctx context.Context, own dataplane.Ownership, changed func()) error {
	route, err := k.subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV4_RULE)
	if err != nil {
		return err
	}
	defer func() { _ = route.Close() }()
	filter, err := k.subscribe(unix.NETLINK_NETFILTER, unix.NFNLGRP_NFTABLES)
	if err != nil {
		return err
	}
	defer func() { _ = filter.Close() }()

	notified := trigger.New()
	notified.Fire()
	links := map[uint32]bool{} // indexes of the links that own lists
	for _, name := range []string{own.Overlay, own.Tunnel} {
		k.mu.Lock()
		link, err := k.find(name)
		k.mu.Unlock()
		if err != nil {
			return fmt.Errorf("looking for link %s: %w", name, err)
		}
		if link != nil {
			links[uint32(link.Attrs().Index)] = true
		}
	}
	go listen(ctx, route, notified, func(m netlink.Message) bool { return routeIsOurs(m, own, links) })
	go listen(ctx, filter, notified, func(m netlink.Message) bool { return filterIsOurs(m, own) })
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-notified:
			changed()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchPause):
		}
	}
}

func (k *Kernel) subscribe(family int, groups ...uint32) (*netlink.Conn, error) {
	config := &netlink.Config{}
	if k.namespace >= 0 {
		config.NetNS = k.namespace
	}
	conn, err := netlink.Dial(family, config)
	if err != nil {
		return nil, fmt.Errorf("opening a netlink socket to watch for changes: %w", err)
	}
	for _, g := range groups {
		if err := conn.JoinGroup(g); err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("watching group %d of netlink family %d: %w", g, family, err)
		}
	}
	return conn, nil
}

// listen fires notified after each message for which ours returns true, and after lost messages. It ends once ctx is done and the socket is
// closed.
func listen(ctx context.Context, conn *netlink.Conn, notified trigger.Trigger, ours func(netlink.Message) bool) {
	for ctx.Err() == nil {
		messages, err := conn.Receive()
		if err != nil && !errors.Is(err, unix.ENOBUFS) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(watchPause):
			}
		}
		if err != nil || slices.ContainsFunc(messages, ours) {
			notified.Fire()
		}
	}
}

// Sizes in bytes of the headers before the attributes: ifinfomsg; rtmsg and fib_rule_hdr; nfgenmsg.
const (
	linkHeader, routeHeader, filterHeader = unix.SizeofIfInfomsg, unix.SizeofRtMsg, 4
)

// routeIsOurs reports whether a message of rtnetlink concerns an object that own lists. It keeps links, the indexes of the links in own, up
// to date.
func routeIsOurs(m netlink.Message, own dataplane.Ownership, links map[uint32]bool) bool {
	index := func() uint32 {
		if len(m.Data) < 8 {
			return 0
		}
		return binary.NativeEndian.Uint32(m.Data[4:]) // the same position in ifinfomsg, ifaddrmsg and ndmsg
	}
	rest := func(header int) []byte { return m.Data[min(header, len(m.Data)):] }
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		name := text(find(rest(linkHeader), unix.IFLA_IFNAME))
		ours := name != "" && (name == own.Overlay || name == own.Tunnel)
		was := links[index()] // a renamed link
		if delete(links, index()); ours && m.Header.Type == unix.RTM_NEWLINK {
			links[index()] = true
		}
		return ours || was
	case unix.RTM_NEWADDR, unix.RTM_DELADDR, unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		return links[index()]
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		return inTable(find(rest(routeHeader), unix.RTA_TABLE), own)
	case unix.RTM_NEWRULE, unix.RTM_DELRULE:
		return inTable(find(rest(routeHeader), unix.FRA_TABLE), own)
	}
	return false
}

func inTable(b []byte, own dataplane.Ownership) bool {
	return len(b) == 4 && slices.Contains(own.Tables, int(binary.NativeEndian.Uint32(b)))
}

// filterIsOurs reports whether a message of nftables concerns the table in own. The name of the table is the first attribute of every
// message, except of generation messages.
func filterIsOurs(m netlink.Message, own dataplane.Ownership) bool {
	if uint16(m.Header.Type)&0xff == unix.NFT_MSG_NEWGEN || len(m.Data) < filterHeader || m.Data[0] != unix.NFPROTO_IPV4 {
		return false
	}
	return text(find(m.Data[filterHeader:], unix.NFTA_TABLE_NAME)) == own.Table
}
