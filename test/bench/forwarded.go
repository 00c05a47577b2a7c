package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/test/playground"
)

// forwardedEnd is one cluster's end of the forwarded path: a pod, and the tunnel for its packets.
type forwardedEnd struct {
	cluster *playground.Cluster
	// inside is the pod. pod and tunnel are IDs of processes in the network namespaces of the pod and of the tunnel.
	inside      playground.Inside
	pod, tunnel int
	// network is the first three bytes of the addresses of this end, as text.
	network string
}

// forwarded adds the shortest path that is possible with a gateway in a pod: from a pod to a node, from there to the bare tunnel, and the same in the
// other cluster. It connects the same pods as path Overlapping. Packets are only routed: there are no rules, no overlay, no connection tracking and
// no translation.
func (b *networkBench) forwarded(ctx context.Context, near, far forwardedEnd) error {
	for _, ends := range [][2]forwardedEnd{{near, far}, {far, near}} {
		if err := ends[0].wire(ctx, ends[1]); err != nil {
			return fmt.Errorf("creating the forwarded path in %s: %w", ends[0].cluster.ID, err)
		}
	}
	b.paths = append(b.paths, path{Forwarded, near.inside, net.JoinHostPort(far.address(1), streamPort)})
	return nil
}

// forwardedFrom returns the end in a cluster, with the pod of that name. bare is the pod with the bare tunnel.
func forwardedFrom(ctx context.Context, c *playground.Cluster, name string, bare *corev1.Pod, network string) (e forwardedEnd, err error) {
	pod, err := named(ctx, c, name)
	if err != nil {
		return e, err
	}
	e = forwardedEnd{cluster: c, network: network}
	if e.inside, err = playground.In(pod); err != nil {
		return e, err
	}
	inPod, err := playground.Container(pod, pod.Spec.Containers[0].Name)
	if err != nil {
		return e, err
	}
	inTunnel, err := playground.Container(bare, tunnelContainer)
	if err != nil {
		return e, err
	}
	e.pod, e.tunnel = inPod[0], inTunnel[0]
	return e, nil
}

// address returns the n-th address of an end. Address 1 is that of its pod.
func (e forwardedEnd) address(n int) string { return e.network + "." + strconv.Itoa(n) }

// subnet returns the subnet of the pod of an end.
func (e forwardedEnd) subnet() string { return e.address(0) + "/30" }

// wire connects the pod to a network namespace that stands for its node, and that namespace to the tunnel. It also sets the routes to the other end.
func (e forwardedEnd) wire(ctx context.Context, other forwardedEnd) error {
	const link = "forwarded"
	node, pod, tunnel := forwardedNode(e.cluster.ID), strconv.Itoa(e.pod), strconv.Itoa(e.tunnel)
	said, err := output(ctx, "nsenter --target "+tunnel+" --net -- ip -oneline link show dev "+dataplane.TunnelLink)
	if err != nil {
		return err
	}
	_, mtu, _ := strings.Cut(said, " mtu ")
	mtu, _, _ = strings.Cut(mtu, " ")
	inNode, inPod, inTunnel := "ip -netns "+node+" ", "nsenter --target "+pod+" --net -- ", "nsenter --target "+tunnel+" --net -- "
	for _, command := range []string{
		"ip netns add " + node,
		"ip netns exec " + node + " sysctl -qw net.ipv4.ip_forward=1",
		inTunnel + "sysctl -qw net.ipv4.ip_forward=1",
		inNode + "link add pod mtu " + mtu + " type veth peer name " + link + " mtu " + mtu + " netns " + pod,
		inNode + "link add tunnel mtu " + mtu + " type veth peer name " + link + " mtu " + mtu + " netns " + tunnel,
		inNode + "address add " + e.address(2) + "/30 dev pod",
		inNode + "address add " + e.address(5) + "/30 dev tunnel",
		inNode + "link set pod up",
		inNode + "link set tunnel up",
		inPod + "ip address add " + e.address(1) + "/30 dev " + link,
		inPod + "ip link set " + link + " up",
		inTunnel + "ip address add " + e.address(6) + "/30 dev " + link,
		inTunnel + "ip link set " + link + " up",
		inPod + "ip route add " + other.subnet() + " via " + e.address(2),
		inNode + "route add " + other.subnet() + " via " + e.address(6),
		inTunnel + "ip route add " + other.subnet() + " dev " + dataplane.TunnelLink,
		inTunnel + "ip route add " + e.subnet() + " via " + e.address(5),
	} {
		if _, err := output(ctx, command); err != nil {
			return err
		}
	}
	return nil
}

// forwardedNode is the name of the network namespace that stands for the node of a cluster.
func forwardedNode(cluster string) string { return networkPrefix + "node-" + cluster }

// removeForwarded removes the namespaces that stand for nodes. Everything else that belongs to the path is deleted with its pods.
func removeForwarded(ctx context.Context) (err error) {
	for _, cluster := range []string{"rome", "milan"} {
		name := forwardedNode(cluster)
		if _, missing := os.Stat(filepath.Join("/run/netns", name)); errors.Is(missing, fs.ErrNotExist) {
			continue
		}
		_, failed := output(ctx, "ip netns delete "+name)
		err = errors.Join(err, failed)
	}
	return err
}

// named finds a pod by its name only, because the remote namespace has another name than the local one.
func named(ctx context.Context, c *playground.Cluster, name string) (*corev1.Pod, error) {
	var pods corev1.PodList
	if err := c.List(ctx, &pods); err != nil {
		return nil, err
	}
	for i := range pods.Items {
		if pods.Items[i].Name == name {
			return &pods.Items[i], nil
		}
	}
	return nil, fmt.Errorf("cluster %s has no pod %s", c.ID, name)
}

// output runs a command and returns its output. The arguments are separated by spaces, so none of them can contain one.
func output(ctx context.Context, command string) (string, error) {
	words := strings.Fields(command)
	out, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", command, err, out)
	}
	return string(out), nil
}
