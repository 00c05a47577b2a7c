package cloud

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
)

// TestSetAddresses runs in a network namespace of its own, made by starting this test again in new namespaces.
func TestSetAddresses(t *testing.T) {
	const inside = "PLAYGROUND_TEST_INSIDE"
	if os.Getenv(inside) == "" {
		again := exec.Command(os.Args[0], "-test.run=^TestSetAddresses$", "-test.v")
		again.Env = append(os.Environ(), inside+"=1")
		again.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
		if out, err := again.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}

	pool := prefixes("10.0.0.0/29", "fd00::/112")
	for _, step := range []struct{ want, added, removed []string }{
		{want: []string{"10.0.0.1", "10.0.0.2", "fd00::1"}, added: []string{"10.0.0.1", "10.0.0.2", "fd00::1"}},
		{want: []string{"10.0.0.1", "10.0.0.2", "fd00::1"}},
		{want: []string{"10.0.0.2", "10.0.0.3"}, added: []string{"10.0.0.3"}, removed: []string{"10.0.0.1", "fd00::1"}},
		{removed: []string{"10.0.0.2", "10.0.0.3"}},
	} {
		added, removed, err := setAddresses("lo", parse(step.want), pool)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(sorted(added), parse(step.added)) || !slices.Equal(sorted(removed), parse(step.removed)) {
			t.Errorf("want %v: added %v, removed %v", step.want, added, removed)
		}
		if got := onLoopback(t); !slices.Equal(got, parse(step.want)) {
			t.Errorf("want %v: have %v", step.want, got)
		}
	}
	if _, _, err := setAddresses("missing", nil, pool); err == nil {
		t.Error("an interface that is missing was no error")
	}
}

func parse(list []string) (result []netip.Addr) {
	for _, a := range list {
		result = append(result, netip.MustParseAddr(a))
	}
	return sorted(result)
}

func sorted(list []netip.Addr) []netip.Addr {
	slices.SortFunc(list, netip.Addr.Compare)
	return list
}

// onLoopback reads the addresses with the standard library, and fails on any that would add a route.
func onLoopback(t *testing.T) (result []netip.Addr) {
	t.Helper()
	device, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	list, err := device.Addrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range list {
		prefix := netip.MustParsePrefix(entry.String())
		if prefix.Addr().IsLoopback() {
			continue
		}
		if !prefix.IsSingleIP() {
			t.Errorf("%s is not alone in its prefix", prefix)
		}
		result = append(result, prefix.Addr())
	}
	return sorted(result)
}
