package story

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/api"
	"liqo.io/liqo/test/playground"
)

// Snapshot holds every object of a cluster: its content as YAML, by resource, namespace and name.
type Snapshot map[string]string

// ignored returns the reason why a snapshot leaves out a resource, and whether it does.
func ignored(resource string) (why string, is bool) {
	why, is = map[string]string{
		"events":            "a record of what happened; the API server forgets it after an hour",
		"componentstatuses": "computed when it is asked for, never stored",
	}[resource]
	return why, is
}

// churns returns the reason why the content of a resource changes by itself, and whether it does. Only the names of such objects are compared.
func churns(resource string) (why string, is bool) {
	why, is = map[string]string{
		"endpoints":            "computed from pods, whose addresses change when their node restarts",
		"endpointslices":       "computed from pods, whose addresses change when their node restarts",
		"leases":               "holders renew them all the time",
		"resourceclaims":       "the scheduler fills them",
		"csistoragecapacities": "drivers measure them",
	}[resource]
	return why, is
}

// series reports whether an object is one of a series that a start or an installation continues, and returns the common name of the series. Snapshots compare
// only whether a series exists, not how many objects it has.
func series(resource, name string) (string, bool) {
	for _, s := range []struct{ resource, prefix, why string }{
		{"secrets", "sh.helm.release.v1.liqo.v", "Helm keeps a history of installations"},
		{"certificatesigningrequests", "liqo-kubelet-", "a kubelet asks for a certificate whenever it starts; Kubernetes forgets that after an hour"},
	} {
		if resource == s.resource && strings.HasPrefix(name, s.prefix) {
			return s.prefix + "*", true
		}
	}
	return name, false
}

// counted returns the name under which objects with generated names are counted. Snapshots compare only their number.
func counted(resource string, item unstructured.Unstructured) string {
	switch {
	case resource == "pods" && item.GetGenerateName() != "": // its controller replaces such a pod under another name
		return item.GetNamespace() + "/" + item.GetGenerateName() + "*"
	case resource == "ipaddresses": // belongs to a Service, which is named in it
		return "*"
	}
	return ""
}

// Take lists every object of every resource that can be listed.
func Take(ctx context.Context, c *playground.Cluster) (Snapshot, error) {
	lists, err := discovery.ServerPreferredResources(c.Set.Discovery())
	if err := withoutMeasured(err); err != nil {
		return nil, fmt.Errorf("discovering resources of %s: %w", c.ID, err)
	}
	objects, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	snapshot := Snapshot{}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		if version.Group == measured {
			continue
		}
		for _, resource := range list.APIResources {
			if _, skip := ignored(resource.Name); skip || !slices.Contains(resource.Verbs, "list") {
				continue
			}
			found, err := objects.Resource(version.WithResource(resource.Name)).List(ctx, metav1.ListOptions{})
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				continue // the resource was deleted meanwhile
			}
			if err != nil {
				return nil, fmt.Errorf("listing %s of %s: %w", resource.Name, c.ID, err)
			}
			for _, item := range found.Items {
				name, numbered := series(resource.Name, item.GetName())
				if group := counted(resource.Name, item); group != "" {
					snapshot[resource.Name+" "+group] += "one\n"
					continue
				}
				key := strings.TrimPrefix(version.Group+"/", "/") + resource.Name + " " + strings.TrimPrefix(item.GetNamespace()+"/", "/") + name
				if numbered {
					snapshot[key] = ""
				} else if snapshot[key], err = content(resource.Name, item); err != nil {
					return nil, err
				}
			}
		}
	}
	return snapshot, nil
}

// takeAll takes the snapshots of several clusters at the same time.
func takeAll(ctx context.Context, clusters []*playground.Cluster) (map[*playground.Cluster]Snapshot, error) {
	taken := make([]Snapshot, len(clusters))
	var group errgroup.Group
	for i, c := range clusters {
		group.Go(func() (err error) {
			taken[i], err = Take(ctx, c)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	all := map[*playground.Cluster]Snapshot{}
	for i, c := range clusters {
		all[c] = taken[i]
	}
	return all, nil
}

// measured is the API group of measurements, which are computed for each request and never stored.
const measured = "metrics.k8s.io"

// withoutMeasured returns the error of a discovery, or nil if only the group measured is missing. The server of that group needs half a minute after its node
// was powered on.
func withoutMeasured(err error) error {
	groups, partial := discovery.GroupDiscoveryFailedErrorGroups(err)
	if !partial {
		return err
	}
	for version := range groups {
		if version.Group != measured {
			return err
		}
	}
	return nil
}

// content returns the content of an object, without its status and without the fields that only record when and by whom it was written.
func content(resource string, item unstructured.Unstructured) (string, error) {
	if _, is := churns(resource); is {
		return "", nil
	}
	object := item.DeepCopy().Object
	delete(object, "status")
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"} {
		unstructured.RemoveNestedField(object, "metadata", field)
	}
	switch resource {
	case "nodes":
		withoutConditions(object)
	case "quotas": // shared resources depend on the free resources, in the Quota and in the VirtualNode
		unstructured.RemoveNestedField(object, "spec", "resources")
	case "virtualnodes":
		unstructured.RemoveNestedField(object, "spec", "resourceQuota", "hard")
	case "pods": // which replica of a gateway is active is not part of the pod's content
		unstructured.RemoveNestedField(object, "metadata", "labels", "networking.liqo.io/active")
	}
	unstructured.RemoveNestedField(object, "metadata", "annotations", api.AnnotationSourceUID) // a source that was recreated has another UID, and so has an owner
	if owners, found, err := unstructured.NestedSlice(object, "metadata", "ownerReferences"); err == nil && found {
		for _, owner := range owners {
			if fields, ok := owner.(map[string]any); ok {
				delete(fields, "uid")
			}
		}
		if err := unstructured.SetNestedSlice(object, owners, "metadata", "ownerReferences"); err != nil {
			return "", err
		}
	}
	data, err := yaml.Marshal(object)
	if err != nil {
		return "", fmt.Errorf("encoding %s %s: %w", resource, item.GetName(), err)
	}
	if resource == "secrets" { // differences are printed, so replace the content of a Secret
		sum := sha256.Sum256(data)
		return hex.EncodeToString(sum[:]), nil
	}
	return string(data), nil
}

// withoutConditions removes from a Node the fields that the node controller derives from its conditions, a few seconds after they change.
func withoutConditions(node map[string]any) {
	for _, label := range []string{"beta.kubernetes.io/arch", "beta.kubernetes.io/os"} {
		unstructured.RemoveNestedField(node, "metadata", "labels", label)
	}
	taints, found, err := unstructured.NestedSlice(node, "spec", "taints")
	if err != nil || !found {
		return
	}
	var ours []any
	for _, taint := range taints {
		if fields, ok := taint.(map[string]any); !ok || !strings.HasPrefix(fmt.Sprint(fields["key"]), "node.kubernetes.io/") {
			ours = append(ours, taint)
		}
	}
	unstructured.RemoveNestedField(node, "spec", "taints")
	if len(ours) > 0 {
		_ = unstructured.SetNestedSlice(node, ours, "spec", "taints")
	}
}

// Differs returns an error that lists the created, deleted and changed objects, nil if there are none.
func (s Snapshot) Differs(now Snapshot) error {
	var lines []string
	for key, text := range now {
		before, was := s[key]
		switch {
		case !was:
			lines = append(lines, "+ "+key)
		case before != text:
			lines = append(lines, "~ "+key+"\n"+cmp.Diff(strings.Split(before, "\n"), strings.Split(text, "\n")))
		}
	}
	for key := range s {
		if _, is := now[key]; !is {
			lines = append(lines, "- "+key)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	slices.Sort(lines)
	return fmt.Errorf("of %d objects %d differ (+ came, - went, ~ changed):\n  %s", len(s), len(lines), strings.Join(lines, "\n  "))
}
