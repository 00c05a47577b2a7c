package controllers

import (
	"context"
	"fmt"
	"io"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/network"
	"liqo.io/liqo/internal/network/gatewaypod"
	"liqo.io/liqo/internal/reasons"
)

// annotationOwner is an annotation of a ClusterRoleBinding with the UID of the gateway. A cluster-scoped object cannot have a namespaced
// owner.
const annotationOwner = "networking.liqo.io/gateway-uid"

// keys returns the Secret with the keys of a gateway: the one in its spec, or else its own Secret, which keys creates if it is missing.
// keys never changes an existing Secret.
func (r *gateways) keys(ctx context.Context, g *gateway) (*corev1.Secret, error) {
	key := client.ObjectKey{Namespace: g.Namespace, Name: g.Child()}
	given := g.secret != nil && g.secret.Name != ""
	if given {
		key.Name = g.secret.Name
	}
	secret := &corev1.Secret{}
	err := r.around.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		err = r.live.Get(ctx, key, secret) // a Secret that a user created lacks Liqo's labels
	}
	switch {
	case apierrors.IsNotFound(err) && given:
		r.warn(g, reasons.MissingSecretRef, "ReadKeys", "Secret %s, which spec.secretRef names, does not exist: create it", key)
		return nil, kube.WaitFor(secretDelay, reasons.MissingSecretRef, "waiting for Secret %s, which spec.secretRef names", key)
	case apierrors.IsNotFound(err):
		return r.makeKeys(ctx, g, key)
	case err != nil:
		return nil, fmt.Errorf("reading Secret %s: %w", key, err)
	}
	if err := network.CheckKeys(secret.Data); err != nil {
		r.warn(g, reasons.KeysSecretEnforcedFailed, "ReadKeys", "Secret %s: %v", key, err)
		return nil, kube.WaitFor(secretDelay, reasons.KeysSecretEnforcedFailed, "Secret %s: %v", key, err)
	}
	return secret, nil
}

func (r *gateways) makeKeys(ctx context.Context, g *gateway, key client.ObjectKey) (*corev1.Secret, error) {
	var random [network.KeyLength]byte
	if _, err := io.ReadFull(r.Random, random[:]); err != nil {
		return nil, fmt.Errorf("creating a key: %w", err)
	}
	data, err := network.KeyPair(random)
	if err != nil {
		return nil, err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, Annotations: api.Layered(r.Annotations),
			Labels: api.Layered(g.ChildLabels(), map[string]string{networkingv1beta1.LabelGatewayResource: api.True}),
		},
		Data: data,
	}
	if err := controllerutil.SetControllerReference(g.object, secret, r.scheme); err != nil {
		return nil, err
	}
	if err := r.around.Create(ctx, secret); apierrors.IsAlreadyExists(err) {
		return nil, staleCache(secret, err)
	} else if err != nil {
		return nil, fmt.Errorf("creating Secret %s: %w", key, err)
	}
	r.events.Eventf(g.object, secret, corev1.EventTypeNormal, reasons.KeysSecretEnforced, "Create", "created Secret %s with the keys of the gateway", secret.Name)
	return secret, nil
}

// rights creates the gateway's ServiceAccount, with the permissions that it needs in the cluster and in its namespace.
func (r *gateways) rights(ctx context.Context, g *gateway, secret string) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: g.Child()}}
	if _, err := r.ensure(ctx, g, account, func() error { r.stamp(g, account); return nil }); err != nil {
		return err
	}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: g.Child()}}
	if _, err := r.ensure(ctx, g, role, func() error { r.stamp(g, role); role.Rules = g.Rights(secret); return nil }); err != nil {
		return err
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: g.Child()}}
	if _, err := r.ensure(ctx, g, binding, func() error {
		r.stamp(g, binding)
		binding.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name}
		binding.Subjects = g.Subjects()
		return nil
	}); err != nil {
		return err
	}
	wide := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: g.ClusterBinding()}}
	_, err := kube.Ensure(ctx, r.around, wide, func() error {
		// The binding of gateway c in namespace a-b and the binding of gateway b-c in namespace a have the same name.
		namespace, name := wide.Labels[networkingv1beta1.LabelGatewayNamespace], wide.Labels[networkingv1beta1.LabelGatewayName]
		if wide.UID != "" && wide.Annotations[annotationOwner] != string(g.UID) && (namespace != g.Namespace || name != g.Name) {
			return kube.WaitFor(secretDelay, reasons.NameTaken, "%s belongs to gateway %s/%s: delete one of the two gateways and create it again under another name", r.describe(wide), namespace, name)
		}
		r.stamp(g, wide)
		wide.Annotations = api.Layered(wide.Annotations, map[string]string{annotationOwner: string(g.UID)})
		wide.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: gatewaypod.ClusterRole}
		wide.Subjects = g.Subjects()
		return nil
	})
	return r.stale(ctx, g, wide, err)
}

// connection creates the Connection, in which the gateway reports the state of its tunnel. The controller creates it, so that it always
// exists and is deleted with the gateway.
func (r *gateways) connection(ctx context.Context, g *gateway) (*networkingv1beta1.Connection, error) {
	connection := &networkingv1beta1.Connection{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: g.Child()}}
	_, err := kube.Ensure(ctx, r.client, connection, func() error {
		if err := r.own(g, connection); err != nil {
			return err
		}
		r.stamp(g, connection)
		connection.Spec.Type = g.side
		connection.Spec.GatewayRef = corev1.ObjectReference{
			APIVersion: networkingv1beta1.GroupVersion.String(), Kind: g.kind, Namespace: g.Namespace, Name: g.Name, UID: g.UID,
		}
		return nil
	})
	return connection, r.stale(ctx, g, connection, err)
}

// service creates or updates the Service of a server. It returns nil for a client.
func (r *gateways) service(ctx context.Context, g *gateway, rendered *gatewaypod.Rendered) (*corev1.Service, error) {
	if g.server == nil {
		return nil, nil
	}
	want := g.Service(g.server, rendered)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: want.Namespace, Name: want.Name}}
	changed, err := r.ensure(ctx, g, service, func() error { gatewaypod.UpdateService(service, want); return nil })
	if changed && err == nil {
		r.events.Eventf(g.object, service, corev1.EventTypeNormal, reasons.ServiceEnforced, "Enforce", "created or updated Service %s", service.Name)
	}
	return service, err
}

// metricsService creates, updates or deletes the Service in front of the metrics of a gateway.
func (r *gateways) metricsService(ctx context.Context, g *gateway, rendered *gatewaypod.Rendered) error {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: g.MetricsName()}}
	if want := g.MetricsService(rendered); want != nil {
		_, err := r.ensure(ctx, g, service, func() error { gatewaypod.UpdateMetricsService(service, want); return nil })
		return err
	}
	err := r.around.Get(ctx, client.ObjectKeyFromObject(service), service)
	if apierrors.IsNotFound(err) || err == nil && !metav1.IsControlledBy(service, g.object) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading Service %s/%s: %w", service.Namespace, service.Name, err)
	}
	return kube.Delete(ctx, r.client, service)
}

func (r *gateways) deployment(ctx context.Context, g *gateway, rendered *gatewaypod.Rendered) (*appsv1.Deployment, error) {
	want := g.Deployment(rendered)
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: want.Namespace, Name: want.Name}}
	changed, err := r.ensure(ctx, g, deployment, func() error { gatewaypod.UpdateDeployment(deployment, want); return nil })
	if changed && err == nil {
		r.events.Eventf(g.object, deployment, corev1.EventTypeNormal, reasons.DeploymentEnforced, "Enforce", "created or updated Deployment %s", deployment.Name)
	}
	return deployment, err
}

// stamp sets the labels and annotations of a child.
func (r *gateways) stamp(g *gateway, child client.Object) {
	child.SetLabels(api.Layered(child.GetLabels(), g.ChildLabels()))
	child.SetAnnotations(api.Layered(child.GetAnnotations(), r.Annotations))
}

// ensure calls kube.Ensure for a child in the gateway's namespace. It never changes an object that the gateway does not control.
func (r *gateways) ensure(ctx context.Context, g *gateway, child client.Object, mutate func() error) (bool, error) {
	changed, err := kube.Ensure(ctx, r.around, child, func() error {
		if err := r.own(g, child); err != nil {
			return err
		}
		return mutate()
	})
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		// The API server rejects what the template or the endpoint requests, for example a node port that is in use.
		return false, kube.WaitFor(refusedDelay, reasons.RejectedByAPIServer, "%v", err)
	}
	return changed, r.stale(ctx, g, child, err)
}

// own makes the gateway the controller of a new child. It returns an error if the child exists and the gateway does not control it.
func (r *gateways) own(g *gateway, child client.Object) error {
	if child.GetUID() != "" && !metav1.IsControlledBy(child, g.object) {
		return r.taken(g, child)
	}
	return controllerutil.SetControllerReference(g.object, child, r.scheme)
}

// stale handles the error that a child exists although the cache lacks it. If the child belongs to the gateway, the cache is stale, and
// stale returns a conflict error. Otherwise the name is taken.
func (r *gateways) stale(ctx context.Context, g *gateway, child client.Object, err error) error {
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	if rerr := r.live.Get(ctx, client.ObjectKeyFromObject(child), child); client.IgnoreNotFound(rerr) != nil {
		return fmt.Errorf("reading %s: %w", r.describe(child), rerr)
	}
	ours := child.GetLabels()[networkingv1beta1.LabelComponent] == networkingv1beta1.ComponentGateway
	if !ours || (child.GetNamespace() != "" && !metav1.IsControlledBy(child, g.object)) {
		return r.taken(g, child)
	}
	return staleCache(child, err)
}

// describe returns kind, namespace and name of a child.
func (r *gateways) describe(child client.Object) string {
	kind := fmt.Sprintf("%T", child)
	if gvk, err := apiutil.GVKForObject(child, r.scheme); err == nil {
		kind = gvk.Kind
	}
	if child.GetNamespace() == "" {
		return kind + " " + child.GetName()
	}
	return kind + " " + child.GetNamespace() + "/" + child.GetName()
}

// taken returns the error for a name that another object uses. The error requests a requeue, because that object may be deleted.
func (r *gateways) taken(g *gateway, child client.Object) error {
	whose := "exists and does not belong to Liqo"
	if owner := metav1.GetControllerOf(child); owner != nil {
		whose = "belongs to " + owner.Kind + " " + owner.Name
	}
	return kube.WaitFor(secretDelay, reasons.NameTaken, "%s %s: delete it, or create %s again under another name", r.describe(child), whose, g)
}

// warn emits a warning event, unless the condition Ready has this reason already.
func (r *gateways) warn(g *gateway, reason, action, format string, args ...any) {
	if condition := meta.FindStatusCondition(*g.conditions, kube.ConditionReady); condition == nil || condition.Reason != reason {
		r.events.Eventf(g.object, nil, corev1.EventTypeWarning, reason, action, format, args...)
	}
}
