package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/test/playground"
)

// trafficTable counts, on the node of rome, the TCP traffic to and from the node of milan: the requests of Liqo's processes to the other API server.
// The tunnel uses UDP, so it does not count.
const trafficTable = `table ip liqobench {
	counter between {}
	chain out { type filter hook postrouting priority 300; ip daddr %[1]s meta l4proto tcp counter name between; }
	chain in { type filter hook prerouting priority -350; ip saddr %[1]s meta l4proto tcp counter name between; }
}`

// countTraffic starts to count the traffic.
func (b *scaleBench) countTraffic(ctx context.Context) error {
	node, err := b.milan.Set.CoreV1().Nodes().Get(ctx, b.milan.Node(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	address := ""
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			address = a.Address
		}
	}
	_, err = b.machine.Exec(ctx, b.rome.Node(), "nft", fmt.Sprintf(trafficTable, address))
	return err
}

// traffic returns the number of bytes counted so far.
func traffic(ctx context.Context, m playground.Machine, c *playground.Cluster) (uint64, error) {
	out, err := m.Exec(ctx, c.Node(), "nft", "--json", "list", "counter", "ip", "liqobench", "between")
	if err != nil {
		return 0, err
	}
	var answer struct {
		Nftables []struct{ Counter *struct{ Bytes uint64 } }
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		return 0, fmt.Errorf("reading the counter of bytes: %w", err)
	}
	for _, object := range answer.Nftables {
		if object.Counter != nil {
			return object.Counter.Bytes, nil
		}
	}
	return 0, errors.New("reading the counter of bytes: it is not there")
}
