package provider

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/network"
	"liqo.io/liqo/test/apitest"
)

const tenantOfMilan = "liqo-tenant-milan"

func configuration(change func(*networkingv1beta1.Configuration)) *networkingv1beta1.Configuration {
	c := &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{
		Namespace: tenantOfMilan, Name: "milan", Labels: map[string]string{api.LabelRemoteClusterID: "milan"},
	}}
	c.Spec.Local = &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.CIDRs{Pod: []string{"10.200.0.0/16"}, External: []string{"10.70.0.0/16"}}}
	c.Spec.Remote.CIDR = networkingv1beta1.CIDRs{Pod: []string{"10.200.0.0/16"}, External: []string{"10.70.0.0/16"}}
	c.Status.Remote = &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.CIDRs{Pod: []string{"10.71.0.0/16"}, External: []string{"10.72.0.0/16"}}}
	if change != nil {
		change(c)
	}
	return c
}

func virtualNode(name, cluster string) *offloadingv1beta1.VirtualNode {
	return &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: tenantOfMilan, Name: name}, Spec: offloadingv1beta1.VirtualNodeSpec{ClusterID: cluster}}
}

func networkOf(kind, spec, status string) *ipamv1alpha1.Network {
	return &ipamv1alpha1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: kind, Labels: map[string]string{ipamv1alpha1.LabelNetworkType: kind}},
		Spec:       ipamv1alpha1.NetworkSpec{CIDR: spec}, Status: ipamv1alpha1.NetworkStatus{CIDR: status},
	}
}

// viewOf returns the Network with the view of a peer's pod range in this cluster.
func viewOf(peer, cidr string) *ipamv1alpha1.Network {
	n := networkOf(peer+"-pod-0", "10.200.0.0/16", cidr)
	n.Namespace, n.Labels = "liqo-tenant-"+peer, map[string]string{api.LabelRemoteClusterID: peer}
	return n
}

func host(address string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
	return n
}

func runProvider(t *testing.T, opts Options, objects ...client.Object) (*State, client.WithWatch, <-chan struct{}) {
	t.Helper()
	var list []runtime.Object
	for _, obj := range objects {
		list = append(list, obj)
	}
	c := apitest.Listing{WithWatch: fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithRuntimeObjects(list...).Build(), Watched: make(chan struct{}, 100)}
	news := make(chan struct{}, 100)
	opts.ClusterID, opts.ForeignClusterID, opts.VirtualNode, opts.TenantNamespace = "rome", "milan", "milan-a", tenantOfMilan
	opts.ServicesReflected = true
	opts.Translation = func(configurations []networkingv1beta1.Configuration, clusterID string) (Translation, bool) {
		t, _, known := network.GatherTranslation(&network.Objects{Configurations: configurations}, clusterID)
		return Translation{Pods: t.Pods, External: t.External, ToView: t.ToView}, known
	}
	p := New(opts, func() { news <- struct{}{} })
	go func() { _ = p.Run(t.Context(), c) }()
	<-p.loaded
	for range 4 { // watches of Configurations, VirtualNodes, Networks and Nodes
		<-c.Watched
	}
	return p, c, news
}

func TestAddressesOfTheProvider(t *testing.T) {
	normal := Options{ReflectIPs: true, TranslateIPs: true}
	for name, row := range map[string]struct {
		opts    Options
		objects []client.Object
		pod     string // the local address for 10.200.0.5 of the provider; ! if it is refused
		host    string // the same for 192.0.2.1
		waiting string // the reason why EndpointSlices wait
	}{
		"no network of ours":                 {normal, nil, "10.200.0.5", "192.0.2.1", ""},
		"a network of ours":                  {normal, []client.Object{configuration(nil)}, "10.71.0.5", "!", ""},
		"one that is not ready":              {normal, []client.Object{configuration(func(c *networkingv1beta1.Configuration) { c.Status.Remote = nil })}, "", "", "does not have the ranges yet"},
		"one half ready":                     {normal, []client.Object{configuration(func(c *networkingv1beta1.Configuration) { c.Status.Remote.CIDR.External = nil })}, "", "", "does not have the ranges yet"},
		"one without our own ranges":         {normal, []client.Object{configuration(func(c *networkingv1beta1.Configuration) { c.Spec.Local = nil })}, "10.71.0.5", "!", "does not have the ranges yet"},
		"of another peer":                    {normal, []client.Object{configuration(func(c *networkingv1beta1.Configuration) { c.Name, c.Labels = "turin", nil })}, "10.200.0.5", "192.0.2.1", ""},
		"of the provider, named otherwise":   {normal, []client.Object{configuration(func(c *networkingv1beta1.Configuration) { c.Name = "turin" })}, "10.71.0.5", "!", ""},
		"of another peer, named alike":       {normal, []client.Object{configuration(func(c *networkingv1beta1.Configuration) { c.Labels[api.LabelRemoteClusterID] = "turin" })}, "10.200.0.5", "192.0.2.1", ""},
		"somebody else's network":            {Options{ReflectIPs: true}, []client.Object{configuration(nil)}, "10.200.0.5", "192.0.2.1", ""},
		"no network of ours, a node of ours": {normal, []client.Object{host("192.0.2.1")}, "10.200.0.5", "!", ""},
		"no network of ours, our pods":       {normal, []client.Object{networkOf("pod-cidr", "10.200.0.0/16", "10.200.0.0/16")}, "!", "192.0.2.1", ""},
		"no network of ours, another peer":   {normal, []client.Object{viewOf("turin", "10.200.0.0/16")}, "!", "192.0.2.1", ""},
		"a network of ours, the same ranges": {normal, []client.Object{configuration(nil), networkOf("pod-cidr", "10.200.0.0/16", "10.200.0.0/16"), host("10.71.0.5")}, "10.71.0.5", "!", ""},
		"addresses are nobody's concern":     {Options{TranslateIPs: true}, []client.Object{configuration(nil)}, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, _, _ := runProvider(t, row.opts, append(row.objects, virtualNode("milan-a", "milan"))...)
			for told, want := range map[string]string{"10.200.0.5": row.pod, "192.0.2.1": row.host} {
				got, err := p.PodIP(told)
				if refused := want == "!"; refused != (err != nil) || !refused && got != want || refused && got != "" {
					t.Errorf("%s: %q, %v, want %q", told, got, err, want)
				}
			}
			slices := p.EndpointSlices()
			if (row.waiting == "") != (slices.Waiting == "") || !strings.Contains(slices.Waiting, row.waiting) {
				t.Errorf("EndpointSlices wait for %q", slices.Waiting)
			}
			if services := p.Services(); services.Waiting != "" {
				t.Errorf("Services wait for %q", services.Waiting)
			}
			if slices.Translate && slices.Waiting == "" && (!slices.Native("10.200.7.7") || slices.Native("10.71.0.5") || slices.Native("x")) {
				t.Error("our own pods are not known")
			}
		})
	}
	p, _, _ := runProvider(t, normal, configuration(nil), virtualNode("milan-a", "milan"))
	for _, hostile := range []string{"127.0.0.1", "169.254.1.1", "0.0.0.0", "224.0.0.1", "::1", "no address"} {
		if got, err := p.PodIP(hostile); err == nil || got != "" {
			t.Errorf("%s is shown as %q", hostile, got)
		}
	}
}

// TestOneVirtualKubeletLeads: of several virtual kubelets for a provider, the first by name handles the objects of namespaces, until it is being
// deleted.
func TestOneVirtualKubeletLeads(t *testing.T) {
	first := virtualNode("milan-0", "milan")
	first.Finalizers = []string{"virtualnode-controller.liqo.io/finalizer"}
	p, c, news := runProvider(t, Options{ReflectIPs: true, TranslateIPs: true}, virtualNode("milan-a", "milan"), virtualNode("elsewhere", "turin"), first)
	if o := p.Services(); !strings.Contains(o.Waiting, "milan-0") {
		t.Errorf("it does not wait for the first: %q", o.Waiting)
	}
	if slices := p.EndpointSlices(); !slices.AtTarget("milan-0") || !slices.AtTarget("milan-a") || slices.AtTarget("elsewhere") {
		t.Error("the nodes of the provider are not known")
	}
	for len(news) > 0 {
		<-news
	}
	if err := c.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	select {
	case <-news:
	case <-time.After(10 * time.Second):
		t.Fatal("no news of a leader that leaves")
	}
	apitest.Eventually(t, 10*time.Second, "the next one to lead", func() error {
		if o := p.Services(); o.Waiting != "" {
			return &waiting{o.Waiting}
		}
		return nil
	})
	if !p.EndpointSlices().AtTarget("milan-0") {
		t.Error("a node that is drained stands for the provider no more")
	}
}

// TestUnavailableVirtualKubeletDoesNotLead: the next virtual kubelet leads without any event when the first has been unavailable for too long, and
// stops leading when the first is back.
func TestUnavailableVirtualKubeletDoesNotLead(t *testing.T) {
	first := virtualNode("milan-0", "milan")
	first.Status.Conditions = []offloadingv1beta1.VirtualNodeCondition{{
		Type: offloadingv1beta1.VirtualNodeVirtualKubelet, Status: offloadingv1beta1.VirtualNodeCreating, LastTransitionTime: metav1.NewTime(time.Now().Add(-55 * time.Second)),
	}}
	second := virtualNode("milan-a", "milan")
	second.Status.Conditions = []offloadingv1beta1.VirtualNodeCondition{{Type: offloadingv1beta1.VirtualNodeVirtualKubelet, Status: offloadingv1beta1.VirtualNodeRunning}}
	p, c, _ := runProvider(t, Options{}, first, second)
	if o := p.Services(); !strings.Contains(o.Waiting, "milan-0") {
		t.Errorf("it does not wait for the first, which may come back: %q", o.Waiting)
	}
	apitest.Eventually(t, 20*time.Second, "the second to lead", func() error {
		if o := p.Services(); o.Waiting != "" {
			return &waiting{o.Waiting}
		}
		return nil
	})
	first.Status.Conditions[0].Status = offloadingv1beta1.VirtualNodeRunning
	if err := c.Update(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, 10*time.Second, "the first to lead again", func() error {
		if o := p.Services(); !strings.Contains(o.Waiting, "milan-0") {
			return &waiting{"for nobody"}
		}
		return nil
	})
}

type waiting struct{ what string }

func (w *waiting) Error() string { return "it waits: " + w.what }

func TestClassesOfTheProvider(t *testing.T) {
	p, _, _ := runProvider(t, Options{}, virtualNode("milan-a", "milan"))
	if balancers, ingresses := p.Services().LoadBalancerClass, p.Ingresses().Class; balancers != "" || ingresses != "" {
		t.Errorf("classes %q, %q of a provider that says none", balancers, ingresses)
	}
	node := virtualNode("milan-a", "milan")
	node.Spec.LoadBalancerClasses = []authv1beta1.LoadBalancerType{{LoadBalancerClassName: "a"}, {LoadBalancerClassName: "b", Default: true}}
	node.Spec.IngressClasses = []authv1beta1.IngressType{{IngressClassName: "c"}, {IngressClassName: "d", Default: true}}
	p, c, news := runProvider(t, Options{}, node)
	if balancers, ingresses := p.Services().LoadBalancerClass, p.Ingresses().Class; balancers != "b" || ingresses != "d" {
		t.Errorf("classes %q, %q", balancers, ingresses)
	}
	for len(news) > 0 {
		<-news
	}
	node.Spec.IngressClasses[1].IngressClassName = "e"
	apitest.Eventually(t, 10*time.Second, "news of another class", func() error {
		// The fake server sends no event for a change between a list and its watch, so the test repeats the change.
		if err := c.Update(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		select {
		case <-news:
			return nil
		case <-time.After(50 * time.Millisecond):
			return &waiting{"nobody told of it"}
		}
	})
	if class := p.Ingresses().Class; class != "e" {
		t.Errorf("class %q after the provider chose another", class)
	}
}

// TestAddressBlocksOfThisCluster: where addresses are translated, an address block of this cluster means other addresses in the provider.
func TestAddressBlocksOfThisCluster(t *testing.T) {
	node := virtualNode("milan-a", "milan")
	p, _, _ := runProvider(t, Options{ReflectIPs: true, TranslateIPs: true}, node, configuration(nil), networkOf("pod-cidr", "10.210.0.0/16", "10.210.0.0/16"), host("192.0.2.1"))
	ours := p.Policies(nil).Ours
	for block, want := range map[string]string{"10.0.0.0/8": "10.210.0.0/16", "10.210.7.0/24": "10.210.0.0/16", "192.0.2.0/24": "192.0.2.1/32", "203.0.113.0/24": ""} {
		got, is := ours(netip.MustParsePrefix(block))
		if is != (want != "") || is && got.String() != want {
			t.Errorf("%s has addresses of %s (%v), want %q", block, got, is, want)
		}
	}
	if p, _, _ := runProvider(t, Options{}, node); p.Policies(nil).Ours != nil {
		t.Error("addresses that nobody translates are others there")
	}
}
