package controllers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/internal/ipam"
	"liqo.io/liqo/test/apitest"
)

// past is a client that lists IPs and Networks as they were at the last call of look, like an outdated cache. Its writes take effect at once.
type past struct {
	client.Client
	ips      ipamv1alpha1.IPList
	networks ipamv1alpha1.NetworkList
	// lost, if set, is returned by writes that took effect.
	lost error
}

func (p *past) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	switch list := list.(type) {
	case *ipamv1alpha1.IPList:
		p.ips.DeepCopyInto(list)
	case *ipamv1alpha1.NetworkList:
		p.networks.DeepCopyInto(list)
	default:
		return p.Client.List(ctx, list, opts...)
	}
	return nil
}

func (p *past) Status() client.SubResourceWriter { return lossy{p.Client.Status(), p} }

type lossy struct {
	client.SubResourceWriter
	past *past
}

func (l lossy) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	return errors.Join(l.SubResourceWriter.Patch(ctx, obj, patch, opts...), l.past.lost)
}

// look brings the cache up to date.
func (p *past) look(t *testing.T) {
	t.Helper()
	if err := errors.Join(p.Client.List(t.Context(), &p.ips), p.Client.List(t.Context(), &p.networks)); err != nil {
		t.Fatal(err)
	}
}

// TestNoAddressIsAssignedTwiceOnAPIServer plans with caches that lag behind. The first object has an address, and a second object with precedence
// appears in a cache that does not show the first one's address yet.
func TestNoAddressIsAssignedTwiceOnAPIServer(t *testing.T) {
	c := apitest.Client(t, apitest.APIServer(t))
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: liqo}}); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), newNetwork(liqo, ipamv1alpha1.NetworkExternal, "10.70.0.0/27")); err != nil {
		t.Fatal(err)
	}
	external := types.NamespacedName{Namespace: liqo, Name: ipamv1alpha1.NetworkExternal}
	cached := &past{Client: c}
	recorder := events.NewFakeRecorder(1000)
	for kind, row := range map[string]struct {
		reconciler func() reconcile.Reconciler
		object     func(namespace, name string) client.Object
		// first and second are names of objects: the second one takes precedence over the first.
		first, second string
	}{
		"networks": {
			reconciler: func() reconcile.Reconciler {
				return &networks{client: cached, live: c, events: recorder, pools: ipam.DefaultPools(), external: external}
			},
			object: func(namespace, name string) client.Object { return newNetwork(namespace, name, "10.1.0.0/20") },
			first:  "b", second: "a",
		},
		"IPs": {
			reconciler: func() reconcile.Reconciler {
				return &ips{client: cached, live: c, events: recorder, external: external, services: &services{client: c, live: c, made: c}}
			},
			object: func(namespace, name string) client.Object { return newIP(namespace, name, "10.0.0.1") },
		},
	} {
		t.Run(kind, func(t *testing.T) {
			pass := func(r reconcile.Reconciler) bool {
				t.Helper()
				result, err := r.Reconcile(t.Context(), reconcile.Request{})
				if cached.lost == nil && err != nil {
					t.Fatal(err)
				}
				return result.RequeueAfter == 0
			}
			cached.look(t)
			(&networks{client: cached, live: c, events: recorder, pools: ipam.DefaultPools(), external: external}).mustPass(t)
			for name, lag := range map[string]struct {
				lost    error // returned by the write to the first object
				restart bool  // restart the controller before the second pass
			}{
				"its own write":            {},
				"that of its predecessor":  {restart: true},
				"one that seemed to fail":  {lost: apierrors.NewTimeoutError("the answer was lost", 1)},
				"a failed one, restarting": {lost: apierrors.NewInternalError(errors.New("the answer was lost")), restart: true},
			} {
				t.Run(name, func(t *testing.T) {
					namespace := strings.ToLower(kind) + "-" + strings.NewReplacer(" ", "-", ",", "").Replace(name)
					if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
						t.Fatal(err)
					}
					firstName, secondName := row.first, row.second
					if firstName == "" {
						firstName, secondName = rivals(t, c, namespace, external)
					}
					r := row.reconciler()
					var first, second client.Object
					apitest.Eventually(t, within, "two objects of one second", func() error {
						if first != nil {
							if err := errors.Join(c.Delete(t.Context(), first), c.Delete(t.Context(), second)); err != nil {
								return err
							}
						}
						first, second = row.object(namespace, firstName), row.object(namespace, secondName)
						if err := c.Create(t.Context(), first); err != nil {
							return err
						}
						cached.look(t)
						if err := c.Create(t.Context(), second); err != nil {
							return err
						}
						if first.GetCreationTimestamp() != second.GetCreationTimestamp() {
							return errors.New("the second changed")
						}
						return nil
					})
					between := &past{Client: c}
					between.look(t) // a view with both objects, before either has a value
					cached.lost = lag.lost
					pass(r)
					cached.lost = nil
					given := valueOf(t, c, first)
					if given == "" {
						t.Fatal("the first one was given nothing")
					}
					cached.ips, cached.networks = between.ips, between.networks
					if lag.restart {
						r = row.reconciler()
					}
					for range 3 {
						if pass(r) {
							t.Error("it planned with the past")
						}
					}
					if got := valueOf(t, c, second); got != "" {
						t.Errorf("the second one was given %s, the first one %s", got, given)
					}
					noneTwice(t, c)
					cached.look(t)
					pass(r)
					if valueOf(t, c, second) == "" || valueOf(t, c, first) != given {
						t.Errorf("the first had %s and has %s, the second has %q", given, valueOf(t, c, first), valueOf(t, c, second))
					}
					noneTwice(t, c)
				})
			}
		})
	}
}

// TestPendingAllocationsAreVerified: if the cache never shows an allocation because the object was deleted, the plan does not wait for it forever.
func TestPendingAllocationsAreVerified(t *testing.T) {
	key := types.NamespacedName{Name: "n"}
	cached := entries{key: {uid: "1"}}
	asked := 0
	live := func(context.Context) (entries, error) { asked++; return maps.Clone(cached), nil }
	var b pendingAllocations
	if current, _, err := b.current(t.Context(), cached, live); !current || err != nil {
		t.Fatal(current, err)
	}
	b.wrote(key, entry{uid: "1", value: "10.0.0.0/8"}, nil)
	passes := 0
	for ; passes < 2*maxWaits; passes++ {
		current, _, err := b.current(t.Context(), cached, live)
		if err != nil {
			t.Fatal(err)
		}
		if current {
			break
		}
	}
	if passes != maxWaits || asked != 2 {
		t.Errorf("%d passes, asked %d times", passes, asked)
	}
}

// TestPendingAllocationsAreListedRarely: a cache that lags for a minute, as after an outage of the API server, causes a few lists and not one at each
// pass.
func TestPendingAllocationsAreListedRarely(t *testing.T) {
	key := types.NamespacedName{Name: "n"}
	asked := 0
	live := func(context.Context) (entries, error) {
		asked++
		return entries{key: {uid: "1", value: "10.0.0.0/8"}}, nil
	}
	var b pendingAllocations
	var waited time.Duration
	for old := (entries{key: {uid: "1"}}); waited < time.Minute; {
		current, pause, err := b.current(t.Context(), old, live)
		if current || pause <= 0 || pause > longestDelay || err != nil {
			t.Fatal(current, pause, err)
		}
		waited += pause
	}
	if asked > 8 {
		t.Errorf("asked %d times in a minute", asked)
	}
	if current, _, err := b.current(t.Context(), entries{key: {uid: "1", value: "10.0.0.0/8"}}, live); !current || err != nil {
		t.Errorf("the cache has caught up: %v, %v", current, err)
	}
	if _, pause, _ := b.current(t.Context(), entries{}, live); pause != 0 {
		t.Errorf("what was seen once is waited for again")
	}
}

func (r *networks) mustPass(t *testing.T) {
	t.Helper()
	if _, err := r.Reconcile(t.Context(), reconcile.Request{}); err != nil {
		t.Fatal(err)
	}
}

// rivals returns the names of two IPs that would get the same address. The second one takes precedence.
func rivals(t *testing.T, c client.Client, namespace string, external types.NamespacedName) (first, second string) {
	t.Helper()
	objects := ipam.IPObjects{External: external}
	var list ipamv1alpha1.IPList
	var networks ipamv1alpha1.NetworkList
	if err := errors.Join(c.List(t.Context(), &list), c.List(t.Context(), &networks)); err != nil {
		t.Fatal(err)
	}
	objects.Networks = networks.Items
	names := map[netip.Addr]string{}
	for letter := 'a'; letter <= 'z'; letter++ {
		objects.IPs = append(slices.Clone(list.Items), *newIP(namespace, string(letter), "10.0.0.1"))
		addr := ipam.IPs(objects)[types.NamespacedName{Namespace: namespace, Name: string(letter)}].Addr
		if earlier, taken := names[addr]; taken {
			return string(letter), earlier
		}
		names[addr] = string(letter)
	}
	t.Fatal("no two names have one address")
	return "", ""
}

// valueOf returns the value assigned to an object in the API server.
func valueOf(t *testing.T, c client.Client, obj client.Object) string {
	t.Helper()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		t.Fatal(err)
	}
	switch obj := obj.(type) {
	case *ipamv1alpha1.IP:
		return obj.Status.IP
	case *ipamv1alpha1.Network:
		return obj.Status.CIDR
	}
	return ""
}

// noneTwice checks that no value is allocated twice.
func noneTwice(t *testing.T, c client.Client) {
	t.Helper()
	var list ipamv1alpha1.IPList
	var networks ipamv1alpha1.NetworkList
	if err := c.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	if err := c.List(t.Context(), &networks); err != nil {
		t.Fatal(err)
	}
	owners := map[string]string{}
	claim := func(what, who string) {
		t.Helper()
		if other, twice := owners[what]; twice && what != "" {
			t.Fatalf("%s and %s were both given %s", who, other, what)
		}
		owners[what] = who
	}
	for i := range list.Items {
		claim(list.Items[i].Status.IP, "IP "+list.Items[i].Name)
	}
	for i := range networks.Items {
		claim(networks.Items[i].Status.CIDR, "Network "+networks.Items[i].Name)
	}
}

// TestManyIPsOnAPIServer creates a thousand IPs at once from several clients, while the controllers run and are replaced.
func TestManyIPsOnAPIServer(t *testing.T) {
	c := newCluster(t)
	c.namespace(t, "a")
	stop := c.run(t)
	const many, sides = 1000, 8
	start := time.Now()
	var group sync.WaitGroup
	for side := range sides {
		group.Go(func() {
			for i := side; i < many; i += sides {
				if err := c.Create(t.Context(), newIP("a", fmt.Sprintf("ip-%d", i), "10.0.0.1")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	c.network(t, liqo, ipamv1alpha1.NetworkExternal, "10.70.0.0/16", "Reconciled")
	stop()
	c.run(t)
	group.Wait()
	apitest.Eventually(t, time.Minute, "all IPs to have addresses", func() error {
		var list ipamv1alpha1.IPList
		if err := c.List(t.Context(), &list); err != nil {
			return err
		}
		given := map[string]bool{}
		for i := range list.Items {
			given[list.Items[i].Status.IP] = true
		}
		delete(given, "")
		if len(given) != many {
			return fmt.Errorf("%d of %d", len(given), many)
		}
		return nil
	})
	noneTwice(t, c)
	t.Logf("%d IPs in %s", many, time.Since(start).Round(time.Millisecond))
}
