package network

import (
	"bytes"
	"math/rand/v2"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// TestInUseIsWhatGatherTakes: of several objects for one peer, the functions for commands and status return those that the plans of hosts are
// compiled from, in any world.
func TestInUseIsWhatGatherTakes(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	meta := func() metav1.ObjectMeta {
		out := metav1.ObjectMeta{
			Namespace: []string{"liqo-tenant-milan", "a-tenant-milan"}[random.IntN(2)], Name: string(rune('a' + random.IntN(26))),
			Labels:            map[string]string{api.LabelRemoteClusterID: []string{"milan", "milan", "paris"}[random.IntN(3)]},
			CreationTimestamp: metav1.Unix(int64(random.IntN(3)), 0),
		}
		if random.IntN(4) == 0 {
			out.DeletionTimestamp = new(metav1.Unix(9, 0))
		}
		return out
	}
	connected := 0
	for range 500 {
		o := objects(t)
		configuration, client := o.Configurations[0], o.GatewayClients[0]
		o.Configurations, o.GatewayClients, o.PublicKeys = nil, nil, nil
		for range random.IntN(4) + 1 {
			configuration.ObjectMeta = meta()
			o.Configurations = append(o.Configurations, *configuration.DeepCopy())
			client.ObjectMeta = meta()
			o.GatewayClients = append(o.GatewayClients, *client.DeepCopy())
			key := networkingv1beta1.PublicKey{ObjectMeta: meta()}
			key.Spec.PublicKey = bytes.Repeat([]byte{byte(random.IntN(256))}, []int{KeyLength, KeyLength, 1}[random.IntN(3)])
			o.PublicKeys = append(o.PublicKeys, key)
			if random.IntN(2) == 0 {
				o.GatewayServers = append(o.GatewayServers, networkingv1beta1.GatewayServer{ObjectMeta: meta()})
			}
		}
		facts, _ := Gather(&o)
		for _, p := range facts.Peers {
			connected++
			if c := ConfigurationInUse(o.Configurations, p.ClusterID); c == nil || c.Namespace != p.Namespace {
				t.Fatalf("the Configuration in use is %v, the plans have the one in namespace %s of\n%v", c, p.Namespace, o.Configurations)
			}
			server, client := GatewayInUse(o.GatewayServers, o.GatewayClients, p.Namespace, p.ClusterID)
			if (p.Role == Server) != (server != nil) || (p.Role == Client) != (client != nil) ||
				server != nil && server.Name != p.Gateway || client != nil && client.Name != p.Gateway {
				t.Fatalf("the gateway in use is %v or %v, the plans have %s (%v)", server, client, p.Gateway, p.Role)
			}
			var key []byte
			if k := PublicKeyInUse(o.PublicKeys, p.Namespace, p.ClusterID); k != nil {
				key = k.Spec.PublicKey
			}
			if !bytes.Equal(key, p.PublicKey) {
				t.Fatalf("the PublicKey in use is %x, the plans have %x", key, p.PublicKey)
			}
		}
	}
	if connected < 100 {
		t.Errorf("only %d peers had a gateway: the worlds say little", connected)
	}
	if c := ConfigurationInUse(nil, "milan"); c != nil {
		t.Errorf("without objects, %v is in use", c)
	}
	if server, client := GatewayInUse(nil, nil, "n", "milan"); server != nil || client != nil {
		t.Errorf("without objects, %v and %v are in use", server, client)
	}
}
