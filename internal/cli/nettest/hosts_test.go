package nettest

import (
	"context"
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/test/clitest/fakecluster"
	"liqo.io/liqo/test/podtest"
)

// peeredForTest returns the test of rome with provider milan, where the remote namespace of rome exists. more are further objects of milan.
func peeredForTest(options *testNetworkOptions, more ...client.Object) *networkTest {
	options.image = "image:1"
	rome := fakecluster.New("rome", testedNodeObject("rome-1", "172.16.0.1", nil))
	milan := fakecluster.New("milan", append(more, testedNodeObject("milan-1", "172.16.0.2", nil), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespaceOf("rome"), Labels: map[string]string{api.LabelRemoteClusterID: "rome"},
	}})...)
	return &networkTest{options: options, consumer: rome, providers: []*session.Cluster{milan}}
}

// hostPods returns the DaemonSets of a cluster that run in the network of the nodes, and which of them are in a remote namespace of a consumer.
func hostPods(t *testing.T, c *session.Cluster) (all []appsv1.DaemonSet, ofConsumers []string) {
	t.Helper()
	var list appsv1.DaemonSetList
	if err := c.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	for _, set := range list.Items {
		if !set.Spec.Template.Spec.HostNetwork {
			continue
		}
		var namespace corev1.Namespace
		if err := c.Get(t.Context(), client.ObjectKey{Name: set.Namespace}, &namespace); err != nil {
			t.Fatal(err)
		}
		all = append(all, set)
		if namespace.Labels[api.LabelRemoteClusterID] != "" {
			ofConsumers = append(ofConsumers, set.Namespace+"/"+set.Name)
		}
	}
	return all, ofConsumers
}

// TestConsumersUseNoHostNetworkOfTheTest: a consumer executes commands in every pod of its remote namespaces. So no pod of the test in the network of a node is there,
// and that of an earlier release is removed. The pods have no right that they do not need.
func TestConsumersUseNoHostNetworkOfTheTest(t *testing.T) {
	earlier := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf("rome"), Name: testHosts}}
	earlier.Spec.Template.Spec.HostNetwork = true
	run := peeredForTest(&testNetworkOptions{}, earlier)
	if err := run.deployServers(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range run.clusters() {
		all, ofConsumers := hostPods(t, c)
		if len(all) != 1 || len(ofConsumers) > 0 {
			t.Errorf("%s has %d DaemonSets in the host network, and %v in remote namespaces: a consumer executes commands in their pods", c.ID, len(all), ofConsumers)
			continue
		}
		set := all[0]
		pod := set.Spec.Template.Spec
		podtest.Check(t, set.Name, &pod, map[string]string{"host network": "they show what the network of the nodes reaches"})
		if set.Annotations[api.AnnotationShareWithConsumer] != "" {
			t.Errorf("%s shares them with the consumer", c.ID)
		}
		var namespace corev1.Namespace
		if err := c.Get(t.Context(), client.ObjectKey{Name: set.Namespace}, &namespace); err != nil {
			t.Fatal(err)
		}
		if namespace.Labels["pod-security.kubernetes.io/enforce"] != "privileged" {
			t.Errorf("Pod Security may refuse the pods in the host network of %s: %v", c.ID, namespace.Labels)
		}
	}
}

// TestServersOfTheTestHaveFewRights: the servers serve port 80, which needs one capability, and nothing else.
func TestServersOfTheTestHaveFewRights(t *testing.T) {
	run := peeredForTest(&testNetworkOptions{})
	if err := run.deployServers(t.Context()); err != nil {
		t.Fatal(err)
	}
	var list appsv1.DeploymentList
	if err := run.consumer.List(t.Context(), &list); err != nil || len(list.Items) != 2 {
		t.Fatalf("%d Deployments, %v", len(list.Items), err)
	}
	for _, deployment := range list.Items {
		podtest.Check(t, deployment.Name, &deployment.Spec.Template.Spec, map[string]string{
			"test may be root": "only root has the capability for port 80, because the program has no file capabilities", "test adds NET_BIND_SERVICE": "they serve port 80",
		})
	}
}

// TestHostNetworkNeedsItsOwnNamespace: the test uses no namespace of that name that belongs to a consumer or to others, and says what an administrator can do who may not
// create namespaces. The checks between pods need none.
func TestHostNetworkNeedsItsOwnNamespace(t *testing.T) {
	named := func(labels map[string]string) client.Object {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: hostsNamespaceOf("rome"), Labels: labels}}
	}
	own := map[string]string{testLabel: testHosts, enforceLabel: "privileged"}
	for what, row := range map[string]struct {
		namespace client.Object
		forbidden bool
		want      string
	}{
		"of the run before":     {named(own), false, ""},
		"a remote namespace":    {named(map[string]string{testLabel: testHosts, api.LabelRemoteClusterID: "rome"}), false, "namespace liqo-test-hosts-rome belongs to cluster rome"},
		"of a tenant":           {named(map[string]string{testLabel: testHosts}), false, "namespace liqo-test-hosts-rome permits no pods in the host network"},
		"of others":             {named(nil), false, "namespace liqo-test-hosts-rome is not of this command: it lacks label app.kubernetes.io/name=network-test-host"},
		"no right to create it": {nil, true, "ask an administrator of cluster milan to create and label it"},
	} {
		for _, basic := range []bool{false, true} {
			var more []client.Object
			if row.namespace != nil {
				more = append(more, row.namespace.DeepCopyObject().(client.Object))
			}
			run := peeredForTest(&testNetworkOptions{testOptions: testOptions{basic: basic}}, more...)
			if row.forbidden {
				run.providers[0].WithWatch = interceptor.NewClient(run.providers[0].WithWatch, interceptor.Funcs{
					Create: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
						if _, is := object.(*corev1.Namespace); is {
							return apierrors.NewForbidden(corev1.Resource("namespaces"), object.GetName(), errors.New("no right"))
						}
						return c.Create(ctx, object, opts...)
					},
				})
			}
			err := run.deployServers(t.Context())
			if row.want == "" || basic {
				if err != nil {
					t.Errorf("%s, --basic=%t: %v", what, basic, err)
				}
				continue
			}
			if err == nil || !strings.Contains(err.Error(), row.want) || !strings.Contains(err.Error(), "--basic") {
				t.Errorf("%s: %v, want %q and --basic", what, err, row.want)
			}
			if all, _ := hostPods(t, run.providers[0]); len(all) > 0 {
				t.Errorf("%s: milan has pods in the host network", what)
			}
		}
	}
}

// TestRemovalOfHostNetwork: --rm removes the pods in the host network from every cluster, and no namespace of others.
func TestRemovalOfHostNetwork(t *testing.T) {
	named := func(labels map[string]string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: hostsNamespaceOf("rome"), Labels: labels}}
	}
	for what, row := range map[string]struct {
		namespace *corev1.Namespace
		stays     bool
	}{
		"of the test":        {named(map[string]string{testLabel: testHosts}), false},
		"a remote namespace": {named(map[string]string{testLabel: testHosts, api.LabelRemoteClusterID: "rome"}), true},
		"of others":          {named(nil), true},
	} {
		milan := fakecluster.New("milan", row.namespace.DeepCopy())
		run := &networkTest{options: &testNetworkOptions{}, consumer: fakecluster.New("rome", named(map[string]string{testLabel: testHosts})), providers: []*session.Cluster{milan}}
		for _, c := range run.clusters() {
			if _, err := run.removeHosts(t.Context(), c); err != nil {
				t.Errorf("%s, cluster %s: %v", what, c.ID, err)
			}
		}
		err := milan.Get(t.Context(), client.ObjectKeyFromObject(row.namespace), &corev1.Namespace{})
		if stays := err == nil; stays != row.stays {
			t.Errorf("%s: it stays: %t, %v", what, stays, err)
		}
		if err := run.consumer.Get(t.Context(), client.ObjectKeyFromObject(row.namespace), &corev1.Namespace{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s: rome keeps its own: %v", what, err)
		}
	}
}
