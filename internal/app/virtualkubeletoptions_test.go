package app

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"liqo.io/liqo/internal/offload/node"
	"liqo.io/liqo/internal/offload/provider"
	"liqo.io/liqo/internal/offload/reflection"
	"liqo.io/liqo/internal/remote"
)

func TestVirtualKubeletOptions(t *testing.T) {
	required := []string{"--virtual-node=vn", "--tenant-namespace=ns", "--cluster-id=rome", "--foreign-cluster-id=milan", "--remote-kubeconfig=f", "--node-ip=10.0.0.1"}
	o, err := parseVirtualKubelet(append(required, "--labels-not-reflected=a, b*,", "--node-extra-labels=x=1,y=2=3", "--create-node=true", "--pod-reflection-workers=4", "--secret-reflection-workers=0", "--service-reflection-type=allowlist"))
	if err != nil {
		t.Fatal(err)
	}
	if o.nodeName != "vn" || o.listen != ":10250" || o.workers("pod") != 4 || o.workers("service") != 3 || o.workers("endpointslice") != 10 || o.workers("secret") != 0 || o.workers("networkpolicy") != 0 || o.reflection["service"].reflectionType != "AllowList" || o.reflection["secret"].reflectionType != "DenyList" || !o.apiServerSupport || !o.reflectIPs || !o.translateIPs || !o.createNode || o.runtimeClass != "liqo" {
		t.Errorf("%+v", o)
	}
	if diff := cmp.Diff([]string{"a", "b*"}, o.labelsNotReflected); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"x": "1", "y": "2=3"}, o.nodeExtraLabels); diff != "" {
		t.Error(diff)
	}
	for i, arg := range required {
		var rest []string
		rest = append(append(rest, required[:i]...), required[i+1:]...)
		name := strings.TrimPrefix(strings.SplitN(arg, "=", 2)[0], "--")
		if _, err := parseVirtualKubelet(rest); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
	for _, bad := range []string{"--pod-reflection-workers=-1", "--service-reflection-type=Some", "--node-extra-labels=x", "--no-such-flag"} {
		if _, err := parseVirtualKubelet(append(required, bad)); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

// TestRuntimeClassOfAnInstallation: the webhook and the virtual kubelet recognize pods by the RuntimeClass that the chart creates.
func TestRuntimeClassOfAnInstallation(t *testing.T) {
	for want, offloading := range map[string]map[string]any{
		"liqo":      {},
		"elsewhere": {"runtimeClass": map[string]any{"name": "elsewhere"}},
	} {
		told := install(t, offloading)
		virtual, err := node.New(node.Options{Listen: told.kubelet.listen})
		if err != nil {
			t.Fatal(err)
		}
		pods := told.kubelet.pods(virtual, provider.New(told.kubelet.provider(), nil), reflection.NewOriginServer(told.kubelet.originServer(func() bool { return false }, nil)))
		if told.manager.RuntimeClass != want || pods.RuntimeClass != want {
			t.Errorf("class %s: the controller manager is told of %s, virtual kubelets of %s", want, told.manager.RuntimeClass, pods.RuntimeClass)
		}
	}
}

// TestPeerChecksOfAnInstallation: the controller manager and the virtual kubelets check the API servers of peers as the values say.
func TestPeerChecksOfAnInstallation(t *testing.T) {
	const second = time.Second
	for want, values := range map[remote.HealthOptions]map[string]any{
		{Interval: 10 * second, Timeout: 5 * second, Failures: 3}: {},
		{Interval: 60 * second, Timeout: 5 * second, Failures: 2}: {"interval": "1m", "failures": 2},
		{Interval: 3 * second, Timeout: 2 * second, Failures: 3}:  {"interval": "3s", "timeout": "2s"},
	} {
		if got := installWith(t, map[string]any{"peerCheck": values}); got.manager.PeerCheck != want || got.kubelet.peerCheck != want {
			t.Errorf("%v: the controller manager has %+v, virtual kubelets have %+v, want %+v", values, got.manager.PeerCheck, got.kubelet.peerCheck, want)
		}
	}
}

// TestPodsKnowWhichObjectsAreReflected: pods get warnings about Secrets and ConfigMaps that are not copied, according to the reflection type of each
// kind.
func TestPodsKnowWhichObjectsAreReflected(t *testing.T) {
	told := install(t, map[string]any{"reflection": map[string]any{
		"secret": map[string]any{"type": "AllowList"}, "configmap": map[string]any{"type": "DenyList"},
	}})
	virtual, err := node.New(node.Options{Listen: told.kubelet.listen})
	if err != nil {
		t.Fatal(err)
	}
	pods := told.kubelet.pods(virtual, provider.New(told.kubelet.provider(), nil), reflection.NewOriginServer(told.kubelet.originServer(func() bool { return false }, nil)))
	if pods.SecretType != "AllowList" || pods.ConfigMapType != "DenyList" {
		t.Errorf("Secrets %s, ConfigMaps %s", pods.SecretType, pods.ConfigMapType)
	}
}

// TestFlagsOfTheAPIServer: pods get tokens unless that is turned off by one of two flags.
func TestFlagsOfTheAPIServer(t *testing.T) {
	for flags, want := range map[string]reflection.OriginServerOptions{
		"": {On: true},
		"--home-api-server-host=api.rome.example --home-api-server-port=6443": {On: true, Host: "api.rome.example", Port: "6443"},
		"--enable-apiserver-support=false":                                    {},
		"--serviceaccount-reflection-workers=0 --home-api-server-host=x":      {Host: "x"},
	} {
		required := []string{"--virtual-node=vn", "--tenant-namespace=ns", "--cluster-id=rome", "--foreign-cluster-id=milan", "--remote-kubeconfig=f", "--node-ip=10.0.0.1"}
		o, err := parseVirtualKubelet(append(required, strings.Fields(flags)...))
		if err != nil {
			t.Fatal(err)
		}
		if got := o.originServer(nil, nil); got.On != want.On || got.Host != want.Host || got.Port != want.Port {
			t.Errorf("%q: %+v, want %+v", flags, got, want)
		}
	}
}
