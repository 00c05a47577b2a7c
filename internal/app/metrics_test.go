package app

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	applier "liqo.io/liqo/internal/dataplane/agent"
	"liqo.io/liqo/internal/gateway"
	"liqo.io/liqo/internal/gateway/agent"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/metrics"
	networkcontrollers "liqo.io/liqo/internal/network/controllers"
	offloadcontrollers "liqo.io/liqo/internal/offload/controllers"
	"liqo.io/liqo/internal/offload/node"
	"liqo.io/liqo/internal/offload/reflection"
	peeringcontrollers "liqo.io/liqo/internal/peering/controllers"
	"liqo.io/liqo/internal/remote"
)

// scraped is the time at which the metrics are scraped in these tests.
var scraped = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// programMetrics returns a registry for each program, in which every metric of the program has a value.
func programMetrics(t *testing.T) map[string]*prometheus.Registry {
	t.Helper()
	all := map[string]*prometheus.Registry{}
	for _, program := range []string{metrics.ControllerManager, metrics.VirtualKubelet, metrics.Gateway, metrics.Fabric, metrics.Proxy} {
		all[program] = prometheus.NewPedanticRegistry()
		all[program].MustRegister(metrics.Build(program))
	}
	all[metrics.Proxy].MustRegister(proxyMetrics(func() int { return 2 }))
	applier.NewMetrics(all[metrics.Fabric])
	applier.NewMetrics(all[metrics.Gateway])
	agent.NewMetrics(all[metrics.Gateway], "milan", func() agent.Tunnel {
		return agent.Tunnel{
			Received: 1000, Sent: 2000, Connected: true, Handshake: time.Now().Add(-time.Minute), Active: true, Takeovers: 1,
			Implementation: gateway.Kernel, PingStats: gateway.PingStats{RTT: 3 * time.Millisecond, Pings: 10, Pongs: 9},
		}
	})
	m := reflection.NewMetrics(all[metrics.VirtualKubelet], "milan", "pool", func(report func(string, string, int)) { report("Pod", "shop", 3) })
	m.Fail("Pod", "shop")
	m.Took("Pod", true, 300*time.Millisecond)
	remote.RequestMetrics(all[metrics.VirtualKubelet], "milan")(http.MethodGet, time.Second)
	virtual := node.Metrics{
		Cluster: "milan", Name: "pool", Now: func() time.Time { return scraped },
		Certificate: func() *x509.Certificate {
			return &x509.Certificate{NotBefore: scraped.Add(-time.Hour), NotAfter: scraped.Add(time.Hour)}
		},
		State: func() remote.State { return remote.State{Known: true, Up: true} },
		Pods: func() []client.Object {
			return []client.Object{
				&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}}, &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}},
			}
		},
	}
	all[metrics.VirtualKubelet].MustRegister(metrics.Computed(virtual.Measure))

	cached := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(measured(t)...).Build()
	used := func(creator string) corev1.ResourceList {
		if creator != "milan-slice" {
			t.Errorf("the usage of %q is wanted", creator)
		}
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")}
	}
	manager := all[metrics.ControllerManager]
	manager.MustRegister(metrics.PeerAPIServerRequests.NewHistogram()) // created separately, because it has no series before the first request
	manager.MustRegister(
		peeringcontrollers.Metrics(cached, func() time.Time { return scraped }, logr.Discard()),
		offloadcontrollers.QuotaMetrics(cached, used, logr.Discard()),
		networkcontrollers.GatewayMetrics(cached, cached, logr.Discard()),
	)
	return all
}

// measured returns the objects of a cluster whose peer is both its provider and its consumer.
func measured(t *testing.T) []client.Object {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: scraped.Add(-time.Hour), NotAfter: scraped.Add(2 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	ofMilan := func(name string, labels ...string) metav1.ObjectMeta {
		o := metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: name, Labels: map[string]string{api.LabelRemoteClusterID: "milan"}}
		for i := 0; i < len(labels); i += 2 {
			o.Labels[labels[i]] = labels[i+1]
		}
		return o
	}
	ofGateway := func(o metav1.ObjectMeta) metav1.ObjectMeta {
		o.OwnerReferences = []metav1.OwnerReference{{APIVersion: networkingv1beta1.GroupVersion.String(), Kind: "GatewayServer", Name: "milan", UID: "gateway", Controller: new(true)}}
		return o
	}
	node := ofMilan("pool", api.LabelType, api.TypeVirtualNode)
	node.Namespace = ""
	replicas := int32(2)
	return []client.Object{
		&corev1beta1.ForeignCluster{
			ObjectMeta: metav1.ObjectMeta{Name: "milan"}, Spec: corev1beta1.ForeignClusterSpec{ClusterID: "milan"},
			Status: corev1beta1.ForeignClusterStatus{
				Conditions: []corev1beta1.Condition{{Type: corev1beta1.APIServerStatus, Status: corev1beta1.StatusError}},
				Modules: corev1beta1.Modules{Networking: corev1beta1.Module{
					Conditions: []corev1beta1.Condition{{Type: corev1beta1.NetworkConnectionStatus, Status: corev1beta1.StatusEstablished}},
				}},
			},
		},
		&authv1beta1.Identity{ObjectMeta: ofMilan("controlplane-milan"), Spec: authv1beta1.IdentitySpec{
			ClusterID: "milan", AuthParams: authv1beta1.AuthParams{SignedCRT: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})},
		}},
		&corev1.Node{ObjectMeta: node, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}},
		&offloadingv1beta1.Quota{ObjectMeta: ofMilan("milan-slice"), Spec: offloadingv1beta1.QuotaSpec{
			User: "milan-slice", Resources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")},
		}},
		&networkingv1beta1.Connection{ObjectMeta: ofGateway(ofMilan("gw-milan"))},
		&appsv1.Deployment{
			ObjectMeta: ofGateway(ofMilan("gw-milan", networkingv1beta1.LabelComponent, networkingv1beta1.ComponentGateway, networkingv1beta1.LabelGatewayName, "milan")),
			Spec:       appsv1.DeploymentSpec{Replicas: &replicas}, Status: appsv1.DeploymentStatus{AvailableReplicas: 1},
		},
	}
}

// TestMetricsAreThoseOfTheTable: each program serves the metrics that the reference lists for it, with their types and labels.
func TestMetricsAreThoseOfTheTable(t *testing.T) {
	registries := programMetrics(t)
	for program, registry := range registries {
		families, err := registry.Gather()
		if err != nil {
			t.Fatalf("%s: %v", program, err)
		}
		served := map[string]bool{}
		for _, family := range families {
			served[family.GetName()] = true
			i := slices.IndexFunc(metrics.All(), func(d *metrics.Definition) bool { return d.Name == family.GetName() })
			if i < 0 || !slices.Contains(metrics.All()[i].Programs, program) {
				t.Errorf("%s serves %s, which the table does not say", program, family.GetName())
				continue
			}
			definition := metrics.All()[i]
			if kind := strings.ToLower(family.GetType().String()); kind != string(definition.Type) || family.GetHelp() != definition.Help {
				t.Errorf("%s: %s is a %s with the text %q", program, family.GetName(), kind, family.GetHelp())
			}
			var labels []string
			for _, pair := range family.GetMetric()[0].GetLabel() {
				labels = append(labels, pair.GetName())
			}
			if want := slices.Sorted(slices.Values(definition.Labels)); !slices.Equal(labels, want) {
				t.Errorf("%s: %s has the labels %v, want %v", program, family.GetName(), labels, want)
			}
		}
		for _, definition := range metrics.All() {
			later := program == metrics.ControllerManager && definition == metrics.PeerAPIServerRequests
			if slices.Contains(definition.Programs, program) && !served[definition.Name] && !later {
				t.Errorf("%s does not serve %s", program, definition.Name)
			}
		}
	}
}

// TestMetricsFollowTheNamingRules: promtool accepts all names, except those that earlier versions fixed.
func TestMetricsFollowTheNamingRules(t *testing.T) {
	for program, registry := range programMetrics(t) {
		problems, err := testutil.GatherAndLint(registry)
		if err != nil {
			t.Fatal(err)
		}
		for _, problem := range problems {
			i := slices.IndexFunc(metrics.All(), func(d *metrics.Definition) bool { return d.Name == problem.Metric })
			if i < 0 || !metrics.All()[i].Fixed {
				t.Errorf("%s: %s: %s", program, problem.Metric, problem.Text)
			}
		}
	}
}

// TestSeriesAreAsManyAsTheTableSays: the reference states the number of series per peer, node or pod, from which operators estimate the size of their
// Prometheus. programMetrics has one object of each kind.
func TestSeriesAreAsManyAsTheTableSays(t *testing.T) {
	source, err := os.ReadFile(filepath.Join("..", "..", "api", "core", "v1beta1", "foreigncluster.go"))
	if err != nil {
		t.Fatal(err)
	}
	perHistogram := func(d *metrics.Definition) int { return len(d.Buckets) + 3 } // one series per bucket, plus the bucket +Inf, the sum and the count
	conditions := len(regexp.MustCompile(`(?m)^\t\w+ +ConditionType = "`).FindAll(source, -1))
	reflected := len(reflection.Kinds()) + 1 // the tokens of ServiceAccounts are reflected with the pods
	methods := len([]string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete})
	// most holds the maximum number of series of metrics whose series depend on events.
	most := map[*metrics.Definition]int{
		metrics.PeerCondition: conditions, metrics.PeerAPIServerRequests: methods * perHistogram(metrics.PeerAPIServerRequests),
		metrics.ReflectedItems: reflected, metrics.ReflectedTotal: reflected, metrics.ReflectionErrors: reflected,
		metrics.ReflectionDuration: len(reflection.Kinds()) * len([]string{reflection.Outgoing, reflection.Incoming}) * perHistogram(metrics.ReflectionDuration),
	}
	number := regexp.MustCompile(`^(up to )?(\d+) per `)
	for _, d := range metrics.All() {
		found := number.FindStringSubmatch(d.Series)
		if found == nil {
			t.Errorf("%s has %q series: begin with the number", d.Name, d.Series)
			continue
		}
		if limit := most[d]; (found[1] != "") != (limit > 0) || limit > 0 && found[2] != strconv.Itoa(limit) {
			t.Errorf("%s has %q series, and at most %d", d.Name, d.Series, limit)
		}
	}
	for program, registry := range programMetrics(t) {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			d := metrics.All()[slices.IndexFunc(metrics.All(), func(d *metrics.Definition) bool { return d.Name == family.GetName() })]
			series := len(family.GetMetric())
			if d.Type == metrics.Histogram {
				series *= perHistogram(d)
			}
			found := number.FindStringSubmatch(d.Series)
			if found != nil && found[1] == "" && found[2] != strconv.Itoa(series) {
				t.Errorf("%s serves %d series of %s, and the table says %s", program, series, d.Name, d.Series)
			}
			if limit := most[d]; limit > 0 && series > limit {
				t.Errorf("%s serves %d series of %s, and the table says %s", program, series, d.Name, d.Series)
			}
		}
	}
}

// TestMetricsMatchTheObjects: the metrics about peers, certificates, quotas, pods and replicas have the values of the objects.
func TestMetricsMatchTheObjects(t *testing.T) {
	registries := programMetrics(t)
	want := func(program, text string, names ...string) {
		t.Helper()
		if err := testutil.GatherAndCompare(registries[program], strings.NewReader(text), names...); err != nil {
			t.Error(err)
		}
	}
	const of = `cluster_id="milan",direction="outgoing",node_name="pool",reflector_resource="Pod"`
	durations := ""
	for _, bound := range metrics.ReflectionDuration.Buckets {
		durations += fmt.Sprintf("_bucket{%s,le=\"%g\"} %d\n%s", of, bound, int(metrics.Bool(bound >= 0.3)), metrics.ReflectionDuration.Name)
	}
	durations += `_bucket{` + of + `,le="+Inf"} 1
liqo_virtual_kubelet_reflection_duration_seconds_sum{` + of + `} 0.3
liqo_virtual_kubelet_reflection_duration_seconds_count{` + of + `} 1`
	help := func(d *metrics.Definition) string {
		return "# HELP " + d.Name + " " + d.Help + "\n# TYPE " + d.Name + " " + string(d.Type) + "\n"
	}
	for _, row := range []struct {
		program    string
		definition *metrics.Definition
		series     string
	}{
		{metrics.ControllerManager, metrics.PeerAPIServerReachable, `{cluster_id="milan"} 0`},
		{metrics.ControllerManager, metrics.PeerCondition, `{cluster_id="milan",condition="APIServerStatus",status="Error"} 1
liqo_peer_condition{cluster_id="milan",condition="NetworkConnectionStatus",status="Established"} 1`},
		{metrics.ControllerManager, metrics.CertificateExpiry,
			`{cluster_id="milan",kind="Identity",object_name="controlplane-milan",object_namespace="liqo-tenant-milan"} 7200`},
		{metrics.ControllerManager, metrics.CertificateLifetime,
			`{cluster_id="milan",kind="Identity",object_name="controlplane-milan",object_namespace="liqo-tenant-milan"} 10800`},
		{metrics.ControllerManager, metrics.VirtualNodeReady, `{cluster_id="milan",node_name="pool"} 1`},
		{metrics.ControllerManager, metrics.GatewayReplicas, `{cluster_id="milan",gateway="milan"} 2`},
		{metrics.ControllerManager, metrics.GatewayAvailableReplicas, `{cluster_id="milan",gateway="milan"} 1`},
		{metrics.ControllerManager, metrics.QuotaGranted, `{cluster_id="milan",quota="milan-slice",resource="cpu"} 4`},
		{metrics.ControllerManager, metrics.QuotaUsed, `{cluster_id="milan",quota="milan-slice",resource="cpu"} 0.5`},
		{metrics.VirtualKubelet, metrics.PeerAPIServerReachable, `{cluster_id="milan"} 1`},
		{metrics.VirtualKubelet, metrics.ReflectionDuration, durations},
		{metrics.VirtualKubelet, metrics.CertificateExpiry, `{cluster_id="milan",kind="Node",object_name="pool",object_namespace=""} 3600`},
		{metrics.VirtualKubelet, metrics.VirtualNodePods, `{cluster_id="milan",node_name="pool",phase="Failed"} 0
liqo_virtual_node_pods{cluster_id="milan",node_name="pool",phase="Pending"} 0
liqo_virtual_node_pods{cluster_id="milan",node_name="pool",phase="Running"} 2
liqo_virtual_node_pods{cluster_id="milan",node_name="pool",phase="Succeeded"} 0
liqo_virtual_node_pods{cluster_id="milan",node_name="pool",phase="Unknown"} 0`},
		{metrics.Gateway, metrics.PeerReceivedBytes, `{cluster_id="milan",driver="wireguard"} 1000`},
		{metrics.Gateway, metrics.PeerTransmittedBytes, `{cluster_id="milan",driver="wireguard"} 2000`},
		{metrics.Gateway, metrics.PeerLatency, `{cluster_id="milan",driver="wireguard"} 3000`},
		{metrics.Gateway, metrics.PeerConnected, `{cluster_id="milan",driver="wireguard"} 1`},
		{metrics.Gateway, metrics.PeerPings, `{cluster_id="milan"} 10`},
		{metrics.Gateway, metrics.PeerPingAnswers, `{cluster_id="milan"} 9`},
		{metrics.Gateway, metrics.GatewayActive, `{cluster_id="milan"} 1`},
		{metrics.Gateway, metrics.GatewayTakeovers, `{cluster_id="milan"} 1`},
		{metrics.Proxy, metrics.ProxyConnections, ` 2`},
		{metrics.Gateway, metrics.WireGuardImplementation, `{driver="wireguard",implementation="kernel"} 1`},
	} {
		want(row.program, help(row.definition)+row.definition.Name+row.series+"\n", row.definition.Name)
	}
}

// TestEndpointsStopWithTheProgram: the endpoints stop with the program, and an endpoint that fails stops the program.
func TestEndpointsStopWithTheProgram(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	failed := errors.New("the work failed")
	free := endpoints{metrics: "127.0.0.1:0", gatherer: prometheus.NewRegistry()}
	if err := free.during(t.Context(), func(context.Context) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("the end of the work is %v, want %v", err, failed)
	}
	busy := endpoints{metrics: taken.Addr().String(), gatherer: prometheus.NewRegistry()}
	err = busy.during(t.Context(), func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), taken.Addr().String()) {
		t.Errorf("an address in use leads to %v", err)
	}
}

// TestFailingMetricHidesNoOther: if one metric fails, the endpoint still serves the others.
func TestFailingMetricHidesNoOther(t *testing.T) {
	registry := newRegistry(metrics.Fabric)
	registry.MustRegister(metrics.Computed(func(_ context.Context, emit metrics.Emit) {
		emit(metrics.GatewayActive, 1, "milan")
		emit(metrics.GatewayActive, 1, "milan") // the same series twice
	}))
	reserved, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := reserved.Addr().String()
	reserved.Close()
	served := endpoints{metrics: address, gatherer: registry}
	err = served.during(t.Context(), func(ctx context.Context) error {
		for {
			resp, err := http.Get("http://" + address + "/metrics")
			if err != nil && ctx.Err() == nil {
				continue // the endpoint does not listen yet
			}
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if resp.StatusCode != http.StatusOK || !strings.Contains(string(text), metrics.BuildInfo.Name+"{") {
				t.Errorf("status %s, %s", resp.Status, text)
			}
			return err
		}
	})
	if err != nil {
		t.Error(err)
	}
}
