package reflection

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kinds"
)

// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=get;list;watch
// +kubebuilder:rbac:groups=ipam.liqo.io,resources=ips,verbs=get;list;watch

// EndpointSliceOptions are the inputs of decisions about EndpointSlices, apart from the objects in their namespace.
type EndpointSliceOptions struct {
	kinds.EndpointSliceOptions
	// ServiceType decides which Services are reflected. The slices of the others are not.
	ServiceType offloadingv1beta1.ReflectionType
	// Translate enables address translation: an address stays unchanged if Native returns true, otherwise an IP object of the namespace gives the
	// remote address.
	Translate bool
	// OfNode reports whether an address is that of a node of this cluster. For such an address (a host-network pod) no IP object is created
	// automatically: only the user can expose it to peers.
	OfNode func(address string) bool
	// Native reports whether an address of this cluster is valid in the provider's network without translation; nil means none is.
	Native func(address string) bool
}

// EndpointSlices returns the Kind that reflects the EndpointSlices of offloaded namespaces as ShadowEndpointSlices.
func EndpointSlices(workers int, options func() EndpointSliceOptions) Kind {
	kind := copies(EndpointSliceKind, workers, options().CopyOptions, &discoveryv1.EndpointSlice{}, &offloadingv1beta1.ShadowEndpointSlice{}, func(f Facts) offload.Step {
		o := options()
		return offload.NextCopy(object(f.Local), object(f.Remote[0]), f.Mapping, f.RemoteSynced, offload.CopyRules{
			Options: o.CopyOptions,
			Copy: func(local offload.Object, namespace string) offload.Copy {
				slice, ok := local.(*discoveryv1.EndpointSlice)
				if !ok || len(f.Dependencies) != 2 {
					return offload.Copy{Why: "it is no EndpointSlice"}
				}
				return o.copy(slice, namespace, f.Dependencies[0], f.Dependencies[1])
			},
			Merge: merge(kinds.MergeEndpointSlice),
		})
	})
	kind.Local.Index = indexSlice
	kind.Dependencies = []Dependency{
		{
			Resource: Resource{Object: &corev1.Service{}, Strip: stripService},
			Concerns: func(obj client.Object) []string { return []string{byService + obj.GetName()} },
		},
		{
			Resource: Resource{Object: &ipamv1alpha1.IP{}, Index: func(obj client.Object) []string {
				return []string{addressOf(obj)}
			}},
			Concerns: func(obj client.Object) []string { return []string{byAddress + addressOf(obj)} },
		},
	}
	return kind
}

// Prefixes of the values in the index of EndpointSlices.
const (
	byService = "service/"
	byAddress = "address/"
)

func indexSlice(obj client.Object) []string {
	slice, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok {
		return nil
	}
	out := make([]string, 0, len(slice.Endpoints)+1)
	out = append(out, byService+slice.Labels[discoveryv1.LabelServiceName])
	for _, e := range slice.Endpoints {
		for _, address := range e.Addresses {
			out = append(out, byAddress+address)
		}
	}
	return out
}

// addressOf returns the local address for which an IP object exists.
func addressOf(obj client.Object) string {
	ip, ok := obj.(*ipamv1alpha1.IP)
	if !ok {
		return ""
	}
	return ip.Spec.IP
}

// stripService keeps only the metadata of a Service, which decides whether its EndpointSlices are copied.
func stripService(obj client.Object) {
	if service, ok := obj.(*corev1.Service); ok {
		service.Spec, service.Status = corev1.ServiceSpec{}, corev1.ServiceStatus{}
	}
}

// copy decides how to copy a slice. If its Service is not copied, the slice is not copied either.
func (o EndpointSliceOptions) copy(slice *discoveryv1.EndpointSlice, namespace string, services, ips DependencyObjects) offload.Copy {
	service, _ := services.Get(slice.Labels[discoveryv1.LabelServiceName]).(*corev1.Service)
	if service == nil {
		return offload.Copy{Why: "it belongs to no service"}
	}
	if why := kinds.Kept(service.Annotations, kinds.CopyOptions{Type: o.ServiceType, Destination: o.Destination}); why != "" {
		return offload.Copy{Why: "of its service: " + why}
	}
	if service.Namespace == "default" && service.Name == "kubernetes" {
		return offload.Copy{Why: "it belongs to the service of the API server"}
	}
	rules := o.EndpointSliceOptions
	if o.Translate {
		rules.Address = func(address, pod string) (string, error) {
			if o.Native != nil && o.Native(address) {
				return address, nil
			}
			if o.OfNode != nil && o.OfNode(address) {
				pod = ""
			}
			return offload.ExposedAddress(address, pod, addresses(ips.With(address)))
		}
	}
	want, why, problem := kinds.EndpointSlice(slice, namespace, rules)
	if want == nil {
		return offload.Copy{Why: why, Problem: problem}
	}
	return offload.Copy{Want: want, Problem: problem}
}

// addresses converts objects to IP objects.
func addresses(objects []client.Object) []*ipamv1alpha1.IP {
	var out []*ipamv1alpha1.IP
	for _, obj := range objects {
		if ip, ok := obj.(*ipamv1alpha1.IP); ok {
			out = append(out, ip)
		}
	}
	return out
}
