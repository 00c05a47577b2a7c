package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/install/installer"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/test/apitest"
)

// whole is an API server with the objects of the chart, and all of Liqo's controllers with the permissions that the chart grants. The test itself
// acts for the missing parts of Kubernetes: it signs certificates, collects garbage and ends namespaces.
type whole struct {
	client.Client
	id        string
	config    *rest.Config
	authority *apitest.Authority

	mu sync.Mutex
	// leftovers are the objects of peerings in the last round of collect.
	leftovers []string
}

func (c *whole) address() string { return "https://" + strings.TrimPrefix(c.config.Host, "https://") }

func newWhole(t *testing.T, id string) *whole {
	t.Helper()
	_, cfg, authority := apitest.WithAuthority(t)
	c := &whole{Client: apitest.Client(t, cfg), id: id, config: cfg, authority: authority}
	chart, err := installer.Chart("")
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := installer.Render(chart, api.Namespace, map[string]any{
		"discovery": map[string]any{"config": map[string]any{"clusterID": id}},
		"ipam":      map[string]any{"podCIDR": "10.244.0.0/16", "serviceCIDR": "10.96.0.0/16"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{api.Namespace, "shop"} {
		if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	for document := range strings.SplitSeq(manifests, "\n---\n") {
		object, err := decode(document)
		if err != nil {
			t.Fatal(err)
		}
		if kind := object.GetKind(); kind == "" || strings.HasSuffix(kind, "WebhookConfiguration") || kind == "ServiceMonitor" || kind == "PodMonitor" {
			continue // nothing serves webhooks in this test, and the kinds of monitoring are not installed
		}
		if err := c.Create(t.Context(), object); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatalf("creating %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
	go authority.Sign(t.Context(), c)
	go c.collect(t.Context())
	return c
}

// start runs the controllers.
func (c *whole) start(t *testing.T) {
	t.Helper()
	opts := &ControllerManagerOptions{}
	opts.AddFlags(flag.NewFlagSet("", flag.PanicOnError))
	opts.ClusterID, opts.APIServerAddress, opts.APIServerCA = c.id, c.address(), c.config.CAData
	again := true
	cfg := rest.CopyConfig(c.config)
	cfg.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:liqo:liqo-controller-manager", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:liqo", "system:authenticated"},
	}
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: kube.NewScheme(), Cache: controllerManagerCache(), Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: &again},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, setup := range []func(ctrl.Manager, *ControllerManagerOptions) error{setupPeering, setupIPAM, setupNetwork, setupOffloading} {
		if err := setup(mgr, opts); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the controllers of %s ended: %v", c.id, err)
		}
	})
}

// made returns the kinds of the objects that a peering creates.
func made() []schema.GroupVersionKind {
	var all []schema.GroupVersionKind
	for gvk := range kube.NewScheme().AllKnownTypes() {
		list := strings.HasSuffix(gvk.Kind, "List") && !strings.HasSuffix(gvk.Kind, "ListOptions")
		if list && strings.HasSuffix(gvk.Group, "liqo.io") {
			all = append(all, gvk)
		}
	}
	for group, kinds := range map[string][]string{
		"/v1":                          {"Secret", "ServiceAccount", "Service", "Node"},
		"apps/v1":                      {"Deployment"},
		"rbac.authorization.k8s.io/v1": {"Role", "RoleBinding", "ClusterRoleBinding"},
		"certificates.k8s.io/v1":       {"CertificateSigningRequest"},
	} {
		name, version, _ := strings.Cut(group, "/")
		for _, kind := range kinds {
			all = append(all, schema.GroupVersionKind{Group: name, Version: version, Kind: kind + "List"})
		}
	}
	return all
}

// each calls f with every object of those kinds.
func (c *whole) each(ctx context.Context, f func(*metav1.PartialObjectMetadata)) error {
	for _, gvk := range made() {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(gvk)
		if err := c.List(ctx, list); meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return fmt.Errorf("listing %s: %w", gvk.Kind, err)
		}
		for i := range list.Items {
			list.Items[i].SetGroupVersionKind(gvk.GroupVersion().WithKind(strings.TrimSuffix(gvk.Kind, "List")))
			f(&list.Items[i])
		}
	}
	return nil
}

// collect deletes objects without an owner and the content of ended namespaces, as Kubernetes' garbage collector and namespace controller would.
func (c *whole) collect(ctx context.Context) {
	var orphans []*metav1.PartialObjectMetadata
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
		present, objects := map[types.UID]bool{}, []*metav1.PartialObjectMetadata{}
		if err := c.each(ctx, func(o *metav1.PartialObjectMetadata) {
			present[o.UID] = true
			objects = append(objects, o)
		}); err != nil {
			continue
		}
		c.remember(objects)
		lost := func(o *metav1.PartialObjectMetadata) bool {
			return len(o.OwnerReferences) > 0 && !slices.ContainsFunc(o.OwnerReferences, func(r metav1.OwnerReference) bool { return present[r.UID] })
		}
		// Lists are read one after the other, so an object counts as unowned only if its owner is missing in two rounds.
		var again []*metav1.PartialObjectMetadata
		for _, o := range objects {
			foreground := o.DeletionTimestamp != nil && slices.Contains(o.Finalizers, metav1.FinalizerDeleteDependents)
			switch {
			case foreground: // no pods run in this test, so its dependents are deleted already
				_ = c.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
			case !lost(o) || o.DeletionTimestamp != nil:
			case slices.ContainsFunc(orphans, func(before *metav1.PartialObjectMetadata) bool { return before.UID == o.UID }):
				_ = c.Delete(ctx, o)
			default:
				again = append(again, o)
			}
		}
		orphans = again
		var namespaces corev1.NamespaceList
		if err := c.List(ctx, &namespaces); err != nil {
			continue
		}
		for i := range namespaces.Items {
			if namespace := &namespaces.Items[i]; namespace.DeletionTimestamp != nil {
				namespace.Spec.Finalizers = nil
				_ = c.SubResource("finalize").Update(ctx, namespace)
			}
		}
	}
}

// left returns an error that lists the remaining objects of peerings.
func (c *whole) left() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.leftovers) == 0 {
		return nil
	}
	return errors.New(strings.Join(c.leftovers, ", "))
}

// remember records the objects that belong to a peering.
func (c *whole) remember(objects []*metav1.PartialObjectMetadata) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leftovers = nil
	for _, o := range objects {
		if o.Labels[api.LabelRemoteClusterID] != "" && o.Kind != "ForeignCluster" {
			c.leftovers = append(c.leftovers, fmt.Sprintf("%s %s/%s (finalizers %v, deleted %v)", o.Kind, o.Namespace, o.Name, o.Finalizers, o.DeletionTimestamp))
		}
	}
}
