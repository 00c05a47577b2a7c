package reflection_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload/kinds"
	"liqo.io/liqo/internal/offload/reflection"
	"liqo.io/liqo/test/apitest"
)

// service creates a Service in the consumer.
func (w *world) service(name string, change func(*corev1.Service)) *corev1.Service {
	w.t.Helper()
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.localNS, Name: name, Labels: map[string]string{"app": name}},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}, Selector: map[string]string{"app": name}},
	}
	if change != nil {
		change(s)
	}
	w.create(w.near, s)
	return s
}

// slice creates an EndpointSlice of a Service in the consumer, with endpoints on a real node.
func (w *world) slice(service string, addresses ...string) *discoveryv1.EndpointSlice {
	w.t.Helper()
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: w.localNS, Name: service + "-abcde", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: new(int32(80))}},
	}
	for _, address := range addresses {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}, NodeName: new("ordinary")})
	}
	w.create(w.near, s)
	return s
}

// change patches an object in the consumer.
func (w *world) change(obj client.Object, change func()) {
	w.t.Helper()
	if err := w.near.Get(w.t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		w.t.Fatal(err)
	}
	before := obj.DeepCopyObject().(client.Object)
	change()
	if err := w.near.Patch(w.t.Context(), obj, client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
}

// there waits until check accepts the object of that name in the remote namespace, which is read into obj. If check is nil, it waits until the object
// is deleted.
func (w *world) there(obj client.Object, name, what string, check func() error) {
	w.t.Helper()
	apitest.Eventually(w.t, 20*time.Second, what, func() error {
		err := w.far.Get(w.t.Context(), client.ObjectKey{Namespace: w.twinNS, Name: name}, obj)
		switch {
		case check == nil && apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		case check == nil:
			return errors.New("it is there")
		default:
			return check()
		}
	})
}

// quiet asserts that the engine writes nothing more.
func (w *world) quiet() {
	w.t.Helper()
	if n := w.looks(); n != 0 {
		w.t.Errorf("%d writes although nothing changed", n)
	}
}

// looks resyncs all objects, and returns the number of resulting writes.
func (w *world) looks() int64 {
	before := w.farWrites.Load()
	w.mu.Lock()
	engine := w.engine
	w.mu.Unlock()
	engine.Resync(reflection.Kinds()...)
	time.Sleep(300 * time.Millisecond)
	return int64(w.farWrites.Load() - before)
}

func (w *world) heard(part string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.warnings, func(s string) bool { return strings.Contains(s, part) })
}

func servicesFollow(t *testing.T, w *world) {
	w.start()
	web := w.service("web", func(s *corev1.Service) {
		s.Spec.Type, s.Spec.SessionAffinity, s.Spec.TrafficDistribution = corev1.ServiceTypeNodePort, corev1.ServiceAffinityClientIP, new("PreferClose")
	})
	got := &corev1.Service{}
	w.there(got, "web", "the service to follow", func() error { return nil })
	if got.Labels[api.LabelOrigin] != consumerID || got.Labels[api.LabelDestination] != providerID || got.Spec.Ports[0].NodePort == 0 ||
		got.Spec.SessionAffinity != corev1.ServiceAffinityClientIP || *got.Spec.TrafficDistribution != "PreferClose" || got.Spec.Selector["app"] != "web" {
		t.Errorf("%+v", got)
	}
	nodePort := got.Spec.Ports[0].NodePort
	w.change(web, func() { web.Spec.Ports[0].Port = 81; delete(web.Labels, "app") })
	w.there(got, "web", "the change to follow", func() error {
		if _, app := got.Labels["app"]; app || got.Spec.Ports[0].Port != 81 {
			return fmt.Errorf("%v, %v", got.Labels, got.Spec.Ports)
		}
		return nil
	})
	w.service("headless", func(s *corev1.Service) { s.Spec.ClusterIP = "None" })
	w.there(got, "headless", "the headless service to follow", func() error {
		if got.Spec.ClusterIP != "None" {
			return errors.New(got.Spec.ClusterIP)
		}
		return nil
	})
	w.service("dual", func(s *corev1.Service) { s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyPreferDualStack) })
	w.there(got, "dual", "a service that takes two families to follow", func() error { return nil })
	w.service("alias", func(s *corev1.Service) {
		s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.org"}
	})
	w.there(got, "alias", "the alias to follow", func() error { return nil })
	if writes := w.farWrites.Load(); writes != 5 {
		t.Errorf("%d writes in the provider for 4 services and one change", writes)
	}
	apitest.Eventually(t, 10*time.Second, "users to hear of each, after it is there", func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if diff := cmp.Diff([]string{"web", "web", "headless", "dual", "alias"}, w.announced); diff != "" {
			return fmt.Errorf("users heard (-want +got):\n%s", diff)
		}
		return nil
	})
	// Changes by the provider are undone, and its additions stay.
	if err := w.far.Get(t.Context(), client.ObjectKey{Namespace: w.twinNS, Name: "web"}, got); err != nil {
		t.Fatal(err)
	}
	before := got.DeepCopy()
	got.Labels["theirs"], got.Spec.Selector = "x", map[string]string{"app": "other"}
	if err := w.far.Patch(t.Context(), got, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	w.there(got, "web", "the selector to come back", func() error {
		if got.Spec.Selector["app"] != "web" || got.Labels["theirs"] != "x" {
			return fmt.Errorf("%v, %v", got.Spec.Selector, got.Labels)
		}
		return nil
	})
	if got.Spec.Ports[0].NodePort != nodePort && got.Spec.Ports[0].NodePort == 0 {
		t.Errorf("node port %d", got.Spec.Ports[0].NodePort)
	}
	w.quiet()
	w.change(web, func() { web.Annotations = map[string]string{kinds.AnnotationSkip: ""} })
	w.there(got, "web", "the skipped service to be gone", nil)
	w.change(web, func() { delete(web.Annotations, kinds.AnnotationSkip) })
	w.there(got, "web", "it to come back", func() error { return nil })
	if err := w.near.Delete(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	w.there(got, "web", "the deleted service to be gone", nil)
	w.quiet()
}

func endpointsFollow(t *testing.T, w *world) {
	w.start()
	web := w.service("web", nil)
	slice := w.slice("web", "10.10.0.5")
	w.change(slice, func() {
		e := &slice.Endpoints[0]
		e.Conditions = discoveryv1.EndpointConditions{Ready: new(false), Serving: new(true), Terminating: new(true)}
		e.Zone, e.TargetRef = new("z"), &corev1.ObjectReference{Kind: "Pod", Name: "web-0", Namespace: w.localNS}
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{"10.10.0.6"}, NodeName: &w.nodeName})
	})
	got := &offloadingv1beta1.ShadowEndpointSlice{}
	w.there(got, slice.Name, "the slice to follow", func() error {
		if n := len(got.Spec.Template.Endpoints); n != 1 || got.Spec.Template.Endpoints[0].Zone == nil {
			return fmt.Errorf("%d endpoints", n)
		}
		return nil
	})
	e := got.Spec.Template.Endpoints[0]
	if e.Addresses[0] != "10.10.0.5" || *e.NodeName != consumerID || e.TargetRef.Kind != "RemotePod" || *e.Conditions.Ready || !*e.Conditions.Serving || !*e.Conditions.Terminating {
		t.Errorf("%+v", e)
	}
	if got.Labels[discoveryv1.LabelManagedBy] != offloadingv1beta1.EndpointSliceManager || got.Labels[discoveryv1.LabelServiceName] != "web" {
		t.Errorf("labels %v", got.Labels)
	}
	// An EndpointSlice is copied only while its Service is copied.
	w.change(web, func() { web.Annotations = map[string]string{kinds.AnnotationSkip: ""} })
	w.there(got, slice.Name, "the slice of a skipped service to be gone", nil)
	w.change(web, func() { web.Annotations = nil })
	w.there(got, slice.Name, "it to come back", func() error { return nil })
	w.change(slice, func() { slice.Endpoints = slice.Endpoints[1:] }) // the remaining endpoint runs in the provider
	w.there(got, slice.Name, "a slice of which nothing is left to be gone", nil)
	w.quiet()
	w.change(slice, func() { slice.Endpoints[0].NodeName = new("ordinary") })
	w.there(got, slice.Name, "it to come back", func() error { return nil })
	if err := w.near.Delete(t.Context(), slice); err != nil {
		t.Fatal(err)
	}
	w.there(got, slice.Name, "a deleted slice to be gone", nil)
}

func endpointsExposed(t *testing.T, w *world) {
	w.start()
	w.service("db", nil)
	slice := w.slice("db", "192.0.2.9", "10.10.0.5")
	got := &offloadingv1beta1.ShadowEndpointSlice{}
	addresses := func(want string) func() error {
		return func() error {
			var have []string
			for _, e := range got.Spec.Template.Endpoints {
				have = append(have, e.Addresses...)
			}
			if fmt.Sprint(have) != want {
				return fmt.Errorf("%v", have)
			}
			return nil
		}
	}
	w.there(got, slice.Name, "what can be told to follow", addresses("[10.10.0.5]"))
	apitest.Eventually(t, 20*time.Second, "the user to hear of the other", func() error {
		if !w.heard("192.0.2.9 is not in the pod network of this cluster") {
			return errors.New("nothing was said")
		}
		return nil
	})
	ip := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: w.localNS, Name: "db"}, Spec: ipamv1alpha1.IPSpec{IP: "192.0.2.9"}}
	w.create(w.near, ip)
	ip.Status = ipamv1alpha1.IPStatus{IP: "10.70.0.4", CIDR: "10.70.0.0/16"}
	if err := w.near.Status().Update(t.Context(), ip); err != nil {
		t.Fatal(err)
	}
	w.there(got, slice.Name, "the exposed one to follow", addresses("[10.70.0.4 10.10.0.5]"))
	if err := w.near.Delete(t.Context(), ip); err != nil {
		t.Fatal(err)
	}
	w.there(got, slice.Name, "the one that is exposed no more to go", addresses("[10.10.0.5]"))
}

// sameThere waits until the copies match the local objects.
func (w *world) sameThere() {
	w.t.Helper()
	names := func(c client.Client, namespace string, list client.ObjectList, opts ...client.ListOption) ([]string, error) {
		if err := c.List(w.t.Context(), list, append(opts, client.InNamespace(namespace))...); err != nil {
			return nil, err
		}
		var out []string
		switch l := list.(type) {
		case *corev1.ServiceList:
			for i := range l.Items {
				out = append(out, fmt.Sprint(l.Items[i].Name, " ", l.Items[i].Spec.Ports[0].Port))
			}
		case *discoveryv1.EndpointSliceList:
			for i := range l.Items {
				out = append(out, fmt.Sprint(l.Items[i].Name, " ", l.Items[i].Endpoints[0].Addresses))
			}
		case *offloadingv1beta1.ShadowEndpointSliceList:
			for i := range l.Items {
				out = append(out, fmt.Sprint(l.Items[i].Name, " ", l.Items[i].Spec.Template.Endpoints[0].Addresses))
			}
		}
		return out, nil
	}
	apitest.Eventually(w.t, 30*time.Second, "both sides to have the same", func() error {
		for _, pair := range [][2]client.ObjectList{
			{&corev1.ServiceList{}, &corev1.ServiceList{}}, {&discoveryv1.EndpointSliceList{}, &offloadingv1beta1.ShadowEndpointSliceList{}},
		} {
			here, err := names(w.near, w.localNS, pair[0])
			if err != nil {
				return err
			}
			there, err := names(w.far, w.twinNS, pair[1])
			if err != nil {
				return err
			}
			if !slices.Equal(here, there) { // both lists are sorted by name
				return fmt.Errorf("here %v, there %v", here, there)
			}
		}
		return nil
	})
}

func copiesKilledAtRandom(t *testing.T, w *world) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	stop := w.start()
	alive := map[string]bool{}
	for range 150 {
		name := fmt.Sprintf("web-%d", random.IntN(15))
		key := metav1.ObjectMeta{Namespace: w.localNS, Name: name}
		switch {
		case random.IntN(12) == 0:
			stop()
			stop = w.start()
		case !alive[name]:
			w.service(name, nil)
			w.slice(name, "10.10.0.5")
			alive[name] = true
		case random.IntN(3) == 0:
			if err := w.near.Delete(t.Context(), &corev1.Service{ObjectMeta: key}); err != nil {
				t.Fatal(err)
			}
			if err := w.near.Delete(t.Context(), &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: w.localNS, Name: name + "-abcde"}}); err != nil {
				t.Fatal(err)
			}
			alive[name] = false
		default:
			service := &corev1.Service{ObjectMeta: key}
			w.change(service, func() { service.Spec.Ports[0].Port = 80 + random.Int32N(20) })
			slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: w.localNS, Name: name + "-abcde"}}
			w.change(slice, func() { slice.Endpoints[0].Addresses = []string{fmt.Sprintf("10.10.0.%d", 1+random.IntN(20))} })
		}
	}
	w.sameThere()
	w.quiet()
}

func copiesPartition(t *testing.T, w *world) {
	w.start()
	w.service("web", nil)
	w.slice("web", "10.10.0.5")
	w.service("late", nil)
	w.sameThere()
	w.link.cut()
	if err := w.near.Delete(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.localNS, Name: "late"}}); err != nil {
		t.Fatal(err)
	}
	w.service("new", nil)
	if err := w.far.Delete(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.twinNS, Name: "web"}}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second)
	got := &corev1.Service{}
	if err := w.far.Get(t.Context(), client.ObjectKey{Namespace: w.twinNS, Name: "late"}, got); err != nil {
		t.Errorf("what is in the provider did not stay: %v", err)
	}
	w.link.heal()
	w.sameThere()
}

func copiesForeign(t *testing.T, w *world) {
	foreign := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.twinNS, Name: "web", Labels: map[string]string{api.LabelOrigin: consumerID}}}
	foreign.Spec.Ports = []corev1.ServicePort{{Port: 7}}
	w.create(w.far, foreign)
	w.start()
	web := w.service("web", nil)
	apitest.Eventually(t, 10*time.Second, "the user to hear of it", func() error {
		if !w.heard("web: an object of that name exists in cluster " + providerID) {
			return errors.New("nothing was said")
		}
		return nil
	})
	w.change(web, func() { web.Spec.Ports[0].Port = 81 })
	w.service("other", nil)
	w.there(&corev1.Service{}, "other", "another one to follow", func() error { return nil })
	if err := w.near.Delete(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond)
	got := &corev1.Service{}
	if err := w.far.Get(t.Context(), client.ObjectKeyFromObject(foreign), got); err != nil || got.Spec.Ports[0].Port != 7 || len(got.Annotations) != 0 {
		t.Errorf("the foreign service was touched: %v, %+v", err, got)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.warnings); n != 1 {
		t.Errorf("the user heard of it %d times: %q", n, w.warnings)
	}
}

func copiesAnyRequestMayFail(t *testing.T, w *world) {
	var mu sync.Mutex
	requests, victim, after := 0, -1, false
	w.fail = func(isAfter bool) error {
		mu.Lock()
		defer mu.Unlock()
		if isAfter != after {
			return nil
		}
		requests++
		if requests-1 == victim {
			return errors.New("the link is gone")
		}
		return nil
	}
	w.start()
	for n := 0; ; n++ {
		mu.Lock()
		requests, victim, after = 0, n/2, n%2 == 1
		mu.Unlock()
		web := w.service("web", nil)
		slice := w.slice("web", "10.10.0.5")
		w.sameThere()
		w.change(web, func() { web.Spec.Ports[0].Port = 81 })
		w.change(slice, func() { slice.Endpoints[0].Addresses = []string{"10.10.0.6"} })
		w.sameThere()
		for _, obj := range []client.Object{slice, web} {
			if err := w.near.Delete(t.Context(), obj); err != nil {
				t.Fatal(err)
			}
		}
		w.sameThere()
		mu.Lock()
		done := requests <= victim // the request that should have failed was never sent, so all requests have been tried
		mu.Unlock()
		if done {
			if n < 8 {
				t.Errorf("only %d faults were tried", n)
			}
			t.Logf("%d faults", n)
			return
		}
	}
}

// copiesOneDoesIt: if a provider has several virtual kubelets, only one reflects the objects of namespaces, and any other can take over at any time.
func copiesOneDoesIt(t *testing.T, w *world) {
	w.waiting.Store(new("another one does it"))
	w.start()
	w.service("web", nil)
	time.Sleep(500 * time.Millisecond)
	if n := w.farWrites.Load(); n != 0 {
		t.Errorf("%d writes by one who is not to write", n)
	}
	w.waiting.Store(nil)
	w.mu.Lock()
	engine := w.engine
	w.mu.Unlock()
	engine.Resync("Service")
	w.sameThere()
}
