package kernel

import (
	"bytes"
	"encoding/binary"
	"iter"

	"golang.org/x/sys/unix"
)

// attribute is an attribute of a netlink message. Its value is a slice of the message.
type attribute struct {
	kind  uint16 // without the flags
	value []byte
}

// attributes iterates over a list of netlink attributes and stops at the first malformed one. It copies nothing, because sets have
// thousands of elements.
func attributes(b []byte) iter.Seq[attribute] {
	return func(yield func(attribute) bool) {
		for len(b) >= unix.SizeofNlAttr {
			length := int(binary.NativeEndian.Uint16(b))
			if length < unix.SizeofNlAttr || length > len(b) {
				return
			}
			kind := binary.NativeEndian.Uint16(b[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
			if !yield(attribute{kind, b[unix.SizeofNlAttr:length]}) {
				return
			}
			b = b[min((length+unix.NLA_ALIGNTO-1)&^(unix.NLA_ALIGNTO-1), len(b)):]
		}
	}
}

// find returns the value of the first attribute of a kind; nil if there is none.
func find(b []byte, kind uint16) []byte {
	for a := range attributes(b) {
		if a.kind == kind {
			return a.value
		}
	}
	return nil
}

// text returns a zero-terminated string of the kernel.
func text(b []byte) string {
	s, _, _ := bytes.Cut(b, []byte{0})
	return string(s)
}

// number returns a 32-bit number in network byte order; 0 if b is not 4 bytes long.
func number(b []byte) uint32 {
	if len(b) != 4 {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}
