package datapath

import (
	"context"
	"net/netip"
	"testing"

	"liqo.io/liqo/internal/dataplane"
)

// benchElements is the number of elements of the map, for example of offloaded pods or exposed services of a cluster.
const benchElements = 5000

// manyMapped returns a state with a map of benchElements elements. shift moves the last hundred of them.
func manyMapped(shift int) dataplane.State {
	s := overlayState()
	m := map[netip.Addr]netip.Addr{}
	for n := range benchElements {
		if n >= benchElements-100 {
			n += shift
		}
		m[netip.AddrFrom4([4]byte{10, 70, byte(n >> 8), byte(n)})] = netip.AddrFrom4([4]byte{10, 80, byte(n >> 8), byte(n)})
	}
	s.Table.Maps[0].Elements = m
	return s
}

func benchHost(b *testing.B) *kernelHost {
	b.Helper()
	host := newKernelHost(b)
	b.Cleanup(host.Close)
	h := kernelHosts[host.Own.Tunnel]
	if err := h.kernel.Apply(context.Background(), dataplane.Diff(dataplane.State{}, manyMapped(0), dataplane.Ours())); err != nil {
		b.Fatal(err)
	}
	return h
}

// BenchmarkReadAndDiff measures a pass that finds no difference.
func BenchmarkReadAndDiff(b *testing.B) {
	h, want := benchHost(b), manyMapped(0)
	b.ReportAllocs()
	for b.Loop() {
		have, err := h.kernel.Read(context.Background(), dataplane.Ours())
		if err != nil {
			b.Fatal(err)
		}
		if changes := dataplane.Diff(have, want, dataplane.Ours()); len(changes) > 0 {
			b.Fatal(changes)
		}
	}
}

// BenchmarkHundredChanges measures a pass that changes a hundred elements.
func BenchmarkHundredChanges(b *testing.B) {
	h := benchHost(b)
	b.ReportAllocs()
	for shift := 100; b.Loop(); shift += 100 {
		have, err := h.kernel.Read(context.Background(), dataplane.Ours())
		if err != nil {
			b.Fatal(err)
		}
		if err := h.kernel.Apply(context.Background(), dataplane.Diff(have, manyMapped(shift), dataplane.Ours())); err != nil {
			b.Fatal(err)
		}
	}
}
