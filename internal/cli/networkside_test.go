package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/network"
	"liqo.io/liqo/test/clitest"
)

// side is a cluster with a real API server only. once writes what its controllers and gateways would write.
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
		clitest.Create(t, s, object)
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
	clitest.Create(t, s,
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
		var random [network.KeyLength]byte
		_, _ = rand.Read(random[:])
		keys, err := network.KeyPair(random)
		if err != nil {
			return err
		}
		return s.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name, Labels: map[string]string{networkingv1beta1.LabelGatewayResource: "true"}},
			Data:       keys,
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
	for _, kind := range []session.Kind{session.KindConfiguration, session.KindServer, session.KindClient, session.KindPublicKey} {
		list := kind.List()
		if err := s.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		objects, err := kube.Items(list)
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects {
			name := fmt.Sprintf("%s %s/%s %v", kind.Name, object.GetNamespace(), object.GetName(), object.GetLabels())
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

// forget deletes the children of deleted gateways, as garbage collection does.
func (s *side) forget(t *testing.T) {
	t.Helper()
	namespace := client.InNamespace(api.TenantNamespace(s.peer.id))
	for _, object := range []client.Object{&corev1.Secret{}, &networkingv1beta1.Connection{}} {
		if err := s.DeleteAllOf(t.Context(), object, namespace); err != nil {
			t.Fatal(err)
		}
	}
}

// steerBoth runs two clusters in turns, so that only one goroutine uses their state.
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
