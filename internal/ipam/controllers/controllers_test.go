package controllers

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/internal/reasons"
	"liqo.io/liqo/test/apitest"
)

// controllerOptions allows several managers in one process.
func controllerOptions() controllerconfig.Controller {
	return controllerconfig.Controller{SkipNameValidation: ptr(true)}
}

// TestControllersOnAPIServer goes through the lifetime of a cluster's ranges and addresses, with the permissions that the chart grants.
func TestControllersOnAPIServer(t *testing.T) {
	c := newCluster(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "rome-1"}}
	virtual := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan", Labels: map[string]string{api.LabelType: api.TypeVirtualNode}}}
	c.create(t, node, virtual)
	for node, address := range map[*corev1.Node]string{node: "172.30.1.2", virtual: "10.33.0.7"} {
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
		if err := c.Status().Update(t.Context(), node); err != nil {
			t.Fatal(err)
		}
	}
	stop := c.run(t)

	// The Networks of the chart: the pod CIDR of the other address family is left out, and the ranges of this cluster are not remapped.
	for name, cidr := range map[string]string{
		"pod-cidr": "10.200.0.0/16", "service-cidr": "10.90.0.0/16", "external-cidr": "10.70.0.0/16", "internal-cidr": "10.80.0.0/16",
		"reserved-10-71-0-0-16": "10.71.0.0/16", "reserved-192-168-0-0-16": "192.168.0.0/16",
	} {
		if n := c.network(t, liqo, name, cidr, reasons.Reconciled); len(n.Finalizers) != 0 {
			t.Errorf("Network %s of the chart has finalizers %v: it would outlive the installation", name, n.Finalizers)
		}
	}

	// A peer has the same ranges as this cluster, and its nodes are in the same network.
	c.namespace(t, "milan")
	c.create(t, newNetwork("milan", "pod", "10.200.0.0/16"))
	c.network(t, "milan", "pod", "10.201.0.0/16", reasons.Reconciled)
	c.create(t, newNetwork("milan", "external", "10.70.0.0/16"), newNetwork("milan", "nodes", "172.30.0.0/16"), newNetwork("milan", "virtual", "10.33.0.0/16"))
	c.network(t, "milan", "external", "10.72.0.0/16", reasons.Reconciled)
	c.network(t, "milan", "nodes", "172.31.0.0/16", reasons.Reconciled)
	c.network(t, "milan", "virtual", "10.33.0.0/16", reasons.Reconciled)
	c.told(t, "milan", "pod", reasons.Remapped,
		"range 10.200.0.0/16 appears as 10.201.0.0/16 in this cluster, because it overlaps 10.200.0.0/16 (Network liqo/pod-cidr)")

	// No range is free: the condition names the conflicting ranges. The Network gets a range as soon as one is released.
	c.create(t, newNetwork("milan", "big-1", "10.0.0.0/8"))
	full := c.network(t, "milan", "big-1", "", reasons.Exhausted)
	if message := full.Status.Conditions[0].Message; !strings.Contains(message, "10.0.0.0/8 overlaps 10.33.0.0/16 (Network milan/virtual)") || !strings.Contains(message, "/8 is free in the pools") {
		t.Errorf("told %q", message)
	}
	c.told(t, "milan", "big-1", reasons.Exhausted, "10.0.0.0/8")
	c.remove(t, full)
	c.gone(t, full)

	c.create(t, newNetwork("milan", "second", "10.200.0.0/16"))
	second := c.network(t, "milan", "second", "10.202.0.0/16", reasons.Reconciled)
	c.remove(t, second)
	c.gone(t, second)
	c.create(t, newNetwork("milan", "third", "10.202.0.0/16"))
	c.network(t, "milan", "third", "10.202.0.0/16", reasons.Reconciled)

	testAddresses(t, c)
	testService(t, c)
	testEnding(t, c)

	// A restart changes nothing.
	before := c.everything(t)
	stop()
	c.run(t)
	c.create(t, newIP("milan", "after", "1.1.1.1"))
	after := c.ip(t, "milan", "after", reasons.Reconciled)
	c.remove(t, after)
	c.gone(t, after)
	if now := c.everything(t); now != before {
		t.Errorf("after a restart:\n%s\nbefore:\n%s", now, before)
	}
}

func testAddresses(t *testing.T, c *cluster) {
	c.create(t, newIP("milan", "host", "172.16.9.9"))
	host := c.ip(t, "milan", "host", reasons.Reconciled)
	if external := netip.MustParsePrefix("10.70.0.0/16"); host.Status.CIDR != external.String() || !external.Contains(netip.MustParseAddr(host.Status.IP)) {
		t.Errorf("status %+v", host.Status)
	}
	host.Status.IP = "10.70.9.9"
	if err := c.Status().Update(t.Context(), host); err == nil || !strings.Contains(err.Error(), "status.ip is immutable once set") {
		t.Errorf("an address was changed: %v", err)
	}

	// An IP waits for the Network that its networkRef names. That Network can't be deleted while IPs have its addresses.
	own := newIP("milan", "own", "172.16.9.8")
	own.Spec.NetworkRef = &corev1.ObjectReference{Name: "own"}
	c.create(t, own)
	c.ip(t, "milan", "own", reasons.WaitingForNetwork)
	c.create(t, newNetwork("milan", "own", "10.40.0.0/30"))
	own = c.ip(t, "milan", "own", reasons.NotExternal)
	crowd := newIP("milan", "crowd", "172.16.9.7")
	crowd.Spec.NetworkRef = own.Spec.NetworkRef
	third := newIP("milan", "third", "172.16.9.6")
	third.Spec.NetworkRef = own.Spec.NetworkRef
	c.create(t, crowd)
	c.ip(t, "milan", "crowd", reasons.NotExternal)
	c.create(t, third)
	c.ip(t, "milan", "third", reasons.Exhausted)
	c.remove(t, own)
	if got := c.ip(t, "milan", "third", reasons.NotExternal); got.Status.IP != own.Status.IP {
		t.Errorf("the address %s was released, and %s given", own.Status.IP, got.Status.IP)
	}
	network := newNetwork("milan", "own", "")
	c.remove(t, network)
	c.network(t, "milan", "own", "10.40.0.0/30", reasons.InUse)
	c.remove(t, third)
	c.remove(t, crowd)
	c.gone(t, network)

	// IPs have an address of a former external CIDR: the controller deletes the IP of a node, so that it is recreated, and reports the IP of a user.
	lost := func(name string, labels map[string]string) *ipamv1alpha1.IP {
		ip := newIP("milan", name, "172.16.9.4")
		ip.Labels, ip.Spec.NetworkRef = labels, &corev1.ObjectReference{Name: "late"}
		c.create(t, ip)
		ip = c.ip(t, "milan", name, reasons.WaitingForNetwork)
		ip.Status.IP, ip.Status.CIDR = "10.99.0.9", "10.99.0.0/16"
		apitest.Eventually(t, within, "the status of IP "+name, func() error { return c.Status().Update(t.Context(), ip) })
		return ip
	}
	system, users := lost("node-x", map[string]string{ipamv1alpha1.LabelIPType: ipamv1alpha1.IPTypeNode}), lost("users", nil)
	c.create(t, newNetwork("milan", "late", "10.41.0.0/30"))
	c.gone(t, system)
	c.ip(t, "milan", "users", reasons.Conflict)
	c.remove(t, users)

	// An IP with the finalizers of other versions can be deleted.
	old := newIP("milan", "old", "172.16.9.5")
	old.Finalizers = []string{ipamv1alpha1.FinalizerIP, ipamv1alpha1.FinalizerIPMapping}
	c.create(t, old)
	c.remove(t, old)
	c.gone(t, old)

	c.create(t, newIP("milan", "metadata", "169.254.169.254"))
	c.ip(t, "milan", "metadata", reasons.Invalid)
}

func testService(t *testing.T, c *cluster) {
	ip := newIP("milan", "printer", "172.16.3.3")
	ip.Spec.ServiceTemplate = &ipamv1alpha1.ServiceTemplate{
		Metadata: ipamv1alpha1.ObjectMeta{Labels: map[string]string{"floor": "2"}},
		Spec:     corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "ipp", Port: 80, TargetPort: intstr.FromInt32(631)}}},
	}
	c.create(t, ip)
	c.ip(t, "milan", "printer", reasons.Reconciled)
	service, slice := &corev1.Service{}, &discoveryv1.EndpointSlice{}
	key := client.ObjectKey{Namespace: "milan", Name: "printer"}
	read := func() {
		t.Helper()
		if err := errors.Join(c.Get(t.Context(), key, service), c.Get(t.Context(), key, slice)); err != nil {
			t.Fatal(err)
		}
	}
	read()
	if service.Labels["floor"] != "2" || service.Labels[api.LabelManaged] != api.True || service.Spec.ClusterIP == "" || len(service.Spec.Selector) != 0 {
		t.Errorf("the Service: %+v", service)
	}
	if slice.Endpoints[0].Addresses[0] != "172.16.3.3" || *slice.Ports[0].Port != 631 || slice.Labels[discoveryv1.LabelServiceName] != "printer" {
		t.Errorf("the EndpointSlice: %+v", slice)
	}

	// The EndpointSlice is recreated after its deletion, follows the template, and is deleted when the template is removed.
	c.remove(t, slice)
	eventually := func(what string, check func() error) {
		t.Helper()
		apitest.Eventually(t, within, what, check)
	}
	eventually("the EndpointSlice to be back", func() error { return c.Get(t.Context(), key, &discoveryv1.EndpointSlice{}) })
	change := func(do func(*ipamv1alpha1.IP)) {
		t.Helper()
		apitest.Eventually(t, within, "the IP to be changed", func() error {
			if err := c.Get(t.Context(), key, ip); err != nil {
				return err
			}
			do(ip)
			return c.Update(t.Context(), ip)
		})
	}
	change(func(ip *ipamv1alpha1.IP) { ip.Spec.ServiceTemplate.Spec.Ports[0].TargetPort = intstr.FromInt32(9100) })
	eventually("the port to be changed", func() error {
		read()
		if *slice.Ports[0].Port != 9100 || service.Spec.Ports[0].TargetPort.IntVal != 9100 {
			return fmt.Errorf("ports %v and %v", slice.Ports, service.Spec.Ports)
		}
		return nil
	})
	change(func(ip *ipamv1alpha1.IP) { ip.Spec.ServiceTemplate.Spec.Ports[0].Port = 99999 })
	c.ip(t, "milan", "printer", reasons.ServiceRefused)
	change(func(ip *ipamv1alpha1.IP) { ip.Spec.ServiceTemplate.Spec.Selector = map[string]string{"a": "b"} })
	c.ip(t, "milan", "printer", reasons.Invalid)
	read() // an invalid template deletes nothing
	change(func(ip *ipamv1alpha1.IP) { ip.Spec.ServiceTemplate = nil })
	c.gone(t, service)
	c.gone(t, slice)
	c.ip(t, "milan", "printer", reasons.Reconciled)

	// A Service that another owner created is not changed.
	foreign := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "milan", Name: "foreign"}, Spec: corev1.ServiceSpec{
		Ports: []corev1.ServicePort{{Port: 1}}, Selector: map[string]string{"app": "foreign"},
	}}
	c.create(t, foreign)
	thief := newIP("milan", "thief", "172.16.3.4")
	thief.Spec.ServiceTemplate = &ipamv1alpha1.ServiceTemplate{
		Metadata: ipamv1alpha1.ObjectMeta{Name: "foreign"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 2}}},
	}
	c.create(t, thief)
	got := c.ip(t, "milan", "thief", reasons.Conflict)
	if got.Status.IP == "" || !strings.Contains(got.Status.Conditions[0].Message, "Service milan/foreign") {
		t.Errorf("status %+v", got.Status)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign); err != nil || foreign.Spec.Ports[0].Port != 1 {
		t.Errorf("the foreign Service: %v %v", foreign.Spec.Ports, err)
	}
}

// testEnding: a namespace that is being deleted accepts no Service. The controller reports that and does not retry it as an error.
func testEnding(t *testing.T, c *cluster) {
	c.namespace(t, "ending")
	ip := newIP("ending", "printer", "172.16.3.5")
	ip.Spec.ServiceTemplate = &ipamv1alpha1.ServiceTemplate{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	c.create(t, ip)
	c.ip(t, "ending", "printer", reasons.Reconciled)
	c.remove(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ending"}}) // it stays terminating, because no namespace controller runs
	c.remove(t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ending", Name: "printer"}})
	got := c.ip(t, "ending", "printer", reasons.ServiceRefused)
	if message := got.Status.Conditions[0].Message; message != "namespace ending is being deleted, and accepts no Service" {
		t.Errorf("told %q", message)
	}
	c.remove(t, ip)
	c.gone(t, ip)
}

// told waits for an Event about an object whose note contains part.
func (c *cluster) told(t *testing.T, namespace, name, reason, part string) {
	t.Helper()
	apitest.Eventually(t, within, "event "+reason, func() error {
		var list eventsv1.EventList
		if err := c.List(t.Context(), &list, client.InNamespace(namespace)); err != nil {
			return err
		}
		for _, event := range list.Items {
			if event.Regarding.Name == name && event.Reason == reason && strings.Contains(event.Note, part) {
				return nil
			}
		}
		return fmt.Errorf("none about %s with %q among %d", name, part, len(list.Items))
	})
}

// everything returns the values of all Networks and IPs, and the times of their last writes.
func (c *cluster) everything(t *testing.T) string {
	t.Helper()
	var networks ipamv1alpha1.NetworkList
	var ips ipamv1alpha1.IPList
	if err := errors.Join(c.List(t.Context(), &networks), c.List(t.Context(), &ips)); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, n := range networks.Items {
		fmt.Fprintln(&out, n.Namespace, n.Name, n.Status.CIDR, n.ResourceVersion)
	}
	for _, ip := range ips.Items {
		fmt.Fprintln(&out, ip.Namespace, ip.Name, ip.Status.IP, ip.ResourceVersion)
	}
	return out.String()
}
