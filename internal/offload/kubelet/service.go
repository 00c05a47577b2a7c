package kubelet

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// metricsSuffix ends the names of metrics Services. maxServiceName is the maximum length of a Service's name.
const (
	metricsSuffix  = "-metrics"
	maxServiceName = 63
)

// ServiceName returns the name of the metrics Service of a virtual kubelet. It contains a hash if the name of the VirtualNode is not valid in
// the name of a Service.
func ServiceName(virtualNode string) string {
	name := Name(virtualNode) + metricsSuffix
	if strings.Contains(name, ".") || len(name) > maxServiceName {
		name = Name(hashOf(virtualNode)) + metricsSuffix
	}
	return name
}

// Service returns the metrics Service of a VirtualNode's virtual kubelet; nil if there are no metrics. It is headless, because each replica
// has metrics of its own.
func Service(node *offloadingv1beta1.VirtualNode, facts Facts) *corev1.Service {
	port, ok := metricsPort(facts.Options)
	if !ok || node.Spec.Template != nil {
		return nil
	}
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: node.Namespace, Name: ServiceName(node.Name), Labels: Labels(node, facts.Labels), Annotations: facts.Annotations,
		},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true, Selector: Selector(node),
			Ports: []corev1.ServicePort{{Name: "metrics", Protocol: corev1.ProtocolTCP, Port: port, TargetPort: intstr.FromInt32(port)}},
		},
	}
}

// UpdateService updates have, the existing Service, to the values in want. The labels and annotations of others stay.
func UpdateService(have, want *corev1.Service) {
	have.Labels = api.Layered(have.Labels, want.Labels)
	if len(want.Annotations) > 0 {
		have.Annotations = api.Layered(have.Annotations, want.Annotations)
	}
	if have.Spec.ClusterIP == "" {
		have.Spec.ClusterIP = want.Spec.ClusterIP // immutable
	}
	have.Spec.PublishNotReadyAddresses, have.Spec.Selector, have.Spec.Ports = want.Spec.PublishNotReadyAddresses, want.Spec.Selector, want.Spec.Ports
}
