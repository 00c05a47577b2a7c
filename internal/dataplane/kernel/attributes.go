package kernel

import (
	"bytes"
	"encoding/binary"
	"iter"

	"golang.org/x/sys/unix"
)

// attribute of a netlink message. The value is a part of the message.
type attribute struct {
	kind  uint16 // without the flags
	value []byte
}

// attributes walks through a list of netlink attributes, and ends where it is broken. It copies nothing: sets have thousands of elements.
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

// find is the value of the first attribute of a kind; nil if there is none.
func find(b []byte, kind uint16) []byte {
	for a := range attributes(b) {
		if a.kind == kind {
			return a.value
		}
	}
	return nil
}

// text is a string of the kernel: it ends with a zero.
func text(b []byte) string {
	s, _, _ := bytes.Cut(b, []byte{0})
	return string(s)
}

// number is a 32-bit number in network order; 0 where there is none.
func number(b []byte) uint32 {
	if len(b) != 4 {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}
