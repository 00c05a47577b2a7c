package nettest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/tunnel"
	"liqo.io/liqo/internal/cli/workload"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/network"
	"liqo.io/liqo/internal/offload/kinds/podrules"
)

// Names of the test's objects, and related constants:
//
// - the namespace in all clusters, and that of the pods in the host network, both completed with the ID of the consumer
// - the Service and the label of the replicas
// - the further Services for node ports and load balancers
// - the pods in the host network
// - the IP object
const (
	testNamespacePrefix = "liqo-test-network"
	testHostsPrefix     = "liqo-test-hosts"
	testName            = "network-test"
	testNodePort        = testName + "-np"
	testBalancer        = testName + "-lb"
	testHosts           = "network-test-host"
	testLabel           = "app.kubernetes.io/name"
	testClusterLabel    = "network-test/cluster"
	taintControlPlane   = "node-role.kubernetes.io/control-plane"
	testServerProgram   = "/testserver"
	testOutsideAddress  = "outside"
)

// namespaceOf returns the namespace for the test of one consumer. Its providers use the same name, and may also have namespaces of
// other consumers.
func namespaceOf(consumer string) string { return completed(testNamespacePrefix, consumer) }

// completed returns a name of a namespace that starts with prefix, and that no other consumer has.
func completed(prefix, consumer string) string {
	name := prefix + "-" + consumer
	if len(name) <= validation.DNS1123LabelMaxLength {
		return name
	}
	sum := sha256.Sum256([]byte(consumer))
	end := "-" + hex.EncodeToString(sum[:4])
	return strings.TrimRight(name[:validation.DNS1123LabelMaxLength-len(end)], "-") + end
}

// namespace returns the namespace of the test, which is the same in all clusters.
func (t *networkTest) namespace() string { return namespaceOf(t.consumer.ID) }

// services returns the Services that the selected checks need.
func (t *networkTest) services() map[string]corev1.ServiceType {
	services := map[string]corev1.ServiceType{testName: corev1.ServiceTypeClusterIP}
	if t.options.podToNodePort || t.options.externalToNodePort {
		services[testNodePort] = corev1.ServiceTypeNodePort
	}
	if t.options.balancer {
		services[testBalancer] = corev1.ServiceTypeLoadBalancer
	}
	return services
}

// deploy creates the namespace and all objects in it. It updates existing objects.
func (t *networkTest) deploy(ctx context.Context) error {
	c, within := t.consumer, t.namespace()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: within}}
	if _, err := c.Ensure(ctx, namespace, func() error { return nil }); err != nil {
		return err
	}
	if err := workload.OffloadNamespace(ctx, c, within, func(object *offloadingv1beta1.NamespaceOffloading) {
		object.Spec = offloadingv1beta1.NamespaceOffloadingSpec{
			PodOffloadingStrategy: offloadingv1beta1.PodsLocalAndRemote, NamespaceMappingStrategy: offloadingv1beta1.EnforceSameName,
		}
	}); err != nil {
		return err
	}
	return t.deployServers(ctx)
}

// deployServers creates all objects in the namespaces, which exist.
func (t *networkTest) deployServers(ctx context.Context) error {
	c, within := t.consumer, t.namespace()
	for name, kind := range t.services() {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: within, Name: name}}
		if _, err := c.Ensure(ctx, service, func() error {
			service.Spec.Type = kind
			service.Spec.Selector = map[string]string{testLabel: testName}
			if len(service.Spec.Ports) == 0 { // the API server adds defaults to existing ports
				service.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(80)}}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	for _, target := range t.clusters() {
		nodes, err := testedNodes(ctx, target)
		if err != nil {
			return err
		}
		replicas := int32(len(slices.DeleteFunc(nodes, func(n corev1.Node) bool { return !takesPods(&n) })))
		if replicas == 0 {
			return target.Err(errors.New("no node accepts pods: all are cordoned or for the control plane only"))
		}
		if err := ensureReplicas(ctx, c, within, target.ID, target == c, replicas, t.options.image); err != nil {
			return err
		}
		if err := session.AssumeNamespace(ctx, target, within); err != nil {
			return err
		}
		if err := t.deployHosts(ctx, target); err != nil {
			return err
		}
		if t.options.ip {
			if err := ensureOutside(ctx, target, within, t.options.outsideAddress); err != nil {
				return err
			}
		}
	}
	return nil
}

// ensureReplicas creates or updates the Deployment whose pods run in one cluster, one on each node.
func ensureReplicas(ctx context.Context, c *session.Cluster, namespace, id string, here bool, replicas int32, image string) error {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: testName + "-" + id}}
	_, err := c.Ensure(ctx, deployment, func() error {
		labels := map[string]string{testLabel: testName, testClusterLabel: id}
		deployment.Spec.Replicas = &replicas
		deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		deployment.Spec.Template.Labels = labels
		where := corev1.NodeSelectorRequirement{Key: api.LabelRemoteClusterID, Operator: corev1.NodeSelectorOpIn, Values: []string{id}}
		if here {
			where = corev1.NodeSelectorRequirement{Key: api.LabelRemoteClusterID, Operator: corev1.NodeSelectorOpDoesNotExist}
		}
		pod := &deployment.Spec.Template.Spec
		pod.Affinity = affinityTo(where)
		// Unlike an anti-affinity, the constraint is also applied in the provider, and allows several pods on the virtual node.
		pod.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
		}}
		testContainer(pod, image, "serve", "-http", ":80", "-udp", "", "-stream", "").Capabilities.Add = []corev1.Capability{"NET_BIND_SERVICE"} // for port 80
		container := &pod.Containers[0]
		container.Env = []corev1.EnvVar{{Name: "CLUSTER_NAME", Value: id}}
		if container.ReadinessProbe == nil {
			container.ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(80)},
			}}
		}
		return nil
	})
	return err
}

// ensureOutside creates or updates an IP object for the outside host.
func ensureOutside(ctx context.Context, c *session.Cluster, namespace string, outside netip.Addr) error {
	object := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: testOutsideAddress}}
	_, err := c.Ensure(ctx, object, func() error {
		object.Spec.IP = outside.String()
		masquerade := true
		object.Spec.Masquerade = &masquerade
		return nil
	})
	return err
}

func affinityTo(where corev1.NodeSelectorRequirement) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{where}}},
	}}}
}

// testContainer sets the only container of the pod to run the test server, without capabilities and without a token, and with a limit of memory. It keeps the fields that the API server has set.
// It returns the security context of the container.
func testContainer(pod *corev1.PodSpec, image string, args ...string) *corev1.SecurityContext {
	grace, no := int64(1), false
	pod.TerminationGracePeriodSeconds, pod.AutomountServiceAccountToken = &grace, &no
	if len(pod.Containers) == 0 {
		pod.Containers = []corev1.Container{{Name: "test"}}
	}
	container := &pod.Containers[0]
	container.Image, container.ImagePullPolicy = image, corev1.PullIfNotPresent
	container.Command, container.Args = []string{testServerProgram}, args
	if container.SecurityContext == nil {
		container.SecurityContext = &corev1.SecurityContext{}
	}
	container.SecurityContext.AllowPrivilegeEscalation = &no
	container.SecurityContext.Capabilities = &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}
	container.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	container.Resources = corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
	}
	return container.SecurityContext
}

// testedNodes returns the real nodes, without virtual nodes.
func testedNodes(ctx context.Context, c *session.Cluster) ([]corev1.Node, error) {
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes); err != nil {
		return nil, c.Err(fmt.Errorf("listing nodes: %w", err))
	}
	return slices.DeleteFunc(nodes.Items, func(n corev1.Node) bool { return n.Labels[api.LabelRemoteClusterID] != "" }), nil
}

// takesPods reports whether an ordinary pod can run on the node.
func takesPods(node *corev1.Node) bool {
	return !node.Spec.Unschedulable && !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == taintControlPlane && t.Effect != corev1.TaintEffectPreferNoSchedule
	})
}

// unreachableLimit is how long a provider may be unreachable until the test ends. Providers are unreachable for seconds while a gateway is replaced.
const unreachableLimit = 20 * time.Second

// unreachableError says that a test server is not ready because its provider, or the network to it, is unreachable.
type unreachableError struct{ pod, cluster string }

func (e *unreachableError) Error() string {
	return fmt.Sprintf("the network does not work everywhere: cluster %s, or the network to it, is unreachable, so pod %s there is not ready: liqoctl doctor says why", e.cluster, e.pod)
}

// settled waits until all pods run and all clusters know all addresses. It returns the facts for the checks.
func (t *networkTest) settled(ctx context.Context) (*testedWorld, error) {
	step := t.consumer.Start("Waiting for the test servers")
	defer step.End()
	var since time.Time // when the provider of a test server was first found unreachable
	for last := ""; ; {
		world, why, err := t.gather(ctx)
		if unreachable, is := errors.AsType[*unreachableError](err); !is {
			since = time.Time{}
		} else if why, err = unreachable.Error(), nil; since.IsZero() {
			since = time.Now()
		} else if time.Since(since) > unreachableLimit {
			return nil, unreachable
		}
		if err == nil && why == "" {
			step.Done("%d test servers run, and all clusters know them", len(world.replicas))
			return world, nil
		}
		if err != nil && ctx.Err() == nil && !session.Transient(err) {
			return nil, err
		}
		switch { // a read that the end of ctx interrupted has no news
		case why != "":
			last = why
		case ctx.Err() == nil:
			last = err.Error()
		}
		step.Update("Waiting for the test servers: %s", last)
		select {
		case <-ctx.Done():
			return nil, t.consumer.Waited(ctx.Err(), ctx.Err(), "the test servers", last)
		case <-time.After(session.RetryPause):
		}
	}
}

// gather reads the facts for the checks. The result why says what is still missing.
func (t *networkTest) gather(ctx context.Context) (world *testedWorld, why string, err error) {
	world = &testedWorld{clusters: make([]testedCluster, len(t.clusters())), replicas: map[string]string{}}
	var pods corev1.PodList
	if err := t.consumer.List(ctx, &pods, client.InNamespace(t.namespace()), client.MatchingLabels{testLabel: testName}); err != nil {
		return nil, "", t.consumer.Err(fmt.Errorf("listing pods: %w", err))
	}
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp == nil {
			world.replicas[pod.Name] = pod.Labels[testClusterLabel]
		}
		if pod.Labels[podrules.LabelRemoteUnavailable] == api.True {
			return nil, "", &unreachableError{pod: pod.Name, cluster: pod.Labels[testClusterLabel]}
		}
		if !api.PodReady(&pod) {
			why = fmt.Sprintf("pod %s is not ready, %s", pod.Name, cmp.Or(workload.Trouble(&pod), "phase "+string(pod.Status.Phase)))
		}
	}
	var all errgroup.Group
	reasons := make([]string, len(world.clusters))
	for i, c := range t.clusters() {
		all.Go(func() (err error) {
			reasons[i], err = t.gatherCluster(ctx, c, &world.clusters[i], len(world.replicas))
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return nil, why, err
	}
	for _, reason := range reasons {
		why = cmp.Or(why, reason)
	}
	return world, why, nil
}

func (t *networkTest) gatherCluster(ctx context.Context, c *session.Cluster, into *testedCluster, replicas int) (why string, err error) {
	into.id = c.ID
	nodes, err := testedNodes(ctx, c)
	if err != nil {
		return "", err
	}
	places := 0
	for i := range nodes {
		_, controlPlane := nodes[i].Labels[taintControlPlane]
		for _, address := range nodes[i].Status.Addresses {
			if ip, err := netip.ParseAddr(address.Address); err == nil && address.Type == corev1.NodeInternalIP && ip.Is4() {
				into.nodes = append(into.nodes, testedNode{nodes[i].Name, ip, controlPlane})
			}
		}
		if takesPods(&nodes[i]) {
			places++
		}
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(t.namespace())); err != nil {
		return "", c.Err(fmt.Errorf("listing pods: %w", err))
	}
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp == nil && pod.Labels[testClusterLabel] == c.ID {
			into.pods = append(into.pods, pod.Name)
		}
	}
	if len(into.pods) != places {
		why = fmt.Sprintf("cluster %s runs %d of %d test servers", c.ID, len(into.pods), places)
	}
	slices.Sort(into.pods)
	reason, err := t.gatherHosts(ctx, c, into)
	if err != nil {
		return "", err
	}
	why = cmp.Or(reason, why)
	for name := range t.services() {
		reason, err := gatherService(ctx, c, t.namespace(), name, into, replicas)
		if err != nil {
			return "", err
		}
		why = cmp.Or(why, reason)
	}
	if t.options.ip && why == "" {
		why, err = t.gatherOutside(ctx, c, into)
	}
	return why, err
}

// gatherService reads a Service and its endpoints.
func gatherService(ctx context.Context, c *session.Cluster, namespace, name string, into *testedCluster, replicas int) (why string, err error) {
	var service corev1.Service
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &service); err != nil {
		if kube.Absent(err) {
			return fmt.Sprintf("cluster %s has no Service %s", c.ID, name), nil
		}
		return "", c.Err(fmt.Errorf("reading Service %s: %w", name, err))
	}
	var slicesOf discoveryv1.EndpointSliceList
	if err := c.List(ctx, &slicesOf, client.InNamespace(namespace), client.MatchingLabels{discoveryv1.LabelServiceName: name}); err != nil {
		return "", c.Err(fmt.Errorf("listing EndpointSlices: %w", err))
	}
	endpoints := readyEndpoints(slicesOf.Items)
	if len(endpoints) != replicas {
		return fmt.Sprintf("Service %s of cluster %s has %d ready endpoints, and has to have %d", name, c.ID, len(endpoints), replicas), nil
	}
	switch name {
	case testName:
		into.endpoints = endpoints
	case testNodePort:
		into.nodePort = service.Spec.Ports[0].NodePort
	case testBalancer:
		for _, ingress := range service.Status.LoadBalancer.Ingress {
			into.balancers = append(into.balancers, cmp.Or(ingress.IP, ingress.Hostname))
		}
		if len(into.balancers) == 0 {
			return fmt.Sprintf("Service %s of cluster %s has no address", name, c.ID), nil
		}
	}
	return "", nil
}

// readyEndpoints returns the ready endpoints of all EndpointSlices, sorted and without duplicate addresses.
func readyEndpoints(all []discoveryv1.EndpointSlice) []testedEndpoint {
	var endpoints []testedEndpoint
	for _, slice := range all {
		for _, endpoint := range slice.Endpoints {
			if endpoint.Conditions.Ready != nil && !*endpoint.Conditions.Ready {
				continue
			}
			for _, text := range endpoint.Addresses {
				if address, err := netip.ParseAddr(text); err == nil && endpoint.TargetRef != nil {
					endpoints = append(endpoints, testedEndpoint{address, endpoint.TargetRef.Name})
				}
			}
		}
	}
	slices.SortFunc(endpoints, func(a, b testedEndpoint) int { return a.address.Compare(b.address) })
	return slices.CompactFunc(endpoints, func(a, b testedEndpoint) bool { return a.address == b.address })
}

// gatherOutside reads the addresses of the outside host in this cluster, through the IP objects of the clusters connected to it.
func (t *networkTest) gatherOutside(ctx context.Context, c *session.Cluster, into *testedCluster) (why string, err error) {
	var configurations networkingv1beta1.ConfigurationList
	if err := c.List(ctx, &configurations); err != nil {
		return "", c.Err(fmt.Errorf("listing Configurations: %w", err))
	}
	for _, other := range t.clusters() {
		configuration := network.ConfigurationInUse(configurations.Items, other.ID)
		if other == c || configuration == nil {
			continue
		}
		var object ipamv1alpha1.IP
		if err := other.Get(ctx, client.ObjectKey{Namespace: t.namespace(), Name: testOutsideAddress}, &object); err != nil {
			return "", other.Err(fmt.Errorf("reading IP %s: %w", testOutsideAddress, err))
		}
		address, err := tunnel.ViewOf(configuration, object.Status.IP)
		if err != nil {
			return fmt.Sprintf("IP %s of cluster %s has no address in cluster %s: %v", testOutsideAddress, other.ID, c.ID, err), nil
		}
		into.outside = append(into.outside, address)
	}
	return "", nil
}
