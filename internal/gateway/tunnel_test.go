package gateway

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTUNErrorNamesDeviceReasonAndCure: if a gateway cannot create its link in user space, the error contains the device, the reason and the cure.
// With crun, the device exists but may not be opened.
func TestTUNErrorNamesDeviceReasonAndCure(t *testing.T) {
	made := errors.New("TUNSETIFF failed")
	open := func(err error) error { return &fs.PathError{Op: "open", Path: tunDevice, Err: err} }
	cure := []string{"modprobe wireguard", "networking.gatewayTemplates.pod.nodeSelector"}
	for name, test := range map[string]struct {
		opened error
		want   []string
		is     error
	}{
		"not permitted by the runtime": {open(unix.EPERM), append(cure, "the container runtime of this node permits no access", "crun"), unix.EPERM},
		"not permitted by a module":    {open(unix.EACCES), append(cure, "permits no access"), unix.EACCES},
		"no file":                      {open(unix.ENOENT), append(cure, "does not provide", "kernel module tun"), unix.ENOENT},
		"no driver":                    {open(unix.ENODEV), append(cure, "does not provide", "kernel module tun"), unix.ENODEV},
		"another reason":               {nil, []string{"TUNSETIFF failed"}, made},
	} {
		got := tunError(made, test.opened)
		if !errors.Is(got, test.is) {
			t.Errorf("%s: %v does not wrap %v", name, got, test.is)
		}
		for _, want := range append(test.want, tunDevice) {
			if !strings.Contains(got.Error(), want) {
				t.Errorf("%s: %v, want %q in it", name, got, want)
			}
		}
	}
}
