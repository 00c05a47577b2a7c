package dataplane_test

import (
	"context"
	"fmt"
	"net/netip"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/test/dataplane/fake"
)

// open matches the fields that Diff does not set: read-only fields, the properties and the absence of a tunnel link and its device, the endpoint of a
// peer if the wanted one is zero, and the difference between empty and missing lists of prefixes.
var open = regexp.MustCompile(`\.(Packets|Handshake|Received|Sent)$|^\.Links\[0\]\.(Name|Kind|VNI|Port|Local|MAC|Foreign)$|` +
	`^\.WireGuard(\[0\]\.(Link|Peers\[1\]\.(Endpoint|AllowedIPs)))?$`)

// TestEveryFieldCounts: every change of a state leads to a difference, except for fields that are left open.
func TestEveryFieldCounts(t *testing.T) {
	var paths []string
	each(reflect.ValueOf(&[]dataplane.State{gateway()}[0]).Elem(), "", func(path string, _ reflect.Value) { paths = append(paths, path) })
	if len(paths) < 200 {
		t.Fatalf("only %d fields: the test looks at the wrong place", len(paths))
	}
	for _, path := range paths {
		have := gateway()
		each(reflect.ValueOf(&have).Elem(), "", func(p string, v reflect.Value) {
			if p == path {
				change(t, p, v)
			}
		})
		if changes := dataplane.Diff(have, gateway(), own); (len(changes) == 0) != open.MatchString(path) {
			t.Errorf("with another %s there is to do: %v", path, changes)
		}
	}
}

// each calls f with every field, every element and every map value that has no parts of its own.
func each(v reflect.Value, path string, f func(path string, v reflect.Value)) {
	switch v.Interface().(type) {
	case netip.Addr, netip.Prefix, netip.AddrPort, time.Time, dataplane.MAC, dataplane.PublicKey, dataplane.PrivateKey:
		f(path, v)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		each(v.Elem(), path, f)
	case reflect.Struct:
		for i := range v.NumField() {
			each(v.Field(i), path+"."+v.Type().Field(i).Name, f)
		}
	case reflect.Slice:
		for i := range v.Len() {
			each(v.Index(i), fmt.Sprintf("%s[%d]", path, i), f)
		}
		f(path, v)
	default:
		f(path, v)
	}
}

// change sets v to another value.
func change(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	var other any
	switch old := v.Interface().(type) {
	case netip.Addr:
		other = netip.MustParseAddr("198.51.100.1")
	case netip.Prefix:
		other = netip.MustParsePrefix("198.51.100.0/24")
		if strings.Contains(path, "members") || old.IsSingleIP() {
			other = netip.MustParsePrefix("198.51.100.1/32")
		}
	case netip.AddrPort:
		other = netip.MustParseAddrPort("198.51.100.1:1")
	case time.Time:
		other = time.Unix(1, 0)
	case dataplane.MAC:
		other = dataplane.MAC{2, 9}
	case dataplane.PublicKey:
		other = dataplane.PublicKey{9}
	case dataplane.PrivateKey:
		other = dataplane.PrivateKey{9, 9}
	case map[netip.Addr]netip.Addr:
		other = map[netip.Addr]netip.Addr{addr("198.51.100.1"): addr("198.51.100.2")}
	}
	switch {
	case other != nil:
		v.Set(reflect.ValueOf(other))
	case v.Kind() == reflect.String:
		v.SetString(v.String() + "x")
	case v.Kind() == reflect.Bool:
		v.SetBool(!v.Bool())
	case v.CanInt():
		v.SetInt(v.Int() + 7)
	case v.CanUint():
		v.SetUint(v.Uint() + 7)
	case v.Kind() == reflect.Slice:
		v.SetZero()
	default:
		t.Fatalf("%s is of kind %s: say how to change it", path, v.Kind())
	}
}

// TestKeysAreComparedAsStored: every implementation of WireGuard clears four bits of a private key and sets one.
func TestKeysAreComparedAsStored(t *testing.T) {
	want := gateway()
	for i := range want.WireGuard[0].PrivateKey {
		want.WireGuard[0].PrivateKey[i] = 0xff
	}
	k := fake.New(addr("10.200.1.9"))
	k.AddTunnel(dataplane.TunnelLink, 1420)
	for pass := range 2 {
		have, err := k.Read(context.Background(), own)
		if err != nil {
			t.Fatal(err)
		}
		changes := dataplane.Diff(have, want, own)
		if err := k.Apply(context.Background(), changes); err != nil {
			t.Fatal(err)
		}
		if pass == 1 && len(changes) > 0 {
			t.Errorf("not silent: %v", changes)
		}
		if key := have.WireGuard[0].PrivateKey; pass == 1 && (key[0] != 0xf8 || key[31] != 0x7f) {
			t.Errorf("kept as %x ... %x", key[0], key[31])
		}
	}
}
