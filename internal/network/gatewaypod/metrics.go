package gatewaypod

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"liqo.io/liqo/api"
)

// metricsPort is the name of the container port, and of the Service's port, with the metrics.
const metricsPort = "metrics"

// MetricsService returns the wanted Service in front of the metrics of the gateway's pods; nil if no container has a port with that name. It is
// headless, because each replica has metrics of its own.
func (o *Owner) MetricsService(r *Rendered) *corev1.Service {
	for _, c := range r.Deployment.Spec.Template.Spec.Containers {
		i := slices.IndexFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == metricsPort })
		if i < 0 {
			continue
		}
		return &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.MetricsName(), Labels: o.ChildLabels(), Annotations: api.Layered(o.Annotations)},
			Spec: corev1.ServiceSpec{
				ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true, Selector: o.Selector(),
				Ports: []corev1.ServicePort{{
					Name: metricsPort, Protocol: corev1.ProtocolTCP, Port: c.Ports[i].ContainerPort, TargetPort: intstr.FromString(metricsPort),
				}},
			},
		}
	}
	return nil
}

// MetricsName returns the name of the Service in front of the metrics. The name of a gateway with a long name is shortened.
func (o *Owner) MetricsName() string {
	child, suffix := o.Child(), "-"+metricsPort
	if len(child)+len(suffix) > maxServiceName {
		hash := hashJSON(child)
		child = child[:maxServiceName-len(suffix)-len(hash)-1] + "-" + hash
	}
	return child + suffix
}

// UpdateMetricsService updates have, the existing Service, to the values in want. Labels and annotations that other programs set stay.
func UpdateMetricsService(have, want *corev1.Service) {
	have.Labels, have.Annotations = api.Layered(have.Labels, want.Labels), api.Layered(have.Annotations, want.Annotations)
	if have.Spec.ClusterIP == "" {
		have.Spec.ClusterIP = want.Spec.ClusterIP // immutable
	}
	have.Spec.PublishNotReadyAddresses, have.Spec.Selector, have.Spec.Ports = want.Spec.PublishNotReadyAddresses, want.Spec.Selector, want.Spec.Ports
}
