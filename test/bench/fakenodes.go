package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/playground"
)

// Fake nodes, in both clusters, with room for all pods of a run.
const (
	fakePrefix = "fake"
	fakeNodes  = 10
	// fakePods is the range of the addresses of fake pods. It is inside the pod network of the clusters, and does not overlap the range of the first
	// node.
	fakePods = "10.244.128.0/17"
)

// fake is the label that selects the fake nodes.
var fake = map[string]string{"playground.local/fakekubelet": fakePrefix}

// addFakeNodes starts the fake kubelet of a cluster and makes the real node unschedulable. Pods that already run on the real node stay there.
func (b *scaleBench) addFakeNodes(ctx context.Context, c *playground.Cluster, pods int) error {
	cmd := exec.Command(b.machine.Root+"/bin/playground", "fake-kubelet", "--kubeconfig="+c.Kubeconfig, "--nodes="+strconv.Itoa(fakeNodes),
		"--pods="+strconv.Itoa(2*pods/fakeNodes), "--name-prefix="+fakePrefix, "--pod-cidr="+fakePods)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the kubelet of make-believe nodes: %w", err)
	}
	b.kubelets = append(b.kubelets, cmd)
	real := &corev1.Node{}
	real.Name = c.Node()
	if err := c.Patch(ctx, real, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`))); err != nil {
		return fmt.Errorf("keeping pods off the real node: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, errors.New("the make-believe nodes do not come"))
	defer cancel()
	for {
		var nodes corev1.NodeList
		if err := c.List(ctx, &nodes, client.MatchingLabels(fake)); err != nil {
			return err
		}
		if len(nodes.Items) == fakeNodes {
			return nil
		}
		if !pause(ctx, 100*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
}

// stop ends the fake kubelets.
func (b *scaleBench) stop() {
	for _, cmd := range b.kubelets {
		_ = cmd.Process.Kill() // a fake kubelet has no state that could be lost
		_ = cmd.Wait()
	}
}
