package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"

	"liqo.io/liqo/internal/install/installer"
	"liqo.io/liqo/internal/kube"
)

// servedKinds are the kinds of our chart and those of Kubernetes that commands use, by group/version/resource.
var servedKinds = sync.OnceValue(func() map[string]servedKind {
	out := map[string]servedKind{}
	chart, err := installer.Chart("")
	if err != nil {
		panic(err)
	}
	crds, err := installer.CRDs(chart)
	if err != nil {
		panic(err)
	}
	for _, crd := range crds {
		for _, version := range crd.Spec.Versions {
			kind := servedKind{crd.Spec.Group, version.Name, crd.Spec.Names.Plural, crd.Spec.Names.Kind, crd.Spec.Scope == "Namespaced"}
			out[kind.group+"/"+kind.version+"/"+kind.resource] = kind
		}
	}
	global := []string{
		"Namespace", "Node", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "CertificateSigningRequest", "MutatingWebhookConfiguration",
		"ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "RuntimeClass", "StorageClass", "PriorityClass", "SelfSubjectAccessReview",
		"ServiceCIDR", "PersistentVolume", "IngressClass",
	}
	groups := []string{
		"", "apps", "rbac.authorization.k8s.io", "apiextensions.k8s.io", "certificates.k8s.io", "admissionregistration.k8s.io", "authorization.k8s.io",
		"discovery.k8s.io", "coordination.k8s.io", "node.k8s.io", "storage.k8s.io", "batch",
	}
	for gvk := range kube.NewScheme().AllKnownTypes() {
		if gvk.Version != "v1" || !slices.Contains(groups, gvk.Group) || strings.HasSuffix(gvk.Kind, "List") || strings.HasSuffix(gvk.Kind, "Options") || gvk.Kind == "WatchEvent" {
			continue
		}
		plural, _ := meta.UnsafeGuessKindToResource(gvk)
		out[gvk.Group+"/v1/"+plural.Resource] = servedKind{gvk.Group, "v1", plural.Resource, gvk.Kind, !slices.Contains(global, gvk.Kind)}
	}
	return out
})

// discover answers what the server knows; nil when that was not asked.
func (m *memory) discover(r *http.Request) *http.Response {
	switch r.URL.Path {
	case "/version":
		return answer(http.StatusOK, version.Info{Major: "1", Minor: "34", GitVersion: "v1.34.1"})
	case "/api", "/apis":
	default:
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if body := m.discovered[r.URL.Path]; body != nil && len(m.without) == 0 {
		return discoveryDocument(body)
	}
	groups := map[string]*discoveryv2.APIGroupDiscovery{}
	for _, key := range slices.Sorted(maps.Keys(m.kinds)) {
		kind := m.kinds[key]
		if (kind.group == "") != (r.URL.Path == "/api") || m.without[key] {
			continue
		}
		group := groups[kind.group]
		if group == nil {
			group = &discoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: kind.group}}
			groups[kind.group] = group
		}
		i := slices.IndexFunc(group.Versions, func(v discoveryv2.APIVersionDiscovery) bool { return v.Version == kind.version })
		if i < 0 {
			group.Versions = append(group.Versions, discoveryv2.APIVersionDiscovery{Version: kind.version, Freshness: discoveryv2.DiscoveryFreshnessCurrent})
			i = len(group.Versions) - 1
		}
		scope := discoveryv2.ScopeCluster
		if kind.namespaced {
			scope = discoveryv2.ScopeNamespace
		}
		group.Versions[i].Resources = append(group.Versions[i].Resources, discoveryv2.APIResourceDiscovery{
			Resource: kind.resource, Scope: scope, SingularResource: strings.ToLower(kind.kind), Verbs: []string{"create", "delete", "get", "list", "patch", "update", "watch"},
			ResponseKind: &metav1.GroupVersionKind{Group: kind.group, Version: kind.version, Kind: kind.kind},
		})
	}
	list := discoveryv2.APIGroupDiscoveryList{TypeMeta: metav1.TypeMeta{APIVersion: "apidiscovery.k8s.io/v2", Kind: "APIGroupDiscoveryList"}}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		list.Items = append(list.Items, *groups[name])
	}
	body, err := json.Marshal(list)
	if err != nil {
		panic(err)
	}
	if len(m.without) == 0 {
		m.discovered[r.URL.Path] = body
	}
	return discoveryDocument(body)
}

func discoveryDocument(body []byte) *http.Response {
	response := answer(http.StatusOK, nil)
	response.Header.Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response
}
