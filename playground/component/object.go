package component

import (
	"embed"
	"encoding/json"
	"fmt"
	"strings"
	"text/template"

	"sigs.k8s.io/yaml"
)

// Object is a Kubernetes object to apply to the API server.
type Object struct {
	// Path is the URL path of the object, such as "/api/v1/namespaces/kube-system/configmaps/coredns".
	Path string
	// Body is the object as JSON.
	Body []byte
}

//go:embed manifest
var manifests embed.FS

// plural returns the resource name of a kind. It knows the kinds that the manifests and NodeObjects use.
func plural(kind string) (resource string, known bool) {
	resource, known = map[string]string{
		"APIService":         "apiservices",
		"ClusterRole":        "clusterroles",
		"ClusterRoleBinding": "clusterrolebindings",
		"ConfigMap":          "configmaps",
		"Deployment":         "deployments",
		"Node":               "nodes",
		"RoleBinding":        "rolebindings",
		"Service":            "services",
		"ServiceAccount":     "serviceaccounts",
		"StorageClass":       "storageclasses",
	}[kind]
	return resource, known
}

// NodeObjects returns the Node objects. They must exist before the kubelets start.
func (c Cluster) NodeObjects() ([]Object, error) {
	if c.ControlPlaneOnly {
		return nil, nil
	}
	var objects []Object
	for _, n := range c.List() {
		labels := map[string]string{"kubernetes.io/hostname": n.Name, "kubernetes.io/os": "linux"}
		if n.ControlPlane {
			labels["node-role.kubernetes.io/control-plane"] = ""
		}
		body, err := json.Marshal(map[string]any{
			"apiVersion": "v1", "kind": "Node",
			"metadata": map[string]any{"name": n.Name, "labels": labels},
			"spec":     map[string]any{"podCIDR": n.PodCIDR, "podCIDRs": []any{n.PodCIDR}},
		})
		if err != nil {
			return nil, fmt.Errorf("encoding node %s: %w", n.Name, err)
		}
		object, err := objectOf(body)
		if err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// Objects returns all other objects of a new cluster.
func (c Cluster) Objects() ([]Object, error) {
	names := []string{"base"}
	if !c.ControlPlaneOnly {
		names = append(names, "dns")
	}
	if c.MetricsServer {
		names = append(names, "metrics")
	}
	var objects []Object
	for _, name := range names {
		some, err := c.render("manifest/" + name + ".yaml")
		if err != nil {
			return nil, fmt.Errorf("rendering %s: %w", name, err)
		}
		objects = append(objects, some...)
	}
	return objects, nil
}

func (c Cluster) render(file string) ([]Object, error) {
	t, err := template.New("").Option("missingkey=error").ParseFS(manifests, file)
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	data := struct {
		Cluster
		KubernetesVersion, CoreDNSImage, MetricsServerImage string
	}{c, KubernetesVersion, CoreDNSImage, MetricsServerImage}
	if err := t.ExecuteTemplate(&text, file[strings.LastIndex(file, "/")+1:], data); err != nil {
		return nil, err
	}
	var objects []Object
	for _, document := range strings.Split(text.String(), "\n---\n") {
		body, err := yaml.YAMLToJSON([]byte(document))
		if err != nil {
			return nil, err
		}
		object, err := objectOf(body)
		if err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// objectOf returns the object with its URL path, derived from apiVersion, kind, namespace and name.
func objectOf(body []byte) (Object, error) {
	var o struct {
		APIVersion string
		Kind       string
		Metadata   struct{ Name, Namespace string }
	}
	if err := json.Unmarshal(body, &o); err != nil {
		return Object{}, fmt.Errorf("reading an object: %w", err)
	}
	resource, known := plural(o.Kind)
	if !known || o.Metadata.Name == "" {
		return Object{}, fmt.Errorf("placing %s %q: kind or name is unknown", o.Kind, o.Metadata.Name)
	}
	path := "/apis/" + o.APIVersion
	if o.APIVersion == "v1" {
		path = "/api/v1"
	}
	if o.Metadata.Namespace != "" {
		path += "/namespaces/" + o.Metadata.Namespace
	}
	return Object{Path: path + "/" + resource + "/" + o.Metadata.Name, Body: body}, nil
}
