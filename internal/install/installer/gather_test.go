package installer

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/install"
)

// TestOnlyTheControllerManagerNamesRanges: the arguments of the controller manager are found, and those of a sidecar ignored, in any order of the containers.
func TestOnlyTheControllerManagerNamesRanges(t *testing.T) {
	manager := corev1.Container{Name: controllerManager, Command: []string{controllerManager, "--cluster-cidr=10.1.0.0/16"}, Args: []string{"--v=2"}}
	sidecar := corev1.Container{Name: "metrics", Command: []string{"proxy"}, Args: []string{"--cluster-cidr=10.9.0.0/16"}}
	want := []string{controllerManager, "--cluster-cidr=10.1.0.0/16", "--v=2"}
	for name, containers := range map[string][]corev1.Container{
		"alone": {manager}, "the sidecar last": {manager, sidecar}, "the sidecar first": {sidecar, manager},
	} {
		pods := []corev1.Pod{{Spec: corev1.PodSpec{Containers: []corev1.Container{sidecar}}}, {Spec: corev1.PodSpec{Containers: containers}}}
		if diff := cmp.Diff(want, controllerManagerArgs(pods)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := controllerManagerArgs(nil); got != nil {
		t.Errorf("without a pod: %v", got)
	}
}

// TestPortsOfSidecars: the port of a native sidecar counts as used, because it runs as long as its pod. The port of any other init container does not count.
func TestPortsOfSidecars(t *testing.T) {
	listens := func(port int32, restart *corev1.ContainerRestartPolicy) corev1.Container {
		return corev1.Container{RestartPolicy: restart, Ports: []corev1.ContainerPort{{ContainerPort: port}}}
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		HostNetwork:    true,
		Containers:     []corev1.Container{listens(1, nil)},
		InitContainers: []corev1.Container{listens(2, nil), listens(3, new(corev1.ContainerRestartPolicyAlways)), listens(4, new(corev1.ContainerRestartPolicyNever))},
	}}
	want := []install.Port{{Number: 1, Protocol: "TCP", Pod: "shop/web"}, {Number: 3, Protocol: "TCP", Pod: "shop/web"}}
	if diff := cmp.Diff(want, portsOf(pod, "shop/web")); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
}
