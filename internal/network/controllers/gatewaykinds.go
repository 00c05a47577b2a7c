package controllers

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/network"
	"liqo.io/liqo/internal/reasons"
)

func (r *gateways) setupServers(mgr ctrl.Manager) error {
	list := &networkingv1beta1.GatewayServerList{}
	b := r.watches(mgr, "gateway-server", &networkingv1beta1.GatewayServer{}, list, &networkingv1beta1.WgGatewayServerTemplate{}).
		WatchesRawSource(r.around.watch(&corev1.Service{}, toGateway)).
		WatchesRawSource(r.around.watch(&corev1.Node{}, toAll(mgr.GetClient(), list, false)))
	return b.Complete(&kube.Reconciler[*networkingv1beta1.GatewayServer]{
		Name: "gateway-server", Client: mgr.GetClient(), Finalizer: networkingv1beta1.FinalizerClusterRoleBinding,
		Conditions: func(s *networkingv1beta1.GatewayServer) *[]metav1.Condition { return &s.Status.Conditions },
		Sync: func(ctx context.Context, s *networkingv1beta1.GatewayServer) error {
			g, err := r.server(s)
			if err != nil {
				return err
			}
			return r.sync(ctx, g)
		},
		Finalize: func(ctx context.Context, s *networkingv1beta1.GatewayServer) error {
			return r.finalize(ctx, r.owner(s))
		},
	})
}

func (r *gateways) setupClients(mgr ctrl.Manager) error {
	list := &networkingv1beta1.GatewayClientList{}
	b := r.watches(mgr, "gateway-client", &networkingv1beta1.GatewayClient{}, list, &networkingv1beta1.WgGatewayClientTemplate{})
	return b.Complete(&kube.Reconciler[*networkingv1beta1.GatewayClient]{
		Name: "gateway-client", Client: mgr.GetClient(), Finalizer: networkingv1beta1.FinalizerClusterRoleBinding,
		Conditions: func(c *networkingv1beta1.GatewayClient) *[]metav1.Condition { return &c.Status.Conditions },
		Sync: func(ctx context.Context, c *networkingv1beta1.GatewayClient) error {
			g, err := r.dialer(c)
			if err != nil {
				return err
			}
			return r.sync(ctx, g)
		},
		Finalize: func(ctx context.Context, c *networkingv1beta1.GatewayClient) error {
			return r.finalize(ctx, r.owner(c))
		},
	})
}

// watches returns a controller builder with the watches that both kinds of gateways need.
func (r *gateways) watches(mgr ctrl.Manager, name string, gateway client.Object, list client.ObjectList, template client.Object) *ctrl.Builder {
	c := mgr.GetClient()
	b := kube.NewController(mgr, name).
		For(gateway, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}))).
		Watches(&networkingv1beta1.Connection{}, handler.EnqueueRequestsFromMapFunc(toAll(c, list, true)), builder.WithPredicates(valueChanged())).
		Watches(&networkingv1beta1.PublicKey{}, handler.EnqueueRequestsFromMapFunc(toAll(c, list, true)), builder.WithPredicates(predicate.GenerationChangedPredicate{}))
	if r.WatchTemplates {
		b = b.Watches(template, handler.EnqueueRequestsFromMapFunc(toAll(c, list, false)), builder.WithPredicates(predicate.GenerationChangedPredicate{}))
	} else {
		b = b.Watches(template, handler.EnqueueRequestsFromMapFunc(toAll(c, list, false)), builder.WithPredicates(presenceChanged()))
	}
	for _, child := range []client.Object{
		&appsv1.Deployment{}, &corev1.Pod{}, &corev1.Secret{}, &corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}, &rbacv1.ClusterRoleBinding{},
	} {
		b = b.WatchesRawSource(r.around.watch(child, toGateway))
	}
	return b
}

// valueChanged passes updates of a Connection that change status.value or the reported cause of a broken tunnel. It drops updates of other fields,
// such as timestamps.
func valueChanged() predicate.Predicate {
	return kube.Updates(func(before, after *networkingv1beta1.Connection) bool {
		return before.Status.Value != after.Status.Value || reported(before) != reported(after)
	})
}

// presenceChanged passes creations and deletions, but not updates.
func presenceChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}
}

func (r *gateways) server(s *networkingv1beta1.GatewayServer) (*gateway, error) {
	spec := s.Spec.DeepCopy()
	var err error
	if spec.Endpoint, err = network.OnePort(spec.Endpoint); err == nil {
		err = network.CheckMTU("spec.mtu", spec.MTU)
	}
	if err != nil {
		return nil, kube.Invalid(reasons.Invalid, "%v", err)
	}
	seen, err := asMap(spec)
	if err != nil {
		return nil, err
	}
	return &gateway{
		Owner: r.owner(s), object: s, kind: "GatewayServer", side: networkingv1beta1.ConnectionServer, spec: seen, secret: spec.SecretRef, server: spec,
		template: template{
			ObjectReference: spec.ServerTemplateRef, kind: "WgGatewayServerTemplate", standard: networkingv1beta1.ServerTemplateDefault,
			fresh: func() client.Object { return &networkingv1beta1.WgGatewayServerTemplate{} },
			spec: func(o client.Object) *networkingv1beta1.GatewayTemplateSpec {
				return &o.(*networkingv1beta1.WgGatewayServerTemplate).Spec
			},
		},
		internal: &s.Status.InternalEndpoint, secretRef: &s.Status.SecretRef, childRef: &s.Status.ServerRef,
		endpoint: &s.Status.Endpoint, conditions: &s.Status.Conditions,
	}, nil
}

func (r *gateways) dialer(c *networkingv1beta1.GatewayClient) (*gateway, error) {
	spec := c.Spec.DeepCopy()
	var err error
	if spec.Endpoint, err = network.OneDialedPort(spec.Endpoint); err == nil {
		err = network.CheckMTU("spec.mtu", spec.MTU)
	}
	if err != nil {
		return nil, kube.Invalid(reasons.Invalid, "%v", err)
	}
	seen, err := asMap(spec)
	if err != nil {
		return nil, err
	}
	return &gateway{
		Owner: r.owner(c), object: c, kind: "GatewayClient", side: networkingv1beta1.ConnectionClient, spec: seen, secret: spec.SecretRef, dialed: &spec.Endpoint,
		template: template{
			ObjectReference: spec.ClientTemplateRef, kind: "WgGatewayClientTemplate", standard: networkingv1beta1.ClientTemplateDefault,
			fresh: func() client.Object { return &networkingv1beta1.WgGatewayClientTemplate{} },
			spec: func(o client.Object) *networkingv1beta1.GatewayTemplateSpec {
				return &o.(*networkingv1beta1.WgGatewayClientTemplate).Spec
			},
		},
		internal: &c.Status.InternalEndpoint, secretRef: &c.Status.SecretRef, childRef: &c.Status.ClientRef, conditions: &c.Status.Conditions,
	}, nil
}

// asMap converts a spec to a map with its JSON field names.
func asMap(spec any) (map[string]any, error) {
	seen, err := runtime.DefaultUnstructuredConverter.ToUnstructured(spec)
	if err != nil {
		return nil, fmt.Errorf("reading a specification: %w", err)
	}
	return seen, nil
}
