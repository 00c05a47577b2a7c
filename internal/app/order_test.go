package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/test/apitest"
)

var (
	orders = flag.Int("orders", 3, "in how many orders TestAnyOrderOnAPIServer applies the manifests")
	seed   = flag.Uint64("seed", uint64(time.Now().UnixNano()), "where TestAnyOrderOnAPIServer takes its orders from")
)

// manifest is the content of a file that an administrator applies to one of two clusters.
type manifest struct {
	name    string
	cluster *whole
	// text is computed when the manifest is applied. Its error names the missing object of a cluster that it needs.
	text func(context.Context) (string, error)
}

// settles is the maximum time until the clusters reach the expected state.
const settles = 2 * time.Minute

// TestAnyOrderOnAPIServer: the peering, the network and the offloading of a namespace are created by applying manifests in any order, and removed by
// deleting them in any order. Objects without an existing namespace are applied again later. Each round has other tenant namespaces, and either the
// consumer proves that it holds its key, or the provider vouches for it.
func TestAnyOrderOnAPIServer(t *testing.T) {
	var rome, milan *whole
	apitest.Both(t, func() { rome = newWhole(t, "rome") }, func() { milan = newWhole(t, "milan") })
	rome.start(t)
	milan.start(t)
	for i := range *orders {
		began := time.Now()
		p := &plan{rome: rome, milan: milan, number: i, random: rand.New(rand.NewPCG(*seed, uint64(i))), vouched: i%2 == 1}
		ok := t.Run(fmt.Sprint(i), func(t *testing.T) {
			manifests := p.manifests(t)
			p.shuffle(manifests)
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("-seed %d, vouched for: %t, order %d: %s", *seed, p.vouched, i, names(manifests))
				}
			})
			p.apply(t, manifests)
			applied := time.Since(began)
			p.complete(t)
			complete := time.Since(began)
			p.shuffle(manifests)
			p.remove(t, manifests)
			p.nothing(t)
			t.Logf("applied after %.1f s, complete after %.1f s, gone after %.1f s", applied.Seconds(), complete.Seconds(), time.Since(began).Seconds())
		})
		if !ok {
			t.FailNow() // remaining objects would break the next round
		}
	}
}

func names(manifests []manifest) string {
	var out []string
	for _, m := range manifests {
		out = append(out, m.cluster.id+" "+m.name)
	}
	return strings.Join(out, ", ")
}

// plan is one round of the test, with its own order of the manifests.
type plan struct {
	rome, milan *whole
	number      int
	random      *rand.Rand
	vouched     bool
}

func (p *plan) shuffle(manifests []manifest) {
	p.random.Shuffle(len(manifests), func(i, j int) { manifests[i], manifests[j] = manifests[j], manifests[i] })
}

// tenantNamespace returns the name of the tenant namespace of a peer in this round.
func (p *plan) tenantNamespace(peer string) string { return fmt.Sprintf("peer-%s-%d", peer, p.number) }

// apply applies the manifests in order, again and again, until all are applied.
func (p *plan) apply(t *testing.T, manifests []manifest) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), settles)
	defer cancel()
	left := manifests
	for len(left) > 0 {
		var again []manifest
		for _, m := range left {
			if p.random.IntN(2) == 0 { // sometimes give the controllers time between two manifests
				time.Sleep(time.Duration(p.random.IntN(20)) * time.Millisecond)
			}
			err := m.apply(ctx)
			switch {
			case ctx.Err() != nil:
				t.Fatalf("%s %s can't be applied: %v", m.cluster.id, m.name, err)
			case apierrors.IsNotFound(err) || errors.Is(err, errNotYet):
				again = append(again, m)
			case err != nil:
				t.Fatalf("applying %s %s: %v", m.cluster.id, m.name, err)
			}
		}
		left = again
	}
}

// errNotYet means that a manifest depends on an object that does not exist yet.
var errNotYet = errors.New("not there yet")

func (m *manifest) object(ctx context.Context) (*unstructured.Unstructured, error) {
	text, err := m.text(ctx)
	if err != nil {
		return nil, err
	}
	return decode(text)
}

func (m *manifest) apply(ctx context.Context) error {
	object, err := m.object(ctx)
	if err != nil {
		return err
	}
	return m.cluster.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("somebody"), client.ForceOwnership)
}

// remove deletes the objects of the manifests without waiting for any: users must not have to know an order of deletions.
func (p *plan) remove(t *testing.T, manifests []manifest) {
	t.Helper()
	for _, m := range manifests {
		if m.name == "tenant namespace" {
			continue // Kubernetes would delete the objects in a namespace; no controller does it here
		}
		object, err := m.object(t.Context())
		if errors.Is(err, errNotYet) { // the object that it depends on was deleted
			object, err = &unstructured.Unstructured{}, nil
			object.SetAPIVersion("authentication.liqo.io/v1beta1")
			object.SetKind("Identity")
			object.SetNamespace(p.tenantNamespace("milan"))
			object.SetName("controlplane-milan")
		}
		if err == nil {
			err = client.IgnoreNotFound(m.cluster.Delete(t.Context(), object))
		}
		if err != nil {
			t.Fatalf("deleting %s %s: %v", m.cluster.id, m.name, err)
		}
	}
}

// is reads an object and returns an error that says what is missing.
func is[T client.Object](t *testing.T, c *whole, namespace, name string, object T, missing func(T) string) {
	t.Helper()
	apitest.Eventually(t, settles, fmt.Sprintf("%T %s/%s in %s", object, namespace, name, c.id), func() error {
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object); err != nil {
			return err
		}
		if what := missing(object); what != "" {
			return errors.New(what)
		}
		return nil
	})
}

func there[T client.Object](T) string { return "" }

// complete waits until both clusters have all objects of a peering.
func (p *plan) complete(t *testing.T) {
	t.Helper()
	rome, milan, here, far := p.rome, p.milan, p.tenantNamespace("milan"), p.tenantNamespace("rome")
	is(t, rome, here, "milan", &authv1beta1.ResourceSlice{}, func(s *authv1beta1.ResourceSlice) string {
		if len(s.Status.Conditions) != 2 || s.Status.Conditions[0].Status != authv1beta1.ResourceSliceAccepted || s.Status.Conditions[1].Status != authv1beta1.ResourceSliceAccepted {
			return fmt.Sprintf("%+v", s.Status.Conditions)
		}
		return ""
	})
	is(t, milan, far, peering.ResourceSliceSubject("milan", "rome").User, &offloadingv1beta1.Quota{}, there)
	is(t, rome, here, "kubeconfig-resourceslice-milan", &corev1.Secret{}, there)
	is(t, rome, here, "milan", &offloadingv1beta1.VirtualNode{}, there)
	is(t, rome, here, "vk-milan", &appsv1.Deployment{}, there)
	is(t, rome, here, "milan", &offloadingv1beta1.NamespaceMap{}, func(m *offloadingv1beta1.NamespaceMap) string {
		if m.Status.CurrentMapping["shop"].Phase != offloadingv1beta1.MappingAccepted {
			return fmt.Sprintf("%+v", m.Status)
		}
		return ""
	})
	is(t, milan, "shop-rome", far, &rbacv1.RoleBinding{}, there)
	for _, side := range []struct {
		of              *whole
		peer, namespace string
	}{{rome, "milan", here}, {milan, "rome", far}} {
		is(t, side.of, side.namespace, side.peer, &networkingv1beta1.Configuration{}, func(c *networkingv1beta1.Configuration) string {
			ready := meta.FindStatusCondition(c.Status.Conditions, networkingv1beta1.ConditionCIDRsConfigured)
			if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != c.Generation {
				return fmt.Sprintf("%+v", c.Status)
			}
			return ""
		})
		is(t, side.of, side.namespace, "gw-"+side.peer, &appsv1.Deployment{}, there)
	}
	is(t, milan, far, "gw-rome", &corev1.Service{}, there)
	is(t, rome, "", "milan", &corev1beta1.ForeignCluster{}, func(fc *corev1beta1.ForeignCluster) string {
		s := fc.Status
		if s.Role != corev1beta1.RoleProvider || s.TenantNamespace != (corev1beta1.TenantNamespaces{Local: here, Remote: far}) ||
			s.Peering.Authentication != corev1beta1.PhaseEstablished || s.Peering.Outgoing != corev1beta1.PhasePending || !s.Modules.Networking.Enabled {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	is(t, milan, "", "rome", &corev1beta1.ForeignCluster{}, func(fc *corev1beta1.ForeignCluster) string {
		s := fc.Status
		if s.Role != corev1beta1.RoleConsumer || s.Peering.Incoming != corev1beta1.PhaseEstablished || s.Peering.Authentication != corev1beta1.PhaseEstablished {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
}

// nothing waits until the round has left no objects, except namespaces, which this test does not delete, and ForeignClusters of former peers.
func (p *plan) nothing(t *testing.T) {
	t.Helper()
	for _, c := range []*whole{p.rome, p.milan} {
		apitest.Eventually(t, settles, "nothing to be left in "+c.id, c.left)
		peer := map[string]string{"rome": "milan", "milan": "rome"}[c.id]
		is(t, c, "", peer, &corev1beta1.ForeignCluster{}, func(fc *corev1beta1.ForeignCluster) string {
			if m := fc.Status.Modules; m.Authentication.Enabled || m.Networking.Enabled || m.Offloading.Enabled {
				return fmt.Sprintf("%+v", fc.Status)
			}
			return ""
		})
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.tenantNamespace(peer)}}
		if err := c.Patch(t.Context(), namespace, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":null}}`))); err != nil {
			t.Fatal(err)
		}
	}
}
