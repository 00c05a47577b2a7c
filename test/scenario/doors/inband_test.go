package doors

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/peering/invite"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// inBand: the administrator reaches both API servers, and each cluster reaches only the gateway of the other one.
func inBand(s *story.Story) {
	rome, milan := s.Rome, s.Milan
	both := " --kubeconfig " + rome.Kubeconfig + " --remote-kubeconfig " + milan.Kubeconfig
	s.Step("no TCP passes between rome and milan", func() {
		closed(s, rome, milan)
		closed(s, milan, rome)
	})
	s.Step("liqoctl peer in-band", func() {
		shell(s, rome, "liqoctl peer in-band --invite"+both)
		s.NodeReady("milan", true, soon)
		through(s, rome, milan)
	})
	ours := inviteGuests(s, rome, milan)
	ours.talk()
	streams(ours)
	s.Step("once more changes nothing", func() {
		invited := objects(s, milan, "rome")
		shell(s, rome, "liqoctl peer in-band --invite"+both)
		if again := objects(s, milan, "rome"); again != invited {
			s.Errorf("milan holds of rome\n%s\nand held\n%s", again, invited)
		}
	})

	s.Step("milan peers with rome, by name and by itself", func() {
		shell(s, milan, "liqoctl peer rome")
		through(s, milan, rome)
	})
	theirs := inviteGuests(s, milan, rome)
	theirs.talk()
	streams(theirs)
	theirs.leave()
	s.Step("milan gives it back, and rome goes on", func() {
		shell(s, milan, "liqoctl unpeer rome")
		s.Gone(milan, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "rome"}}, soon)
		through(s, rome, milan)
	})
	ours.talk()
	s.Step("and may come again when rome invites it again: a token admits one peering", func() {
		refused(s, milan, "liqoctl peer rome", "a peering of this cluster has ended since the token was created")
		shell(s, rome, "liqoctl peer in-band --invite"+both)
		shell(s, milan, "liqoctl peer rome")
		through(s, milan, rome)
	})
	ours.leave()
	s.Step("liqoctl unpeer in-band", func() {
		shell(s, rome, "liqoctl unpeer in-band --delete-namespaces"+both)
		strangers(s, rome, milan)
	})
	s.Step("TCP passes again", func() {
		opened(s, rome)
		opened(s, milan)
	})
	s.Others("secrets " + api.Namespace + "/" + invite.KeySecret)
}

// closed makes the node of a cluster drop every TCP packet that another cluster sends outside of a tunnel.
func closed(s *story.Story, c, from *playground.Cluster) {
	s.Helper()
	for _, command := range []string{
		"add table ip wall", "add chain ip wall in { type filter hook prerouting priority -300; }",
		"add rule ip wall in iifname eth0 ip saddr " + network(s, from) + " meta l4proto tcp counter drop",
	} {
		_, err := s.Machine.Exec(s.Context(), c.Node(), append([]string{"nft"}, command)...)
		s.Must(err)
	}
	s.Cleanup(func() {
		_, _ = s.Machine.Exec(context.WithoutCancel(s.Context()), c.Node(), "nft", "delete table ip wall")
	})
}

// opened reverts closed.
func opened(s *story.Story, c *playground.Cluster) {
	s.Helper()
	_, err := s.Machine.Exec(s.Context(), c.Node(), "nft", "delete table ip wall")
	s.Must(err)
}

// network returns the range of a cluster's nodes and load balancers.
func network(s *story.Story, c *playground.Cluster) string {
	s.Helper()
	var node corev1.Node
	s.Must(c.Get(s.Context(), client.ObjectKey{Name: c.Node()}, &node))
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			return address.Address[:strings.LastIndex(address.Address, ".")] + ".0/24"
		}
	}
	s.Fatalf("node %s has no InternalIP", node.Name)
	return ""
}

// through waits until a consumer's peering with a provider is healthy, and fails unless it is in-band.
func through(s *story.Story, consumer, provider *playground.Cluster) {
	s.Helper()
	s.Eventually(soon, consumer.ID+" to use "+provider.ID+" in-band", func(ctx context.Context) error {
		var foreign corev1beta1.ForeignCluster
		if err := consumer.Get(ctx, client.ObjectKey{Name: provider.ID}, &foreign); err != nil {
			return err
		}
		if p := foreign.Status.Peering; p.Type != corev1beta1.InBand || p.Outgoing != corev1beta1.PhaseEstablished {
			return fmt.Errorf("the peering is %+v", p)
		}
		return nil
	})
}

// streams checks logs, exec and the like from the API server of the consumer to its pod in the provider.
func streams(g *guests) {
	g.Helper()
	g.Step("logs and exec of the pod in "+g.away.ID, func() {
		if said := g.Logs(g.home, ns, "away", corev1.PodLogOptions{}); !strings.Contains(said, "8080") {
			g.Errorf("the logs say %q", said)
		}
		for _, transport := range []story.Transport{story.WebSocket, story.SPDY} {
			if said := g.Exec(g.home, transport, ns, "away", "", "/testserver", "-h"); !strings.Contains(said.Out+said.Err, "stream") {
				g.Errorf("exec over %s: %+v", transport, said)
			}
		}
	})
}

// objects returns the versions of a provider's Tenant and Secrets for a consumer, which a second handshake might change.
func objects(s *story.Story, c *playground.Cluster, consumer string) string {
	s.Helper()
	var tenants authv1beta1.TenantList
	var secrets corev1.SecretList
	in := client.InNamespace(api.TenantNamespace(consumer))
	s.Must(c.List(s.Context(), &tenants, in))
	s.Must(c.List(s.Context(), &secrets, in))
	var text strings.Builder
	for _, tenant := range tenants.Items {
		fmt.Fprintf(&text, "%s %d\n", tenant.Name, tenant.Generation)
	}
	for _, secret := range secrets.Items {
		fmt.Fprintf(&text, "%s %s\n", secret.Name, secret.ResourceVersion)
	}
	return text.String()
}
