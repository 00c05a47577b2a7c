package fake_test

import (
	"testing"

	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/test/dataplane/conformance"
	"liqo.io/liqo/test/dataplane/fake"
)

// worlds is the number of random worlds in which the laws of package conformance are checked.
const worlds = 20000

func newHost(testing.TB) conformance.Host {
	k := fake.New(conformance.HostAddress)
	own := dataplane.Ours()
	return conformance.Host{
		Kernel:     k,
		Own:        own,
		AddTunnel:  func() { k.AddTunnel(own.Tunnel, 1420) },
		RemoveLink: k.RemoveLink,
		SetDown:    k.SetDown,
		Close:      func() {},
	}
}

func TestDiffInRandomWorlds(t *testing.T) { conformance.Laws(t, newHost, worlds) }

func TestFakeConforms(t *testing.T) { conformance.Suite(t, newHost) }
