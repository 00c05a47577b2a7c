package scenario

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	charts "liqo.io/liqo/charts/liqo"
	"liqo.io/liqo/internal/install"
	"liqo.io/liqo/internal/install/installer"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// TestRestricted: in a cluster that enforces the restricted Pod Security level in namespaces without a label, a tool without knowledge of Liqo applies the
// objects of the chart, and all pods run.
func TestRestricted(t *testing.T) {
	story.Hush()
	machine, err := playground.Find(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	const prefix, id = "scenario-", "restricted"
	// Delete the clusters that an earlier, killed run has left.
	if err := machine.Delete(ctx, &playground.Cluster{Name: prefix + id}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := machine.Delete(context.WithoutCancel(ctx), &playground.Cluster{Name: prefix + id}); err != nil {
			t.Error(err)
		}
	})
	c, err := machine.Create(ctx, prefix, id, "--pod-security", "restricted")
	if err != nil {
		t.Fatal(err)
	}
	root := int64(0)
	err = c.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "root"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "root", Image: playground.TestServer, SecurityContext: &corev1.SecurityContext{RunAsUser: &root}}},
	}})
	if !apierrors.IsForbidden(err) {
		t.Fatalf("the cluster takes a pod that runs as root: %v", err)
	}
	waiting := installation(t, machine, id)
	eventually(ctx, t, "all objects to be accepted", func() error {
		var again []*unstructured.Unstructured
		var problems []error
		for _, object := range waiting {
			if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()), client.FieldOwner("tool"), client.ForceOwnership); err != nil {
				again, problems = append(again, object), append(problems, err)
			}
		}
		waiting = again
		return errors.Join(problems...)
	})
	eventually(ctx, t, "everything to run", func() error {
		var deployments appsv1.DeploymentList
		var agents appsv1.DaemonSetList
		here := client.InNamespace("liqo")
		if err := errors.Join(c.List(ctx, &deployments, here), c.List(ctx, &agents, here)); err != nil {
			return err
		}
		if len(deployments.Items) < 2 || len(agents.Items) != 1 {
			return fmt.Errorf("there are %d Deployments and %d DaemonSets", len(deployments.Items), len(agents.Items))
		}
		for _, d := range deployments.Items {
			if d.Status.AvailableReplicas != *d.Spec.Replicas {
				return fmt.Errorf("%s: %+v", d.Name, d.Status)
			}
		}
		if status := agents.Items[0].Status; status.DesiredNumberScheduled != 1 || status.NumberReady != 1 {
			return fmt.Errorf("%s: %+v", agents.Items[0].Name, status)
		}
		return nil
	})
}

// installation returns the rendered chart with the built images, including CRDs, as "helm template --include-crds" prints it.
func installation(t *testing.T, machine playground.Machine, id string) []*unstructured.Unstructured {
	t.Helper()
	version, err := machine.Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	chart, err := installer.Chart("")
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := installer.Render(chart, "liqo", install.Merge(map[string]any{
		"tag":       version,
		"discovery": map[string]any{"config": map[string]any{"clusterID": id}},
		"ipam":      map[string]any{"podCIDRs": []any{"10.244.0.0/16"}, "serviceCIDR": "10.96.0.0/16"},
	}))
	if err != nil {
		t.Fatal(err)
	}
	documents := append(strings.Split(manifest, "\n---\n"), `{apiVersion: v1, kind: Namespace, metadata: {name: liqo}}`)
	files, err := fs.ReadDir(charts.Files, charts.CRDs)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := fs.ReadFile(charts.Files, path.Join(charts.CRDs, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, string(text))
	}
	var out []*unstructured.Unstructured
	for _, document := range documents {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatal(err)
		}
		if len(object.Object) > 0 {
			out = append(out, object)
		}
	}
	return out
}

// eventually calls check once a second until it returns nil or ctx ends.
func eventually(ctx context.Context, t *testing.T, what string, check func() error) {
	t.Helper()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waiting for %s: %v", what, err)
		case <-tick.C:
		}
	}
}
