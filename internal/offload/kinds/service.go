package kinds

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// AnnotationForceNodePort ("true"), on a Service, requests the same node ports for its copy in the provider.
const AnnotationForceNodePort = "liqo.io/force-remote-node-port"

// ServiceOptions holds the facts that the rules for Services depend on.
type ServiceOptions struct {
	CopyOptions
	// LoadBalancerClass replaces the class of Services of type LoadBalancer. If it is empty, because the provider offers no class, the class is kept.
	LoadBalancerClass string
	// RemoteNamespace returns the remote namespace of a local namespace, false if it has none.
	RemoteNamespace func(namespace string) (string, bool)
}

// Service returns the copy of local, or why it has none. Addresses and ports that a cluster assigns are not copied: cluster IPs, external IPs, load
// balancer IPs and health check ports. The provider assigns new ones.
func Service(local *corev1.Service, namespace string, o ServiceOptions) (*corev1.Service, string) {
	if local.Namespace == "default" && local.Name == "kubernetes" {
		return nil, "it is the service of the API server"
	}
	if why := Kept(local.Annotations, o.CopyOptions); why != "" {
		return nil, why
	}
	in := local.Spec.DeepCopy()
	if in.Type == corev1.ServiceTypeExternalName {
		name, err := externalName(in.ExternalName, o.Destination, o.RemoteNamespace)
		if err != nil {
			return nil, err.Error()
		}
		in.ExternalName = name
	}
	out := &corev1.Service{
		ObjectMeta: copyMetadata(resourceServices, local, namespace, o.CopyOptions),
		Spec: corev1.ServiceSpec{
			Type: in.Type, Selector: in.Selector, Ports: in.Ports, ExternalName: in.ExternalName,
			AllocateLoadBalancerNodePorts: in.AllocateLoadBalancerNodePorts,
			ExternalTrafficPolicy:         in.ExternalTrafficPolicy,
			InternalTrafficPolicy:         in.InternalTrafficPolicy,
			TrafficDistribution:           in.TrafficDistribution,
			IPFamilyPolicy:                in.IPFamilyPolicy,
			LoadBalancerSourceRanges:      in.LoadBalancerSourceRanges,
			PublishNotReadyAddresses:      in.PublishNotReadyAddresses,
			SessionAffinity:               in.SessionAffinity,
			SessionAffinityConfig:         in.SessionAffinityConfig,
			LoadBalancerClass:             in.LoadBalancerClass,
		},
	}
	if in.ClusterIP == corev1.ClusterIPNone {
		out.Spec.ClusterIP = corev1.ClusterIPNone
	}
	// The API server sets the IP families of every Service, so they describe this cluster and not the user's request. They are copied only for
	// RequireDualStack, which requests both families in every cluster. A cluster with one family refuses a Service that names the other.
	if p := in.IPFamilyPolicy; p != nil && *p == corev1.IPFamilyPolicyRequireDualStack {
		out.Spec.IPFamilies = in.IPFamilies
	}
	if o.LoadBalancerClass != "" && in.Type == corev1.ServiceTypeLoadBalancer {
		out.Spec.LoadBalancerClass = &o.LoadBalancerClass
	}
	if local.Annotations[AnnotationForceNodePort] != "true" {
		for i := range out.Spec.Ports {
			out.Spec.Ports[i].NodePort = 0
		}
	}
	return out, ""
}

// MergeService returns the object have with the metadata and spec of want, and the change that this needs. It keeps the values that the provider assigned.
func MergeService(have, want *corev1.Service) (*corev1.Service, Change) {
	headless := func(s *corev1.Service) bool { return s.Spec.ClusterIP == corev1.ClusterIPNone }
	if headless(have) != headless(want) && have.Spec.Type != corev1.ServiceTypeExternalName && want.Spec.Type != corev1.ServiceTypeExternalName {
		return nil, Replace // whether a Service is headless is immutable
	}
	balancers := have.Spec.Type == corev1.ServiceTypeLoadBalancer && want.Spec.Type == corev1.ServiceTypeLoadBalancer
	if balancers && want.Spec.LoadBalancerClass != nil && !equality.Semantic.DeepEqual(have.Spec.LoadBalancerClass, want.Spec.LoadBalancerClass) {
		return nil, Replace // Kubernetes lets the class neither change nor be set while the type is LoadBalancer
	}
	out := have.DeepCopy()
	mergeMetadata(&out.ObjectMeta, &want.ObjectMeta)
	theirs := out.Spec
	out.Spec = *want.Spec.DeepCopy()
	s := &out.Spec
	if !headless(want) && !headless(have) {
		s.ClusterIP = theirs.ClusterIP
	}
	s.ClusterIPs = theirs.ClusterIPs
	s.ExternalIPs, s.LoadBalancerIP, s.HealthCheckNodePort = theirs.ExternalIPs, theirs.LoadBalancerIP, theirs.HealthCheckNodePort
	if balancers && s.LoadBalancerClass == nil { // the provider chose the class
		s.LoadBalancerClass = theirs.LoadBalancerClass
	}
	if len(s.IPFamilies) == 0 {
		s.IPFamilies = theirs.IPFamilies
	}
	if s.IPFamilyPolicy == nil {
		s.IPFamilyPolicy = theirs.IPFamilyPolicy
	}
	for i := range s.Ports {
		port := &s.Ports[i]
		j := slices.IndexFunc(theirs.Ports, func(p corev1.ServicePort) bool { return p.Port == port.Port && p.Protocol == port.Protocol })
		if j >= 0 && port.NodePort == 0 && nodePorts(s) {
			port.NodePort = theirs.Ports[j].NodePort
		}
	}
	if equality.Semantic.DeepEqual(out.ObjectMeta, have.ObjectMeta) && equality.Semantic.DeepEqual(out.Spec, have.Spec) {
		return have, Same
	}
	return out, Update
}

// nodePorts reports whether the ports of a Service may have node ports.
func nodePorts(s *corev1.ServiceSpec) bool {
	return s.Type == corev1.ServiceTypeNodePort ||
		s.Type == corev1.ServiceTypeLoadBalancer && (s.AllocateLoadBalancerNodePorts == nil || *s.AllocateLoadBalancerNodePorts)
}

// ServiceProblem returns what the user should know about the copy of a Service: what the copy lacks, or why there is no copy. It returns nil if there is
// nothing to report.
func ServiceProblem(local *corev1.Service, o ServiceOptions) error {
	if Kept(local.Annotations, o.CopyOptions) != "" {
		return nil
	}
	switch local.Spec.Type {
	case corev1.ServiceTypeExternalName:
		_, err := externalName(local.Spec.ExternalName, o.Destination, o.RemoteNamespace)
		return err
	case corev1.ServiceTypeLoadBalancer:
		return errors.Join(uncopied(resourceServices, local, o.CopyOptions), boundToNodes(&local.Spec, o.Destination))
	default:
		return boundToNodes(&local.Spec, o.Destination)
	}
}

// boundToNodes returns an error about a field by which a Service leads clients only to pods on the node that receives the request. No node of this cluster runs a
// pod of the provider, and no node there runs a pod of this cluster.
func boundToNodes(s *corev1.ServiceSpec, destination string) error {
	var problems []error
	if s.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal && (s.Type == corev1.ServiceTypeNodePort || s.Type == corev1.ServiceTypeLoadBalancer) {
		problems = append(problems, fmt.Errorf("with spec.externalTrafficPolicy Local, clients outside of the clusters reach only pods on the node that receives the request, so requests "+
			"to this cluster do not reach pods in cluster %[1]s, and requests to cluster %[1]s do not reach pods here: set it to Cluster, or run pods of the Service in each cluster that receives requests", destination))
	}
	if s.InternalTrafficPolicy != nil && *s.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal {
		problems = append(problems, fmt.Errorf("with spec.internalTrafficPolicy Local, each client reaches only pods on its own node, so clients here do not reach pods in cluster %[1]s, and "+
			"clients there do not reach pods here: set it to Cluster, or run pods of the Service on each node with clients", destination))
	}
	return errors.Join(problems...)
}
