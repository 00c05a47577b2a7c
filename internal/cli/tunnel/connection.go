package tunnel

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/workload"
	"liqo.io/liqo/internal/network"
)

// Connection returns the Connection of the gateway, with its name only.
func (e *End) Connection() *networkingv1beta1.Connection {
	return &networkingv1beta1.Connection{ObjectMeta: metav1.ObjectMeta{Namespace: e.TenantNamespace, Name: networkingv1beta1.GatewayChild(e.Gateways.Name())}}
}

// ConnectedGoal waits until the gateway reports the tunnel as connected.
func (e *End) ConnectedGoal() *session.Goal {
	object := e.Connection()
	return &session.Goal{
		Object: object, Doing: "Waiting for the tunnel to cluster " + e.Peer,
		Met: func() session.Verdict { return connectedVerdict(object) },
	}
}

func connectedVerdict(connection *networkingv1beta1.Connection) session.Verdict {
	if connection.Status.Value == networkingv1beta1.Connected {
		return session.Yes()
	}
	return session.NotYet("it is %s%s", cmp.Or(connection.Status.Value, "without a status"), session.Unmet(connection.Status.Conditions))
}

// endFacts holds the facts about one end of a tunnel that does not work.
type endFacts struct {
	// cluster is the ID of the cluster. gateway describes its gateway; it is empty if there is none.
	cluster, gateway string
	// connection is the status of the Connection. It is empty if there is none.
	connection string
	// trouble is the reason why the pods of the gateway are not running.
	trouble string
	// key is the public key of the gateway. stored is the key that the other cluster stores for this gateway, in the PublicKey named storedBy. Each is empty
	// if it does not exist or cannot be read.
	key, stored []byte
	storedBy    string
}

// explainTunnel returns the likely causes why a tunnel does not work. It looks for problems inside the clusters first. If there are none, it describes the
// path between them. waited is the time for which the command waited for the tunnel. dialed is the endpoint that the client dials, and reached is the
// endpoint that the server reports.
func explainTunnel(server, client endFacts, dialed, reached string, waited time.Duration) string {
	var out []string
	note := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for _, ends := range [][2]endFacts{{client, server}, {server, client}} {
		e, other := ends[0], ends[1]
		switch {
		case e.gateway == "":
			note("Cluster %s has no gateway for %s: liqoctl network connect makes it", e.cluster, other.cluster)
		case e.trouble != "":
			note("Cluster %s: %s", e.cluster, e.trouble)
		case e.connection == "":
			note("%s of cluster %s reports nothing: see the log of container gateway in its pods", e.gateway, e.cluster)
		}
		switch {
		case e.gateway == "" || len(e.key) == 0:
		case len(e.stored) == 0:
			note("Cluster %s does not have the key of %s's gateway (it has no PublicKey %s): liqoctl network connect creates it",
				other.cluster, e.cluster, e.cluster)
		case !bytes.Equal(e.key, e.stored):
			note("Cluster %s stores another key than %s's gateway has (PublicKey %s): liqoctl network connect replaces it", other.cluster, e.cluster, e.storedBy)
		}
	}
	if len(out) == 0 && client.connection != networkingv1beta1.Connected {
		note("Connection of cluster %s is %s for %s: no handshake with %s: is %s open from %s to %s?",
			client.cluster, client.connection, waited.Round(time.Second), dialed,
			OpenPort(dialed), client.cluster, server.cluster)
		if reached != "" && reached != dialed {
			note("%s of cluster %s says that it is reached at %s, but the client dials %s: if that does not lead there, change it (--gw-client-address, --gw-client-port)",
				server.gateway, server.cluster, reached, dialed)
		}
	}
	if len(out) == 0 {
		note("Cluster %s receives the packets of %s, but not the other way round: see the log of container gateway in %s's gateway pods",
			client.cluster, server.cluster, server.cluster)
	}
	return strings.Join(out, "\n")
}

// OpenPort converts 203.0.113.7:51840/UDP to the form for a firewall rule: UDP port 51840.
func OpenPort(endpoint string) string {
	first, _, _ := strings.Cut(endpoint, " or ")
	address, protocol, _ := strings.Cut(first, "/")
	return fmt.Sprintf("%s port %s", protocol, address[strings.LastIndex(address, ":")+1:])
}

// evidence explains why the command waited in vain for the tunnel, from facts about both ends. It has its own timeout, because the timeout of the command has
// expired.
func (t *Tunnel) evidence(waited time.Duration) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	server, client := t.Server.facts(ctx, t.Client), t.Client.facts(ctx, t.Server)
	dialed := EndpointText(&t.at)
	if object := t.Client.Gateways.Client; object != nil {
		dialed = EndpointText(&object.Spec.Endpoint)
	}
	reached := ""
	if object := t.Server.Gateways.Server; object != nil && object.Status.Endpoint != nil {
		reached = EndpointText(object.Status.Endpoint)
	}
	return explainTunnel(server, client, dialed, reached, waited)
}

func (e *End) facts(ctx context.Context, other *End) endFacts {
	out := endFacts{cluster: e.ID}
	if e.Gateways.Name() == "" {
		return out
	}
	out.gateway = e.Gateways.describe()
	out.trouble = GatewayTrouble(e.Cluster, e.TenantNamespace, &e.Gateways)
	if connection := e.Connection(); e.Get(ctx, client.ObjectKeyFromObject(connection), connection) == nil {
		out.connection = cmp.Or(connection.Status.Value, "without a status")
	}
	if own := e.Gateways.Keys(e.TenantNamespace); e.Get(ctx, client.ObjectKeyFromObject(own), own) == nil {
		out.key = own.Data[networkingv1beta1.SecretPublicKey]
	}
	var keys networkingv1beta1.PublicKeyList
	if session.ListOfPeer(ctx, other.Cluster, &keys, other.TenantNamespace, other.Peer) == nil {
		if stored := network.PublicKeyInUse(keys.Items, other.TenantNamespace, other.Peer); stored != nil {
			out.stored, out.storedBy = stored.Spec.PublicKey, stored.Name
		}
	}
	return out
}

// GatewayTrouble says why the pods of a gateway are not running. It is empty if the pods show no reason.
func GatewayTrouble(c *session.Cluster, namespace string, gateway *Gateways) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var pods corev1.PodList
	err := c.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{
		networkingv1beta1.LabelComponent: networkingv1beta1.ComponentGateway, networkingv1beta1.LabelGatewayName: gateway.Name(),
	})
	if err != nil {
		return ""
	}
	if len(pods.Items) == 0 {
		return fmt.Sprintf("%s has no pod in namespace %s: see its conditions and the log of Deployment %s in namespace %s",
			gateway.describe(), namespace, session.ControllerManager, c.Namespace)
	}
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp != nil {
			continue
		}
		if why := workload.Unhealthy(&pods.Items[i]); why != "" {
			return why
		}
	}
	return ""
}
