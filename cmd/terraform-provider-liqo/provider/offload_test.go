package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/test/clitest"
)

func shop() *offloadingv1beta1.NamespaceOffloading {
	return &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: offloadingv1beta1.NamespaceOffloadingName}}
}

// offloading is a control of a terraform: it reports the phase in the status of NamespaceOffloadings, and that the remote namespace in milan is required.
func offloading(t *testing.T, phase offloadingv1beta1.OffloadingPhase) func(client.Client, client.Object) {
	return func(c client.Client, _ client.Object) {
		object := shop()
		if c.Get(t.Context(), client.ObjectKeyFromObject(object), object) != nil {
			return
		}
		ready := offloadingv1beta1.RemoteNamespaceCondition{Type: offloadingv1beta1.RemoteNamespaceReady, Status: corev1.ConditionTrue}
		if phase != offloadingv1beta1.PhaseReady {
			ready.Status, ready.Reason, ready.Message = corev1.ConditionFalse, "CreationLoopBackOff", "the name is taken"
		}
		object.Status.OffloadingPhase, object.Status.ObservedGeneration = phase, object.Generation
		object.Status.RemoteNamespacesConditions = map[string][]offloadingv1beta1.RemoteNamespaceCondition{
			"milan": {{Type: offloadingv1beta1.RemoteNamespaceRequired, Status: corev1.ConditionTrue}, ready},
		}
		if err := c.Status().Update(t.Context(), object); err != nil {
			t.Error(err)
		}
	}
}

func terms(operator string, values ...any) []any {
	expression := attributes{"key": "liqo.io/provider", "operator": operator}
	if values != nil {
		expression["values"] = values
	}
	return []any{attributes{"match_expressions": []any{expression}}}
}

// TestOffloadedNamespaces: a namespace is offloaded, changed in place, read and no longer offloaded. A second plan changes nothing.
func TestOffloadedNamespaces(t *testing.T) {
	tf := configured(t)
	tf.control = offloading(t, offloadingv1beta1.PhaseReady)
	config := attributes{"namespace": "shop"}
	state := tf.applied("liqo_offload", nil, config)
	object := shop()
	if !tf.get(object) || object.Spec.PodOffloadingStrategy != "LocalAndRemote" || object.Spec.NamespaceMappingStrategy != "DefaultName" || object.Spec.ClusterSelector != nil {
		t.Fatalf("%+v", object.Spec)
	}
	tf.settled("liqo_offload", state, config)

	for _, config := range []attributes{
		{"namespace": "shop", "pod_offloading_strategy": "Remote", "cluster_selector_terms": terms("In", "kubeadm", "k3s")},
		{"namespace": "shop", "cluster_selector_terms": terms("Exists")},
		{"namespace": "shop", "cluster_selector_terms": []any{attributes{"match_expressions": []any{attributes{"key": "a", "operator": "Exists", "values": []any{}}}}}},
		{"namespace": "shop", "cluster_selector_terms": []any{}, "timeout": "1m"},
	} {
		state = tf.applied("liqo_offload", state, config)
		tf.settled("liqo_offload", state, config)
	}

	config = attributes{"namespace": "shop", "pod_offloading_strategy": "Remote", "cluster_selector_terms": terms("In", "kubeadm")}
	state = tf.applied("liqo_offload", state, config)
	if tf.get(object); object.Spec.PodOffloadingStrategy != "Remote" || object.Spec.ClusterSelector.NodeSelectorTerms[0].MatchExpressions[0].Values[0] != "kubeadm" {
		t.Errorf("%+v", object.Spec)
	}
	imported, problems := tf.imported("liqo_offload", "shop")
	if problems != "" {
		t.Fatal(problems)
	}
	tf.settled("liqo_offload", imported, config)

	tf.applied("liqo_offload", state, nil)
	if tf.get(shop()) {
		t.Error("the NamespaceOffloading is still there")
	}
	if state = tf.refresh("liqo_offload", state); state != nil {
		t.Errorf("a deleted NamespaceOffloading stays in the state: %v", state)
	}
	if none, _ := tf.imported("liqo_offload", "shop"); none != nil {
		t.Errorf("imported, although it does not exist: %v", none)
	}
}

// TestChangesOfOtherUsersAreSeen: a strategy that was changed without Terraform is planned back, and immutable attributes replace the object.
func TestChangesOfOtherUsersAreSeen(t *testing.T) {
	tf := configured(t)
	tf.control = offloading(t, offloadingv1beta1.PhaseReady)
	config := attributes{"namespace": "shop"}
	state := tf.applied("liqo_offload", nil, config)
	object := shop()
	tf.get(object)
	object.Spec.PodOffloadingStrategy = offloadingv1beta1.PodsLocal
	if err := tf.client.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	state = tf.refresh("liqo_offload", state)
	if plan := tf.plan("liqo_offload", state, config); state["pod_offloading_strategy"] != "Local" || !plan.changes || plan.replaces {
		t.Errorf("%v, %+v", state, plan)
	}
	for name, change := range map[string]attributes{
		"namespace": {"namespace": "bank"}, "strategy": {"namespace": "shop", "namespace_mapping_strategy": "EnforceSameName"},
		"remote name": {"namespace": "shop", "namespace_mapping_strategy": "SelectedName", "remote_namespace_name": "x"},
	} {
		if plan := tf.plan("liqo_offload", state, change); !plan.replaces {
			t.Errorf("%s: an immutable attribute is changed in place", name)
		}
	}
}

// TestOffloadedDataIsKept: nothing is changed while data of claims would be lost, by a destroy or by a selector that leaves a cluster out. The error is that of
// liqoctl, and names each claim. It advises nothing that deletes data.
func TestOffloadedDataIsKept(t *testing.T) {
	tf := configured(t, clitest.MapOf("milan", "shop"))
	tf.control = offloading(t, offloadingv1beta1.PhaseReady)
	state := tf.applied("liqo_offload", nil, attributes{"namespace": "shop"})
	volume := clitest.VolumeOf("1", "shop", "orders", "milan")
	if err := tf.client.Create(t.Context(), volume); err != nil {
		t.Fatal(err)
	}
	for name, config := range map[string]attributes{
		"destroy": nil, "selector": {"namespace": "shop", "cluster_selector_terms": terms("In", "kubeadm")},
	} {
		next, problems := tf.apply("liqo_offload", state, config)
		contains(t, problems, "data would be lost", "PersistentVolumeClaim orders in namespace shop has a volume of Liqo, 1Gi in cluster milan", "Nothing was changed. Copy the data")
		if object := shop(); !tf.get(object) || object.DeletionTimestamp != nil || object.Spec.ClusterSelector != nil || next == nil {
			t.Errorf("%s: changed although it is refused: %+v", name, object)
		}
	}
	if _, problems := tf.apply("liqo_offload", state, attributes{"namespace": "shop", "pod_offloading_strategy": "Remote"}); problems != "" {
		t.Errorf("the strategy can't be changed: %s", problems)
	}
	plan := tf.plan("liqo_offload", state, attributes{"namespace": "shop", "pod_offloading_strategy": "Local"})
	wider := shop()
	tf.get(wider)
	wider.Spec.ClusterSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "region", Operator: corev1.NodeSelectorOpExists}}}}}
	if err := tf.client.Update(t.Context(), wider); err != nil {
		t.Fatal(err)
	}
	_, problems := tf.carryOut("liqo_offload", plan, state, attributes{"namespace": "shop", "pod_offloading_strategy": "Local"})
	contains(t, problems, "data would be lost")
	if err := tf.client.Delete(t.Context(), volume); err != nil {
		t.Fatal(err)
	}
	tf.applied("liqo_offload", state, nil)
}

// TestWaitsSayForWhat: a namespace whose remote namespaces don't become ready fails after the timeout, with the reason, and stays in the state. One that is
// offloaded to no cluster is a warning.
func TestWaitsSayForWhat(t *testing.T) {
	tf := configured(t)
	tf.control = offloading(t, offloadingv1beta1.PhaseAllFailed)
	state, problems := tf.apply("liqo_offload", nil, attributes{"namespace": "shop", "timeout": "50ms"})
	contains(t, problems, "not finished within 50ms", "NamespaceOffloading shop/offloading is in phase AllFailed", "cluster milan: CreationLoopBackOff: the name is taken", "WARNING")
	if state == nil {
		t.Error("the object is not in the state, so that no destroy deletes it")
	}
	tf = configured(t)
	_, problems = tf.apply("liqo_offload", nil, attributes{"namespace": "shop", "timeout": "50ms"})
	contains(t, problems, "has not reconciled NamespaceOffloading shop/offloading yet")
	tf = configured(t)
	tf.control = offloading(t, offloadingv1beta1.PhaseNoClusterSelected)
	_, problems = tf.apply("liqo_offload", nil, attributes{"namespace": "shop"})
	contains(t, problems, "WARNING", "No virtual node matches")
}

// TestAnInterruptedWaitReplacesNothing: Ctrl-C while a resource waits leaves it in the state with a warning. An error would taint it: the next apply would end the peering,
// or delete the remote namespaces, and create them again.
func TestAnInterruptedWaitReplacesNothing(t *testing.T) {
	for kind, config := range map[string]attributes{"liqo_offload": {"namespace": "shop"}, "liqo_peer": toMilan(t)} {
		tf := configured(t)
		interrupted := false
		tf.control = func(c client.Client, _ client.Object) {
			for _, requested := range []client.Object{shop(), milan()} {
				if interrupted || c.Get(t.Context(), client.ObjectKeyFromObject(requested), requested) != nil {
					continue
				}
				interrupted = true
				if _, err := tf.server.StopProvider(t.Context(), &tfprotov6.StopProviderRequest{}); err != nil {
					t.Error(err)
				}
			}
		}
		state, problems := tf.apply(kind, nil, config)
		contains(t, problems, "WARNING", "interrupted while waiting", "has not reconciled")
		if state == nil || !interrupted || strings.Contains(problems, "ERROR") {
			t.Errorf("%s: interrupted %t, in the state %t: %s", kind, interrupted, state != nil, problems)
		}
	}
}

// TestAnInterruptedWriteIsCompleted: Ctrl-C while a resource is created does not stop a write that has begun. What was written is in the state, so that a destroy deletes it.
func TestAnInterruptedWriteIsCompleted(t *testing.T) {
	for kind, row := range map[string]struct {
		config  attributes
		written []client.Object
	}{
		"liqo_offload": {attributes{"namespace": "shop"}, []client.Object{shop()}},
		"liqo_peer":    {toMilan(t), []client.Object{tokenSecret(), milan()}},
	} {
		tf := configured(t)
		tf.writing = func() {
			if _, err := tf.server.StopProvider(t.Context(), &tfprotov6.StopProviderRequest{}); err != nil {
				t.Error(err)
			}
		}
		state, problems := tf.apply(kind, nil, row.config)
		for _, object := range row.written {
			if !tf.get(object) {
				t.Errorf("%s: %T was not written", kind, object)
			}
		}
		if contains(t, problems, "WARNING", "interrupted while waiting"); state == nil || strings.Contains(problems, "ERROR") {
			t.Errorf("%s: in the state %t: %s", kind, state != nil, problems)
		}
	}
}

// TestAnOffloadingThatEndsIsAWarning: a plan says that another user ends the offloading, since nothing changes it any more. It stays in the state until it is gone.
func TestAnOffloadingThatEndsIsAWarning(t *testing.T) {
	tf := configured(t)
	tf.control = offloading(t, offloadingv1beta1.PhaseReady)
	config := attributes{"namespace": "shop"}
	state := tf.applied("liqo_offload", nil, config)
	if next, problems := tf.read("liqo_offload", state); problems != "" || next == nil {
		t.Errorf("while it is ready: in the state %t, %s", next != nil, problems)
	}
	object := shop()
	tf.get(object)
	object.Finalizers = []string{"namespaceoffloading-controller.liqo.io/finalizer"}
	if err := errors.Join(tf.client.Update(t.Context(), object), tf.client.Delete(t.Context(), object)); err != nil {
		t.Fatal(err)
	}
	next, problems := tf.read("liqo_offload", state)
	contains(t, problems, "WARNING: The offloading of namespace shop is being ended", "NamespaceOffloading shop/offloading is being deleted since", "apply again when it is gone")
	if next == nil {
		t.Error("it is not in the state, so that an apply would create it again at once")
	}
	config["pod_offloading_strategy"] = "Local"
	_, problems = tf.apply("liqo_offload", state, config)
	contains(t, problems, "ERROR: Changing the offloading of namespace shop failed", "is being deleted since")
}

// TestFailedRequestsDoNotEndAWait: an API server that restarts ends no wait, and a forbidden request does.
func TestFailedRequestsDoNotEndAWait(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		ends bool
	}{
		"busy":      {apierrors.NewServiceUnavailable("starting"), false},
		"closed":    {&url.Error{Op: "Get", URL: "https://192.0.2.1", Err: io.ErrUnexpectedEOF}, false},
		"forbidden": {apierrors.NewForbidden(schema.GroupResource{Resource: "namespaceoffloadings"}, "offloading", nil), true},
	} {
		c, calls := &connection{interval: time.Millisecond}, 0
		err := c.wait(t.Context(), time.Minute, func(context.Context) (string, error) {
			if calls++; calls < 3 {
				return "", fmt.Errorf("reading: %w", test.err)
			}
			return "", nil
		})
		if (err != nil) != test.ends {
			t.Errorf("%s: %v after %d requests", name, err, calls)
		}
	}
}

// TestOffloadingsOfOthersAreNotTakenOver: a NamespaceOffloading that exists is imported on demand only.
func TestOffloadingsOfOthersAreNotTakenOver(t *testing.T) {
	object := shop()
	object.Spec.PodOffloadingStrategy = offloadingv1beta1.PodsRemote
	tf := configured(t, object)
	state, problems := tf.apply("liqo_offload", nil, attributes{"namespace": "shop"})
	contains(t, problems, "NamespaceOffloading shop/offloading exists", "terraform import liqo_offload.NAME shop")
	if tf.get(object); object.Spec.PodOffloadingStrategy != offloadingv1beta1.PodsRemote || state != nil {
		t.Errorf("%+v, %v", object.Spec, state)
	}
}

// TestInvalidOffloads: invalid attributes fail before anything is changed, with the attribute, its value and the valid values.
func TestInvalidOffloads(t *testing.T) {
	tf := newTerraform(t)
	for _, test := range []struct {
		config attributes
		want   []string
	}{
		{attributes{"namespace": "shop", "pod_offloading_strategy": "Everywhere"}, []string{"pod_offloading_strategy", `"Everywhere"`, "Local, Remote, LocalAndRemote"}},
		{attributes{"namespace": "shop", "namespace_mapping_strategy": "Any"}, []string{"namespace_mapping_strategy", `"Any"`, "EnforceSameName"}},
		{attributes{"namespace": "shop", "namespace_mapping_strategy": "SelectedName"}, []string{"remote_namespace_name", "goes with strategy SelectedName"}},
		{attributes{"namespace": "shop", "remote_namespace_name": "x"}, []string{`remote_namespace_name is "x"`, `"DefaultName"`}},
		{attributes{"namespace": "shop", "timeout": "soon"}, []string{"timeout", `"soon"`, "90s"}},
		{attributes{"namespace": "shop", "cluster_selector_terms": []any{}}, []string{"cluster_selector_terms is empty", "leave cluster_selector_terms out"}},
		{attributes{"namespace": "shop", "cluster_selector_terms": []any{attributes{"match_expressions": []any{}}}}, []string{"cluster_selector_terms[0].match_expressions is empty"}},
		{attributes{"namespace": "shop", "cluster_selector_terms": terms("Is")}, []string{"operator", `"Is"`, "NotIn"}},
	} {
		problems := tf.validate("liqo_offload", test.config)
		if problems == "" {
			t.Errorf("%v passes", test.config)
		}
		contains(t, problems, test.want...)
	}
	if problems := tf.validate("liqo_offload", attributes{"namespace": "shop", "namespace_mapping_strategy": "SelectedName", "remote_namespace_name": "x"}); problems != "" {
		t.Error(problems)
	}
}
