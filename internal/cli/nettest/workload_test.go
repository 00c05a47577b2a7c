package nettest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/offload/kinds/podrules"
	"liqo.io/liqo/test/clitest/fakecluster"
)

func testedNodeObject(name, address string, labels map[string]string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP, Address: address}}},
	}
}

func testedPodObject(name string, ready bool, labels map[string]string) *corev1.Pod {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf("rome"), Name: name, Labels: labels},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: status, Reason: "Probe", Message: "it does not answer"},
		}},
	}
}

func testedSlice(pods ...string) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespaceOf("rome"), Name: "slice", Labels: map[string]string{discoveryv1.LabelServiceName: testName},
	}}
	for _, pod := range pods {
		name, address, _ := strings.Cut(pod, "=")
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}, TargetRef: &corev1.ObjectReference{Name: name}})
	}
	return slice
}

// TestTestedWorld: the checks start when every pod runs and every cluster knows every address. Before that, the command names what is missing.
func TestTestedWorld(t *testing.T) {
	replica := func(of string) map[string]string { return map[string]string{testLabel: testName, testClusterLabel: of} }
	host := func(ready bool) *corev1.Pod {
		pod := testedPodObject("h", ready, map[string]string{testLabel: testHosts})
		pod.Namespace = hostsNamespaceOf("rome")
		return pod
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf("rome"), Name: testName}}
	rome := fakecluster.New("rome",
		testedNodeObject("rome-1", "172.16.0.1", map[string]string{taintControlPlane: ""}), testedNodeObject("milan", "10.0.0.9", map[string]string{api.LabelRemoteClusterID: "milan"}),
		testedPodObject("r", true, replica("rome")), testedPodObject("m", true, replica("milan")), host(true),
		service.DeepCopy(), testedSlice("r=10.1.0.1", "m=10.71.0.1"))
	milan := fakecluster.New("milan", testedNodeObject("milan-1", "172.16.0.1", nil))
	run := &networkTest{options: &testNetworkOptions{}, consumer: rome, providers: []*session.Cluster{milan}}
	missing := func(want string) {
		t.Helper()
		if _, why, err := run.gather(t.Context()); err != nil || !strings.Contains(why, want) {
			t.Errorf("%q, %v, want %q", why, err, want)
		}
	}
	create := func(object client.Object) {
		t.Helper()
		if err := milan.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	missing("cluster milan has no pod in the host network")
	create(host(false))
	missing("pod h of cluster milan is not ready")
	create(testedPodObject("m", true, replica("milan")))
	missing("pod h of cluster milan is not ready")
	ready := host(true)
	if err := milan.Status().Update(t.Context(), ready); err != nil {
		t.Fatal(err)
	}
	missing("cluster milan has no Service network-test")
	create(service.DeepCopy())
	missing("has 0 ready endpoints, and has to have 2")
	create(testedSlice("m=10.1.0.1", "r=10.72.0.1"))

	unavailable := testedPodObject("m", true, replica("milan"))
	unavailable.Labels[podrules.LabelRemoteUnavailable] = "true"
	if err := rome.Update(t.Context(), unavailable); err != nil {
		t.Fatal(err)
	}
	if _, _, err := run.gather(t.Context()); err == nil || !strings.Contains(err.Error(), "the network does not work everywhere: cluster milan") {
		t.Errorf("milan is unreachable: %v", err)
	}
	delete(unavailable.Labels, podrules.LabelRemoteUnavailable)
	if err := rome.Update(t.Context(), unavailable); err != nil {
		t.Fatal(err)
	}

	world, why, err := run.gather(t.Context())
	if err != nil || why != "" {
		t.Fatalf("%q, %v", why, err)
	}
	address := netip.MustParseAddr
	want := &testedWorld{
		replicas: map[string]string{"m": "milan", "r": "rome"},
		clusters: []testedCluster{
			{
				id: "rome", pods: []string{"r"}, hosts: []string{"h"}, endpoints: []testedEndpoint{{address("10.1.0.1"), "r"}, {address("10.71.0.1"), "m"}},
				nodes: []testedNode{{"rome-1", address("172.16.0.1"), true}},
			},
			{
				id: "milan", pods: []string{"m"}, hosts: []string{"h"}, endpoints: []testedEndpoint{{address("10.1.0.1"), "m"}, {address("10.72.0.1"), "r"}},
				nodes: []testedNode{{"milan-1", address("172.16.0.1"), false}},
			},
		},
	}
	if diff := cmp.Diff(want, world, cmp.AllowUnexported(testedWorld{}, testedCluster{}, testedNode{}, testedEndpoint{}), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
}

// TestTestedWorkload: one server for each node of each cluster, which the nodes of its own cluster report. A second pass changes nothing.
func TestTestedWorkload(t *testing.T) {
	rome := fakecluster.New("rome")
	for range 2 {
		for id, here := range map[string]bool{"rome": true, "milan": false} {
			if err := ensureReplicas(t.Context(), rome, namespaceOf("rome"), id, here, 2, "image:1"); err != nil {
				t.Fatal(err)
			}
		}
		if err := ensureHosts(t.Context(), rome, namespaceOf("rome"), "image:1"); err != nil {
			t.Fatal(err)
		}
	}
	for id, operator := range map[string]corev1.NodeSelectorOperator{"rome": corev1.NodeSelectorOpDoesNotExist, "milan": corev1.NodeSelectorOpIn} {
		var deployment appsv1.Deployment
		if err := rome.Get(t.Context(), client.ObjectKey{Namespace: namespaceOf("rome"), Name: testName + "-" + id}, &deployment); err != nil {
			t.Fatal(err)
		}
		pod := deployment.Spec.Template.Spec
		where := pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0]
		if *deployment.Spec.Replicas != 2 || where.Key != api.LabelRemoteClusterID || where.Operator != operator || pod.HostNetwork ||
			pod.Containers[0].Image != "image:1" || pod.Containers[0].ImagePullPolicy != corev1.PullIfNotPresent {
			t.Errorf("%s: %+v", id, deployment.Spec)
		}
		if deployment.ResourceVersion != "1" {
			t.Errorf("%s was written more than once: resource version %s", id, deployment.ResourceVersion)
		}
	}
}

// TestTestServersSettle: the command waits until all test servers run, and says what it waits for if the time is over. An error that does not pass ends the wait.
func TestTestServersSettle(t *testing.T) {
	replica := map[string]string{testLabel: testName, testClusterLabel: "rome"}
	world := func(options *testNetworkOptions, objects ...client.Object) (*networkTest, *bytes.Buffer) {
		said := &bytes.Buffer{}
		host := testedPodObject("h", true, map[string]string{testLabel: testHosts})
		host.Namespace = hostsNamespaceOf("rome")
		rome := fakecluster.New("rome", append(objects, testedNodeObject("rome-1", "172.16.0.1", nil), host,
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf("rome"), Name: testName}}, testedSlice("r=10.1.0.1"))...)
		rome.Console = console.New(io.Discard, said, false)
		return &networkTest{options: options, consumer: rome}, said
	}
	synctest.Test(t, func(t *testing.T) {
		run, said := world(&testNetworkOptions{}, testedPodObject("r", false, replica))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() {
			time.Sleep(10 * time.Second)
			if err := run.consumer.Status().Update(ctx, testedPodObject("r", true, replica)); err != nil {
				t.Error(err)
			}
		}()
		if found, err := run.settled(ctx); err != nil || len(found.replicas) != 1 || !strings.Contains(said.String(), "1 test servers run, and all clusters know them") {
			t.Errorf("%+v, %v: %s", found, err, said)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		run, _ := world(&testNetworkOptions{}, testedPodObject("r", false, replica))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := run.settled(ctx)
		for _, want := range []string{"the test servers", "timed out", "pod r is not ready"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		run, _ := world(&testNetworkOptions{}, testedPodObject("r", true, replica))
		run.consumer.WithWatch = interceptor.NewClient(run.consumer.WithWatch, interceptor.Funcs{
			List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
				return apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no right"))
			},
		})
		began := time.Now()
		if _, err := run.settled(t.Context()); err == nil || !strings.Contains(err.Error(), "no right") || time.Since(began) > 0 {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

// TestOutsideThroughIPs: with --ip, pods of a cluster use the address that the IP object of each connected cluster has there. The command waits until there is one.
func TestOutsideThroughIPs(t *testing.T) {
	outside := func(address string) *ipamv1alpha1.IP {
		return &ipamv1alpha1.IP{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf("rome"), Name: testOutsideAddress}, Status: ipamv1alpha1.IPStatus{IP: address},
		}
	}
	configuration := func(remapped string) *networkingv1beta1.Configuration {
		out := &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{
			Namespace: api.TenantNamespace("milan"), Name: "milan", Labels: map[string]string{api.LabelRemoteClusterID: "milan"},
		}}
		ranges := func(pod, external string) networkingv1beta1.ClusterConfig {
			return networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.CIDRs{Pod: []string{pod}, External: []string{external}}}
		}
		local := ranges("10.1.0.0/16", "10.70.0.0/16")
		out.Spec.Local, out.Spec.Remote = &local, ranges("10.2.0.0/16", "10.70.0.0/16")
		if remapped != "" {
			view := ranges("10.2.0.0/16", remapped)
			out.Status.Remote = &view
			out.Status.Ranges = []networkingv1beta1.RemoteRange{
				{Type: "pod", CIDR: "10.2.0.0/16", SeenAs: "10.2.0.0/16"}, {Type: "external", CIDR: "10.70.0.0/16", SeenAs: remapped},
			}
		}
		return out
	}
	for name, row := range map[string]struct {
		rome, milan []client.Object
		why, err    string
		want        []string
	}{
		"not connected":  {nil, nil, "", "", nil},
		"connected":      {[]client.Object{configuration("10.71.0.0/16")}, []client.Object{outside("10.70.0.9")}, "", "", []string{"10.71.0.9"}},
		"no address yet": {[]client.Object{configuration("10.71.0.0/16")}, []client.Object{outside("")}, "of cluster milan has no address in cluster rome", "", nil},
		"not mapped yet": {[]client.Object{configuration("")}, []client.Object{outside("10.70.0.9")}, "the ranges of cluster milan are not mapped", "", nil},
		"no IP":          {[]client.Object{configuration("10.71.0.0/16")}, nil, "", "reading IP " + testOutsideAddress, nil},
	} {
		rome, milan := fakecluster.New("rome", row.rome...), fakecluster.New("milan", row.milan...)
		run, into := &networkTest{options: &testNetworkOptions{ip: true}, consumer: rome, providers: []*session.Cluster{milan}}, testedCluster{}
		why, err := run.gatherOutside(t.Context(), rome, &into)
		var have []string
		for _, address := range into.outside {
			have = append(have, address.String())
		}
		if !strings.Contains(why, row.why) || (row.why == "") != (why == "") || (err == nil) != (row.err == "") || err != nil && !strings.Contains(err.Error(), row.err) ||
			!slices.Equal(have, row.want) {
			t.Errorf("%s: %v, %q, %v", name, have, why, err)
		}
	}
}
