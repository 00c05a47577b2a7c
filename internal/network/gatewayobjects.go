package network

import (
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
)

// GatewayClusterRole is what gateways may read in the whole cluster; the installation brings it.
const GatewayClusterRole = "liqo-gateway"

const (
	// annotationRendered, on what was made from a template, tells two renderings apart.
	annotationRendered = "networking.liqo.io/rendered-hash"
	// annotationNames, beside it, tells which labels and annotations were written, so that they can be taken back.
	annotationNames = "networking.liqo.io/rendered-names"
	// annotationRestarted, on the template of pods, is how kubectl rollout restart asks for new ones.
	annotationRestarted = "kubectl.kubernetes.io/restartedAt"
)

// maxServiceName is the longest name of a Service.
const maxServiceName = 63

// Owner is a GatewayServer or GatewayClient, as far as its children depend on it.
type Owner struct {
	Namespace, Name string
	UID             types.UID
	// ClusterID of the peer.
	ClusterID string
	// Labels and Annotations that everything gets.
	Labels, Annotations map[string]string
}

// Child is the name of the Deployment, Service, Secret, Connection, ServiceAccount, Role and RoleBinding of the gateway.
func (o *Owner) Child() string { return networkingv1beta1.GatewayChild(o.Name) }

// ClusterBinding is the name of the ClusterRoleBinding of the gateway.
func (o *Owner) ClusterBinding() string { return "liqo-gateway-" + o.Namespace + "-" + o.Name }

// Selector selects the pods of the gateway.
func (o *Owner) Selector() map[string]string {
	return map[string]string{
		networkingv1beta1.LabelComponent: networkingv1beta1.ComponentGateway, networkingv1beta1.LabelGatewayName: o.Name,
		networkingv1beta1.LabelGatewayNamespace: o.Namespace, api.LabelRemoteClusterID: o.ClusterID,
	}
}

// ChildLabels are on everything that is made for the gateway.
func (o *Owner) ChildLabels() map[string]string {
	return Layered(o.Labels, o.Selector(), map[string]string{
		"app.kubernetes.io/managed-by": "liqo", "app.kubernetes.io/part-of": "liqo",
		"app.kubernetes.io/name": networkingv1beta1.ComponentGateway, "app.kubernetes.io/component": "networking",
	})
}

// Check tells what is wrong with the names of the gateway.
func (o *Owner) Check() error {
	if o.ClusterID == "" {
		return fmt.Errorf("label %s is missing: set it to the cluster ID of the peer", api.LabelRemoteClusterID)
	}
	if len(o.Child()) > maxServiceName {
		return fmt.Errorf("the name %q is too long: its Service would be %s, and Kubernetes allows %d characters", o.Name, o.Child(), maxServiceName)
	}
	return nil
}

// Deployment of the gateway.
func (o *Owner) Deployment(r *Rendered) *appsv1.Deployment {
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.Namespace, Name: o.Child(),
			Labels: Layered(r.Deployment.Metadata.Labels, o.ChildLabels()), Annotations: Layered(o.Annotations, r.Deployment.Metadata.Annotations),
		},
		Spec: *r.Deployment.Spec.DeepCopy(),
	}
	// Which pods are its, and as whom they run, is no matter of taste.
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: o.Selector()}
	d.Spec.Template.Labels = Layered(d.Spec.Template.Labels, o.ChildLabels())
	d.Spec.Template.Annotations = Layered(o.Annotations, d.Spec.Template.Annotations)
	d.Spec.Template.Spec.ServiceAccountName, d.Spec.Template.Spec.DeprecatedServiceAccount = o.Child(), ""
	return d
}

// Service in front of a server, on the endpoint's port. What the template says of ports and type goes before the endpoint,
// labels and annotations of the spec go before the template.
func (o *Owner) Service(spec *networkingv1beta1.GatewayServerSpec, r *Rendered) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.Namespace, Name: o.Child(),
			Labels:      Layered(r.Service.Metadata.Labels, spec.ServiceLabels, o.ChildLabels()),
			Annotations: Layered(o.Annotations, r.Service.Metadata.Annotations, spec.ServiceAnnotations),
		},
		Spec: *r.Service.Spec.DeepCopy(),
	}
	s.Spec.Selector = o.Selector()
	if s.Spec.Type == "" {
		s.Spec.Type = spec.Endpoint.ServiceType
	}
	if s.Spec.Type == "" {
		s.Spec.Type = corev1.ServiceTypeClusterIP
	}
	if s.Spec.LoadBalancerIP == "" && s.Spec.Type == corev1.ServiceTypeLoadBalancer {
		s.Spec.LoadBalancerIP = spec.Endpoint.LoadBalancerIP
	}
	// A template is for all types of Services; what one of them does not take is left out.
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		s.Spec.LoadBalancerIP, s.Spec.LoadBalancerClass, s.Spec.AllocateLoadBalancerNodePorts, s.Spec.LoadBalancerSourceRanges = "", nil, nil, nil
	}
	if s.Spec.Type == corev1.ServiceTypeClusterIP {
		s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = "", 0
	}
	if len(s.Spec.Ports) == 0 {
		s.Spec.Ports = []corev1.ServicePort{{
			Name: "tunnel", Protocol: corev1.ProtocolUDP, Port: spec.Endpoint.Port, TargetPort: intstr.FromInt32(TunnelPort),
		}}
	}
	if s.Spec.Type != corev1.ServiceTypeClusterIP && s.Spec.Ports[0].NodePort == 0 {
		s.Spec.Ports[0].NodePort = spec.Endpoint.NodePort
	}
	return s
}

// Rights are what a gateway may do in its tenant namespace, beside reading the cluster's network: read its own keys, tell of its Connection,
// and mark the pod at work.
func (o *Owner) Rights(secret string) []rbacv1.PolicyRule {
	group := networkingv1beta1.GroupVersion.Group
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{secret}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"patch"}},
		{APIGroups: []string{group}, Resources: []string{"connections/status"}, ResourceNames: []string{o.Child()}, Verbs: []string{"patch"}},
	}
}

// Subjects is the ServiceAccount of the gateway.
func (o *Owner) Subjects() []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: o.Namespace, Name: o.Child()}}
}

// UpdateDeployment makes have what want says. Where want says nothing, what the API server filled in stays.
func UpdateDeployment(have, want *appsv1.Deployment) {
	if !updateMeta(&have.ObjectMeta, &want.ObjectMeta, want.Spec) && says(have.Spec, want.Spec) {
		return
	}
	selector, restarted := have.Spec.Selector, have.Spec.Template.Annotations[annotationRestarted]
	have.Spec = *want.Spec.DeepCopy()
	if selector != nil {
		have.Spec.Selector = selector // immutable
	}
	if restarted != "" {
		have.Spec.Template.Annotations = Layered(have.Spec.Template.Annotations, map[string]string{annotationRestarted: restarted})
	}
}

// UpdateService is UpdateDeployment for a Service: addresses, ports and the class that were given to it stay where want says nothing.
func UpdateService(have, want *corev1.Service) {
	if !updateMeta(&have.ObjectMeta, &want.ObjectMeta, want.Spec) && says(have.Spec, want.Spec) {
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
	// Immutable for as long as the type is, and often filled in by whoever makes load balancers.
	if have.Spec.Type == given.Type && have.Spec.LoadBalancerClass == nil {
		have.Spec.LoadBalancerClass = given.LoadBalancerClass
	}
	for i := range have.Spec.Ports {
		if port := &have.Spec.Ports[i]; port.NodePort == 0 && i < len(given.Ports) {
			port.NodePort = given.Ports[i].NodePort
		}
	}
}

// updateMeta brings the metadata up to date and tells whether the specification differs from the one that was written last. What was written and is not
// wanted any more goes, what others put beside it stays.
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
	have.Labels = Layered(have.Labels, want.Labels)
	have.Annotations = Layered(have.Annotations, want.Annotations, map[string]string{annotationRendered: hash, annotationNames: string(now)})
	return changed
}

// names are those of the labels and annotations that were written.
type names struct {
	Labels      []string `json:"labels,omitempty"`
	Annotations []string `json:"annotations,omitempty"`
}

// says tells whether what is in want is in have, by their JSON. What is empty in want is for the API server to fill in.
func says(have, want any) bool {
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

// Layered returns one map with the entries of all, later ones on top; nil when there are none.
func Layered(all ...map[string]string) map[string]string {
	var result map[string]string
	for _, m := range all {
		if len(m) > 0 && result == nil {
			result = map[string]string{}
		}
		maps.Copy(result, m)
	}
	return result
}
