package doors

import (
	"context"
	"strings"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/peering/invite"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// behindRouter: rome is in a private network. Its packets to milan have a translated source address and port, and only answers are let in. Its administrator
// uses only a peer command.
func behindRouter(s *story.Story) {
	rome, milan := s.Rome, s.Milan
	s.Step("a router that translates addresses stands before rome", func() { translated(s, rome, milan) })
	s.Step("rome uses milan", func() {
		shell(s, rome, shell(s, milan, "liqoctl generate peer-command --only-command"))
		s.NodeReady("milan", true, soon)
	})
	g := inviteGuests(s, rome, milan)
	g.talk()
	streams(g)
	g.leave()
	s.Step("rome leaves by itself", func() {
		shell(s, rome, "liqoctl unpeer milan --delete-namespaces")
		strangers(s, rome, milan)
	})
	s.Step("the router goes", func() {
		for _, command := range withoutRouter(s, rome) {
			_, err := s.Machine.Exec(s.Context(), rome.Node(), command...)
			s.Must(err)
		}
	})
	s.Others("secrets " + api.Namespace + "/" + invite.KeySecret)
}

// translated makes the node of a cluster behave like a network behind a router, as seen from another cluster.
func translated(s *story.Story, c, from *playground.Cluster) {
	s.Helper()
	public, away := routerAddress(s, c), withoutRouter(s, c)
	for _, command := range [][]string{
		{"ip", "address", "add", public + "/32", "dev", "eth0"},
		{"nft", "add table ip router"},
		{"nft", "add chain ip router in { type filter hook prerouting priority -150; }"},
		{"nft", "add rule ip router in iifname eth0 ip saddr " + network(s, from) + " ct state new counter drop"},
		{"nft", "add chain ip router out { type nat hook postrouting priority 90; }"},
		{"nft", "add rule ip router out oifname eth0 ip daddr " + network(s, from) + " meta l4proto { tcp, udp } counter snat to " + public + ":20000-30000 random"},
	} {
		_, err := s.Machine.Exec(s.Context(), c.Node(), command...)
		s.Must(err)
	}
	s.Cleanup(func() {
		for _, command := range away {
			_, _ = s.Machine.Exec(context.WithoutCancel(s.Context()), c.Node(), command...)
		}
	})
}

func withoutRouter(s *story.Story, c *playground.Cluster) [][]string {
	return [][]string{{"nft", "delete table ip router"}, {"ip", "address", "del", routerAddress(s, c) + "/32", "dev", "eth0"}}
}

// routerAddress returns an unused address of the cluster's network, between its nodes and its load balancers.
func routerAddress(s *story.Story, c *playground.Cluster) string {
	s.Helper()
	return strings.TrimSuffix(network(s, c), "0/24") + "99"
}
