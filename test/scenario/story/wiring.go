package story

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/api"
)

// Wiring returns the network configuration of every node of every cluster, by node.
func (w *World) Wiring(ctx context.Context) (map[string]string, error) {
	all := map[string]string{}
	for _, c := range w.Clusters() {
		var nodes corev1.NodeList
		if err := c.List(ctx, &nodes); err != nil {
			return nil, fmt.Errorf("listing nodes of %s: %w", c.ID, err)
		}
		for _, node := range nodes.Items {
			if node.Labels[api.LabelType] == api.TypeVirtualNode {
				continue
			}
			text, err := w.WiringOf(ctx, node.Name)
			if err != nil {
				return nil, err
			}
			all[node.Name] = text
		}
	}
	return all, nil
}

// SameWiring waits until every node has the same network configuration as before.
func (s *Story) SameWiring(before map[string]string) {
	s.Helper()
	for node, was := range before {
		s.Eventually(time.Minute, node+" to be wired as before", func(ctx context.Context) error {
			now, err := s.WiringOf(ctx, node)
			if err == nil && now != was {
				err = fmt.Errorf("it is not:\n%s", cmp.Diff(strings.Split(was, "\n"), strings.Split(now, "\n")))
			}
			return err
		})
	}
}

// WiringOf returns every link, address, route, rule, neighbour of the overlay and nftables table of a node. It leaves out the links of pods, and the content of
// the tables of the CNI and kube-proxy.
func (w *World) WiringOf(ctx context.Context, node string) (string, error) {
	var lines []string
	for _, command := range []string{
		"ip -o link", "ip -o -4 address", "ip -4 route show table all", "ip -4 rule", "ip neighbour show nud permanent", "bridge fdb show", "nft list tables",
	} {
		out, err := w.Exec(ctx, node, strings.Fields(command)...)
		if err != nil {
			return "", err
		}
		for line := range strings.Lines(out) {
			if line = strings.TrimSpace(line); !passing(line) {
				lines = append(lines, command+": "+stable(line))
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n"), nil
}

// passing reports whether a line is about the link of a pod, or about an address that a bridge has learnt.
func passing(line string) bool {
	return strings.Contains(line, "veth") || strings.Contains(line, "cni0") || strings.Contains(line, "33:33:") || strings.Contains(line, "01:00:5e:")
}

// stable removes the numbers of links, which increase with every pod.
func stable(line string) string {
	return regexp.MustCompile(`^\d+: |@if\d+|if\d+|\bqlen \d+|\blink-netnsid \d+`).ReplaceAllString(line, "")
}
