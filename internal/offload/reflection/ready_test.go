package reflection

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload/kinds"
	"liqo.io/liqo/internal/offload/kinds/podrules"
	"liqo.io/liqo/internal/remote"
)

// fixed is a provider's health that the test sets.
type fixed struct{ state remote.State }

func (f *fixed) State() remote.State        { return f.state }
func (f *fixed) Subscribe() <-chan struct{} { return nil }

// newListing returns an engine for pods and Services that has read nothing, and its NamespaceMap, which maps shop to shop-rome.
func newListing(health *fixed) (*Engine, *offloadingv1beta1.NamespaceMap) {
	m := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "milan", ResourceVersion: "1"}}
	m.Spec.DesiredMapping = map[string]string{"shop": "shop-rome"}
	m.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": {RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingAccepted}}
	return New(Options{Namespace: "tenant", Map: "milan", Health: health, Kinds: []Kind{
		Pods(1, func() podrules.Options { return podrules.Options{Origin: "rome", Destination: "milan", Node: "milan"} }),
		Services(1, func() kinds.ServiceOptions {
			return kinds.ServiceOptions{CopyOptions: kinds.CopyOptions{Origin: "rome", Destination: "milan"}}
		}),
	}}), m
}

// TestReadyWithTheFirstLists: each list of both clusters is waited for once. A list that is refused is not waited for.
func TestReadyWithTheFirstLists(t *testing.T) {
	health := &fixed{}
	e, m := newListing(health)
	pods, services := e.kinds[0], e.kinds[1]
	at := e.newWatchedNamespace("shop", "shop-rome")
	at.copied = true
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "", errors.New("the tenant is drained"))
	for _, step := range []struct {
		do      func()
		missing string
	}{
		{func() {}, "kind " + pods.Name + " in this cluster"},
		{func() { list(t, pods.local) }, "NamespaceMap tenant/milan"},
		{func() { list(t, e.nsmap, m) }, "whether the provider is reachable"},
		{func() { health.state = remote.State{Known: true, Up: true} }, "remote namespace shop-rome is not watched"},
		{func() { e.namespaces["shop"] = at }, "kind " + pods.Name + " in namespace shop"},
		{func() {
			for _, s := range at.stores[pods] {
				list(t, s)
			}
		}, "kind " + services.Name + " in namespace shop"},
		{func() { list(t, at.here[services]) }, "kind " + services.Name + " in namespace shop"},
		{func() { _ = at.stores[services][0].heed(errors.New("no answer")) }, "kind " + services.Name + " in namespace shop"},
		{func() { _ = at.stores[services][0].heed(refused) }, ""},
		{func() { delete(e.namespaces, "shop") }, ""}, // after an interruption, Ready does not wait for the lists again
	} {
		step.do()
		err := e.Ready()
		if (err == nil) != (step.missing == "") || err != nil && !strings.Contains(err.Error(), step.missing) {
			t.Fatalf("%v, want %q", err, step.missing)
		}
	}
}

// TestReadyWithoutTheProvider: an engine is ready although the provider is unreachable, since this process can't change that.
func TestReadyWithoutTheProvider(t *testing.T) {
	e, m := newListing(&fixed{remote.State{Known: true}})
	list(t, e.kinds[0].local)
	list(t, e.nsmap, m)
	if err := e.Ready(); err != nil {
		t.Error(err)
	}
}
