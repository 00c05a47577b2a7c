package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/dashboard"
	"liqo.io/liqo/internal/doctor"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/network/gatewaypod"
	"liqo.io/liqo/internal/remote"
	"liqo.io/liqo/internal/storage"
)

// world is a cluster whose informers the test feeds, and what was published.
type world struct {
	*testing.T
	informers *informertest.FakeInformers

	mu        sync.Mutex
	published dashboard.Documents
	// publications counts how often documents were computed.
	publications int
	// silent, if set, is returned as an error instead of the API server's response. metrics holds the metrics of each gateway. diagnoses counts the diagnoses.
	silent    error
	metrics   string
	diagnoses int
	// steady means that each diagnosis has the same findings. Otherwise each one has a finding of its own.
	steady bool
	// usage holds the measured cores of node milan; without it, the cluster has no metrics API.
	usage string
	// read has the namespace of each pod whose metrics were read.
	read []string
}

// run runs a test while its cluster is watched, on a clock of its own.
func run(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, informers: &informertest.FakeInformers{Scheme: kube.NewScheme()}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- Run(ctx, Options{
				Clusters: []Cluster{{
					ID: "rome", Server: "https://rome", Namespace: "liqo", Informers: w.informers,
					Probe: func(context.Context) error { return locked(w, func() error { return w.silent }) },
					Metrics: func(_ context.Context, namespace, pod string, port int32) ([]byte, error) {
						locked(w, func() bool { w.read = append(w.read, namespace); return true })
						if at := fmt.Sprintf("%s/%s:%d", namespace, pod, port); at != "tenant/gw:8082" {
							return nil, errors.New("nothing is at " + at)
						}
						return []byte(locked(w, func() string { return w.metrics })), nil
					},
					Usage: func(context.Context) (map[string]corev1.ResourceList, error) {
						cores := locked(w, func() string { return w.usage })
						if cores == "" {
							return nil, errors.New("the server could not find the requested resource")
						}
						return map[string]corev1.ResourceList{"milan": {corev1.ResourceCPU: resource.MustParse(cores)}}, nil
					},
				}},
				Diagnose: func(context.Context) []doctor.Finding {
					return locked(w, func() []doctor.Finding {
						w.diagnoses++
						if w.steady {
							return []doctor.Finding{{Cluster: "rome", Evidence: "the same"}}
						}
						return []doctor.Finding{{Cluster: "rome", Evidence: fmt.Sprint("diagnosis ", w.diagnoses)}}
					})
				},
				Publish: func(documents dashboard.Documents) {
					locked(w, func() bool { w.published = documents; w.publications++; return true })
				},
			})
		}()
		synctest.Wait()
		test(w)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func locked[T any](w *world, do func() T) T {
	w.mu.Lock()
	defer w.mu.Unlock()
	return do()
}

// wait lets time pass.
func (w *world) wait(d time.Duration) {
	time.Sleep(d) // by the fake clock of package synctest
	synctest.Wait()
}

// document returns the text of a published document, empty if there is none.
func (w *world) document(key string) string {
	return locked(w, func() string { return string(w.published[key]) })
}

// add, change and remove simulate events of the API server.
func (w *world) add(objects ...client.Object) {
	w.Helper()
	for _, object := range objects {
		informer, err := w.informers.FakeInformerFor(w.Context(), object)
		if err != nil {
			w.Fatal(err)
		}
		informer.Add(object)
	}
}

func (w *world) change(before, after client.Object) {
	w.Helper()
	informer, err := w.informers.FakeInformerFor(w.Context(), after)
	if err != nil {
		w.Fatal(err)
	}
	informer.Update(before, after)
}

func (w *world) remove(object client.Object) {
	w.Helper()
	informer, err := w.informers.FakeInformerFor(w.Context(), object)
	if err != nil {
		w.Fatal(err)
	}
	informer.Delete(object)
}

func offloading() *offloadingv1beta1.NamespaceOffloading {
	return &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "offloading"}}
}

func pod(node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "a"}, Spec: corev1.PodSpec{NodeName: node}}
}

func milan() *corev1beta1.ForeignCluster {
	return &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}, Spec: corev1beta1.ForeignClusterSpec{ClusterID: "milan"}}
}

func connection(state, latency string, at int64) *networkingv1beta1.Connection {
	return &networkingv1beta1.Connection{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: networkingv1beta1.GatewayChild("milan"), Labels: map[string]string{api.LabelRemoteClusterID: "milan"}},
		Status: networkingv1beta1.ConnectionStatus{
			Value: state, Latency: &networkingv1beta1.ConnectionLatency{Value: latency, Timestamp: metav1.Unix(at, 0)},
		},
	}
}

func gateway(port string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "gw", UID: "u", Labels: map[string]string{
			networkingv1beta1.LabelActive: api.True, api.LabelRemoteClusterID: "milan",
			networkingv1beta1.LabelComponent: networkingv1beta1.ComponentGateway, networkingv1beta1.LabelGatewayName: "milan",
		}, OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: networkingv1beta1.GatewayChild("milan") + "-5d4f", Controller: new(true)}}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: port, ContainerPort: 8082}}}}},
	}
}

// TestDocumentsFollowTheCluster: what changes in the cluster is published within a second.
func TestDocumentsFollowTheCluster(t *testing.T) {
	run(t, func(w *world) {
		w.wait(time.Second)
		if cluster := w.document("cluster/rome"); !strings.Contains(cluster, `"given":true`) || strings.Contains(cluster, "reading") {
			w.Errorf("the cluster is %s", cluster)
		}
		w.add(offloading(), pod(""))
		w.wait(time.Second)
		if w.document("pod/rome/demo/a") == "" {
			w.Error("a new pod is not published within a second")
		}
		w.change(pod(""), pod("r1"))
		w.wait(time.Second)
		if got := w.document("pod/rome/demo/a"); !strings.Contains(got, `"node":"r1"`) {
			w.Errorf("the pod that moved is %s", got)
		}
		w.remove(pod("r1"))
		w.wait(time.Second)
		if got := w.document("pod/rome/demo/a"); got != "" {
			w.Errorf("the deleted pod is still there: %s", got)
		}
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: new("liqo"), VolumeName: "pvc-1"},
		}
		w.add(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "liqo"}, Provisioner: storage.Provisioner}, claim)
		w.wait(time.Second)
		if got := w.document("claim/rome/demo/data"); got == "" || strings.Contains(got, "place") {
			w.Errorf("the claim without a volume is %s", got)
		}
		w.add(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{
			Name: "pvc-1", Labels: map[string]string{storage.LabelVirtual: api.True, api.LabelRemoteClusterID: "milan"},
			Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": storage.Provisioner},
		}})
		w.wait(time.Second)
		if got := w.document("claim/rome/demo/data"); !strings.Contains(got, `"place":"milan"`) {
			w.Errorf("the claim with a volume is %s", got)
		}
	})
}

// TestASilentServerIsNoticed: the page shows within twelve seconds that an API server no longer responds, and that it responds again.
func TestASilentServerIsNoticed(t *testing.T) {
	run(t, func(w *world) {
		w.wait(time.Second)
		locked(w, func() bool { w.silent = errors.New("no route to host"); return true })
		w.wait(12 * time.Second)
		got := w.document("cluster/rome")
		if !strings.Contains(got, "https://rome does not respond to liqoctl: no route to host") || !strings.Contains(got, `"health":"fail"`) {
			w.Errorf("a silent cluster is %s", got)
		}
		locked(w, func() bool { w.silent = nil; return true })
		w.wait(12 * time.Second)
		if got := w.document("cluster/rome"); strings.Contains(got, "does not respond") {
			w.Errorf("a cluster that responds again is %s", got)
		}
	})
}

// TestDiagnosesFollowChanges: a diagnosis runs after a change that may affect it, not after each measurement and each event, and never sooner than
// diagnosisPause.
func TestDiagnosesFollowChanges(t *testing.T) {
	run(t, func(w *world) {
		count := func() int { return locked(w, func() int { return w.diagnoses }) }
		w.add(milan(), connection(networkingv1beta1.Connected, "1ms", 1))
		w.wait(30 * time.Second)
		began := count()
		w.change(connection(networkingv1beta1.Connected, "1ms", 1), connection(networkingv1beta1.Connected, "9ms", 2))
		w.add(&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "e"}})
		w.wait(30 * time.Second)
		if count() != began {
			w.Errorf("a measurement and an event lead to %d diagnoses", count()-began)
		}
		w.change(connection(networkingv1beta1.Connected, "9ms", 2), connection(networkingv1beta1.ConnectionError, "9ms", 2))
		w.wait(time.Second)
		if count() != began+1 {
			w.Errorf("a broken tunnel leads to %d diagnoses within a second", count()-began)
		}
		if got := w.document("diagnosis"); !strings.Contains(got, fmt.Sprint("diagnosis ", began+1)) {
			w.Errorf("published is %s", got)
		}
		for range 20 {
			w.change(pod("r1"), pod("r2"))
			w.wait(100 * time.Millisecond)
		}
		if count() > began+2 {
			w.Errorf("changes within two seconds lead to %d diagnoses", count()-began-1)
		}
		w.wait(diagnosisEvery + time.Minute)
		if count() < began+3 {
			w.Error("without a change nothing is diagnosed for longer than that")
		}
	})
}

// TestTheGuideSaysHowOften: the intervals in the guide are those of this package.
func TestTheGuideSaysHowOften(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "guide", "dashboard.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(guide)), " ")
	for _, want := range []string{
		fmt.Sprintf("at most every %.0f seconds, and otherwise every %.0f minutes", diagnosisPause.Seconds(), diagnosisEvery.Minutes()),
		fmt.Sprintf("Every %.0f seconds, the command checks whether each API server still responds", probeEvery.Seconds()),
		fmt.Sprintf("Every %.0f seconds, it reads the traffic", trafficEvery.Seconds()),
		fmt.Sprintf("shown for %.0f seconds", dashboard.TrafficAge.Seconds()),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the guide does not say %q", want)
		}
	}
}

// TestRoundTripsAreKept: each measurement that the gateway reports is a point.
func TestRoundTripsAreKept(t *testing.T) {
	run(t, func(w *world) {
		last := connection(networkingv1beta1.Connected, "1ms", 1)
		w.add(milan(), last)
		w.wait(time.Second)
		for i := range int64(3) {
			next := connection(networkingv1beta1.Connected, fmt.Sprintf("%dms", i+2), i+2)
			w.change(last, next)
			last = next
			w.wait(time.Second)
		}
		if got := points(w, "roundTrips"); fmt.Sprint(got) != "[{1 0.001} {2 0.002} {3 0.003} {4 0.004}]" {
			w.Errorf("round trips are %v", got)
		}
	})
}

// points decodes a series of the tunnel between milan and rome.
func points(w *world, name string) []dashboard.Point {
	w.Helper()
	var document struct {
		Tunnel map[string]json.RawMessage `json:"tunnel"`
	}
	if err := json.Unmarshal([]byte(w.document("peering/milan/rome")), &document); err != nil {
		w.Fatal(err)
	}
	var out []dashboard.Point
	if text := document.Tunnel[name]; text != nil {
		if err := json.Unmarshal(text, &out); err != nil {
			w.Fatal(err)
		}
	}
	return out
}

// figure returns a current figure of the tunnel between milan and rome, or empty if there is none.
func figure(w *world, name string) string {
	w.Helper()
	var document struct {
		Tunnel map[string]json.RawMessage `json:"tunnel"`
	}
	if err := json.Unmarshal([]byte(w.document("peering/milan/rome")), &document); err != nil {
		w.Fatal(err)
	}
	return string(document.Tunnel[name])
}

// counters returns the metrics of a gateway that has sent and received these numbers of bytes.
func counters(sent, received int) string {
	return fmt.Sprintf("# TYPE liqo_peer_transmit_bytes_total counter\nliqo_peer_transmit_bytes_total{cluster_id=\"milan\",driver=\"wireguard\"} %d\n"+
		"# TYPE liqo_peer_receive_bytes_total counter\nliqo_peer_receive_bytes_total{cluster_id=\"milan\",driver=\"wireguard\"} %d\n", sent, received)
}

// TestTrafficIsMeasured: the traffic is the rate of the counters of the active gateway. If it is unknown, the page shows why.
func TestTrafficIsMeasured(t *testing.T) {
	run(t, func(w *world) {
		w.add(milan(), connection(networkingv1beta1.Connected, "1ms", 1))
		locked(w, func() bool { w.metrics = counters(1000, 0); return true })
		w.add(gateway("metrics"))
		w.wait(trafficEvery + time.Second)
		locked(w, func() bool { w.metrics = counters(3000, 500); return true })
		w.wait(trafficEvery)
		back, forth := points(w, "backs"), points(w, "forths") // rome is cluster B, so the traffic that it sends goes back from B to A
		if len(back) != 1 || back[0].Value != 200 || len(forth) != 1 || forth[0].Value != 50 {
			w.Errorf("sent %v, received %v; want 200 and 50 bytes per second", back, forth)
		}
		locked(w, func() bool { w.metrics = "liqo_build_info 1\n"; return true })
		w.wait(trafficEvery)
		if got := w.document("peering/milan/rome"); !strings.Contains(got, "there is no liqo_peer_") {
			w.Errorf("without the counters the peering is %s", got)
		}
		if forth, back := figure(w, "forth"), figure(w, "back"); forth != "" || back != "" {
			t.Errorf("without the counters the traffic is %s and %s", forth, back)
		}
		w.change(gateway("metrics"), gateway("health"))
		w.wait(trafficEvery)
		if got := w.document("peering/milan/rome"); !strings.Contains(got, "metrics.enabled=true turns them on") {
			w.Errorf("without metrics the peering is %s", got)
		}
	})
}

// TestUsageIsMeasured: the use of a virtual node follows the metrics API, and is not shown any more when that stops responding.
func TestUsageIsMeasured(t *testing.T) {
	run(t, func(w *world) {
		w.add(&offloadingv1beta1.VirtualNode{
			ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "milan"},
			Spec: offloadingv1beta1.VirtualNodeSpec{
				ClusterID: "milan", ResourceQuota: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}},
			},
		})
		for _, row := range []struct{ cores, want string }{{"", ""}, {"1", `"used":1,`}, {"3", `"used":3,`}, {"", ""}} {
			locked(w, func() bool { w.usage = row.cores; return true })
			w.wait(usageEvery + time.Second)
			if got := w.document("node/rome/milan"); got == "" || !strings.Contains(got, row.want) || row.want == "" && strings.Contains(got, `"used"`) {
				t.Errorf("with %q cores measured, the node is %s", row.cores, got)
			}
		}
	})
}

// TestNothingIsComputedWithoutAChange: while use, traffic and findings are read again and again and stay the same, no documents are computed.
func TestNothingIsComputedWithoutAChange(t *testing.T) {
	run(t, func(w *world) {
		locked(w, func() bool { w.usage, w.steady = "1", true; return true })
		w.add(milan(), connection(networkingv1beta1.Connected, "1ms", 1), gateway("health"))
		w.wait(2 * usageEvery)
		count := func() int { return locked(w, func() int { return w.publications }) }
		began, diagnoses := count(), locked(w, func() int { return w.diagnoses })
		w.wait(diagnosisEvery + time.Minute)
		if again := locked(w, func() int { return w.diagnoses }); again == diagnoses {
			t.Error("no diagnosis ran")
		}
		if got := count() - began; got != 0 {
			t.Errorf("documents were computed %d times although nothing changed", got)
		}
		locked(w, func() bool { w.usage = "2"; return true })
		w.wait(usageEvery)
		if got := count() - began; got != 1 {
			t.Errorf("documents were computed %d times after a change of a figure of use, want once", got)
		}
	})
}

// TestMetricsAreReadFromGatewaysOnly: a pod of a user with the labels of the active gateway gets no request, and changes no figure.
func TestMetricsAreReadFromGatewaysOnly(t *testing.T) {
	run(t, func(w *world) {
		planted := gateway("metrics")
		planted.Namespace, planted.UID = "team", "planted"
		w.add(milan(), connection(networkingv1beta1.Connected, "1ms", 1))
		locked(w, func() bool { w.metrics = counters(1000, 0); return true })
		w.add(gateway("metrics"), planted)
		w.wait(2 * trafficEvery)
		read := locked(w, func() []string { return slices.Compact(slices.Sorted(slices.Values(w.read))) })
		if !slices.Equal(read, []string{"tenant"}) {
			w.Errorf("metrics were read from pods in the namespaces %v, want only from the gateway's", read)
		}
		if got := w.document("peering/milan/rome"); strings.Contains(got, "nothing is at") {
			w.Errorf("the peering shows the metrics of another pod: %s", got)
		}
	})
}

// TestTrafficWithoutAGateway: after the active gateway is deleted, no event follows. The last measured traffic still stops being shown as current.
func TestTrafficWithoutAGateway(t *testing.T) {
	run(t, func(w *world) {
		w.add(milan(), connection(networkingv1beta1.Connected, "1ms", 1))
		locked(w, func() bool { w.metrics = counters(1000, 0); return true })
		w.add(gateway("metrics"))
		w.wait(trafficEvery + time.Second)
		locked(w, func() bool { w.metrics = counters(3000, 500); return true })
		w.wait(trafficEvery)
		if got := figure(w, "back"); got != "200" {
			t.Errorf("the traffic is %q, want 200", got)
		}
		w.remove(gateway("metrics"))
		w.wait(dashboard.TrafficAge + trafficEvery + time.Second)
		if got := figure(w, "back"); got != "" {
			t.Errorf("%s after the gateway was deleted, the traffic is still %s", dashboard.TrafficAge+trafficEvery, got)
		}
		if got := points(w, "backs"); len(got) != 1 {
			t.Errorf("the course of the traffic is %v", got)
		}
	})
}

// TestStrippedObjectsShowTheSame: the page shows the same for complete and for stripped objects.
func TestStrippedObjectsShowTheSame(t *testing.T) {
	large := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("3Gi")}
	node := func(name string, labels map[string]string) corev1.Node {
		return corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: map[string]string{"a": "b"}},
			Spec:       corev1.NodeSpec{PodCIDR: "10.0.0.0/24", Unschedulable: name == "cordoned"},
			Status: corev1.NodeStatus{Allocatable: large, Capacity: large, Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse}, {Type: corev1.NodeReady, Status: corev1.ConditionTrue, Message: "fine"},
			}},
		}
	}
	state := func() *dashboard.State {
		c := dashboard.Cluster{ID: "rome", Namespace: "liqo", Complete: true}
		c.Offloadings = []offloadingv1beta1.NamespaceOffloading{*offloading()}
		c.VirtualNodes = []offloadingv1beta1.VirtualNode{{
			ObjectMeta: metav1.ObjectMeta{Name: "milan"}, Spec: offloadingv1beta1.VirtualNodeSpec{ClusterID: "rome"}, // its own provider, so that free is shown
		}}
		wait := storagev1.VolumeBindingWaitForFirstConsumer
		c.Classes = []storagev1.StorageClass{{
			ObjectMeta: metav1.ObjectMeta{Name: "liqo", Annotations: map[string]string{"a": "b"}}, Provisioner: storage.Provisioner, VolumeBindingMode: &wait,
		}}
		for i, annotations := range []map[string]string{nil, {storage.AnnotationSelectedNode: "milan"}, {storage.AnnotationClaimUID: "c"}} {
			class := "liqo"
			c.Claims = append(c.Claims, corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: fmt.Sprint("claim", i), Annotations: annotations},
				Spec: corev1.PersistentVolumeClaimSpec{
					StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeName: []string{"pvc-1", "", ""}[i],
					Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}},
				},
				Status: corev1.PersistentVolumeClaimStatus{
					Phase:    []corev1.PersistentVolumeClaimPhase{corev1.ClaimBound, corev1.ClaimPending, corev1.ClaimBound}[i],
					Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("3Gi")},
				},
			})
		}
		c.Volumes = []corev1.PersistentVolume{{
			ObjectMeta: metav1.ObjectMeta{Name: "pvc-1", Labels: map[string]string{storage.LabelVirtual: api.True, api.LabelRemoteClusterID: "milan"},
				Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": storage.Provisioner, storage.AnnotationMove: `{"node":"r1"}`}},
			Spec: corev1.PersistentVolumeSpec{
				Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("3Gi")}, ClaimRef: &corev1.ObjectReference{Namespace: "demo", Name: "claim0"},
			},
		}}
		c.Nodes = []corev1.Node{node("r1", nil), node("cordoned", nil), node("milan", map[string]string{
			api.LabelType: api.TypeVirtualNode, api.LabelRemoteClusterID: "milan", "other": "label",
		})}
		for i, status := range []corev1.PodStatus{
			{Phase: corev1.PodRunning, PodIP: "10.0.0.1", Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, Message: "m"}}},
			{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable"}}},
			{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "long"},
			}}}},
			{Phase: corev1.PodFailed, Reason: "Evicted", Message: "m"}, {Phase: corev1.PodSucceeded},
		} {
			p := *pod([]string{"r1", "", "milan", "r1", "milan"}[i])
			p.Name, p.Status = fmt.Sprint("p", i), status
			p.Spec.Containers = []corev1.Container{{Name: "c", Image: "image", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("100m"),
			}}}}
			c.Pods = append(c.Pods, p)
		}
		c.Events = []corev1.Event{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "e"}, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "demo", Name: "p0", UID: "u"},
			Reason: "Why", Message: "what", Type: corev1.EventTypeWarning, Count: 3, LastTimestamp: metav1.Unix(5, 0), Source: corev1.EventSource{Component: "c"},
		}}
		return &dashboard.State{Clusters: []dashboard.Cluster{c}}
	}
	stripped := state()
	c := &stripped.Clusters[0]
	reduceAll(t, c.Offloadings)
	reduceAll(t, c.VirtualNodes)
	reduceAll(t, c.Nodes)
	reduceAll(t, c.Pods)
	reduceAll(t, c.Events)
	reduceAll(t, c.Claims)
	reduceAll(t, c.Volumes)
	reduceAll(t, c.Classes)
	reduceAll(t, c.Maps)
	if c.Pods[0].Spec.Containers != nil || c.Nodes[0].Annotations != nil || c.Events[0].Source.Component != "" || c.Claims[0].Spec.AccessModes != nil || c.Classes[0].Annotations != nil {
		t.Error("the objects are not stripped")
	}
	whole := dashboard.Compute(state())
	for key, document := range dashboard.Diff(whole, dashboard.Compute(stripped)).Set {
		t.Errorf("%s is %s of stripped objects, and %s of whole ones", key, document, whole[key])
	}
	kept := stripPod(gateway("metrics"))
	if len(kept.Spec.Containers) != 1 || gatewaypod.PeerOfGateway(kept, []networkingv1beta1.Connection{*connection("", "", 0)}) != "milan" {
		t.Errorf("the port or the peer of an active gateway is lost: %+v", kept)
	}
}

// reduceAll reduces objects as the informers do, which may do so twice.
func reduceAll[T any](t *testing.T, objects []T) {
	t.Helper()
	for i := range objects {
		for range 2 {
			out, err := reduce(&objects[i])
			if err != nil {
				t.Fatal(err)
			}
			objects[i] = *out.(*T)
		}
	}
}

// TestInformersOfForeignClustersAreLimited: informers of another administrator's cluster take no more objects than the limits.
func TestInformersOfForeignClustersAreLimited(t *testing.T) {
	for _, limit := range []int{2, 3} {
		objects := &toolscache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				list := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
				for i := range 3 {
					list.Items = append(list.Items, corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: fmt.Sprint(i), ResourceVersion: "1"}})
				}
				return list, nil
			},
			WatchFuncWithContext: func(_ context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
				if options.SendInitialEvents != nil {
					return nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil) // a server that lists
				}
				return apiwatch.NewFake(), nil
			},
		}
		informer := informerOptions(kube.NewScheme(), nil, &remote.Limits{Objects: limit, Bytes: 1 << 20}).NewInformer(objects, &corev1.ConfigMap{}, 0, toolscache.Indexers{})
		refused := make(chan error, 100)
		if err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *toolscache.Reflector, err error) { refused <- err }); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go informer.RunWithContext(ctx)
		var err error
		for err == nil && !informer.HasSynced() {
			select {
			case err = <-refused:
			case <-time.After(10 * time.Millisecond):
			}
		}
		cancel()
		if enough := limit == 3; (err == nil) != enough || len(informer.GetStore().ListKeys()) == 3 != enough {
			t.Errorf("at most %d objects: the informer has %v, %v", limit, informer.GetStore().ListKeys(), err)
		}
	}
}

// TestInformersKeepLittle: of an object with large metadata, each informer keeps less than 1 KiB. Of a claim it keeps no more than the page shows. What
// identifies an object, and what Liqo recorded on it, stays.
func TestInformersKeepLittle(t *testing.T) {
	options := informerOptions(kube.NewScheme(), nil, nil)
	for object, of := range options.ByObject {
		if of.Transform != nil {
			t.Errorf("the informer of %T has a transformation of its own", object)
		}
	}
	large := strings.Repeat("x", 100<<10)
	for _, kind := range newStore(&Cluster{}).kinds {
		object := kind.object()
		object.SetNamespace("demo")
		object.SetName("big")
		object.SetUID("u")
		object.SetResourceVersion("7")
		object.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: large}})
		object.SetAnnotations(map[string]string{"kubectl.kubernetes.io/last-applied-configuration": large, "example.com/liqo.io": large})
		object.SetLabels(map[string]string{"app": large, "notliqo.io/x": large, api.LabelRemoteClusterID: "milan", api.LabelType: api.TypeVirtualNode})
		object.SetOwnerReferences([]metav1.OwnerReference{{Name: large}})
		object.SetFinalizers([]string{large})
		if claim, is := object.(*corev1.PersistentVolumeClaim); is {
			claim.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": large}}
			claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Message: large}}
		}
		out, err := options.DefaultTransform(object)
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(out)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > 1<<10 {
			t.Errorf("of a %T, %d bytes are kept", object, len(data))
		}
		left, is := out.(client.Object)
		if !is || left.GetNamespace() != "demo" || left.GetName() != "big" || left.GetUID() != "u" || left.GetResourceVersion() != "7" {
			t.Errorf("a %T lost its identity: %s", object, data)
			continue
		}
		switch object.(type) {
		case *corev1.Pod, *corev1.Event: // the page reads labels of gateways only
		default:
			if left.GetLabels()[api.LabelRemoteClusterID] != "milan" {
				t.Errorf("a %T lost a label of Liqo: %s", object, data)
			}
		}
	}
}
