package controllers

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
)

// TestASuspendedConsumerKeepsItsNamespaces: while its Tenant is drained or being deleted, a consumer keeps its remote namespaces, has no rights in them, and gets
// no further ones. When the Tenant is active again, the rights return.
func TestASuspendedConsumerKeepsItsNamespaces(t *testing.T) {
	const tenantNamespace = "liqo-tenant-rome"
	m := &offloadingv1beta1.NamespaceMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenantNamespace, Name: "milan", Labels: map[string]string{api.LabelReplicated: api.True, api.LabelOriginID: "rome"}},
		Spec:       offloadingv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{"shop": "shop-rome"}},
	}
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: tenantNamespace, Name: "rome"}, Spec: authv1beta1.TenantSpec{ClusterID: "rome"}}
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(tenant).Build()
	r := &namespaceMaps{Client: c, Options: Options{LiqoNamespace: "liqo"}}
	there := func(o client.Object) bool {
		t.Helper()
		err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o)
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		return !apierrors.IsNotFound(err)
	}
	namespace := func(name string) bool {
		return there(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	for _, step := range []struct {
		condition authv1beta1.TenantCondition
		desired   string
		rights    bool
	}{
		{authv1beta1.TenantActive, "", true},
		{authv1beta1.TenantDrained, "bank", false},
		{authv1beta1.TenantDrained, "bank", false},
		{authv1beta1.TenantActive, "bank", true},
	} {
		tenant.Spec.TenantCondition = step.condition
		if err := c.Update(t.Context(), tenant); err != nil {
			t.Fatal(err)
		}
		if step.desired != "" {
			m.Spec.DesiredMapping[step.desired] = step.desired + "-rome"
		}
		if err := r.sync(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if !namespace("shop-rome") {
			t.Fatalf("%s: the namespace is gone", step.condition)
		}
		if got := there(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: tenantNamespace}}); got != step.rights {
			t.Errorf("%s: the rights exist: %t", step.condition, got)
		}
		if got := namespace("bank-rome"); step.desired != "" && got != step.rights {
			t.Errorf("%s: the new namespace exists: %t", step.condition, got)
		}
	}
}

// outdated is a client that reads some objects as they were before: its cache lags behind.
type outdated struct {
	client.Client
	maps       map[client.ObjectKey]*offloadingv1beta1.NamespaceMap
	namespaces *corev1.NamespaceList
}

func (c *outdated) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if m, ok := o.(*offloadingv1beta1.NamespaceMap); ok && c.maps[key] != nil {
		c.maps[key].DeepCopyInto(m)
		return nil
	}
	return c.Client.Get(ctx, key, o, opts...)
}

func (c *outdated) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if l, ok := list.(*corev1.NamespaceList); ok && c.namespaces != nil {
		c.namespaces.DeepCopyInto(l)
		return nil
	}
	return c.Client.List(ctx, list, opts...)
}

// TestNoOutdatedRequestDeletesData: the cache shows that a consumer has removed a namespace from its map. Meanwhile the consumer has requested it again, or the
// administrator has taken the mark away to keep it, or the map is another one. Then the namespace stays. It is deleted if the API server confirms the request.
func TestNoOutdatedRequestDeletesData(t *testing.T) {
	type facts struct {
		*dataWorld
		m  *offloadingv1beta1.NamespaceMap
		ns *corev1.Namespace
	}
	for name, c := range map[string]struct {
		meanwhile func(f *facts)
		deleted   bool
	}{
		"nothing has changed": {meanwhile: func(*facts) {}, deleted: true},
		"requested again": {meanwhile: func(f *facts) {
			f.change(f.milan, f.m, func() { f.m.Spec.DesiredMapping = map[string]string{"shop": lawRemote} })
		}},
		"the mark is removed": {meanwhile: func(f *facts) {
			f.change(f.milan, f.ns, func() { delete(f.ns.Annotations, offloadingv1beta1.AnnotationManagedByNamespaceMap) })
		}},
		"the map is another one": {meanwhile: func(f *facts) {
			f.change(f.milan, f.m, func() { f.m.Annotations[api.AnnotationSourceUID] = "another" })
		}},
		"the map is gone": {meanwhile: func(f *facts) { f.vanish(f.milan, f.m) }},
	} {
		t.Run(name, func(t *testing.T) {
			f := &facts{newDataWorld(t), lawMap(lawTenant), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: lawRemote}}}
			f.change(f.milan, f.m, func() {
				f.m.Spec = offloadingv1beta1.NamespaceMapSpec{ReleasedMapping: map[string]string{"shop": lawRemote}}
			})
			cache := &outdated{Client: f.milan, maps: map[client.ObjectKey]*offloadingv1beta1.NamespaceMap{client.ObjectKeyFromObject(f.m): f.m.DeepCopy()}, namespaces: &corev1.NamespaceList{}}
			f.must(f.milan.List(t.Context(), cache.namespaces))
			c.meanwhile(f)
			r := &namespaceMaps{Client: cache, Options: Options{LiqoNamespace: "liqo", Live: f.milan}, events: f.events}
			m := lawMap(lawTenant)
			f.must(r.Get(t.Context(), client.ObjectKeyFromObject(m), m))
			err := r.sync(t.Context(), m)
			f.kubernetes()
			if f.hasData() == c.deleted {
				t.Errorf("the data is there: %t (%v)", f.hasData(), err)
			}
			if !c.deleted && !apierrors.IsConflict(err) {
				t.Errorf("not retried: %v", err)
			}
		})
	}
}

// TestAnotherWriteDefersADeletion: a namespace that changes between the confirmation and its deletion stays.
func TestAnotherWriteDefersADeletion(t *testing.T) {
	w := newDataWorld(t)
	copied := lawMap(lawTenant)
	w.change(w.milan, copied, func() {
		copied.Spec = offloadingv1beta1.NamespaceMapSpec{ReleasedMapping: map[string]string{"shop": lawRemote}}
	})
	racing := interceptor.NewClient(w.milan, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: lawRemote}}
			w.change(w.milan, ns, func() { delete(ns.Annotations, offloadingv1beta1.AnnotationManagedByNamespaceMap) })
			var options client.DeleteOptions
			options.ApplyOptions(opts)
			if p := options.Preconditions; p == nil || p.UID == nil || p.ResourceVersion == nil || *p.ResourceVersion == ns.ResourceVersion {
				return c.Delete(ctx, o, opts...)
			}
			return apierrors.NewConflict(schema.GroupResource{Resource: "namespaces"}, lawRemote, errors.New("the resource version is another one")) // as the API server does
		},
	})
	r := &namespaceMaps{Client: racing, Options: Options{LiqoNamespace: "liqo", Live: w.milan}, events: w.events}
	err := r.sync(t.Context(), copied)
	w.kubernetes()
	if !apierrors.IsConflict(err) || !w.hasData() {
		t.Errorf("the data is there: %t (%v)", w.hasData(), err)
	}
}
