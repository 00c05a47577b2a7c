package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/remote"
)

func someFacts() facts {
	return facts{
		virtual: &offloadingv1beta1.VirtualNode{
			ObjectMeta: metav1.ObjectMeta{Name: "milan"},
			Spec: offloadingv1beta1.VirtualNodeSpec{
				ClusterID: "milan-id", Labels: map[string]string{"region": "north"},
				ResourceQuota:  corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}},
				StorageClasses: []authv1beta1.StorageType{{StorageClassName: "fast"}},
			},
		},
		name: "milan", ip: "10.0.0.1", port: 10250, version: "v1.37.0", now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		extraLabels: map[string]string{"extra": "1"},
	}
}

func condition(n *corev1.Node, t corev1.NodeConditionType) (found corev1.NodeCondition) {
	for _, c := range n.Status.Conditions {
		if c.Type == t {
			return c
		}
	}
	return corev1.NodeCondition{}
}

func TestNodeFollowsTheContract(t *testing.T) {
	n := desired(nil, someFacts())
	want := map[string]string{
		"kubernetes.io/hostname": "milan", "kubernetes.io/role": "agent", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
		"type": "virtual-kubelet", "liqo.io/type": "virtual-node", "liqo.io/remote-cluster-id": "milan-id",
		"node.kubernetes.io/exclude-from-external-load-balancers": "true", "alpha.service-controller.kubernetes.io/exclude-balancer": "true",
		"storage.liqo.io/available": "true", "region": "north", "extra": "1",
	}
	if diff := cmp.Diff(want, n.Labels); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]corev1.Taint{{Key: "virtual-node.liqo.io/not-allowed", Value: "true", Effect: corev1.TaintEffectNoExecute}}, n.Spec.Taints); diff != "" {
		t.Error(diff)
	}
	if cpu, pods := n.Status.Capacity.Cpu().String(), n.Status.Allocatable.Pods().String(); cpu != "4" || pods != "110" {
		t.Errorf("capacity: cpu %s, pods %s", cpu, pods)
	}
	if n.Status.Addresses[0].Address != "10.0.0.1" || n.Status.DaemonEndpoints.KubeletEndpoint.Port != 10250 || n.Status.NodeInfo.KubeletVersion != "v1.37.0" {
		t.Errorf("status %+v", n.Status)
	}
	if c := condition(n, corev1.NodeReady); c.Status != corev1.ConditionTrue || c.Reason != "KubeletReady" {
		t.Errorf("ready %+v", c)
	}
	if c := condition(n, corev1.NodeNetworkUnavailable); c.Type != "" {
		t.Errorf("the network counts although it is off: %+v", c)
	}
}

// TestNodeShowsTheProvidersPlatform: the scheduler compares images and selectors with the platform of the provider's nodes.
func TestNodeShowsTheProvidersPlatform(t *testing.T) {
	for name, label := range map[string]func(f *facts, key, value string){
		"label of the VirtualNode": func(f *facts, key, value string) {
			metav1.SetMetaDataLabel(&f.virtual.ObjectMeta, "kubernetes.io/"+key, value)
		},
		"label of its Node":         func(f *facts, key, value string) { f.virtual.Spec.Labels["kubernetes.io/"+key] = value },
		"the older label":           func(f *facts, key, value string) { f.virtual.Spec.Labels["beta.kubernetes.io/"+key] = value },
		"the option of the kubelet": func(f *facts, key, value string) { f.extraLabels["kubernetes.io/"+key] = value },
	} {
		for _, want := range []struct{ arch, os string }{{"arm64", ""}, {"arm64", "windows"}} {
			f := someFacts()
			label(&f, "arch", want.arch)
			if want.os == "" {
				want.os = "linux" // the default
			} else {
				label(&f, "os", want.os)
			}
			n := desired(nil, f)
			if n.Labels["kubernetes.io/arch"] != want.arch || n.Labels["kubernetes.io/os"] != want.os ||
				n.Status.NodeInfo.Architecture != want.arch || n.Status.NodeInfo.OperatingSystem != want.os {
				t.Errorf("%s: labels %v, status %+v, want %+v", name, n.Labels, n.Status.NodeInfo, want)
			}
		}
	}
}

func TestNodeSettlesAndKeepsForeignFields(t *testing.T) {
	f := someFacts()
	n := desired(nil, f)
	n.Labels["theirs"], n.Annotations["theirs"], n.Spec.Unschedulable = "1", "1", true
	n.Spec.Taints = append([]corev1.Taint{{Key: "node.kubernetes.io/not-ready", Effect: corev1.TaintEffectNoExecute}}, n.Spec.Taints...)
	n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "Theirs", Status: corev1.ConditionTrue})
	f.now = f.now.Add(statusFrequency - time.Second)
	if again := desired(n, f); !equality.Semantic.DeepEqual(n, again) {
		t.Errorf("it never settles: %s", cmp.Diff(n, again))
	}

	f.virtual.Spec.Labels, f.extraLabels = map[string]string{"region": "south"}, nil
	f.virtual.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
	f.virtual.Spec.ResourceQuota.Hard[corev1.ResourceCPU] = resource.MustParse("8")
	changed := desired(n, f)
	if _, extra := changed.Labels["extra"]; extra || changed.Labels["region"] != "south" || changed.Labels["theirs"] != "1" || !changed.Spec.Unschedulable {
		t.Errorf("labels %v", changed.Labels)
	}
	if len(changed.Spec.Taints) != 3 || changed.Status.Capacity.Cpu().String() != "8" {
		t.Errorf("taints %v, capacity %v", changed.Spec.Taints, changed.Status.Capacity)
	}
	f.virtual.Spec.Taints = nil
	if back := desired(changed, f); len(back.Spec.Taints) != 2 {
		t.Errorf("taints %v", back.Spec.Taints)
	}
}

// TestConditionsHaveHeartbeats: as those of a kubelet, conditions that do not change get a new heartbeat time every five minutes, all at once. Their transition
// time stays.
func TestConditionsHaveHeartbeats(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f := someFacts()
	f.now = began
	node := desired(nil, f)
	for _, after := range []time.Duration{statusFrequency - time.Second, statusFrequency, statusFrequency + time.Second, 2 * statusFrequency} {
		now := began.Add(after)
		beat := began
		if after >= statusFrequency {
			beat = began.Add(after.Truncate(statusFrequency))
		}
		if next := untilHeartbeat(node, now); next > statusFrequency || next <= 0 {
			t.Errorf("after %s: the next heartbeat is due after %s", after, next)
		}
		f.now = now
		node = desired(node, f)
		for _, c := range node.Status.Conditions {
			if !c.LastHeartbeatTime.Time.Equal(beat) || !c.LastTransitionTime.Time.Equal(began) {
				t.Errorf("after %s: %s has heartbeat %s and transition %s, want %s and %s", after, c.Type, c.LastHeartbeatTime, c.LastTransitionTime, beat, began)
			}
		}
	}
}

// TestLabelsOfAdministratorsStayOnTheNode: a label that an administrator of this cluster put on the Node stays, whatever the provider grants and withdraws.
func TestLabelsOfAdministratorsStayOnTheNode(t *testing.T) {
	f := someFacts()
	grants := func(labels ...string) {
		f.virtual.Spec.Labels = map[string]string{}
		for _, l := range labels {
			key, value, _ := strings.Cut(l, "=")
			f.virtual.Spec.Labels[key] = value
		}
		metav1.SetMetaDataAnnotation(&f.virtual.ObjectMeta, "offloading.liqo.io/granted-labels", strings.Join(labels, ","))
	}
	n := desired(nil, f)
	steps := []struct {
		do   func()
		want map[string]string // an empty value: no such label
	}{
		{func() { n.Labels["trust"] = "low"; grants("trust=high", "tier=gold") }, map[string]string{"trust": "low", "tier": "gold"}},
		{func() { grants("trust=high", "tier=silver") }, map[string]string{"trust": "low", "tier": "silver"}},
		{func() { n.Labels["tier"] = "iron" }, map[string]string{"trust": "low", "tier": "iron"}},
		{func() { grants("trust=low", "tier=iron") }, map[string]string{"trust": "low", "tier": "iron"}},
		{func() { grants() }, map[string]string{"trust": "low", "tier": "iron"}},
		{func() { delete(n.Labels, "tier"); grants("tier=gold") }, map[string]string{"trust": "low", "tier": "gold"}},
		{func() { grants() }, map[string]string{"trust": "low", "tier": ""}},
	}
	for i, step := range steps {
		step.do()
		n = desired(n, f)
		for key, want := range step.want {
			if n.Labels[key] != want {
				t.Errorf("step %d: label %s is %q, want %q", i, key, n.Labels[key], want)
			}
		}
		if again := desired(n, f); !equality.Semantic.DeepEqual(n, again) {
			t.Errorf("step %d never settles: %s", i, cmp.Diff(n, again))
		}
	}
}

func TestNodeFollowsTheProvider(t *testing.T) {
	f := someFacts()
	up := desired(nil, f)
	f.now, f.problem = f.now.Add(time.Minute), errors.New("dial tcp 192.0.2.1:6443: i/o timeout from port 1")
	down := desired(up, f)
	ready := condition(down, corev1.NodeReady)
	if ready.Status != corev1.ConditionFalse || ready.Reason != "KubeletNotReady" || !ready.LastTransitionTime.Time.Equal(f.now) {
		t.Errorf("%+v", ready)
	}
	f.now, f.problem = f.now.Add(time.Minute), errors.New("dial tcp 192.0.2.1:6443: i/o timeout from port 2")
	if again := desired(down, f); !equality.Semantic.DeepEqual(down, again) {
		t.Error("another wording of the same failure is a change")
	}
	f.problem = nil
	if healed := condition(desired(down, f), corev1.NodeReady); healed.Status != corev1.ConditionTrue || !healed.LastTransitionTime.Time.Equal(f.now) {
		t.Errorf("%+v", healed)
	}
	f.revoked = true
	if c := condition(desired(up, f), corev1.NodeReady); c.Status != corev1.ConditionFalse || c.Reason != "AccessRevoked" || !strings.Contains(c.Message, "drained") {
		t.Errorf("a drained tenant: %+v", c)
	}
	f.revoked, f.problem = false, fmt.Errorf("requesting https://milan/livez: %w", remote.ErrUnauthorized)
	rejected := desired(up, f)
	if c := condition(rejected, corev1.NodeReady); c.Status != corev1.ConditionFalse || c.Reason != "AccessRevoked" || !strings.Contains(c.Message, "rejects the identity") || !strings.Contains(c.Message, "livez") {
		t.Errorf("a rejected identity: %+v", c)
	}
	if kind, reason, message := accessChange(up, rejected); kind != corev1.EventTypeWarning || reason != "AccessRevoked" || message != condition(rejected, corev1.NodeReady).Message {
		t.Errorf("the Event about it is %s %s %q", kind, reason, message)
	}
	for what, change := range map[string][2]*corev1.Node{"a second time": {rejected, rejected}, "at the end": {rejected, up}, "of a lost connection": {up, down}} {
		if _, reason, _ := accessChange(change[0], change[1]); reason != "" {
			t.Errorf("%s, there is an Event %s", what, reason)
		}
	}
	f.problem, f.networkChecked = nil, true
	n := desired(up, f)
	if c := condition(n, corev1.NodeNetworkUnavailable); c.Status != corev1.ConditionTrue || c.Reason != "LiqoNetworkingDown" || condition(n, corev1.NodeReady).Status != corev1.ConditionFalse {
		t.Errorf("%+v", n.Status.Conditions)
	}
	f.networkUp = true
	n = desired(n, f)
	if c := condition(n, corev1.NodeNetworkUnavailable); c.Status != corev1.ConditionFalse || c.Reason != "LiqoNetworkingUp" || condition(n, corev1.NodeReady).Status != corev1.ConditionTrue {
		t.Errorf("%+v", n.Status.Conditions)
	}
	f.networkChecked = false
	if c := condition(desired(n, f), corev1.NodeNetworkUnavailable); c.Type != "" {
		t.Errorf("the network counts although it is off: %+v", c)
	}
}

// TestAReportedDrainNeedsNoTime: the Node shows at once that access is revoked if the provider reports a drain. A refusal without a report must last, because
// an API server that is starting refuses access, too.
func TestAReportedDrainNeedsNoTime(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for what, row := range map[string]struct {
		since   time.Time
		drained bool
		revoked bool
		in      time.Duration
	}{
		"allowed":             {time.Time{}, false, false, 0},
		"allowed again":       {time.Time{}, true, false, 0},
		"refused":             {now.Add(-time.Second), false, false, revokedTimeout - time.Second},
		"refused for long":    {now.Add(-revokedTimeout), false, true, 0},
		"refused and drained": {now, true, true, 0},
	} {
		n := &Node{opts: Options{RefusedSince: func() time.Time { return row.since }, Drained: func() bool { return row.drained }}}
		if revoked, in := n.revoked(now); revoked != row.revoked || in != row.in {
			t.Errorf("%s: revoked %t, decided in %s, want %t, %s", what, revoked, in, row.revoked, row.in)
		}
	}
}

// TestARevocationWithoutRemoteNamespaces: a virtual node without a readable remote namespace shows that access is revoked if the provider denies the control plane
// of this cluster all access, with the same timeout. A readable remote namespace proves that the provider grants access.
func TestARevocationWithoutRemoteNamespaces(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for what, row := range map[string]struct {
		reason   string
		since    time.Time
		readable bool
		revoked  bool
		in       time.Duration
	}{
		"granted":                     {"IdentityReady", now.Add(-time.Hour), false, false, 0},
		"not ready for other reasons": {"IdentityNotReady", now.Add(-time.Hour), false, false, 0},
		"refused":                     {"AccessRevoked", now.Add(-time.Second), false, false, revokedTimeout - time.Second},
		"refused for long":            {"AccessRevoked", now.Add(-revokedTimeout), false, true, 0},
		"refused, and readable":       {"AccessRevoked", now.Add(-revokedTimeout), true, false, 0},
	} {
		fc := &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan", ResourceVersion: "1"}}
		fc.Status.Modules.Authentication.Conditions = []corev1beta1.Condition{
			{Type: corev1beta1.AuthTenantStatus, Reason: "AccessRevoked", LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}, // of the other direction
			{Type: corev1beta1.AuthIdentityControlPlaneStatus, Reason: row.reason, LastTransitionTime: metav1.NewTime(row.since)},
		}
		n, err := New(Options{
			ForeignCluster: "milan", Listen: "127.0.0.1:10250",
			RefusedSince: func() time.Time { return time.Time{} }, Drained: func() bool { return false }, Readable: func() bool { return row.readable },
		})
		if err != nil {
			t.Fatal(err)
		}
		if revoked, in := n.revoked(now); revoked || in != 0 {
			t.Errorf("%s: revoked %t, decided in %s, before the ForeignCluster was read", what, revoked, in)
		}
		n.clusters.Wrote(fc)
		if revoked, in := n.revoked(now); revoked != row.revoked || in != row.in {
			t.Errorf("%s: revoked %t, decided in %s, want %t, %s", what, revoked, in, row.revoked, row.in)
		}
	}
}

// TestChangesOfTheNodeAreAnnounced: what interruptionChange and accessChange return is emitted as an Event about the Node, once.
func TestChangesOfTheNodeAreAnnounced(t *testing.T) {
	f := someFacts()
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithStatusSubresource(&corev1.Node{}).WithObjects(desired(nil, f)).Build()
	var events []string
	n, err := New(Options{
		Local: c, Name: f.name, Listen: "127.0.0.1:10250", Log: slog.New(slog.DiscardHandler),
		Event: func(_ context.Context, node *corev1.Node, kind, reason, _ string) {
			events = append(events, node.Name+" "+kind+" "+reason)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		change func()
		want   []string
	}{
		{func() {}, nil},
		{func() { f.revoked = true }, []string{"milan Warning AccessRevoked"}},
		{func() {}, nil},
		{func() {
			f.revoked, f.virtual.Spec.InterruptedNodes = false, []authv1beta1.InterruptedNode{{Name: "gpu-1", Cause: "is cordoned"}}
		}, []string{"milan Warning NodesInterrupted"}},
		{func() { f.virtual.Spec.InterruptedNodes = nil }, []string{"milan Normal NoNodeInterrupted"}},
	} {
		step.change()
		have := &corev1.Node{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: f.name}, have); err != nil {
			t.Fatal(err)
		}
		events = nil
		if err := n.update(t.Context(), have, desired(have, f)); err != nil || !slices.Equal(events, step.want) {
			t.Errorf("the Events are %q, %v, want %q", events, err, step.want)
		}
	}
}

// TestInterruptionsOfTheProvidersNodes: the condition and the Event name the nodes and the causes. A Node without interruptions has neither.
func TestInterruptionsOfTheProvidersNodes(t *testing.T) {
	f := someFacts()
	node := desired(nil, f)
	if c := condition(node, ProviderNodesInterrupted); c.Type != "" {
		t.Errorf("without an interruption: %+v", c)
	}
	step := func(what string, status corev1.ConditionStatus, kind, reason string, nodes ...authv1beta1.InterruptedNode) {
		t.Helper()
		f.now = f.now.Add(time.Minute)
		f.virtual.Spec.InterruptedNodes = nodes
		next := desired(node, f)
		c := condition(next, ProviderNodesInterrupted)
		gotKind, gotReason, message := interruptionChange(node, next)
		if c.Status != status || gotKind != kind || gotReason != reason || reason != "" && message != c.Message {
			t.Errorf("%s: condition %+v, Event %s %s %q", what, c, gotKind, gotReason, message)
		}
		for _, n := range nodes {
			if !strings.Contains(c.Message, n.Name+" ("+n.Cause+")") {
				t.Errorf("%s: the message does not name %v: %s", what, n, c.Message)
			}
		}
		if ready := condition(next, corev1.NodeReady); ready.Status != corev1.ConditionTrue {
			t.Errorf("%s: the virtual node is not ready", what)
		}
		node = next
	}
	one, two := authv1beta1.InterruptedNode{Name: "gpu-1", Cause: "taint aws-node-termination-handler/spot-itn"}, authv1beta1.InterruptedNode{Name: "gpu-2", Cause: "is not ready"}
	step("an interruption", corev1.ConditionTrue, corev1.EventTypeWarning, "NodesInterrupted", one)
	began := condition(node, ProviderNodesInterrupted).LastTransitionTime
	step("the same", corev1.ConditionTrue, "", "", one)
	step("one more", corev1.ConditionTrue, corev1.EventTypeWarning, "NodesInterrupted", one, two)
	if c := condition(node, ProviderNodesInterrupted); !c.LastTransitionTime.Equal(&began) {
		t.Errorf("one more node is a transition: %+v", c)
	}
	step("the end", corev1.ConditionFalse, corev1.EventTypeNormal, "NoNodeInterrupted")
	step("the same end", corev1.ConditionFalse, "", "")
	many := make([]authv1beta1.InterruptedNode, 1000)
	for i := range many {
		many[i].Name, many[i].Cause = "\x1b[2J"+strings.Repeat("n", 10000), strings.Repeat("c", 10000)
	}
	f.virtual.Spec.InterruptedNodes = many
	if c := condition(desired(node, f), ProviderNodesInterrupted); len(c.Message) > 10000 || strings.Contains(c.Message, "\x1b") {
		t.Errorf("a provider makes a message of %d bytes: %.100q", len(c.Message), c.Message)
	}
}

func TestForeignNode(t *testing.T) {
	if foreign(desired(nil, someFacts())) || !foreign(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{api.LabelRemoteClusterID: "milan-id"}}}) {
		t.Error("our node is taken for foreign, or a foreign one for ours")
	}
}
