package app

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"liqo.io/liqo/internal/offload/kubelet"
)

// TestReadinessOfReplicas: a replica on standby is ready, an active one is when nothing is missing, whatever the election reports afterwards.
func TestReadinessOfReplicas(t *testing.T) {
	address, lists := errors.New("no address"), errors.New("no lists")
	checks := []func() error{func() error { return address }, func() error { return lists }}
	r := &readiness{}
	for i, step := range []struct {
		do   func()
		want []string // nil means ready
	}{
		{func() {}, []string{"waiting for the Lease of the election to be read"}},
		{r.standBy, nil},
		{func() { r.activate() }, []string{"starting"}},
		{r.standBy, []string{"starting"}},
		{func() { r.activate(checks...) }, []string{"no address", "no lists"}},
		{func() { address = nil }, []string{"no lists"}},
		{func() { lists = nil }, nil},
		{func() { address = errors.New("another address") }, []string{"another address"}},
	} {
		step.do()
		err := r.ready()
		if (err == nil) != (step.want == nil) {
			t.Fatalf("step %d: %v, want %q", i, err, step.want)
		}
		for _, text := range step.want {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("step %d: %v lacks %q", i, err, text)
			}
		}
	}
}

// TestVirtualKubeletServesHealthWhereItIsProbed: the default of the flag is the port of the pod's probes.
func TestVirtualKubeletServesHealthWhereItIsProbed(t *testing.T) {
	o, err := parseVirtualKubelet([]string{
		"--virtual-node=vn", "--tenant-namespace=ns", "--cluster-id=rome", "--foreign-cluster-id=milan", "--remote-kubeconfig=f", "--node-ip=10.0.0.1",
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf(":%d", kubelet.HealthPort); o.healthAddress != want {
		t.Errorf("it serves on %q, and is probed on %q", o.healthAddress, want)
	}
}
