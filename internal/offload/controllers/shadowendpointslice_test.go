package controllers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload/kinds"
	"liqo.io/liqo/internal/offload/kinds/podrules"
	"liqo.io/liqo/test/apitest"
)

// plan is the network of these tests. Each consumer's own pod range is 10.0.0.0/16; this cluster sees it as 10.71.0.0/16 once a Configuration exists.
type plan struct{}

// Own returns two fixed ranges, and the ranges of the Networks in the consumer's namespace.
func (plan) Own(ctx context.Context, c client.Reader, consumer string) ([]netip.Prefix, error) {
	own := []netip.Prefix{netip.MustParsePrefix("10.200.0.0/16"), netip.MustParsePrefix("192.0.2.10/32")}
	var list ipamv1alpha1.NetworkList
	if err := c.List(ctx, &list, client.InNamespace("shop-"+consumer)); err != nil {
		return nil, err
	}
	for i := range list.Items {
		if prefix, err := netip.ParsePrefix(list.Items[i].Status.CIDR); err == nil {
			own = append(own, prefix)
		}
	}
	return own, nil
}

func (plan) Views(ctx context.Context, c client.Reader, provider string) ([]netip.Prefix, bool, error) {
	var list networkingv1beta1.ConfigurationList
	if err := c.List(ctx, &list, client.MatchingLabels{api.LabelRemoteClusterID: provider}); err != nil || len(list.Items) == 0 {
		return nil, true, err
	}
	return []netip.Prefix{netip.MustParsePrefix("10.71.0.0/16")}, list.Items[0].Status.Remote != nil, nil
}

func (plan) Translation(ctx context.Context, c client.Reader, consumer string) (func(netip.Addr) (netip.Addr, error), string, error) {
	var list networkingv1beta1.ConfigurationList
	if err := c.List(ctx, &list, client.MatchingLabels{api.LabelRemoteClusterID: consumer}); err != nil || len(list.Items) == 0 {
		return nil, "", err
	}
	if list.Items[0].Status.Remote == nil {
		return nil, "where it appears here is not known", nil
	}
	return func(a netip.Addr) (netip.Addr, error) {
		if !netip.MustParsePrefix("10.0.0.0/16").Contains(a) {
			return a, errors.New("it is not in a range of that cluster")
		}
		bytes := a.As4()
		bytes[1] = 71
		return netip.AddrFrom4(bytes), nil
	}, "", nil
}

func shadowSlice(namespace, name string, addresses ...string) *offloadingv1beta1.ShadowEndpointSlice {
	s := &offloadingv1beta1.ShadowEndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		Spec: offloadingv1beta1.ShadowEndpointSliceSpec{Template: offloadingv1beta1.EndpointSliceTemplate{
			AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: new(""), Port: new(int32(80)), Protocol: new(corev1.ProtocolTCP)}},
		}},
	}
	for _, address := range addresses {
		s.Spec.Template.Endpoints = append(s.Spec.Template.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address}, NodeName: new("x"), Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true)},
		})
	}
	return s
}

func sliceOfShadow(s *offloadingv1beta1.ShadowEndpointSlice) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name}}
}

// shows reports whether the slice has exactly these endpoints: address and readiness.
func shows(want ...string) func(*discoveryv1.EndpointSlice) error {
	return func(s *discoveryv1.EndpointSlice) error {
		have := []string{}
		for _, e := range s.Endpoints {
			have = append(have, fmt.Sprint(e.Addresses[0], " ", *e.Conditions.Ready))
		}
		if fmt.Sprint(have) != fmt.Sprint(want) {
			return fmt.Errorf("endpoints %v", have)
		}
		return nil
	}
}

// peered creates the ForeignCluster of a consumer with a working network, and a remote namespace for that consumer. The controllers know both.
func peered(t *testing.T, c *cluster, consumer, namespace string) *corev1beta1.ForeignCluster {
	t.Helper()
	remote := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{api.LabelRemoteClusterID: consumer}}}
	c.create(t, remote)
	apitest.Known(t, c.cached, remote)
	peer := &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: consumer}, Spec: corev1beta1.ForeignClusterSpec{ClusterID: consumer}}
	c.create(t, peer)
	network(t, c, peer, corev1beta1.StatusEstablished)
	apitest.Known(t, c.cached, peer)
	return peer
}

// network reports the state of the network to a peer. The transition time is a minute ago, so that the state counts at once.
func network(t *testing.T, c *cluster, peer *corev1beta1.ForeignCluster, status corev1beta1.ConditionStatus) {
	t.Helper()
	apitest.Eventually(t, within, "the state of a peer to be reported", func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(peer), peer); err != nil {
			return err
		}
		peer.Status.Role = corev1beta1.RoleConsumer
		peer.Status.Modules.Networking = corev1beta1.Module{Enabled: true, Conditions: []corev1beta1.Condition{{
			Type: corev1beta1.NetworkConnectionStatus, Status: status, LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Minute)),
		}}}
		return c.Status().Update(t.Context(), peer) // not a patch, because some fields of the status have no default
	})
}

func testEndpoints(t *testing.T, c *cluster) {
	peer := peered(t, c, "siena", "shop-siena")
	before := c.shadowWrites.in("shop-siena")
	shadow := shadowSlice("shop-siena", "web-abcde", "10.0.0.5", "10.0.0.6")
	shadow.Annotations = map[string]string{"note": "x", kinds.AnnotationLabels: "a"}
	c.create(t, shadow)
	slice := sliceOfShadow(shadow)
	eventually(t, c, slice, "the slice", shows("10.0.0.5 true", "10.0.0.6 true"))
	if err := has(slice.Labels, map[string]string{
		discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: "endpointslice.reflection.liqo.io", "liqo.io/managed-by": "shadowendpointslice",
	}); err != nil || len(slice.Annotations) != 1 || *slice.Endpoints[0].NodeName != "siena" {
		t.Errorf("%v, %+v", err, slice)
	}
	if owner := metav1.GetControllerOf(slice); owner == nil || owner.UID != shadow.UID {
		t.Errorf("owner %+v", owner)
	}
	if writes := c.shadowWrites.in("shop-siena") - before; writes != 1 {
		t.Errorf("a slice cost %d writes", writes)
	}

	// Changes by others are undone, changes of the ShadowEndpointSlice are applied, and a deleted EndpointSlice is recreated.
	change(t, c, slice, func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = []string{"10.200.0.9"} })
	eventually(t, c, slice, "the slice to be repaired", shows("10.0.0.5 true", "10.0.0.6 true"))
	change(t, c, shadow, func(s *offloadingv1beta1.ShadowEndpointSlice) {
		s.Spec.Template.Endpoints = s.Spec.Template.Endpoints[1:]
		s.Spec.Template.Endpoints[0].Conditions = discoveryv1.EndpointConditions{Ready: new(false), Serving: new(true), Terminating: new(true)}
	})
	eventually(t, c, slice, "the change", shows("10.0.0.6 false"))
	if e := slice.Endpoints[0].Conditions; !*e.Serving || !*e.Terminating {
		t.Errorf("conditions %+v", e)
	}
	c.remove(t, slice)
	eventually(t, c, slice, "the slice to come back", shows("10.0.0.6 false"))

	// The endpoint is ready while the network to the consumer works.
	change(t, c, shadow, func(s *offloadingv1beta1.ShadowEndpointSlice) {
		s.Spec.Template.Endpoints[0].Conditions = discoveryv1.EndpointConditions{Ready: new(true)}
	})
	eventually(t, c, slice, "the change", shows("10.0.0.6 true"))
	network(t, c, peer, corev1beta1.StatusError)
	eventually(t, c, slice, "no endpoint to be ready without a network", shows("10.0.0.6 false"))
	network(t, c, peer, corev1beta1.StatusEstablished)
	eventually(t, c, slice, "endpoints to be ready again", shows("10.0.0.6 true"))

	// A network with remapped ranges translates addresses once the translation is known. Until then no address is shown, and a condition says why.
	configuration := &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop-siena", Name: "siena", Labels: map[string]string{api.LabelRemoteClusterID: "siena"},
	}}
	configuration.Spec.Remote.CIDR.Pod = []string{"10.0.0.0/16"}
	c.create(t, configuration)
	eventually(t, c, slice, "no address whose place is not known", shows())
	eventually(t, c, shadow, "the condition", func(s *offloadingv1beta1.ShadowEndpointSlice) error {
		if condition := meta.FindStatusCondition(s.Status.Conditions, offloadingv1beta1.EndpointsAccepted); condition == nil ||
			condition.Reason != "NoTranslation" || !strings.Contains(condition.Message, "where it appears here is not known") {
			return fmt.Errorf("%+v", condition)
		}
		return nil
	})
	report(t, c, configuration, func(o *networkingv1beta1.Configuration) {
		o.Status.Remote = &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.CIDRs{Pod: []string{"10.71.0.0/16"}}}
	})
	eventually(t, c, slice, "the translated address", shows("10.71.0.6 true"))
	eventually(t, c, shadow, "the condition to go", func(s *offloadingv1beta1.ShadowEndpointSlice) error {
		if condition := meta.FindStatusCondition(s.Status.Conditions, offloadingv1beta1.EndpointsAccepted); condition != nil {
			return fmt.Errorf("%+v", condition)
		}
		return nil
	})

	// Nothing more is written while nothing changes.
	settled := c.shadowWrites.in("shop-siena")
	network(t, c, peer, corev1beta1.StatusEstablished)
	c.stays(t, "something was written although nothing changed", func() bool { return c.shadowWrites.in("shop-siena") == settled })

	// A later ShadowEndpointSlice of the same name gets an EndpointSlice of its own.
	old := slice.UID
	c.remove(t, shadow)
	c.gone(t, shadow)
	again := shadowSlice("shop-siena", "web-abcde", "10.0.0.7")
	c.create(t, again)
	eventually(t, c, slice, "the slice of the later one", func(s *discoveryv1.EndpointSlice) error {
		if s.UID == old {
			return errors.New("still that of the earlier one")
		}
		return shows("10.71.0.7 true")(s)
	})
}

func testHostileEndpoints(t *testing.T, c *cluster) {
	peered(t, c, "lucca", "shop-lucca")
	shadow := shadowSlice("shop-lucca", "web-abcde", "127.0.0.1", "169.254.169.254", "10.200.0.7", "192.0.2.10", "224.0.0.1", "0.0.0.0", "10.0.0.5")
	shadow.Labels[discoveryv1.LabelManagedBy] = "endpointslice-controller.k8s.io"
	shadow.Spec.Template.Endpoints[6].NodeName = new("master-0")
	shadow.Spec.Template.Endpoints[6].TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: "kube-system", Name: "etcd"}
	c.create(t, shadow)
	slice := sliceOfShadow(shadow)
	eventually(t, c, slice, "what is left of it", shows("10.0.0.5 true"))
	if e := slice.Endpoints[0]; *e.NodeName != "lucca" || e.TargetRef.Kind != "RemotePod" || slice.Labels[discoveryv1.LabelManagedBy] != offloadingv1beta1.EndpointSliceManager {
		t.Errorf("%+v", slice)
	}
	// An address of a range that now belongs to this cluster is no longer accepted as the consumer's.
	ours := &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-lucca", Name: "ours"}, Spec: ipamv1alpha1.NetworkSpec{CIDR: "10.0.0.0/24"}}
	c.create(t, ours)
	report(t, c, ours, func(n *ipamv1alpha1.Network) { n.Status.CIDR = n.Spec.CIDR })
	eventually(t, c, slice, "the range to be kept from the consumer", shows())
	c.remove(t, ours)
	eventually(t, c, slice, "the range to be the consumer's again", shows("10.0.0.5 true"))
	told := func(want bool) {
		t.Helper()
		eventually(t, c, shadow, "the condition", func(s *offloadingv1beta1.ShadowEndpointSlice) error {
			condition := meta.FindStatusCondition(s.Status.Conditions, offloadingv1beta1.EndpointsAccepted)
			if (condition != nil) != want || condition != nil && (condition.Status != metav1.ConditionFalse || condition.Reason != "AddressRefused" ||
				!strings.Contains(condition.Message, `endpoint "127.0.0.1" is left out: it is a loopback address`) || !strings.Contains(condition.Message, "and 3 more")) {
				return fmt.Errorf("%+v", condition)
			}
			return nil
		})
	}
	told(true)
	change(t, c, shadow, func(s *offloadingv1beta1.ShadowEndpointSlice) {
		s.Spec.Template.Endpoints = s.Spec.Template.Endpoints[6:]
	})
	told(false)

	// Nothing is created in a namespace that is no remote namespace, whatever the labels of the object are.
	c.namespace(t, "nobody", nil)
	stray := shadowSlice("nobody", "web", "10.0.0.5")
	stray.Labels[api.LabelOrigin] = "lucca"
	c.create(t, stray)
	c.stays(t, "an EndpointSlice was made in a namespace of nobody", func() bool {
		return client.IgnoreNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(stray), sliceOfShadow(stray))) == nil &&
			c.Get(t.Context(), client.ObjectKeyFromObject(stray), sliceOfShadow(stray)) != nil
	})
}

func testForeignSlice(t *testing.T, c *cluster) {
	peered(t, c, "pisa", "shop-pisa")
	for _, labels := range []map[string]string{nil, {offloadingv1beta1.LabelManagedBy: offloadingv1beta1.ManagedByShadowEndpointSlice}} {
		shadow := shadowSlice("shop-pisa", fmt.Sprintf("web-%d", len(labels)), "10.0.0.5")
		foreign := sliceOfShadow(shadow)
		foreign.Labels, foreign.AddressType = labels, discoveryv1.AddressTypeIPv4
		foreign.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"10.200.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}}
		c.create(t, foreign)
		c.create(t, shadow)
		c.stays(t, "a foreign slice was touched", func() bool {
			return c.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign) == nil && shows("10.200.0.1 true")(foreign) == nil && len(foreign.Labels) == len(labels)
		})
		c.remove(t, shadow)
	}
}

func testPodIPs(t *testing.T, c *cluster) {
	c.namespace(t, "shop", nil)
	make := func(name string) *corev1.Pod {
		no := false
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
			Spec: corev1.PodSpec{
				NodeName: "lucca-node", AutomountServiceAccountToken: &no, Containers: []corev1.Container{{Name: "web", Image: "web:1"}},
			},
		}
		c.create(t, pod)
		return pod
	}
	address := func(pod *corev1.Pod, ip string) {
		t.Helper()
		report(t, c, pod, func(p *corev1.Pod) {
			p.Status.Phase, p.Status.PodIP, p.Status.PodIPs = corev1.PodRunning, ip, []corev1.PodIP{{IP: ip}}
		})
	}
	offloaded := func(pod *corev1.Pod, uid string) {
		t.Helper()
		change(t, c, pod, func(p *corev1.Pod) {
			p.Labels, p.Annotations = map[string]string{offloadingv1beta1.LabelShadowPod: api.True}, map[string]string{podrules.AnnotationOffloaded: uid}
		})
	}
	ipOf := func(pod *corev1.Pod) *ipamv1alpha1.IP {
		return &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	}
	is := func(want string) func(*ipamv1alpha1.IP) error {
		return func(ip *ipamv1alpha1.IP) error {
			if ip.Spec.IP != want {
				return errors.New(ip.Spec.IP)
			}
			return nil
		}
	}
	web := make("web")
	offloaded(web, string(web.UID))
	address(web, "10.71.0.5")
	ip := ipOf(web)
	// An address of a provider without a view here is not exposed, nor is an address outside of its view.
	none := func(what string) {
		t.Helper()
		c.stays(t, what, func() bool { return apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(ip), ip)) })
	}
	c.create(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "lucca-node", Labels: map[string]string{
		api.LabelType: api.TypeVirtualNode, api.LabelRemoteClusterID: "lucca",
	}}})
	none("an IP was made before its provider was connected")
	configuration := &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "lucca", Labels: map[string]string{api.LabelRemoteClusterID: "lucca"},
	}}
	configuration.Spec.Remote.CIDR.Pod = []string{"10.0.0.0/16"}
	c.create(t, configuration)
	address(web, "192.0.2.10")
	apitest.Known(t, c.offloadedPods, web)
	report(t, c, configuration, func(o *networkingv1beta1.Configuration) {
		o.Status.Remote = &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.CIDRs{Pod: []string{"10.71.0.0/16"}}}
	})
	none("an IP was made of an address that is not where the provider is seen")
	before := c.shadowWrites.in("shop")
	address(web, "10.71.0.5")
	eventually(t, c, ip, "the IP", is("10.71.0.5"))
	if err := has(ip.Labels, map[string]string{"offloading.liqo.io/pod-name": "web", "offloading.liqo.io/pod-namespace": "shop"}); err != nil {
		t.Error(err)
	}
	if owner := metav1.GetControllerOf(ip); owner == nil || owner.UID != web.UID || owner.BlockOwnerDeletion != nil {
		t.Errorf("owner %+v", owner)
	}
	report(t, c, ip, func(ip *ipamv1alpha1.IP) { ip.Status.IP, ip.Status.CIDR = "10.70.0.4", "10.70.0.0/16" })
	c.stays(t, "an IP cost more than one write", func() bool { return c.shadowWrites.in("shop")-before == 1 })

	address(web, "10.71.0.6")
	eventually(t, c, ip, "the IP of the new address", is("10.71.0.6"))
	c.remove(t, ip)
	eventually(t, c, ip, "it to come back", is("10.71.0.6"))
	report(t, c, web, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	c.gone(t, ip)

	// A pod that only has the label of offloaded pods gets no IP object, and an IP object that a user created is not changed.
	pasted := make("pasted")
	offloaded(pasted, string(web.UID))
	address(pasted, "10.71.0.8")
	users := make("users")
	own := ipOf(users)
	own.Spec.IP = "192.0.2.77"
	c.create(t, own)
	offloaded(users, string(users.UID))
	address(users, "10.71.0.9")
	c.stays(t, "an IP was made that must not be", func() bool {
		return c.Get(t.Context(), client.ObjectKeyFromObject(pasted), ipOf(pasted)) != nil &&
			c.Get(t.Context(), client.ObjectKeyFromObject(own), own) == nil && own.Spec.IP == "192.0.2.77"
	})
	c.remove(t, own)
	other := ipOf(users)
	apart := time.Now()
	eventually(t, c, other, "the name to be taken once it is free", is("10.71.0.9"))
	t.Logf("after %s", time.Since(apart))

	c.remove(t, configuration)
	c.gone(t, other)
}
