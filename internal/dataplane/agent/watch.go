package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/vishvananda/netlink"

	"liqo.io/liqo/internal/dataplane"
)

// resubscribe is how long a lost subscription is left alone.
const resubscribe = time.Second

// Watch calls changed whenever the kernel tells of a change to one of our links or routes, until ctx ends: somebody removed them, or the
// process that holds the tunnel started anew. What the kernel does not tell of, or too fast, is found by the next full pass.
func Watch(ctx context.Context, own dataplane.Ownership, changed func()) error {
	for ctx.Err() == nil {
		if err := watchOnce(ctx, own, changed); err != nil {
			return err
		}
		changed() // something may have been missed
		select {
		case <-ctx.Done():
		case <-time.After(resubscribe):
		}
	}
	return nil
}

// watchOnce subscribes and passes on what it hears until the kernel drops the subscription.
func watchOnce(ctx context.Context, own dataplane.Ownership, changed func()) error {
	done := make(chan struct{})
	links, routes := make(chan netlink.LinkUpdate, 64), make(chan netlink.RouteUpdate, 64)
	if err := netlink.LinkSubscribe(links, done); err != nil {
		close(done)
		return fmt.Errorf("watching links: %w", err)
	}
	if err := netlink.RouteSubscribe(routes, done); err != nil {
		close(done)
		return fmt.Errorf("watching routes: %w", err)
	}
	defer func() { // the subscriptions end when nobody fills their channels
		close(done)
		go func() {
			for range links { //nolint:revive // emptied
			}
		}()
		go func() {
			for range routes { //nolint:revive // emptied
			}
		}()
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case update, ok := <-links:
			if !ok {
				return nil
			}
			if name := update.Attrs().Name; name == own.Overlay || name == own.Tunnel {
				changed()
			}
		case update, ok := <-routes:
			if !ok {
				return nil
			}
			if slices.Contains(own.Tables, update.Table) {
				changed()
			}
		}
	}
}
