package reflection_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/install/installer"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kubelet"
	"liqo.io/liqo/test/apitest"
)

// churned describes a kind whose objects are created, changed and deleted repeatedly in the cluster of their origin.
type churned struct {
	// here and there are empty lists for the objects in the consumer and in the provider.
	here, there client.ObjectList
	// back means that the provider is the origin.
	back bool
	// write returns an object that contains n.
	write func(meta metav1.ObjectMeta, n int) client.Object
	// read returns the number that an object contains, in either cluster.
	read func(client.Object) int
	// taken is the expected warning if a foreign object has the name of the copy; empty means "an object of that name exists".
	taken string
}

func churnedKinds(w *world) map[string]churned {
	digit := func(text string) (n int) { _, _ = fmt.Sscan(text, &n); return n }
	return map[string]churned{
		"pod": {&corev1.PodList{}, &offloadingv1beta1.ShadowPodList{}, false, func(m metav1.ObjectMeta, n int) client.Object {
			m.Labels = map[string]string{"n": fmt.Sprint(n)}
			return &corev1.Pod{ObjectMeta: m, Spec: corev1.PodSpec{NodeName: w.nodeName, Containers: []corev1.Container{{Name: "web", Image: "web:1"}}}}
		}, func(obj client.Object) int {
			if pod, ok := obj.(*corev1.Pod); ok && !isReady(pod) {
				return 0 // a pod counts only after its remote status has been copied back
			}
			return digit(obj.GetLabels()["n"])
		}, "a ShadowPod of that name exists"},
		"service": {&corev1.ServiceList{}, &corev1.ServiceList{}, false, func(m metav1.ObjectMeta, n int) client.Object {
			return &corev1.Service{ObjectMeta: m, Spec: corev1.ServiceSpec{Selector: map[string]string{"n": fmt.Sprint(n)}, Ports: []corev1.ServicePort{{Port: 80}}}}
		}, func(obj client.Object) int { return digit(obj.(*corev1.Service).Spec.Selector["n"]) }, ""},
		"slice": {&discoveryv1.EndpointSliceList{}, &offloadingv1beta1.ShadowEndpointSliceList{}, false, func(m metav1.ObjectMeta, n int) client.Object {
			m.Labels = map[string]string{discoveryv1.LabelServiceName: "anchor"}
			return &discoveryv1.EndpointSlice{ObjectMeta: m, AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{fmt.Sprintf("10.10.0.%d", n)}}}}
		}, func(obj client.Object) int {
			endpoints := []discoveryv1.Endpoint(nil)
			switch s := obj.(type) {
			case *discoveryv1.EndpointSlice:
				endpoints = s.Endpoints
			case *offloadingv1beta1.ShadowEndpointSlice:
				endpoints = s.Spec.Template.Endpoints
			}
			return digit(endpoints[0].Addresses[0][len("10.10.0."):])
		}, ""},
		"configmap": {&corev1.ConfigMapList{}, &corev1.ConfigMapList{}, false, func(m metav1.ObjectMeta, n int) client.Object {
			return &corev1.ConfigMap{ObjectMeta: m, Data: map[string]string{"n": fmt.Sprint(n)}}
		}, func(obj client.Object) int { return digit(obj.(*corev1.ConfigMap).Data["n"]) }, ""},
		"secret": {&corev1.SecretList{}, &corev1.SecretList{}, false, func(m metav1.ObjectMeta, n int) client.Object {
			return &corev1.Secret{ObjectMeta: m, Data: map[string][]byte{"n": fmt.Append(nil, n)}}
		}, func(obj client.Object) int { return digit(string(obj.(*corev1.Secret).Data["n"])) }, ""},
		"ingress": {&networkingv1.IngressList{}, &networkingv1.IngressList{}, false, func(m metav1.ObjectMeta, n int) client.Object {
			return &networkingv1.Ingress{ObjectMeta: m, Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{Host: fmt.Sprint(n, ".example")}}}}
		}, func(obj client.Object) int {
			return digit(obj.(*networkingv1.Ingress).Spec.Rules[0].Host[:1])
		}, ""},
		"networkpolicy": {&networkingv1.NetworkPolicyList{}, &networkingv1.NetworkPolicyList{}, false, func(m metav1.ObjectMeta, n int) client.Object {
			return &networkingv1.NetworkPolicy{ObjectMeta: m, Spec: networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"n": fmt.Sprint(n)}}}}
		}, func(obj client.Object) int {
			return digit(obj.(*networkingv1.NetworkPolicy).Spec.PodSelector.MatchLabels["n"])
		}, ""},
		"event": {&corev1.EventList{}, &corev1.EventList{}, true, func(m metav1.ObjectMeta, n int) client.Object {
			return &corev1.Event{ObjectMeta: m, InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: m.Namespace, Name: "anchor"}, Count: int32(n)}
		}, func(obj client.Object) int { return int(obj.(*corev1.Event).Count) }, ""},
	}
}

// churn creates, changes and deletes objects of every kind at random, in the clusters whose API server is up.
type churn struct {
	w      *world
	random *rand.Rand
	kinds  map[string]churned
	alive  map[string]bool
}

func (c *churn) step(name string, near, far bool) {
	c.w.t.Helper()
	kind := c.kinds[name]
	side, namespace := c.w.near, c.w.localNS
	if kind.back {
		side, namespace = c.w.far, c.w.twinNS
	}
	if up := near && !kind.back || far && kind.back; !up {
		return
	}
	key := metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s-%d", name, c.random.IntN(6))}
	obj := kind.write(key, 1+c.random.IntN(9))
	var err error
	switch {
	case !c.alive[key.Name]:
		err = side.Create(c.w.t.Context(), obj)
		if _, ok := obj.(*corev1.Pod); ok && apierrors.IsAlreadyExists(err) {
			return // the previous one is being deleted
		}
		c.alive[key.Name] = true
	case c.random.IntN(3) == 0:
		err = side.Delete(c.w.t.Context(), obj)
		c.alive[key.Name] = false
	default:
		n := 1 + c.random.IntN(9)
		// The engine also writes pods here, so conflicts are possible: it writes their status.
		err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			have := obj.DeepCopyObject().(client.Object)
			if err := side.Get(c.w.t.Context(), client.ObjectKeyFromObject(obj), have); err != nil {
				return err
			}
			changed := kind.write(*key.DeepCopy(), n)
			changed.SetUID(have.GetUID())
			changed.SetResourceVersion(have.GetResourceVersion())
			switch o := changed.(type) {
			case *corev1.Service:
				o.Spec.ClusterIP = have.(*corev1.Service).Spec.ClusterIP
			case *corev1.Pod: // only the labels of an existing pod can be changed
				labels := o.Labels
				have.(*corev1.Pod).DeepCopyInto(o)
				maps.Copy(o.Labels, labels)
			}
			return side.Update(c.w.t.Context(), changed)
		})
	}
	if err != nil {
		c.w.t.Fatalf("%s: %v", key.Name, err)
	}
}

// agree waits until both clusters have the same objects with the same content.
func (c *churn) agree(what string) {
	c.w.t.Helper()
	said := func(name string, side client.Client, namespace string, list client.ObjectList, kind churned) (map[string]int, error) {
		if err := side.List(c.w.t.Context(), list, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
		items, err := meta.ExtractList(list)
		out := map[string]int{}
		for _, item := range items {
			if obj := item.(client.Object); strings.HasPrefix(obj.GetName(), name+"-") { // ignore other objects, such as Events that the API servers create
				out[obj.GetName()] = kind.read(obj)
			}
		}
		return out, err
	}
	began := time.Now()
	defer func() {
		c.w.t.Logf("both sides agreed %s within %s", what, time.Since(began).Round(10*time.Millisecond))
	}()
	apitest.Eventually(c.w.t, 90*time.Second, "both sides to agree "+what, func() error {
		for name, kind := range c.kinds {
			here, err := said(name, c.w.near, c.w.localNS, kind.here, kind)
			if err != nil {
				return err
			}
			there, err := said(name, c.w.far, c.w.twinNS, kind.there, kind)
			if err != nil {
				return err
			}
			if !maps.Equal(here, there) {
				return fmt.Errorf("%s (-here +there): %s", name, gocmp.Diff(here, there))
			}
		}
		return nil
	})
}

// foreign creates, for every kind, an object in the origin cluster, and before it a foreign object with the name of the copy in the other cluster.
func (c *churn) foreign() map[string]client.Object {
	c.w.t.Helper()
	out := map[string]client.Object{}
	for name, kind := range c.kinds {
		here := kind.write(metav1.ObjectMeta{Namespace: c.w.localNS, Name: "taken-" + name}, 1)
		there := kind.write(metav1.ObjectMeta{Namespace: c.w.twinNS, Name: "taken-" + name}, 2)
		if name == "pod" {
			there = &offloadingv1beta1.ShadowPod{
				ObjectMeta: metav1.ObjectMeta{Namespace: c.w.twinNS, Name: "taken-" + name, Labels: map[string]string{api.LabelOrigin: consumerID}},
				Spec:       offloadingv1beta1.ShadowPodSpec{Pod: corev1.PodSpec{Containers: here.(*corev1.Pod).Spec.Containers}},
			}
		}
		if name == "slice" {
			there = &offloadingv1beta1.ShadowEndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: c.w.twinNS, Name: "taken-" + name}}
			there.(*offloadingv1beta1.ShadowEndpointSlice).Spec.Template.AddressType = discoveryv1.AddressTypeIPv4
		}
		if _, secret := there.(*corev1.Secret); secret {
			there.SetAnnotations(map[string]string{api.AnnotationShareWithConsumer: api.True})
		}
		if kind.back {
			c.w.create(c.w.near, here)
			c.w.create(c.w.far, there)
			out[name] = here
			continue
		}
		c.w.create(c.w.far, there)
		c.w.create(c.w.near, here)
		out[name] = there
	}
	return out
}

// letWork grants the engines the permissions that the chart grants to a virtual kubelet here and to its consumer in the provider, and enables the
// policies of the provider. One validation is left out: it compares a label with the client, and the webhook that sets the label does not run here.
func (w *world) letWork() {
	w.t.Helper()
	chart, err := installer.Chart("")
	if err != nil {
		w.t.Fatal(err)
	}
	manifest, err := installer.Render(chart, "liqo", map[string]any{
		"discovery":  map[string]any{"config": map[string]any{"clusterID": consumerID}},
		"offloading": map[string]any{"networkPolicies": map[string]any{"accept": true}, "ingressPolicy": map[string]any{"hosts": []any{"*"}}},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	for document := range strings.SplitSeq(manifest, "\n---\n") {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &obj.Object); err != nil {
			w.t.Fatal(err)
		}
		if obj.GetKind() == "ValidatingAdmissionPolicy" && obj.GetName() == "liqo-shadowpod" {
			w.setVariable(obj, "user", "variables.creator") // no webhook labels ShadowPods with their creator here
		}
		switch obj.GetKind() {
		case "ClusterRole":
			w.create(w.near, obj.DeepCopy())
			w.create(w.far, obj)
		case "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
			w.create(w.far, obj)
		}
	}
	node := offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: w.tenant, Name: w.nodeName}, Spec: offloadingv1beta1.VirtualNodeSpec{ClusterID: providerID}}
	role, subjects := kubelet.Rights(&node)
	w.create(w.near, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: w.nodeName}, RoleRef: role, Subjects: subjects})
	role, subjects = offload.OffloadedRights([]offloadingv1beta1.VirtualNode{node}, []string{providerID}, nil, nil)
	w.create(w.near, &rbacv1.RoleBinding{ObjectMeta: w.at("offloaded"), RoleRef: role, Subjects: subjects})
	role, subjects = offload.RemoteNamespaceRights(consumerID)
	w.create(w.far, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: w.twinNS, Name: "twin"}, RoleRef: role, Subjects: subjects})
	role.Name += "-clusterwide"
	w.create(w.far, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "clusterwide"}, RoleRef: role, Subjects: subjects})
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.twinNS}}
	if err := w.far.Patch(w.t.Context(), namespace, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"liqo.io/remote-cluster-id":"`+consumerID+`"}}}`))); err != nil {
		w.t.Fatal(err)
	}
	w.nearUser = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + w.tenant + ":" + w.nodeName, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + w.tenant, "system:authenticated"},
	}
	w.farUser = rest.ImpersonationConfig{UserName: "pool-0a1b2c3d4e5f", Groups: []string{consumerID, "system:authenticated"}}
	apitest.Both(w.t, func() { apitest.InForce(w.t, w.near) }, func() { apitest.InForce(w.t, w.far) })
}

// setVariable replaces the expression of a variable of a policy.
func (w *world) setVariable(policy *unstructured.Unstructured, name, expression string) {
	w.t.Helper()
	all, _, _ := unstructured.NestedSlice(policy.Object, "spec", "variables")
	at := slices.IndexFunc(all, func(v any) bool { return v.(map[string]any)["name"] == name })
	if at < 0 {
		w.t.Fatalf("policy %s has no variable %s", policy.GetName(), name)
	}
	all[at].(map[string]any)["expression"] = expression
	if err := unstructured.SetNestedSlice(policy.Object, all, "spec", "variables"); err != nil {
		w.t.Fatal(err)
	}
}

// TestEveryKindSurvivesOnAPIServers changes objects of every kind, with only the permissions of the chart, while watches break, the engine is killed,
// and each API server is killed once. Both sides agree in the end.
func TestEveryKindSurvivesOnAPIServers(t *testing.T) {
	near, far := apitest.APIServers(t)
	w := newWorld(t, near, far)
	w.nearLink = newLink(t, near)
	w.letWork()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := &churn{w: w, random: rand.New(rand.NewPCG(seed, 0)), kinds: churnedKinds(w), alive: map[string]bool{}}
	names := make([]string, 0, len(c.kinds))
	for name := range c.kinds {
		names = append(names, name)
	}
	some := func(steps int, near, far bool) {
		for range steps {
			c.step(names[c.random.IntN(len(names))], near, far)
		}
	}
	stop := w.start()
	anchor := w.service("anchor", func(s *corev1.Service) { s.Spec.Selector = map[string]string{"n": "1"} })
	w.there(&corev1.Service{}, anchor.Name, "the first one to follow", func() error { return nil })

	foreign := c.foreign()
	for range 30 {
		some(6, true, true)
		switch c.random.IntN(6) {
		case 0, 1:
			w.link.snap()
		case 2, 3:
			w.nearLink.snap()
		case 4:
			stop()
			stop = w.start()
		}
	}
	c.agree("after watches broke")
	for _, victim := range []struct {
		name      string
		config    *rest.Config
		side      client.Client
		near, far bool // which API servers stay up
	}{{"provider", far, w.far, true, false}, {"consumer", near, w.near, false, true}} {
		some(20, true, true)
		restart := apitest.Crash(t, victim.config)
		some(40, victim.near, victim.far)
		restart()
		apitest.Eventually(t, 2*time.Minute, "the API server of the "+victim.name+" to be back", func() error {
			return victim.side.List(t.Context(), &corev1.NamespaceList{})
		})
		some(20, true, true)
		c.agree("after the API server of the " + victim.name + " was killed")
	}
	for name := range foreign { // the engine retries these names until the objects are deleted
		side, namespace := w.near, w.localNS
		if c.kinds[name].back {
			side, namespace = w.far, w.twinNS
		}
		if err := side.Delete(t.Context(), c.kinds[name].write(metav1.ObjectMeta{Namespace: namespace, Name: "taken-" + name}, 1)); err != nil {
			t.Fatal(err)
		}
	}
	apitest.Eventually(t, 30*time.Second, "nothing to be written, as soon as it is heard that they are gone", func() error {
		if n := w.looks(); n != 0 {
			return fmt.Errorf("%d writes although nothing changed", n)
		}
		return nil
	})
	for name, before := range foreign {
		side := w.far
		if c.kinds[name].back {
			side = w.near
		} else if !w.heard(before.GetName() + ": " + cmp.Or(c.kinds[name].taken, "an object of that name exists")) {
			t.Errorf("%s: the user does not hear that the name is taken", name)
		}
		now := before.DeepCopyObject().(client.Object)
		if err := side.Get(t.Context(), client.ObjectKeyFromObject(before), now); err != nil || now.GetResourceVersion() != before.GetResourceVersion() {
			t.Errorf("%s of somebody else was touched: %v", name, err)
		}
	}
}
