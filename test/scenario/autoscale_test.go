package scenario

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// rates is how long it may take until rome's metrics server has CPU rates of pods in milan. Both metrics servers measure every 10 s, and a rate needs two
// measurements.
const rates = 2 * time.Minute

// autoscale: a HorizontalPodAutoscaler of rome scales a Deployment with pods in rome and in milan up and down by the CPU usage in milan. "kubectl top" in rome shows
// the same usage of a pod in milan as "kubectl top" in milan. A Prometheus with permission for nodes/metrics scrapes the virtual node like any kubelet.
func autoscale(s *story.Story) {
	const ns, name = "autoscale", "worker"
	rome, milan, twin := s.Rome, s.Milan, story.Twin(ns)
	first := "" // the first pod in milan, whose usage is measured before that of the others
	s.Step("a Deployment that uses CPU in milan only, and its autoscaler", func() {
		s.Offload(ns)
		// Only the metrics of the pods in milan can cause the autoscaler to scale up, because the pods in rome are idle.
		deployment := story.DeploymentOn("", ns, name, 2, playground.Shell, "sh", "-c",
			`head -c 16777216 /dev/zero >/tmp/ballast; while :; do if [ -e /tmp/quiet ] || [ "$NODE" = `+rome.Node()+` ]; then sleep 1; fi; done`)
		pod := &deployment.Spec.Template.Spec
		pod.Containers[0].Env = []corev1.EnvVar{{Name: "NODE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}}}
		pod.NodeSelector = nil
		pod.Affinity = onNodes(rome.Node(), "milan")
		pod.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: deployment.Spec.Selector,
		}}
		pod.Containers[0].Resources = corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}, Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m")},
		}
		pod.Volumes = []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}}}
		pod.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}}
		s.Must(rome.Create(s.Context(), deployment))
		// If the pod in milan uses 60m or more, four replicas are wanted. On a busy machine a pod may use much less than its limit of 200m.
		s.Must(rome.Create(s.Context(), autoscaler(ns, name, 2, 4, 20)))
		s.PodsReady(rome, ns, 2, start)
		spread(s, ns, rome.Node(), "milan")
		first = s.Pods(milan, twin)[0].Name
	})
	s.Step("it scales up", func() {
		s.Eventually(rates, "4 replicas", func(ctx context.Context) error { return scaled(ctx, rome, ns, name, 4) })
	})
	s.Step("kubectl top of rome and of milan agree", func() {
		s.Eventually(rates, "both to show the same", func(context.Context) error {
			here, err := top(s, rome, ns)
			if err != nil {
				return err
			}
			there, err := top(s, milan, twin)
			if err != nil {
				return err
			}
			if len(here) < 2 || len(there) < 1 {
				return fmt.Errorf("rome shows %v, milan %v, want pods of both clusters in rome", here, there)
			}
			for pod, want := range there {
				if got, is := here[pod]; !is || !got.like(want) || got.cpu < 50 || got.memory < 16 {
					return fmt.Errorf("pod %s uses %+v in rome and %+v in milan", pod, got, want)
				}
			}
			fmt.Printf("             rome shows %v, milan %v\n", here, there)
			return nil
		})
	})
	s.Step("two pods run in each cluster", func() {
		s.PodsReady(rome, ns, 4, start)
		spread(s, ns, rome.Node(), rome.Node(), "milan", "milan")
		s.PodsReady(milan, twin, 2, start)
	})
	s.Step("a Prometheus scrapes the virtual node", func() { scraped(s, ns, first) })
	s.Step("it scales down when there is nothing to do", func() {
		for _, pod := range s.Pods(rome, ns) {
			if said := s.Exec(rome, story.WebSocket, ns, pod.Name, "", "touch", "/tmp/quiet"); said.Code != 0 {
				s.Errorf("exec in %s: %+v", pod.Name, said)
			}
		}
		s.Eventually(rates, "2 replicas", func(ctx context.Context) error { return scaled(ctx, rome, ns, name, 2) })
	})
}

// autoscaler scales a Deployment by CPU usage, in percent of the requests. It scales without delay: by default it would wait five minutes before it scales
// down.
func autoscaler(namespace, name string, least, most, percent int32) *autoscalingv2.HorizontalPodAutoscaler {
	rules := &autoscalingv2.HPAScalingRules{
		StabilizationWindowSeconds: new(int32(0)),
		Policies:                   []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: 5}},
	}
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name},
			MinReplicas:    &least, MaxReplicas: most,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent},
			}}},
			Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rules, ScaleDown: rules},
		},
	}
}

// scaled returns an error unless the autoscaler wants that number of replicas because of measured CPU usage.
func scaled(ctx context.Context, c *playground.Cluster, namespace, name string, want int32) error {
	var hpa autoscalingv2.HorizontalPodAutoscaler
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &hpa); err != nil {
		return err
	}
	if status := hpa.Status; status.DesiredReplicas != want || len(status.CurrentMetrics) != 1 || status.CurrentMetrics[0].Resource == nil {
		return fmt.Errorf("it wants %d replicas: conditions %+v, metrics %+v", status.DesiredReplicas, status.Conditions, status.CurrentMetrics)
	}
	return nil
}

// onNodes returns an affinity that binds a pod to one of these nodes.
func onNodes(names ...string) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: names},
		}}},
	}}}
}

// spread checks that the pods of a namespace of rome are on these nodes.
func spread(s *story.Story, namespace string, nodes ...string) {
	s.Helper()
	var on []string
	for _, pod := range s.Pods(s.Rome, namespace) {
		on = append(on, pod.Spec.NodeName)
	}
	slices.Sort(on)
	slices.Sort(nodes)
	if !slices.Equal(on, nodes) {
		s.Errorf("the pods are on %v, want %v", on, nodes)
	}
}

// shown is the usage of a pod that "kubectl top pod" shows: millicores and MiB.
type shown struct{ cpu, memory int }

// like reports whether two amounts differ at most by what the different times of measurement explain.
func (a shown) like(b shown) bool {
	near := func(a, b, least int) bool { return max(a, b)-min(a, b) <= max(least, max(a, b)/4) }
	return near(a.cpu, b.cpu, 10) && near(a.memory, b.memory, 2)
}

// top runs "kubectl top pod".
func top(s *story.Story, c *playground.Cluster, namespace string) (map[string]shown, error) {
	out, err := s.Shell(s.Context(), c, "kubectl top pod --no-headers --namespace "+namespace)
	if err != nil {
		return nil, err
	}
	pods := map[string]shown{}
	for line := range strings.Lines(out) {
		var name string
		var amount shown
		if _, err := fmt.Sscanf(line, "%s %dm %dMi", &name, &amount.cpu, &amount.memory); err != nil {
			return nil, fmt.Errorf("reading %q: %w", line, err)
		}
		pods[name] = amount
	}
	return pods, nil
}

// scraped sends the requests that the kubelet jobs of kube-prometheus send to every node to the virtual node, from the network of rome's pods. The
// ServiceAccount has permission for nodes/metrics only.
func scraped(s *story.Story, ns, pod string) {
	s.Helper()
	const account = "prometheus"
	rome := s.Rome
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "story-" + account}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes/metrics"}, Verbs: []string{"get"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: account}},
	}
	for _, object := range []client.Object{&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: account}}, role, binding} {
		s.Must(rome.Create(s.Context(), object))
	}
	defer func() {
		s.Must(rome.Delete(s.Context(), binding))
		s.Must(rome.Delete(s.Context(), role))
	}()
	// The virtual kubelet caches a denied permission for 30 s, as a kubelet does.
	s.Eventually(start, "the permission to be in force", func(ctx context.Context) error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + ns + ":" + account,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Version: "v1", Resource: "nodes", Subresource: "metrics", Name: "milan"},
		}}
		if err := rome.Create(ctx, review); err != nil || review.Status.Allowed {
			return err
		}
		return fmt.Errorf("status %+v", review.Status)
	})
	get := virtualNode(s, ns)
	usage := fmt.Sprintf("namespace=%q,pod=%q}", ns, pod)
	// The paths that the jobs of kube-prometheus read. A virtual node has no probe metrics.
	wants := map[string][]string{
		"/metrics": {`kubelet_node_name{node="milan"} 1`}, "/metrics/probes": nil, "/metrics/cadvisor": {"container_memory_working_set_bytes{", usage, "container_scrape_error 0"},
		"/metrics/resource": {"node_cpu_usage_seconds_total ", "container_cpu_usage_seconds_total{", usage, "resource_scrape_error 0"},
	}
	for path, parts := range wants {
		// A metrics server that can't reach a kubelet in time, on a busy machine, has no metrics of the kubelet's pods until its next attempt.
		s.Eventually(start, path+" to have what kube-prometheus reads", func(context.Context) error {
			status, text := get(account, path)
			if status != http.StatusOK {
				return fmt.Errorf("%d %s", status, text)
			}
			for _, want := range parts {
				if !strings.Contains(text, want) {
					return fmt.Errorf("it lacks %q:\n%s", want, text)
				}
			}
			return nil
		})
		if status, text := get("default", path); status != http.StatusForbidden {
			s.Errorf("%s by an account without permissions: %d %s", path, status, text)
		}
	}
	for _, path := range []string{"/pods", "/stats/summary", "/configz", "/containerLogs/" + ns + "/" + pod + "/main"} {
		if status, text := get(account, path); status != http.StatusForbidden {
			s.Errorf("%s by an account that may read metrics only: %d %s", path, status, text)
		}
	}
}

// virtualNode returns a function that gets a path of the virtual node with the token of a ServiceAccount, from the network of a pod in rome.
func virtualNode(s *story.Story, ns string) func(account, path string) (status int, text string) {
	s.Helper()
	rome := s.Rome
	var node corev1.Node
	s.Must(rome.Get(s.Context(), client.ObjectKey{Name: "milan"}, &node))
	address := net.JoinHostPort(node.Status.Addresses[0].Address, fmt.Sprint(node.Status.DaemonEndpoints.KubeletEndpoint.Port))
	pods := slices.DeleteFunc(s.Pods(rome, ns), func(pod corev1.Pod) bool { return pod.Spec.NodeName != rome.Node() })
	from, err := playground.In(&pods[0])
	s.Must(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(rome.Config.CAData)
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DialContext: from.Dial, DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}}
	tokens := map[string]string{}
	return func(account, path string) (status int, text string) {
		s.Helper()
		if tokens[account] == "" {
			request, err := rome.Set.CoreV1().ServiceAccounts(ns).CreateToken(s.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
			s.Must(err)
			tokens[account] = request.Status.Token
		}
		request, err := http.NewRequestWithContext(s.Context(), http.MethodGet, "https://"+address+path, nil)
		s.Must(err)
		request.Header.Set("Authorization", "Bearer "+tokens[account])
		response, err := client.Do(request)
		s.Must(err)
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		s.Must(err)
		return response.StatusCode, string(body)
	}
}
