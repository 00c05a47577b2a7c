package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
)

// hostileProvider is an API server of a provider that has the given NamespaceMaps, each with so many bytes of content, and nothing else. It counts
// the lists of NamespaceMaps.
func hostileProvider(t *testing.T, maps, size int) (*rest.Config, *atomic.Int32) {
	t.Helper()
	cfg, lists, _ := shrinkingProvider(t, maps, size)
	return cfg, lists
}

// shrinkingProvider is a hostileProvider that has one NamespaceMap after a call of fewer.
func shrinkingProvider(t *testing.T, many, size int) (cfg *rest.Config, lists *atomic.Int32, fewer func()) {
	t.Helper()
	lists = &atomic.Int32{}
	maps := &atomic.Int32{}
	maps.Store(int32(many))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		switch {
		case r.URL.Path == "/livez":
		case query.Get("sendInitialEvents") == "true":
			w.WriteHeader(http.StatusBadRequest)
		case query.Get("watch") != "":
			w.Header().Set("Content-Type", "application/json")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			list := &offloadingv1beta1.NamespaceMapList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
			count := 0
			if strings.HasSuffix(r.URL.Path, "/namespacemaps") {
				lists.Add(1)
				count = int(maps.Load())
			}
			for i := range count {
				list.Items = append(list.Items, offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{
					Namespace: "liqo-tenant-rome", Name: strconv.Itoa(i), Annotations: map[string]string{"a": strings.Repeat("x", size)},
				}})
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(list)
		}
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return &rest.Config{Host: server.URL}, lists, func() { maps.Store(1) }
}

// linkTo opens a link to a provider and waits until its API server responds.
func linkTo(t *testing.T, cfg *rest.Config, log logr.Logger) (*links, *link) {
	t.Helper()
	links := newLinks(Options{ClusterID: "rome", RightsEvery: time.Hour, RemoteConfig: func(*corev1.Secret) (*rest.Config, string, error) {
		return cfg, "liqo-tenant-rome", nil
	}}, kube.NewScheme(), log)
	t.Cleanup(func() {
		links.end()
		links.done.Wait()
	})
	secret := secretOf(controlPlaneOf("milan", "1"))
	if err := links.ensure(secret); err != nil {
		t.Fatal(err)
	}
	k := links.get(secret.Namespace)
	soon(t, "the provider to respond", k.up)
	return links, k
}

func soon(t *testing.T, what string, check func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !check(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited too long for %s", what)
		}
	}
}

// TestHostileProviderFillsNoMemory: a provider that has very many copies, or very large ones, is reported. None of them is kept, and the kinds of
// which it has a few are used.
func TestHostileProviderFillsNoMemory(t *testing.T) {
	for name, row := range map[string]struct {
		maps, size      int
		known, reported bool
		exceeds         string
	}{
		"as many as a provider allows": {maps: 200, size: 1000, known: true},
		"many":                         {maps: 2 * mostCopies, size: 1, reported: true, exceeds: "more than 1000 objects"},
		"large":                        {maps: 20, size: copiesBytes / 16, reported: true, exceeds: "more than 16777216 bytes"},
		"a response that is too large": {maps: 40, size: responsesBytes / 32, reported: true, exceeds: "is too large"},
	} {
		t.Run(name, func(t *testing.T) {
			var reported atomic.Int32
			log := funcr.New(func(_, args string) {
				if strings.Contains(args, "exceed the limits of the cache") && strings.Contains(args, "NamespaceMap") && strings.Contains(args, "milan") {
					reported.Add(1)
				}
			}, funcr.Options{})
			cfg, lists, fewer := shrinkingProvider(t, row.maps, row.size)
			_, k := linkTo(t, cfg, log)
			known := func() bool { return k.copies("NamespaceMap") != nil }
			soon(t, "the ResourceSlices", func() bool { return k.copies("ResourceSlice") != nil })
			soon(t, "the NamespaceMaps to be known, or listed again", func() bool { return known() || lists.Load() > 1 })
			if known() != row.known || (reported.Load() > 0) != row.reported {
				t.Errorf("the copies are known: %v, want %v; %d reports", known(), row.known, reported.Load())
			}
			// The ForeignCluster shows it, and no longer when it is cured.
			soon(t, "the probe to tell it", func() bool {
				probe := k.probe(time.Now())
				return probe != nil && strings.Contains(probe.Exceeded["NamespaceMap"], row.exceeds) && (len(probe.Exceeded) > 0) == row.reported
			})
			if row.reported && name == "many" {
				fewer()
				soon(t, "the excess to end", func() bool { return len(k.probe(time.Now()).Exceeded) == 0 && known() })
			}
		})
	}
}

// TestStatusesOfAProviderArePaced: a provider that changes the status of a copy again and again causes a burst of writes in this cluster and then one
// a second.
func TestStatusesOfAProviderArePaced(t *testing.T) {
	cfg, _ := hostileProvider(t, 0, 0)
	links, k := linkTo(t, cfg, logr.Discard())
	source := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: api.TenantNamespace("milan"), Name: "milan", Finalizers: []string{peering.FinalizerReplicated},
		Labels: map[string]string{api.LabelReplication: api.True, api.LabelRemoteID: "milan"},
	}}
	writes := 0
	here := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(source, secretOf(controlPlaneOf("milan", "1"))).WithStatusSubresource(source).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				writes++
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			},
		}).Build()
	var kind peering.Kind
	for _, kind = range peering.Kinds() {
		if kind.Name == "NamespaceMap" {
			break
		}
	}
	made := kind.Plan(peering.Link{Own: "rome", Remote: "milan", RemoteNamespace: "liqo-tenant-rome"}, source, nil).Create
	reported := made.(*offloadingv1beta1.NamespaceMap)
	there := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(reported).WithStatusSubresource(reported).Build()
	links.mu.Lock()
	links.running[source.Namespace] = &link{
		clusterID: k.clusterID, namespace: k.namespace, remoteNamespace: k.remoteNamespace, all: links, health: k.health, live: there,
		cached: map[string]client.Reader{kind.Name: there},
	}
	links.mu.Unlock()

	r := &replicator{replication: replication{client: here, own: "rome", links: links}, kind: kind}
	pass := func() ctrl.Result {
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: source.Namespace, Name: source.Name}})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	const burst = 3 * kube.PaceBurst
	began := time.Now()
	var result ctrl.Result
	changes := 0
	for changes < burst || result.RequeueAfter == 0 { // on a slow machine, the last change of the burst may come just when it may be written
		reported.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": {RemoteNamespace: fmt.Sprint("shop-", changes)}}
		changes++
		if err := there.Status().Update(t.Context(), reported); err != nil {
			t.Fatal(err)
		}
		if result = pass(); changes > 2*burst {
			t.Fatalf("none of the last %d changes was delayed", burst)
		}
	}
	if most := kube.PaceBurst + 1 + int(time.Since(began)/kube.PaceInterval); writes > most || writes < kube.PaceBurst {
		t.Errorf("%d writes after %d changes, want %d to %d", writes, changes, kube.PaceBurst, most)
	}
	if result.RequeueAfter <= 0 || result.RequeueAfter > kube.PaceInterval {
		t.Fatalf("the source is reconciled again in %v, want at most %v", result.RequeueAfter, kube.PaceInterval)
	}
	time.Sleep(result.RequeueAfter)
	pass()
	if err := here.Get(t.Context(), client.ObjectKeyFromObject(source), source); err != nil {
		t.Fatal(err)
	}
	if got := source.Status.CurrentMapping["shop"].RemoteNamespace; got != fmt.Sprint("shop-", changes-1) {
		t.Errorf("the last state shown is %q", got)
	}
}
