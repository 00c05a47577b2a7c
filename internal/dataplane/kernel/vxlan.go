package kernel

import (
	"encoding/binary"
	"fmt"

	"github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/dataplane"
)

// addVXLAN creates the link without UDP checksums for the outer packets; the inner packets have their own. If the hardware completes the inner
// checksum and a CNI translates an address of the outer packet, the kernel corrupts the outer checksum. It keeps a zero checksum (since Linux 5.7).
// The netlink library used for the other links cannot set this option, and the kernel cannot change it after the creation.
func (k *Kernel) addVXLAN(l dataplane.Link) error {
	conn, err := k.subscribe(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	attributes := netlink.NewAttributeEncoder()
	attributes.String(unix.IFLA_IFNAME, l.Name)
	attributes.Uint32(unix.IFLA_MTU, uint32(l.MTU))
	attributes.Bytes(unix.IFLA_ADDRESS, l.MAC[:])
	attributes.Nested(unix.IFLA_LINKINFO, func(info *netlink.AttributeEncoder) error {
		info.String(nl.IFLA_INFO_KIND, string(dataplane.VXLAN))
		info.Nested(nl.IFLA_INFO_DATA, func(data *netlink.AttributeEncoder) error {
			data.Uint32(nl.IFLA_VXLAN_ID, uint32(l.VNI))
			data.Bytes(nl.IFLA_VXLAN_LOCAL, l.Local.AsSlice())
			data.Bytes(nl.IFLA_VXLAN_PORT, binary.BigEndian.AppendUint16(nil, l.Port))
			data.Uint8(nl.IFLA_VXLAN_LEARNING, 0)
			data.Uint8(nl.IFLA_VXLAN_UDP_CSUM, 0)
			return nil
		})
		return nil
	})
	encoded, err := attributes.Encode()
	if err != nil {
		return fmt.Errorf("encoding the link: %w", err)
	}
	header := make([]byte, unix.SizeofIfInfomsg) // any family, any type, a new index
	binary.NativeEndian.PutUint32(header[8:], unix.IFF_UP)
	binary.NativeEndian.PutUint32(header[12:], unix.IFF_UP)
	_, err = conn.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.RTM_NEWLINK, Flags: netlink.Request | netlink.Acknowledge | netlink.Create | netlink.Excl},
		Data:   append(header, encoded...),
	})
	return err
}
