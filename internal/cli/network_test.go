package cli

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// side is a cluster of which only the API server is real: what its controllers and gateways would write, once writes.
type side struct {
	id, address, kubeconfig string
	client.Client
	// silent gateways never connect.
	silent bool
	// keys are the public keys that the gateway had, in their order.
	keys [][]byte
	// told tells, for each key after the first, whether the peer knew it when it was first seen here.
	told []bool
	peer *side
}

func newSide(t *testing.T, id, pods, address string) *side {
	t.Helper()
	s := &side{id: id, address: address}
	s.kubeconfig, s.Client = serverOf(t, id)
	network := func(name, cidr string) {
		object := &ipamv1alpha1.Network{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: name, Labels: map[string]string{ipamv1alpha1.LabelNetworkType: name}},
			Spec:       ipamv1alpha1.NetworkSpec{CIDR: cidr},
		}
		create(t, s, object)
		object.Status.CIDR = cidr
		if err := s.Status().Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	network(ipamv1alpha1.NetworkPod, pods)
	network(ipamv1alpha1.NetworkExternal, "10.70.0.0/16")
	return s
}

func (s *side) installTemplates(t *testing.T) {
	t.Helper()
	create(t, s,
		&networkingv1beta1.WgGatewayServerTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: networkingv1beta1.ServerTemplateDefault}},
		&networkingv1beta1.WgGatewayClientTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: networkingv1beta1.ClientTemplateDefault}})
}

// once writes what controllers and gateways would.
func (s *side) once(ctx context.Context) error {
	var configurations networkingv1beta1.ConfigurationList
	var servers networkingv1beta1.GatewayServerList
	var clients networkingv1beta1.GatewayClientList
	for _, list := range []client.ObjectList{&configurations, &servers, &clients} {
		if err := s.List(ctx, list); err != nil {
			return err
		}
	}
	for i := range configurations.Items {
		object := &configurations.Items[i]
		if object.Status.Remote != nil {
			continue
		}
		// The external CIDRs of both are one, so that of the peer is seen elsewhere.
		object.Status.Remote = &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.CIDRs{Pod: object.Spec.Remote.CIDR.Pod, External: []string{"10.71.0.0/16"}}}
		meta.SetStatusCondition(&object.Status.Conditions, metav1.Condition{
			Type: networkingv1beta1.ConditionCIDRsConfigured, Status: metav1.ConditionTrue, Reason: "x", ObservedGeneration: object.Generation,
		})
		if err := s.Status().Update(ctx, object); err != nil {
			return err
		}
	}
	for i := range servers.Items {
		object := &servers.Items[i]
		if err := s.gateway(ctx, object, networkingv1beta1.ConnectionServer); err != nil {
			return err
		}
		port := object.Spec.Endpoint.Port
		if object.Status.Endpoint != nil && object.Status.Endpoint.Port == port {
			continue
		}
		object.Status.Endpoint = &networkingv1beta1.Endpoint{Addresses: []string{s.address}, Port: port, Protocol: corev1.ProtocolUDP}
		object.Status.SecretRef = &corev1.ObjectReference{Name: "gw-" + object.Name, Namespace: object.Namespace}
		meta.SetStatusCondition(&object.Status.Conditions, metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "x", ObservedGeneration: object.Generation})
		if err := s.Status().Update(ctx, object); err != nil {
			return err
		}
	}
	for i := range clients.Items {
		if err := s.gateway(ctx, &clients.Items[i], networkingv1beta1.ConnectionClient); err != nil {
			return err
		}
	}
	return nil
}

// gateway makes the keys, and is connected when both clusters know the keys of each other.
func (s *side) gateway(ctx context.Context, object client.Object, role networkingv1beta1.ConnectionType) error {
	name := client.ObjectKey{Namespace: object.GetNamespace(), Name: "gw-" + object.GetName()}
	var secret corev1.Secret
	if err := s.Get(ctx, name, &secret); apierrors.IsNotFound(err) {
		private, public, err := newKeys()
		if err != nil {
			return err
		}
		return s.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name, Labels: map[string]string{networkingv1beta1.LabelGatewayResource: "true"}},
			Data:       map[string][]byte{networkingv1beta1.SecretPrivateKey: private, networkingv1beta1.SecretPublicKey: public},
		})
	} else if err != nil {
		return err
	}
	key := secret.Data[networkingv1beta1.SecretPublicKey]
	known := func(at *side, key []byte) bool {
		var told networkingv1beta1.PublicKey
		return at.Get(ctx, client.ObjectKey{Namespace: api.TenantNamespace(at.peer.id), Name: at.peer.id}, &told) == nil && bytes.Equal(told.Spec.PublicKey, key)
	}
	if len(s.keys) == 0 || !bytes.Equal(s.keys[len(s.keys)-1], key) {
		if len(s.keys) > 0 {
			s.told = append(s.told, known(s.peer, key))
		}
		s.keys = append(s.keys, key)
	}
	if s.silent || !known(s.peer, key) {
		return nil
	}
	connection := &networkingv1beta1.Connection{}
	if err := s.Get(ctx, name, connection); apierrors.IsNotFound(err) {
		connection.Namespace, connection.Name = name.Namespace, name.Name
		connection.Spec = networkingv1beta1.ConnectionSpec{Type: role, GatewayRef: corev1.ObjectReference{Name: object.GetName()}}
		if err := s.Create(ctx, connection); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	connection.Status.Value = networkingv1beta1.Connected
	connection.Status.MTU = 1340
	connection.Status.Latency = &networkingv1beta1.ConnectionLatency{Value: "1ms", Timestamp: metav1.Now()}
	return s.Status().Update(ctx, connection)
}

// network is all objects of the network with the peer, without what the API server adds.
func (s *side) network(t *testing.T) map[string]any {
	t.Helper()
	out := map[string]any{}
	for _, kind := range []networkKind{kindConfiguration, kindServer, kindClient, kindPublicKey} {
		list := kind.list()
		if err := s.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		objects, err := objectsOf(list)
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects {
			name := fmt.Sprintf("%s %s/%s %v", kind.name, object.GetNamespace(), object.GetName(), object.GetLabels())
			switch object := object.(type) {
			case *networkingv1beta1.Configuration:
				out[name] = object.Spec
			case *networkingv1beta1.GatewayServer:
				out[name] = object.Spec
			case *networkingv1beta1.GatewayClient:
				out[name] = object.Spec
			case *networkingv1beta1.PublicKey:
				out[name] = "the key of the peer's gateway"
				if !bytes.Equal(object.Spec.PublicKey, s.peer.keys[len(s.peer.keys)-1]) {
					out[name] = fmt.Sprintf("%x", object.Spec.PublicKey)
				}
			}
		}
	}
	return out
}

// forget removes what the gateways left when they are gone: Kubernetes would collect it.
func (s *side) forget(t *testing.T) {
	t.Helper()
	namespace := client.InNamespace(api.TenantNamespace(s.peer.id))
	for _, object := range []client.Object{&corev1.Secret{}, &networkingv1beta1.Connection{}} {
		if err := s.DeleteAllOf(t.Context(), object, namespace); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNetworkOnAPIServers connects two clusters, completes, changes and removes their network.
func TestNetworkOnAPIServers(t *testing.T) {
	rome, milan := newSide(t, "rome", "10.1.0.0/16", "192.0.2.1"), newSide(t, "milan", "10.2.0.0/16", "192.0.2.2")
	rome.peer, milan.peer = milan, rome
	both := func(command string) (int, string, string) {
		return run(t, append(strings.Fields(command), "--kubeconfig", rome.kubeconfig, "--remote-kubeconfig", milan.kubeconfig, "--skip-confirm")...)
	}
	in := func(s *side, command string) (int, string, string) {
		return run(t, append(strings.Fields(command), "--kubeconfig", s.kubeconfig)...)
	}
	must := func(code int, out, errOut string) string {
		t.Helper()
		if code != 0 {
			t.Fatalf("code %d: %s%s", code, out, errOut)
		}
		return out + errOut
	}
	refused := func(code int, _, errOut string) string {
		t.Helper()
		if code != 1 {
			t.Fatalf("code %d: %s", code, errOut)
		}
		return errOut
	}
	has := func(text string, wants ...string) {
		t.Helper()
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in:\n%s", want, text)
			}
		}
	}

	has(refused(both("network connect")), "with cluster rome", "networking.internal=true")
	rome.installTemplates(t)
	milan.installTemplates(t)
	has(must(both("network connect --dry-run")), "(local) Tenant namespace milan would be created", "(remote) GatewayServer rome would be created")
	if len(rome.network(t))+len(milan.network(t)) > 0 {
		t.Errorf("a dry run made %v and %v", rome.network(t), milan.network(t))
	}

	// Nobody gives the server an address: the wait says so.
	has(refused(both("network connect --timeout 3s")), "Configuration milan", "the controller manager has not looked at it")
	ctx, stop := context.WithCancel(t.Context())
	steered := make(chan error, 1)
	go func() { steered <- rome.steerBoth(ctx, milan) }()
	t.Cleanup(func() {
		stop()
		if err := <-steered; err != nil {
			t.Error(err)
		}
	})

	has(must(both("network connect --gw-server-service-type NodePort --wait -v")), "GatewayServer rome is reached at 192.0.2.2:51840/UDP", "Connection is established", "were connected after")
	template := func(kind, name string) corev1.ObjectReference {
		return corev1.ObjectReference{APIVersion: "networking.liqo.io/v1beta1", Kind: kind, Name: name, Namespace: "liqo"}
	}
	wantRome := map[string]any{
		"configuration liqo-tenant-milan/milan map[liqo.io/remote-cluster-id:milan]": networkingv1beta1.ConfigurationSpec{
			Remote: networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.CIDRs{Pod: []string{"10.2.0.0/16"}, External: []string{"10.70.0.0/16"}}},
		},
		"gatewayclient liqo-tenant-milan/milan map[liqo.io/remote-cluster-id:milan]": networkingv1beta1.GatewayClientSpec{
			Endpoint: networkingv1beta1.Endpoint{Addresses: []string{"192.0.2.2"}, Port: 51840, Protocol: corev1.ProtocolUDP},
			MTU:      1340, ClientTemplateRef: template("WgGatewayClientTemplate", "wireguard-client"),
		},
		"publickey liqo-tenant-milan/milan map[liqo.io/remote-cluster-id:milan networking.liqo.io/gateway-resource:true]": "the key of the peer's gateway",
	}
	wantMilan := map[string]any{
		"configuration liqo-tenant-rome/rome map[liqo.io/remote-cluster-id:rome]": networkingv1beta1.ConfigurationSpec{
			Remote: networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.CIDRs{Pod: []string{"10.1.0.0/16"}, External: []string{"10.70.0.0/16"}}},
		},
		"gatewayserver liqo-tenant-rome/rome map[liqo.io/remote-cluster-id:rome]": networkingv1beta1.GatewayServerSpec{
			Endpoint: networkingv1beta1.ServerEndpoint{Port: 51840, ServiceType: corev1.ServiceTypeNodePort},
			MTU:      1340, ServerTemplateRef: template("WgGatewayServerTemplate", "wireguard-server"),
		},
		"publickey liqo-tenant-rome/rome map[liqo.io/remote-cluster-id:rome networking.liqo.io/gateway-resource:true]": "the key of the peer's gateway",
	}
	same := func(when string) {
		t.Helper()
		if diff := cmp.Diff(wantRome, rome.network(t)); diff != "" {
			t.Errorf("rome %s: %s", when, diff)
		}
		if diff := cmp.Diff(wantMilan, milan.network(t)); diff != "" {
			t.Errorf("milan %s: %s", when, diff)
		}
	}
	same("connected")

	t.Run("info peer", func(t *testing.T) {
		foreign := &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}, Spec: corev1beta1.ForeignClusterSpec{ClusterID: "milan"}, Status: corev1beta1.ForeignClusterStatus{Role: corev1beta1.RoleUnknown}}
		create(t, rome, foreign)
		for query, want := range map[string]string{
			"network.CIDRs.remote.external.0": "10.70.0.0/16\n", "network.CIDRs.remapped.external.0": "10.71.0.0/16\n", "network.CIDRs.remapped.pod.0": "10.2.0.0/16\n",
			"network.gateway.role": "Client\n", "network.gateway.address": "192.0.2.2\n", "network.gateway.port": "51840\n", "network.gateway.connection": "Connected\n",
		} {
			if _, out, errOut := in(rome, "info peer milan -g "+query); out != want {
				t.Errorf("%s: %q, want %q: %s", query, out, want, errOut)
			}
		}
		has(must(in(rome, "info peer milan")), "External CIDR: 10.70.0.0/16, seen here as 10.71.0.0/16", "Gateway: Client", "192.0.2.2, port 51840", "Connection: Connected")
		if err := rome.Delete(t.Context(), foreign); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("in-band", func(t *testing.T) {
		a := newApp(genericiooptions.NewTestIOStreamsDiscard())
		a.kubeconfig.KubeConfig = &rome.kubeconfig
		remote := connectionFlags()
		remote.KubeConfig = &milan.kubeconfig
		p, err := a.pair(t.Context(), remote)
		if err != nil {
			t.Fatal(err)
		}
		proxy := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: ipamv1alpha1.IPAPIServerProxy}, Spec: ipamv1alpha1.IPSpec{IP: "10.96.0.7"}}
		create(t, milan, proxy, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: proxyService}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 8118}}},
		})
		proxy.Status.IP = "10.70.0.9"
		if err := milan.Status().Update(t.Context(), proxy); err != nil {
			t.Fatal(err)
		}
		// rome sees milan's external CIDR at 10.71.0.0/16.
		if url, err := p.inBandURL(t.Context()); err != nil || url != "http://10.71.0.9:8118" {
			t.Errorf("%s, %v", url, err)
		}
		// Only a flag that was typed changes the way of a peering that exists.
		none, typed := func(string) bool { return false }, func(name string) bool { return name == "in-band" }
		if url, err := p.proxyURL(t.Context(), &authFlags{given: none}); err != nil || url != nil {
			t.Errorf("%v, %v", url, err)
		}
		if url, err := p.proxyURL(t.Context(), &authFlags{given: typed}); err != nil || url == nil || *url != "" {
			t.Errorf("%v, %v", url, err)
		}
	})
	t.Run("uninstall names the network", func(t *testing.T) {
		has(refused(in(rome, "uninstall --skip-confirm")), "connected to that of milan (GatewayClient milan in namespace liqo-tenant-milan): liqoctl network reset")
		has(refused(in(milan, "uninstall --skip-confirm")), "connected to that of rome (GatewayServer rome")
	})
	t.Run("once more changes nothing", func(t *testing.T) {
		has(must(both("network connect --gw-server-service-type NodePort --wait")), "GatewayServer rome in namespace liqo-tenant-rome exists already", "GatewayClient milan in namespace liqo-tenant-milan exists already")
		// Other defaults than it was made with are no wish to change it.
		must(both("network connect"))
		same("connected twice")
	})
	t.Run("from the other side it is the same tunnel", func(t *testing.T) {
		code, _, errOut := run(t, "network", "connect", "--wait", "--kubeconfig", milan.kubeconfig, "--remote-kubeconfig", rome.kubeconfig)
		has(must(code, "", errOut), "exists already")
		same("connected from milan")
	})
	t.Run("what is missing is made, what exists is left", func(t *testing.T) {
		for _, object := range []client.Object{
			kindClient.object("liqo-tenant-milan", "milan"), kindPublicKey.object("liqo-tenant-rome", "rome"), kindConfiguration.object("liqo-tenant-rome", "rome"),
		} {
			s := rome
			if object.GetNamespace() == "liqo-tenant-rome" {
				s = milan
			}
			if err := s.Delete(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
		has(must(both("network connect --wait")), "GatewayClient milan in namespace liqo-tenant-milan correctly ensured", "GatewayServer rome in namespace liqo-tenant-rome exists already")
		same("completed")
	})
	t.Run("flags change what exists", func(t *testing.T) {
		has(must(both("network connect --mtu 1200 --gw-client-address 198.51.100.1 --gw-client-port 4000")), "spec.mtu is 1200, was 1340", "spec.endpoint.addresses is [198.51.100.1], was [192.0.2.2]",
			"spec.endpoint.port is 4000, was 51840")
		// A server that moved: the client is a choice of the user's by now.
		has(must(both("network connect --gw-server-service-port 51841")), "spec.endpoint.port is 51841, was 51840", "dials 198.51.100.1:4000/UDP, while the server is reached at 192.0.2.2:51841/UDP",
			"--gw-client-address 192.0.2.2 --gw-client-port 51841")
		must(both("network connect --gw-server-service-port 51840 --mtu 1340"))
		must(both("network connect --gw-client-address 192.0.2.2 --gw-client-port 51840"))
		same("changed back")
	})
	t.Run("new keys", func(t *testing.T) {
		before := rome.keys[len(rome.keys)-1]
		must(both("network rotate-keys --timeout 30s"))
		after := rome.keys[len(rome.keys)-1]
		if bytes.Equal(before, after) {
			t.Error("the key is the old one")
		}
		if told := rome.told[len(rome.told)-1]; !told {
			t.Error("the key was used before milan knew it: the tunnel was interrupted")
		}
		var secret corev1.Secret
		if err := rome.Get(t.Context(), client.ObjectKey{Namespace: "liqo-tenant-milan", Name: "gw-milan"}, &secret); err != nil {
			t.Fatal(err)
		}
		private, err := ecdh.X25519().NewPrivateKey(secret.Data[networkingv1beta1.SecretPrivateKey])
		if err != nil || !bytes.Equal(private.PublicKey().Bytes(), secret.Data[networkingv1beta1.SecretPublicKey]) {
			t.Errorf("the keys are no pair: %v", err)
		}
		same("with new keys")
	})
	t.Run("disconnect asks, and leaves the ranges", func(t *testing.T) {
		code, _, errOut := run(t, "network", "disconnect", "--kubeconfig", rome.kubeconfig, "--remote-kubeconfig", milan.kubeconfig)
		has(refused(code, "", errOut), "nothing was changed")
		has(must(both("network disconnect --dry-run")), "(local) GatewayClient milan in namespace liqo-tenant-milan would be deleted")
		same("asked")
		must(both("network disconnect --wait"))
		if left := rome.network(t); len(left) != 1 || len(milan.network(t)) != 1 {
			t.Errorf("left: %v and %v", left, milan.network(t))
		}
		rome.forget(t)
		milan.forget(t)
	})
	t.Run("reset leaves nothing", func(t *testing.T) {
		must(both("network connect --gw-server-service-type NodePort --wait"))
		same("connected again")
		must(both("network reset --wait"))
		if left := rome.network(t); len(left)+len(milan.network(t)) != 0 {
			t.Errorf("left: %v and %v", left, milan.network(t))
		}
		has(must(both("network reset")), "nothing to delete")
		rome.forget(t)
		milan.forget(t)
	})
	t.Run("two administrators without shared access", func(t *testing.T) {
		// Each has access to its own cluster, and sends files and text to the other.
		apply := func(s *side, manifest string, object client.Object) {
			t.Helper()
			if err := yaml.Unmarshal([]byte(manifest), object); err != nil {
				t.Fatal(err)
			}
			create(t, s, object)
		}
		manifest := func(s *side, command string) string {
			t.Helper()
			code, out, errOut := in(s, command)
			must(code, "", errOut)
			return out
		}
		apply(milan, manifest(rome, "generate configuration"), &networkingv1beta1.Configuration{})
		must(in(rome, "create configuration --remote-cluster-id milan --pod-cidr 10.2.0.0/16 --external-cidr 10.70.0.0/16 --wait"))
		said := must(in(milan, "create gatewayserver --remote-cluster-id rome --service-type NodePort --wait"))
		_, next, found := strings.Cut(said, "In cluster rome: liqoctl ")
		if !found {
			t.Fatalf("nothing to type in rome: %s", said)
		}
		line, _, _ := strings.Cut(next, "\n")
		must(in(rome, line))
		apply(rome, manifest(milan, "generate publickey --gateway-type server --gateway-name rome"), &networkingv1beta1.PublicKey{})
		apply(milan, manifest(rome, "generate publickey --gateway-type client --gateway-name milan -o json"), &networkingv1beta1.PublicKey{})
		must(in(rome, line+" --wait"))
		same("made by two administrators")
		// Which is what connect makes: it has nothing to do.
		has(must(both("network connect --wait")), "GatewayServer rome in namespace liqo-tenant-rome exists already", "Connection is established")
		same("looked at by connect")
		for _, command := range []string{"delete gatewayclient milan", "delete publickey milan -n liqo-tenant-milan", "delete configuration milan"} {
			must(in(rome, command))
		}
		has(refused(in(rome, "delete gatewayclient milan")), "there is no gatewayclient milan in any namespace (known: none)")
		for _, command := range []string{"delete gws rome", "delete publickey rome", "delete config rome"} {
			must(in(milan, command))
		}
		rome.forget(t)
		milan.forget(t)
	})
	t.Run("a tunnel that does not come up is explained", func(t *testing.T) {
		rome.silent, milan.silent = true, true
		has(refused(both("network connect --gw-server-service-type NodePort --wait --timeout 4s")), "waiting for Connection gw-", "the time is over (--timeout), last seen: it does not exist",
			"GatewayClient milan has no pod in namespace liqo-tenant-milan")
		if err := rome.Delete(t.Context(), kindPublicKey.object("liqo-tenant-milan", "milan")); err != nil {
			t.Fatal(err)
		}
		has(refused(both("network connect --disable-sharing-keys --wait --timeout 4s")), "Cluster rome was not told the key of milan's gateway")
		rome.silent, milan.silent = false, false
		must(both("network connect --wait"))
	})
	t.Run("unpeer removes the network, unless the other direction uses it", func(t *testing.T) {
		tenant := &authv1beta1.Tenant{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan", Labels: map[string]string{api.LabelRemoteClusterID: "milan"}},
			Spec:       authv1beta1.TenantSpec{ClusterID: "milan"},
		}
		create(t, rome, tenant)
		has(must(both("unpeer")), "The network stays")
		same("used by the other direction")
		if err := rome.Delete(t.Context(), tenant); err != nil {
			t.Fatal(err)
		}
		must(both("unpeer"))
		if left := rome.network(t); len(left)+len(milan.network(t)) != 0 {
			t.Errorf("left: %v and %v", left, milan.network(t))
		}
	})
	t.Run("completion knows the names", func(t *testing.T) {
		rome.forget(t)
		milan.forget(t)
		must(both("network connect --gw-server-service-type NodePort"))
		if _, out, _ := run(t, "__complete", "delete", "gatewayclient", "--kubeconfig", rome.kubeconfig, "mi"); !strings.HasPrefix(out, "milan\n") {
			t.Errorf("completed to %q", out)
		}
		if _, out, _ := run(t, "__complete", "network", "connect", "--gw-server-service-type", "Node"); !strings.Contains(out, "NodePort\n") {
			t.Errorf("completed to %q", out)
		}
	})
}

// steerBoth steers two clusters by turns, so that what they keep is only touched by one goroutine.
func (s *side) steerBoth(ctx context.Context, other *side) error {
	for ctx.Err() == nil {
		for _, one := range []*side{s, other} {
			err := one.once(ctx)
			if err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("cluster %s: %w", one.id, err)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

func TestExplainTunnel(t *testing.T) {
	key, other := bytes.Repeat([]byte{1}, keySize), bytes.Repeat([]byte{2}, keySize)
	server := func(change func(*endFacts)) endFacts {
		out := endFacts{cluster: "milan", gateway: "GatewayServer rome", connection: "Connecting", key: key, told: key}
		if change != nil {
			change(&out)
		}
		return out
	}
	client := func(change func(*endFacts)) endFacts {
		out := endFacts{cluster: "rome", gateway: "GatewayClient milan", connection: "Connecting", key: other, told: other}
		if change != nil {
			change(&out)
		}
		return out
	}
	for name, test := range map[string]struct {
		server, client endFacts
		want           []string
		not            string
		reached        string
	}{
		"the way between them": {server: server(nil), client: client(nil),
			want: []string{"Connection of cluster rome is Connecting for 30s: no handshake with 172.30.2.130:51840/UDP: is UDP port 51840 open from rome to milan?"}, not: "if 172"},
		"the wrong way": {server: server(nil), client: client(nil), reached: "172.30.2.1:30000/UDP",
			want: []string{"GatewayServer rome of cluster milan says that it is reached at 172.30.2.1:30000/UDP: if 172.30.2.130:51840/UDP is not a way there"}},
		"a pod that does not run": {server(func(e *endFacts) { e.trouble = "container wireguard of pod gw is waiting, ImagePullBackOff" }), client(nil), []string{"Cluster milan: container wireguard"}, "open from", ""},
		"no gateway":              {server(nil), client(func(e *endFacts) { *e = endFacts{cluster: "rome"} }), []string{"Cluster rome has no gateway for milan"}, "open from", ""},
		"no key":                  {server(func(e *endFacts) { e.told = nil }), client(nil), []string{"Cluster rome was not told the key of milan's gateway"}, "open from", ""},
		"another key":             {server(nil), client(func(e *endFacts) { e.told = key }), []string{"Cluster milan was told another key than rome's gateway has"}, "open from", ""},
		"two things":              {server(func(e *endFacts) { e.told = nil }), client(func(e *endFacts) { e.trouble = "T" }), []string{"Cluster rome: T", "was not told"}, "", ""},
		"no report":               {server(nil), client(func(e *endFacts) { e.connection = "" }), []string{"GatewayClient milan of cluster rome reports nothing"}, "", ""},
		"one way":                 {server(nil), client(func(e *endFacts) { e.connection = "Connected" }), []string{"Cluster rome hears milan"}, "open from", ""},
	} {
		got := explainTunnel(test.server, test.client, "172.30.2.130:51840/UDP", test.reached, 30*time.Second)
		for _, want := range test.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in %q", name, want, got)
			}
		}
		if test.not != "" && strings.Contains(got, test.not) {
			t.Errorf("%s: %q in %q", name, test.not, got)
		}
	}
}

func TestEndpointText(t *testing.T) {
	for want, endpoint := range map[string]*networkingv1beta1.Endpoint{
		"nowhere":                    nil,
		"1.2.3.4:5/UDP":              {Addresses: []string{"1.2.3.4"}, Port: 5},
		"[fd00::1]:5/TCP":            {Addresses: []string{"fd00::1"}, Port: 5, Protocol: corev1.ProtocolTCP},
		"a.b:5/UDP or 1.2.3.4:5/UDP": {Addresses: []string{"a.b", "1.2.3.4"}, Port: 5},
		"a:1/UDP or a:2/UDP":         {Addresses: []string{"a"}, Ports: []int32{1, 2}},
	} {
		if got := endpointText(endpoint); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := openText("[fd00::1]:5/TCP or x:6/TCP"); got != "TCP port 5" {
		t.Error(got)
	}
}
