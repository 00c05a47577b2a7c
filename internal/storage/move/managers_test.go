package move

import (
	"encoding/json"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/apitest"
)

// TestFieldsAreHandedBack: a field goes to all managers that had it before. What another manager has taken meanwhile, what the command had before, and what is
// new stay where they are.
func TestFieldsAreHandedBack(t *testing.T) {
	entry := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
		}
	}
	type entries = []metav1.ManagedFieldsEntry
	const one, two, both = `{"f:spec":{"f:one":{}}}`, `{"f:spec":{"f:two":{}}}`, `{"f:spec":{"f:one":{},"f:two":{}}}`
	apply := entry("gitops", one)
	apply.Operation = metav1.ManagedFieldsOperationApply
	status := entry(Manager, one)
	status.Subresource = "status"
	for name, row := range map[string]struct{ now, before, want entries }{
		"the command created the object":   {entries{entry(Manager, both)}, entries{apply}, entries{entry(Manager, two), apply}},
		"two had the field":                {entries{entry(Manager, one)}, entries{apply, entry("kubectl", one)}, entries{apply, entry("kubectl", one)}},
		"it still has another field":       {entries{entry("kubectl", two), entry(Manager, one)}, entries{entry("kubectl", both)}, entries{entry("kubectl", both)}},
		"another manager took it":          {entries{entry("kubectl", one), entry(Manager, two)}, entries{apply}, nil},
		"the same name for another object": {entries{status}, entries{apply}, nil},
		"nobody had it":                    {entries{entry(Manager, both)}, nil, nil},
	} {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{ManagedFields: row.now}}
		got, due, err := handedBack(claim, row.before)
		if want := text(t, row.want); err != nil || due != (row.want != nil) || text(t, got) != want {
			t.Errorf("%s: due %v, %v\n%s\nwant\n%s", name, due, err, text(t, got), want)
		}
		if claim.ManagedFields = got; due {
			if _, again, err := handedBack(claim, row.before); again || err != nil {
				t.Errorf("%s: handed back again, %v", name, err)
			}
		}
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestAppliesAfterAMoveOnAPIServer: a GitOps tool that uses server-side apply can change and remove its fields of the claim and of the stopped owner after a move,
// without a conflict.
func TestAppliesAfterAMoveOnAPIServer(t *testing.T) {
	t.Parallel()
	config := rest.CopyConfig(apitest.APIServer(t))
	config.UserAgent = Manager
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := set.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shop}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	claims, deployments := set.CoreV1().PersistentVolumeClaims(shop), set.AppsV1().Deployments(shop)
	gitops := metav1.PatchOptions{FieldManager: "gitops"}
	applyClaim := func(metadata string) (*corev1.PersistentVolumeClaim, error) {
		return claims.Patch(t.Context(), claimName, types.ApplyPatchType, []byte(`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"data",`+metadata+`},`+
			`"spec":{"storageClassName":"liqo","accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`), gitops)
	}
	applyDeployment := func(replicas string) (*appsv1.Deployment, error) {
		return deployments.Patch(t.Context(), "db", types.ApplyPatchType, []byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"db"},"spec":{"replicas":`+replicas+
			`,"selector":{"matchLabels":{"app":"db"}},"template":{"metadata":{"labels":{"app":"db"}},"spec":{"containers":[{"name":"db","image":"db:1"}]}}}}`), gitops)
	}

	s := bound()
	if s.Claim, err = applyClaim(`"labels":{"tier":"a"},"annotations":{"note":"one"}`); err != nil {
		t.Fatal(err)
	}
	m := &move{State: &s, source: &s.Volumes[0], record: newRecord(s.Claim, &s.Volumes[0], s.node(s.Node), &s.Request)}
	if err := claims.Delete(t.Context(), claimName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// No controller runs that removes the finalizer.
	if _, err := claims.Patch(t.Context(), claimName, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if s.Claim, err = claims.Create(t.Context(), m.held(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		step, due := m.handBack(Preparing)
		if !due {
			break
		}
		if s.Claim, err = claims.Patch(t.Context(), claimName, types.MergePatchType, patchOf(t, &step), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, due := m.handBack(Preparing); due {
		t.Error("the fields of the claim are handed back without end")
	}
	got, err := applyClaim(`"labels":{"tier":"b"}`)
	if err != nil {
		t.Fatal("the claim: ", err)
	}
	if held := m.held().Annotations; got.Labels["tier"] != "b" || got.Annotations["note"] != "" || held["note"] == "" || len(got.Annotations) != len(held)-1 {
		t.Errorf("labels %v, annotations %v, the move created %v", got.Labels, got.Annotations, held)
	}

	owner, err := applyDeployment("3")
	if err != nil {
		t.Fatal(err)
	}
	s.Deployments, m.record.Live = []appsv1.Deployment{*owner}, &Live{Owner: Owner{Kind: deployment, Name: "db"}}
	step, due := m.stop(s.workload(deployment, "db"))
	for writes := 0; due; writes++ {
		if owner, err = deployments.Patch(t.Context(), "db", types.MergePatchType, patchOf(t, &step), metav1.PatchOptions{}); err != nil || writes > 3 {
			t.Fatal(writes, err)
		}
		s.Deployments[0] = *owner
		step, due = s.restart(Finishing)
	}
	if *owner.Spec.Replicas != 3 || owner.Annotations[AnnotationStopped] != "" {
		t.Errorf("%d replicas, annotations %v", *owner.Spec.Replicas, owner.Annotations)
	}
	if owner, err = applyDeployment("5"); err != nil || *owner.Spec.Replicas != 5 {
		t.Errorf("the owner: %v", err)
	}
	for _, entry := range owner.ManagedFields {
		if entry.Manager == Manager && strings.Contains(string(entry.FieldsV1.GetRawBytes()), "replicas") {
			t.Errorf("the command still manages the replicas: %+v", owner.ManagedFields)
		}
	}
}

// patchOf returns what the command writes for a step.
func patchOf(t *testing.T, step *Step) []byte {
	t.Helper()
	if step.Err != nil || step.Action != Patch {
		t.Fatalf("%+v", step)
	}
	patch, err := client.MergeFromWithOptions(step.Old.(client.Object), client.MergeFromWithOptimisticLock{}).Data(step.Object.(client.Object))
	if err != nil {
		t.Fatal(err)
	}
	return patch
}
