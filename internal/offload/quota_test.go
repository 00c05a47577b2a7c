package offload

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

func podSpec(t *testing.T, text string) *corev1.PodSpec {
	t.Helper()
	spec := &corev1.PodSpec{}
	if err := yaml.UnmarshalStrict([]byte(text), spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

// quantities returns a resource list in canonical form.
func quantities(list corev1.ResourceList) map[string]string {
	out := map[string]string{}
	for name, q := range list {
		out[string(name)] = q.String()
	}
	return out
}

func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func TestUsage(t *testing.T) {
	for name, c := range map[string]struct {
		spec     string
		overhead corev1.ResourceList
		want     map[string]string
	}{
		"nothing said": {"containers: [{name: a}]", nil, map[string]string{"pods": "1"}},
		"containers add up": {`
containers:
- {name: a, resources: {requests: {cpu: 100m, memory: 1Gi}}}
- {name: b, resources: {requests: {cpu: "1", nvidia.com/gpu: "2"}}}`, nil, map[string]string{"cpu": "1100m", "memory": "1Gi", "nvidia.com/gpu": "2", "pods": "1"}},
		"a limit is a request, where there is none": {`
containers:
- {name: a, resources: {limits: {cpu: "2", memory: 1Gi}, requests: {memory: 512Mi}}}`, nil, map[string]string{"cpu": "2", "memory": "512Mi", "pods": "1"}},
		"the greatest init container": {`
initContainers:
- {name: i, resources: {requests: {cpu: "3"}}}
- {name: j, resources: {limits: {memory: 2Gi}}}
containers: [{name: a, resources: {requests: {cpu: "1", memory: 1Gi}}}]`, nil, map[string]string{"cpu": "3", "memory": "2Gi", "pods": "1"}},
		"sidecars run on, and beside later init containers": {`
initContainers:
- {name: s, restartPolicy: Always, resources: {requests: {cpu: "1"}}}
- {name: j, resources: {requests: {cpu: "3"}}}
containers: [{name: a, resources: {requests: {cpu: "2"}}}]`, nil, map[string]string{"cpu": "4", "pods": "1"}},
		"overhead":                     {`{overhead: {cpu: 250m}, containers: [{name: a, resources: {requests: {cpu: "1"}}}]}`, list("cpu", "1"), map[string]string{"cpu": "1250m", "pods": "1"}},
		"an empty one hides no class":  {`{overhead: {}, containers: [{name: a, resources: {requests: {cpu: "1"}}}]}`, list("cpu", "1"), map[string]string{"cpu": "2", "pods": "1"}},
		"less than nothing is nothing": {`{overhead: {cpu: "-1000"}, resources: {requests: {memory: -8Gi}}, containers: [{name: a, resources: {requests: {cpu: "1", nvidia.com/gpu: "-8"}}}]}`, nil, map[string]string{"pods": "1"}},
		"overhead of its class":        {`{containers: [{name: a, resources: {requests: {cpu: "1"}}}]}`, list("cpu", "1"), map[string]string{"cpu": "2", "pods": "1"}},
		"of the pod":                   {`{resources: {requests: {cpu: "3"}}, containers: [{name: a, resources: {requests: {cpu: "1"}}}]}`, nil, map[string]string{"cpu": "3", "pods": "1"}},
		"of the pod, by its limit":     {`{resources: {limits: {memory: 3Gi}}, containers: [{name: a}]}`, nil, map[string]string{"memory": "3Gi", "pods": "1"}},
		"nothing hides behind the pod": {`{resources: {requests: {cpu: 1m}}, containers: [{name: a, resources: {requests: {cpu: "8"}}}]}`, nil, map[string]string{"cpu": "8", "pods": "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := podSpec(t, c.spec)
			before := spec.DeepCopy()
			if diff := cmp.Diff(c.want, quantities(Usage(spec, c.overhead))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, spec); diff != "" {
				t.Errorf("it changed what it looked at:\n%s", diff)
			}
		})
	}
}

// TestDefaultLimitsRequestNothing: a container without limits gets the default limits, and counts for no more than it requests.
func TestDefaultLimitsRequestNothing(t *testing.T) {
	spec := DefaultLimits(list("ephemeral-storage", "20Gi", "memory", "4Gi"))
	if len(spec.Limits) != 1 || spec.Limits[0].Type != corev1.LimitTypeContainer {
		t.Fatalf("%+v", spec)
	}
	given := spec.Limits[0]
	if diff := cmp.Diff(map[string]string{"ephemeral-storage": "20Gi", "memory": "4Gi"}, quantities(given.Default)); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	pod := &corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{Limits: given.Default, Requests: given.DefaultRequest}}}}
	if usage := Usage(pod, nil); !usage.StorageEphemeral().IsZero() || !usage.Memory().IsZero() || usage.Pods().Value() != 1 {
		t.Errorf("it counts for %v", quantities(usage))
	}
}

// TestPodUsage: a Pod that its node has not resized down yet uses what it had.
func TestPodUsage(t *testing.T) {
	const gpus = "nvidia.com/gpu"
	had := corev1.ContainerStatus{Name: "a", AllocatedResources: list("memory", "1Gi"), Resources: &corev1.ResourceRequirements{Requests: list("memory", "8Gi", "cpu", "500m")}}
	pod := &corev1.Pod{
		Spec:   *podSpec(t, `{overhead: {memory: 1Gi}, containers: [{name: a, resources: {requests: {memory: 1Gi, cpu: "1"}, limits: {nvidia.com/gpu: "2"}}}]}`),
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{had}},
	}
	if diff := cmp.Diff(map[string]string{"memory": "9Gi", "cpu": "1", gpus: "2", "pods": "1"}, quantities(PodUsage(pod))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	pod.Status.ContainerStatuses[0].Resources.Requests = list("memory", "1Gi", "cpu", "1")
	if diff := cmp.Diff(map[string]string{"memory": "2Gi", "cpu": "1", gpus: "2", "pods": "1"}, quantities(PodUsage(pod))); diff != "" {
		t.Errorf("once it is smaller (-want +got):\n%s", diff)
	}
}

func TestNegative(t *testing.T) {
	for spec, says := range map[string]string{
		`{overhead: {cpu: "1"}, resources: {limits: {cpu: "2"}}, containers: [{name: a, resources: {requests: {cpu: "0"}}}]}`: "",
		`{overhead: {cpu: "-1000"}}`:            "spec.pod.overhead[cpu] is -1k, but must not be negative",
		`{resources: {requests: {memory: -1}}}`: "spec.pod.resources.requests[memory] is -1,",
		`{resources: {limits: {memory: -1Gi}}}`: "spec.pod.resources.limits[memory] is -1Gi,",
		`{containers: [{name: a}, {name: b, resources: {limits: {nvidia.com/gpu: -8}, requests: {cpu: 1}}}]}`: "spec.pod.containers[1].resources.limits[nvidia.com/gpu] is -8,",
		`{containers: [{name: a}], initContainers: [{name: i, resources: {requests: {cpu: -1m}}}]}`:           "spec.pod.initContainers[0].resources.requests[cpu] is -1m,",
	} {
		err := Negative(podSpec(t, spec))
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", spec, err, says)
		}
	}
}

func TestUndeclared(t *testing.T) {
	const whole = `{name: a, resources: {requests: {cpu: "1", memory: 1Gi}, limits: {cpu: "1", memory: 1Gi}}}`
	for name, c := range map[string]struct {
		spec                string
		none, soft, hardSay string
	}{
		"everything":          {"containers: [" + whole + "]", "", "", ""},
		"limits stand for it": {`containers: [{name: a, resources: {limits: {cpu: "1", memory: 1Gi}}}]`, "", "", ""},
		"nothing":             {"containers: [{name: a}]", "", "container a requests no cpu", "container a requests no cpu"},
		"no memory":           {`containers: [{name: a, resources: {requests: {cpu: "1"}}}]`, "", "requests no memory, which enforcement Soft demands: set resources.requests.memory", "requests no memory"},
		"zero is nothing":     {`containers: [{name: a, resources: {requests: {cpu: "0", memory: 1Gi}}}]`, "", "requests no cpu", "requests no cpu"},
		"no limits":           {`containers: [{name: a, resources: {requests: {cpu: "1", memory: 1Gi}}}]`, "", "", "requests 1 of cpu and its limit is not set, enforcement Hard demands that they are equal: set resources.limits.cpu to 1"},
		"a higher limit":      {`containers: [{name: a, resources: {requests: {cpu: "1", memory: 1Gi}, limits: {cpu: "1", memory: 2Gi}}}]`, "", "", "requests 1Gi of memory and its limit is 2Gi"},
		"another resource":    {`containers: [{name: a, resources: {requests: {cpu: "1", memory: 1Gi, ephemeral-storage: 1Gi}, limits: {cpu: "1", memory: 1Gi}}}]`, "", "", "requests 1Gi of ephemeral-storage"},
		"an init container":   {"{initContainers: [{name: i}], containers: [" + whole + "]}", "", "container i requests no cpu", "container i requests no cpu"},
	} {
		t.Run(name, func(t *testing.T) {
			for enforcement, says := range map[offloadingv1beta1.LimitsEnforcement]string{
				offloadingv1beta1.EnforcementNone: c.none, offloadingv1beta1.EnforcementSoft: c.soft, offloadingv1beta1.EnforcementHard: c.hardSay, "": "",
			} {
				err := Undeclared(podSpec(t, c.spec), enforcement)
				if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
					t.Errorf("%s: %v, want %q", enforcement, err, says)
				}
			}
		})
	}
}

func TestExceeded(t *testing.T) {
	quota := &offloadingv1beta1.QuotaSpec{Resources: list("cpu", "8", "memory", "16Gi", "pods", "2")}
	for name, c := range map[string]struct {
		used, wanted corev1.ResourceList
		says         []string
	}{
		"room":                         {list("cpu", "7500m", "pods", "1"), list("cpu", "500m", "pods", "1"), nil},
		"no room":                      {list("cpu", "7500m", "pods", "1"), list("cpu", "501m", "pods", "1"), []string{"501m of cpu are wanted, 7500m of 8 are used", "ask for less"}},
		"too many":                     {list("pods", "2"), list("pods", "1"), []string{"1 of pods are wanted, 2 of 2 are used"}},
		"two things":                   {list("cpu", "8", "memory", "16Gi"), list("cpu", "1", "memory", "1Gi"), []string{"1 of cpu", "1Gi of memory"}},
		"not granted":                  {nil, list("nvidia.com/gpu", "1"), []string{"1 of nvidia.com/gpu are wanted and none is granted"}},
		"nothing of what is not there": {nil, list("nvidia.com/gpu", "0", "cpu", "1"), nil},
		"too much of another thing":    {list("memory", "20Gi"), list("cpu", "1"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			err := Exceeded(quota, c.used, c.wanted)
			if (err == nil) != (len(c.says) == 0) {
				t.Fatalf("%v, want %q", err, c.says)
			}
			for _, want := range c.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q", err, want)
				}
			}
		})
	}
	if err := Exceeded(&offloadingv1beta1.QuotaSpec{Resources: list("cpu", "1")}, list("pods", "100"), list("pods", "1")); err != nil {
		t.Errorf("a Quota that does not count pods: %v", err)
	}
}

// TestNamespacesCountWhatIsLimitedTogether: the quota of each namespace has the limits of all namespaces together, since Kubernetes counts only what a quota limits.
// A namespace alone may have no more than all together.
func TestNamespacesCountWhatIsLimitedTogether(t *testing.T) {
	list := func(pairs ...string) corev1.ResourceList {
		out := corev1.ResourceList{}
		for i := 0; i < len(pairs); i += 2 {
			out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
		}
		return out
	}
	for name, row := range map[string]struct{ each, total, want corev1.ResourceList }{
		"no limits":                {nil, nil, list()},
		"of each":                  {list("count/secrets", "5"), nil, list("count/secrets", "5")},
		"together":                 {list("count/secrets", "5"), list("requests.storage", "1Ti"), list("count/secrets", "5", "requests.storage", "1Ti")},
		"more of each than of all": {list("requests.storage", "2Ti"), list("requests.storage", "1Ti"), list("requests.storage", "1Ti")},
		"less of each":             {list("requests.storage", "1Gi"), list("requests.storage", "1Ti"), list("requests.storage", "1Gi")},
	} {
		if got := NamespaceHard(row.each, row.total); !equality.Semantic.DeepEqual(got, row.want) {
			t.Errorf("%s: %v, want %v", name, got, row.want)
		}
	}
}

// TestWhatTheServerCounts: the API server counts a kind from half of its limit on until there is less than a quarter, and always if the limit is small.
func TestWhatTheServerCounts(t *testing.T) {
	for _, row := range []struct {
		limit, objects int64
		before, after  bool
	}{
		{2000, 0, false, false}, {2000, 999, false, false}, {2000, 1000, false, true},
		{2000, 1000, true, true}, {2000, 999, true, true}, {2000, 500, true, true}, {2000, 499, true, false}, {2000, 0, true, false},
		{20000, 9999, false, false}, {20000, 10000, false, true}, {20000, 30000, false, true}, {20000, 5000, true, true}, {20000, 4999, true, false},
		{2001, 1000, false, false}, {2001, 1001, false, true}, // half is rounded up
		{1999, 0, false, true}, {5, 0, false, true}, {0, 0, false, true}, {1999, 0, true, true},
	} {
		if got := CountedByServer(row.limit, row.objects, row.before); got != row.after {
			t.Errorf("%d of %d, counted before %v: %v", row.objects, row.limit, row.before, got)
		}
	}
}

// TestRowsOfANamespace: only the two kinds of which every pod brings an object, with large limits, are left out, and only where their objects are known.
func TestRowsOfANamespace(t *testing.T) {
	all := corev1.ResourceList{
		CountShadowPods: resource.MustParse("10k"), CountSecrets: resource.MustParse("2k"), "count/services": resource.MustParse("5k"), "secrets": resource.MustParse("9k"),
		"requests.storage": resource.MustParse("1Ti"), "persistentvolumeclaims": resource.MustParse("1k"), "pods": resource.MustParse("3k"),
	}
	without := func(rows ...corev1.ResourceName) corev1.ResourceList {
		out := all.DeepCopy()
		for _, row := range rows {
			delete(out, row)
		}
		return out
	}
	fill := func(tracker *ObjectTracker, n int) {
		for i := range n {
			tracker.Observe(CountSecrets, types.NamespacedName{Namespace: "shop-rome", Name: fmt.Sprint(i)})
		}
	}
	known := func(corev1.ResourceName) bool { return true }
	for name, row := range map[string]struct {
		secrets       int
		present, want corev1.ResourceList
		known         func(corev1.ResourceName) bool
	}{
		"a new namespace":             {0, nil, without(CountSecrets, CountShadowPods), known},
		"few objects":                 {499, all, without(CountSecrets, CountShadowPods), known},
		"between, and not counted":    {999, without(CountSecrets), without(CountSecrets, CountShadowPods), known},
		"between, and counted":        {999, all, without(CountShadowPods), known},
		"many objects":                {1000, nil, without(CountShadowPods), known},
		"unknown objects":             {0, nil, all, func(corev1.ResourceName) bool { return false }},
		"unknown objects of one kind": {0, without(CountSecrets), without(CountShadowPods), func(row corev1.ResourceName) bool { return row != CountSecrets }},
	} {
		tracker := NewObjectTracker(all)
		fill(tracker, row.secrets)
		if got := tracker.Hard("shop-rome", row.present, row.known); !equality.Semantic.DeepEqual(got, row.want) {
			t.Errorf("%s: %v, want %v", name, got, row.want)
		}
		if got := tracker.Hard("blog-rome", nil, known); !equality.Semantic.DeepEqual(got, without(CountSecrets, CountShadowPods)) {
			t.Errorf("%s: another namespace has %v", name, got)
		}
	}
	small := NewObjectTracker(corev1.ResourceList{CountSecrets: resource.MustParse("1999"), CountShadowPods: resource.MustParse("1")})
	if got := small.Hard("shop-rome", nil, known); len(got) != 2 {
		t.Errorf("small limits: %v", got)
	}
}
