package controllers

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
)

func testSystemAddresses(t *testing.T, c *cluster) {
	address := func(name string) func(*ipamv1alpha1.IP) bool {
		return func(ip *ipamv1alpha1.IP) bool { return ip.Spec.IP == name && ip.Status.IP != "" }
	}
	ip := func(name string) *ipamv1alpha1.IP {
		return &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: name}}
	}
	first := eventually(t, c, ip("node-one"), "an address for peers", address("192.0.2.1"))
	if first.Labels[ipamv1alpha1.LabelIPType] != ipamv1alpha1.IPTypeNode || first.Labels[api.LabelManaged] != api.True {
		t.Errorf("labels %v", first.Labels)
	}
	kubernetes, proxy := &corev1.Service{}, &corev1.Service{}
	if err := errors.Join(c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "kubernetes"}, kubernetes),
		c.Get(t.Context(), client.ObjectKey{Namespace: home, Name: "liqo-proxy"}, proxy)); err != nil {
		t.Fatal(err)
	}
	eventually(t, c, ip("api-server"), "the address of the API server", address(kubernetes.Spec.ClusterIP))
	eventually(t, c, ip("api-server-proxy"), "the address of the proxy", address(proxy.Spec.ClusterIP))

	three := c.node(t, "three", "192.0.2.3")
	virtual := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "virtual", Labels: map[string]string{api.LabelType: api.TypeVirtualNode}}}
	c.create(t, virtual)
	change(t, c, virtual, func(n *corev1.Node) {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.200"}}
	})
	eventually(t, c, ip("node-three"), "of a new node", address("192.0.2.3"))
	change(t, c, three, func(n *corev1.Node) { n.Status.Addresses[0].Address = "192.0.2.33" })
	eventually(t, c, ip("node-three"), "a new one for a new address", address("192.0.2.33"))
	c.delete(t, ip("node-three"))
	eventually(t, c, ip("node-three"), "made again", address("192.0.2.33"))
	c.delete(t, three)
	c.gone(t, ip("node-three"))
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: home, Name: "node-virtual"}, ip("")); err == nil {
		t.Error("a virtual node has an IP")
	}
	c.delete(t, virtual)
}

func configuration(id string, pods, external []string) *networkingv1beta1.Configuration {
	c := &networkingv1beta1.Configuration{ObjectMeta: peerMeta(id, id)}
	c.Spec.Remote.CIDR = networkingv1beta1.CIDRs{Pod: pods, External: external}
	return c
}

func configured(c *networkingv1beta1.Configuration) bool {
	condition := meta.FindStatusCondition(c.Status.Conditions, networkingv1beta1.ConditionCIDRsConfigured)
	return condition != nil && condition.Status == metav1.ConditionTrue && condition.ObservedGeneration == c.Generation && c.Status.Remote != nil
}

func testConfiguration(t *testing.T, c *cluster) {
	c.tenant(t, "milan")
	// The first range is our own, the second is free, and both clusters have the usual external CIDR.
	conf := configuration("milan", []string{"10.42.0.0/16", "10.99.0.0/16"}, []string{"10.70.0.0/16"})
	c.create(t, conf)
	eventually(t, c, conf, "ranges", configured)
	got := conf.Status.Remote.CIDR
	if len(got.Pod) != 2 || got.Pod[0] == "10.42.0.0/16" || got.Pod[1] != "10.99.0.0/16" || len(got.External) != 1 || got.External[0] == "10.70.0.0/16" {
		t.Errorf("ranges %+v", got)
	}
	if diff := cmp.Diff(networkingv1beta1.CIDRs{Pod: []string{"10.42.0.0/16"}, External: []string{"10.70.0.0/16"}}, conf.Spec.Local.CIDR); diff != "" {
		t.Errorf("spec.local (-want +got):\n%s", diff)
	}
	networks := &ipamv1alpha1.NetworkList{}
	if err := c.List(t.Context(), networks, client.InNamespace(conf.Namespace)); err != nil {
		t.Fatal(err)
	}
	types := map[string]string{}
	for _, n := range networks.Items {
		types[n.Name] = n.Labels[networkingv1beta1.LabelCIDRType]
		if !metav1.IsControlledBy(&n, conf) || n.Labels[api.LabelRemoteClusterID] != "milan" {
			t.Errorf("Network %s: labels %v, owners %v", n.Name, n.Labels, n.OwnerReferences)
		}
	}
	if diff := cmp.Diff(map[string]string{
		"milan-pod-10-42-0-0-16": "pod", "milan-pod-10-99-0-0-16": "pod", "milan-external-10-70-0-0-16": "external",
	}, types); diff != "" {
		t.Errorf("Networks (-want +got):\n%s", diff)
	}
	// If the peer changes one of its ranges, that range gets a new view, and the other one keeps its view.
	change(t, c, conf, func(conf *networkingv1beta1.Configuration) { conf.Spec.Remote.CIDR.Pod[1] = "10.98.0.0/16" })
	eventually(t, c, conf, "the new range", func(conf *networkingv1beta1.Configuration) bool {
		return configured(conf) && cmp.Equal(conf.Status.Remote.CIDR.Pod, []string{got.Pod[0], "10.98.0.0/16"})
	})
	c.gone(t, &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: conf.Namespace, Name: "milan-pod-10-99-0-0-16"}})
	testGrowingRange(t, c, conf)
	testInsertedRange(t, c, conf)
	testLocalRanges(t, c, conf)
	// A deleted Network is recreated.
	c.delete(t, &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: conf.Namespace, Name: "milan-pod-10-98-0-0-16"}})
	eventually(t, c, &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: conf.Namespace, Name: "milan-pod-10-98-0-0-16"}}, "made again",
		func(n *ipamv1alpha1.Network) bool {
			return n.DeletionTimestamp.IsZero() && n.Status.CIDR == "10.98.0.0/16"
		})
	eventually(t, c, conf, "complete again", configured)
}

// testGrowingRange: a range grows into a larger one. The Network of the smaller range is deleted first, so that the larger range can keep its address.
func testGrowingRange(t *testing.T, c *cluster, conf *networkingv1beta1.Configuration) {
	before := conf.Status.Remote.CIDR.Pod
	change(t, c, conf, func(conf *networkingv1beta1.Configuration) {
		conf.Spec.Remote.CIDR.Pod = append(conf.Spec.Remote.CIDR.Pod, "10.95.0.0/17")
	})
	eventually(t, c, conf, "the half", configured)
	half := &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: conf.Namespace, Name: "milan-pod-10-95-0-0-17"}}
	change(t, c, half, func(n *ipamv1alpha1.Network) { n.Finalizers = append(n.Finalizers, "example.org/slow") })
	change(t, c, conf, func(conf *networkingv1beta1.Configuration) { conf.Spec.Remote.CIDR.Pod[2] = "10.95.0.0/16" })
	eventually(t, c, conf, "the others, until the half is gone", func(conf *networkingv1beta1.Configuration) bool {
		return conf.Status.Remote != nil && cmp.Equal(conf.Status.Remote.CIDR.Pod, before) &&
			is(conf.Status.Conditions, networkingv1beta1.ConditionCIDRsConfigured, metav1.ConditionFalse, "", "after Network milan-pod-10-95-0-0-17 is gone")
	})
	eventually(t, c, half, "held by nobody else", func(n *ipamv1alpha1.Network) bool { return len(n.Finalizers) == 1 })
	change(t, c, half, func(n *ipamv1alpha1.Network) {
		n.Finalizers = slices.DeleteFunc(n.Finalizers, func(f string) bool { return f == "example.org/slow" })
	})
	eventually(t, c, conf, "the whole", func(conf *networkingv1beta1.Configuration) bool {
		return configured(conf) && cmp.Equal(conf.Status.Remote.CIDR.Pod, append(slices.Clone(before), "10.95.0.0/16"))
	})
}

// testInsertedRange: a range is inserted before all others and there is no free range for it. The other ranges keep their views.
func testInsertedRange(t *testing.T, c *cluster, conf *networkingv1beta1.Configuration) {
	before := slices.Clone(conf.Status.Ranges)
	change(t, c, conf, func(conf *networkingv1beta1.Configuration) {
		conf.Spec.Remote.CIDR.Pod = append([]string{"192.0.0.0/8"}, conf.Spec.Remote.CIDR.Pod...)
	})
	blocked := eventually(t, c, conf, "no room", func(conf *networkingv1beta1.Configuration) bool {
		return conf.Status.Remote == nil && is(conf.Status.Conditions, networkingv1beta1.ConditionCIDRsConfigured, metav1.ConditionFalse, "", "no other range of length /8 is free")
	})
	for _, r := range before {
		if !slices.Contains(blocked.Status.Ranges, r) {
			t.Errorf("range %s has lost its place: %+v", r.CIDR, blocked.Status.Ranges)
		}
	}
	change(t, c, conf, func(conf *networkingv1beta1.Configuration) { conf.Spec.Remote.CIDR.Pod = conf.Spec.Remote.CIDR.Pod[1:] })
	eventually(t, c, conf, "as before", func(conf *networkingv1beta1.Configuration) bool {
		return configured(conf) && cmp.Equal(conf.Status.Ranges, before)
	})
}

// testRangesOfLiqoctl: while this cluster has no Network for its service range, ranges that liqoctl read in a peer get views that this cluster chooses, until an
// administrator takes over the Configuration.
func testRangesOfLiqoctl(t *testing.T, c *cluster) {
	service := eventually(t, c, &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "service-cidr"}}, "there", func(*ipamv1alpha1.Network) bool { return true })
	c.delete(t, service.DeepCopy())
	c.gone(t, service.DeepCopy())
	defer c.create(t, &ipamv1alpha1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: service.Name, Labels: service.Labels, Annotations: service.Annotations}, Spec: service.Spec,
	})
	c.tenant(t, "verona")
	conf := configuration("verona", []string{"10.97.0.0/16"}, []string{"10.71.0.0/16"})
	metav1.SetMetaDataAnnotation(&conf.ObjectMeta, networkingv1beta1.AnnotationReportedByPeer, api.True)
	c.create(t, conf)
	eventually(t, c, conf, "ranges", configured)
	if view := conf.Status.Remote.CIDR.Pod[0]; view == "10.97.0.0/16" {
		t.Error("the range that the peer named keeps its addresses")
	}
	network := &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: conf.Namespace, Name: "verona-pod-10-97-0-0-16"}}
	eventually(t, c, network, "is named by the peer", func(n *ipamv1alpha1.Network) bool { return n.Labels[ipamv1alpha1.LabelNetworkNegotiated] == api.True })
	change(t, c, conf, func(conf *networkingv1beta1.Configuration) { conf.Annotations = nil })
	eventually(t, c, network, "is an administrator's", func(n *ipamv1alpha1.Network) bool { return n.Labels[ipamv1alpha1.LabelNetworkNegotiated] == "" })
}

// testLocalRanges: when the cluster gets another pod CIDR, the Configuration shows it, and when the cluster loses it, the Configuration no longer
// does.
func testLocalRanges(t *testing.T, c *cluster, conf *networkingv1beta1.Configuration) {
	more := &ipamv1alpha1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "pod-cidr-1", Labels: map[string]string{
			ipamv1alpha1.LabelNetworkType: ipamv1alpha1.NetworkTypePod, ipamv1alpha1.LabelNetworkNotRemapped: api.True,
		}}, Spec: ipamv1alpha1.NetworkSpec{CIDR: "10.93.0.0/16"},
	}
	c.create(t, more)
	eventually(t, c, conf, "both", func(conf *networkingv1beta1.Configuration) bool {
		return cmp.Equal(conf.Spec.Local.CIDR.Pod, []string{"10.42.0.0/16", "10.93.0.0/16"})
	})
	c.delete(t, more)
	eventually(t, c, conf, "one", func(conf *networkingv1beta1.Configuration) bool {
		return cmp.Equal(conf.Spec.Local.CIDR.Pod, []string{"10.42.0.0/16"})
	})
}

func testWrongConfigurations(t *testing.T, c *cluster) {
	c.tenant(t, "wrong")
	external := []string{"10.70.0.0/16"}
	named := func(name string, pods []string) *networkingv1beta1.Configuration {
		conf := configuration(name, pods, external)
		conf.Namespace = api.TenantNamespace("wrong")
		return conf
	}
	huge, v6, loopback, nobody := named("huge", []string{"10.0.0.0/7"}), named("v6", []string{"fd00::/48"}), named("loop", []string{"127.0.0.0/16"}), named("nobody", []string{"10.97.0.0/16"})
	nobody.Labels = nil
	for message, conf := range map[string]*networkingv1beta1.Configuration{
		`spec.remote.cidr.pod[0] is "fd00::/48"`: v6, "label liqo.io/remote-cluster-id is missing": nobody,
		"/7": huge, "spec.remote.cidr.pod[0] is 127.0.0.0/16": loopback,
	} {
		c.create(t, conf)
		eventually(t, c, conf, "says what is wrong", func(conf *networkingv1beta1.Configuration) bool {
			return conf.Status.Remote == nil && is(conf.Status.Conditions, networkingv1beta1.ConditionCIDRsConfigured, metav1.ConditionFalse, "", message) &&
				is(conf.Status.Conditions, kube.ConditionReady, metav1.ConditionFalse, "", message)
		})
		c.delete(t, conf)
	}
	foreign := &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: huge.Namespace, Name: "taken-pod-10-96-0-0-16"}, Spec: ipamv1alpha1.NetworkSpec{CIDR: "10.96.0.0/16"}}
	c.create(t, foreign)
	taken := named("taken", []string{"10.96.0.0/16"})
	c.create(t, taken)
	eventually(t, c, taken, "takes over no Network", func(conf *networkingv1beta1.Configuration) bool {
		return is(conf.Status.Conditions, networkingv1beta1.ConditionCIDRsConfigured, metav1.ConditionFalse, "", "does not belong to this Configuration")
	})
	c.delete(t, foreign)
	eventually(t, c, taken, "goes on when that is gone", configured)
	// If a cluster has two Configurations, the older one is used until it is deleted.
	second := named("twice", []string{"10.96.0.0/16"})
	second.Labels[api.LabelRemoteClusterID] = "taken"
	c.create(t, second)
	eventually(t, c, second, "is one too many", func(conf *networkingv1beta1.Configuration) bool {
		return is(conf.Status.Conditions, networkingv1beta1.ConditionCIDRsConfigured, metav1.ConditionFalse, "", "Configuration liqo-tenant-wrong/taken for cluster taken exists already")
	})
	c.delete(t, taken)
	eventually(t, c, second, "counts now", configured)
	c.delete(t, second)
}
