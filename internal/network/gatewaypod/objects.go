// Package gatewaypod plans the Kubernetes objects of a gateway: its Deployment, its Services and the rights of its pods, from the template that its GatewayServer or
// GatewayClient names.
package gatewaypod

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/network"
)

// ClusterRole is the ClusterRole with the permissions of gateways in the whole cluster. The installation creates it.
const ClusterRole = "liqo-gateway"

const (
	// annotationRendered has a hash of the spec that was last written from the template, to detect changes.
	annotationRendered = "networking.liqo.io/rendered-hash"
	// annotationNames lists the labels and annotations that were written, so that they can be removed later.
	annotationNames = "networking.liqo.io/rendered-names"
	// annotationRestarted is the annotation that kubectl rollout restart sets on the pod template.
	annotationRestarted = "kubectl.kubernetes.io/restartedAt"
)

// maxServiceName is the maximum length of a Service's name, in characters.
const maxServiceName = 63

// Owner holds the properties of a GatewayServer or GatewayClient that its children depend on.
type Owner struct {
	Namespace, Name string
	UID             types.UID
	// ClusterID is the ID of the peer.
	ClusterID string
	// Labels and Annotations are added to all children.
	Labels, Annotations map[string]string
}

// Child returns the name of the Deployment, Service, Secret, Connection, ServiceAccount, Role and RoleBinding of the gateway.
func (o *Owner) Child() string { return networkingv1beta1.GatewayChild(o.Name) }

// ClusterBinding returns the name of the ClusterRoleBinding of the gateway.
func (o *Owner) ClusterBinding() string { return "liqo-gateway-" + o.Namespace + "-" + o.Name }

// Selector returns the labels that select the pods of the gateway.
func (o *Owner) Selector() map[string]string {
	return map[string]string{
		networkingv1beta1.LabelComponent: networkingv1beta1.ComponentGateway, networkingv1beta1.LabelGatewayName: o.Name,
		networkingv1beta1.LabelGatewayNamespace: o.Namespace, api.LabelRemoteClusterID: o.ClusterID,
	}
}

// ChildLabels returns the labels of all children of the gateway.
func (o *Owner) ChildLabels() map[string]string {
	return api.Layered(o.Labels, o.Selector(), map[string]string{
		"app.kubernetes.io/managed-by": "liqo", "app.kubernetes.io/part-of": "liqo",
		"app.kubernetes.io/name": networkingv1beta1.ComponentGateway, "app.kubernetes.io/component": "networking",
	})
}

// Check returns an error if the gateway's cluster ID is missing or its name is too long.
func (o *Owner) Check() error {
	if o.ClusterID == "" {
		return fmt.Errorf("label %s is missing: set it to the cluster ID of the peer", api.LabelRemoteClusterID)
	}
	if len(o.Child()) > maxServiceName {
		return fmt.Errorf("the name %q is too long: its Service would be %s, and Kubernetes allows %d characters", o.Name, o.Child(), maxServiceName)
	}
	return nil
}

// Deployment returns the wanted Deployment of the gateway.
func (o *Owner) Deployment(r *Rendered) *appsv1.Deployment {
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.Namespace, Name: o.Child(),
			Labels: api.Layered(r.Deployment.Metadata.Labels, o.ChildLabels()), Annotations: api.Layered(o.Annotations, r.Deployment.Metadata.Annotations),
		},
		Spec: *r.Deployment.Spec.DeepCopy(),
	}
	// The template cannot change which pods belong to the Deployment and which ServiceAccount they use.
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: o.Selector()}
	d.Spec.Template.Labels = api.Layered(d.Spec.Template.Labels, o.ChildLabels())
	d.Spec.Template.Annotations = api.Layered(o.Annotations, d.Spec.Template.Annotations)
	d.Spec.Template.Spec.ServiceAccountName, d.Spec.Template.Spec.DeprecatedServiceAccount = o.Child(), ""
	return d
}

// Service returns the wanted Service of a server, on the endpoint's port. Ports and type in the template take precedence over the endpoint.
// Labels and annotations in the spec take precedence over the template.
func (o *Owner) Service(spec *networkingv1beta1.GatewayServerSpec, r *Rendered) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.Namespace, Name: o.Child(),
			Labels:      api.Layered(r.Service.Metadata.Labels, spec.ServiceLabels, o.ChildLabels()),
			Annotations: api.Layered(o.Annotations, r.Service.Metadata.Annotations, spec.ServiceAnnotations),
		},
		Spec: *r.Service.Spec.DeepCopy(),
	}
	s.Spec.Selector = o.Selector()
	s.Spec.Type = cmp.Or(s.Spec.Type, spec.Endpoint.ServiceType, corev1.ServiceTypeClusterIP)
	if s.Spec.LoadBalancerIP == "" && s.Spec.Type == corev1.ServiceTypeLoadBalancer {
		s.Spec.LoadBalancerIP = spec.Endpoint.LoadBalancerIP
	}
	// One template serves all types of Services, so remove the fields that the type does not allow.
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		s.Spec.LoadBalancerIP, s.Spec.LoadBalancerClass, s.Spec.AllocateLoadBalancerNodePorts, s.Spec.LoadBalancerSourceRanges = "", nil, nil, nil
	}
	if s.Spec.Type == corev1.ServiceTypeClusterIP {
		s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = "", 0
	}
	if len(s.Spec.Ports) == 0 {
		s.Spec.Ports = []corev1.ServicePort{{
			Name: "tunnel", Protocol: corev1.ProtocolUDP, Port: spec.Endpoint.Port, TargetPort: intstr.FromInt32(network.TunnelPort),
		}}
	}
	if s.Spec.Type != corev1.ServiceTypeClusterIP && s.Spec.Ports[0].NodePort == 0 {
		s.Spec.Ports[0].NodePort = spec.Endpoint.NodePort
	}
	return s
}

// Rights returns the permissions of a gateway in its tenant namespace, in addition to reading the cluster's network. The gateway may read
// its own keys, write the status of its Connection, and label the active pod.
func (o *Owner) Rights(secret string) []rbacv1.PolicyRule {
	group := networkingv1beta1.GroupVersion.Group
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{secret}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"patch"}},
		{APIGroups: []string{group}, Resources: []string{"connections/status"}, ResourceNames: []string{o.Child()}, Verbs: []string{"patch"}},
	}
}

// Subjects returns the ServiceAccount of the gateway.
func (o *Owner) Subjects() []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: o.Namespace, Name: o.Child()}}
}

// UpdateDeployment updates have, the existing Deployment, to the values in want. Where want has no value, the value from the API server stays.
func UpdateDeployment(have, want *appsv1.Deployment) {
	if !updateMeta(&have.ObjectMeta, &want.ObjectMeta, want.Spec) && containsAll(have.Spec, want.Spec) {
		return
	}
	selector, restarted := have.Spec.Selector, have.Spec.Template.Annotations[annotationRestarted]
	have.Spec = *want.Spec.DeepCopy()
	if selector != nil {
		have.Spec.Selector = selector // immutable
	}
	if restarted != "" {
		have.Spec.Template.Annotations = api.Layered(have.Spec.Template.Annotations, map[string]string{annotationRestarted: restarted})
	}
}

// UpdateService updates have, the existing Service, to the values in want. Where want has no value, the assigned addresses, ports and load balancer class stay.
func UpdateService(have, want *corev1.Service) {
	if !updateMeta(&have.ObjectMeta, &want.ObjectMeta, want.Spec) && containsAll(have.Spec, want.Spec) {
		return
	}
	given := have.Spec
	have.Spec = *want.Spec.DeepCopy()
	have.Spec.ClusterIP, have.Spec.ClusterIPs = given.ClusterIP, given.ClusterIPs
	if have.Spec.IPFamilyPolicy == nil {
		have.Spec.IPFamilyPolicy = given.IPFamilyPolicy
	}
	if len(have.Spec.IPFamilies) == 0 {
		have.Spec.IPFamilies = given.IPFamilies
	}
	if have.Spec.Type == corev1.ServiceTypeClusterIP {
		return
	}
	// The class is immutable while the type stays the same, and a load balancer controller often fills it in.
	if have.Spec.Type == given.Type && have.Spec.LoadBalancerClass == nil {
		have.Spec.LoadBalancerClass = given.LoadBalancerClass
	}
	for i := range have.Spec.Ports {
		if port := &have.Spec.Ports[i]; port.NodePort == 0 && i < len(given.Ports) {
			port.NodePort = given.Ports[i].NodePort
		}
	}
}

// updateMeta updates the metadata of have, and reports whether the spec differs from the last spec that Liqo wrote. It removes labels and
// annotations that Liqo wrote earlier and no longer wants. It keeps those of other programs.
func updateMeta(have, want *metav1.ObjectMeta, spec any) bool {
	hash := hashJSON(spec)
	changed := have.Annotations[annotationRendered] != hash
	var written names
	if err := json.Unmarshal([]byte(have.Annotations[annotationNames]), &written); err == nil {
		for _, key := range written.Labels {
			delete(have.Labels, key)
		}
		for _, key := range written.Annotations {
			delete(have.Annotations, key)
		}
	}
	now, err := json.Marshal(names{slices.Sorted(maps.Keys(want.Labels)), slices.Sorted(maps.Keys(want.Annotations))})
	if err != nil {
		panic(fmt.Sprintf("marshalling names: %v", err)) // strings always marshal
	}
	have.Labels = api.Layered(have.Labels, want.Labels)
	have.Annotations = api.Layered(have.Annotations, want.Annotations, map[string]string{annotationRendered: hash, annotationNames: string(now)})
	return changed
}

// names lists the keys of the labels and annotations that were written.
type names struct {
	Labels      []string `json:"labels,omitempty"`
	Annotations []string `json:"annotations,omitempty"`
}

// containsAll reports whether have contains all values of want, compared as JSON. Fields that are empty in want are ignored, because the API server may have
// set defaults for them.
func containsAll(have, want any) bool {
	var generic [2]any
	for i, value := range []any{have, want} {
		text, err := json.Marshal(value)
		if err == nil {
			err = json.Unmarshal(text, &generic[i])
		}
		if err != nil {
			panic(fmt.Sprintf("marshalling %T: %v", value, err)) // API types always marshal
		}
	}
	return saysJSON(generic[0], generic[1])
}

func saysJSON(have, want any) bool {
	switch want := want.(type) {
	case nil:
		return true
	case string:
		return want == "" || have == want
	case map[string]any:
		object, ok := have.(map[string]any)
		for key, value := range want {
			if !saysJSON(object[key], value) {
				return false
			}
		}
		return ok || len(want) == 0
	case []any:
		list, ok := have.([]any)
		if len(want) == 0 {
			return true
		}
		return ok && slices.EqualFunc(list, want, saysJSON)
	default:
		return have == want
	}
}

func hashJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("marshalling %T: %v", value, err)) // API types always marshal
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
