package reflect

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	offv1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kinds"
)

// Names of the kinds that follow an offloaded namespace.
const (
	ServiceKind       = "Service"
	EndpointSliceKind = "EndpointSlice"
)

// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=get;list;watch
// +kubebuilder:rbac:groups=ipam.liqo.io,resources=ips,verbs=get;list;watch

// copies returns the Kind of objects of which there are copies in the provider, and of which nothing comes back. The options are asked for
// at every decision; the cluster IDs in them must not change.
func copies(name string, workers int, o kinds.CopyOptions, local, remote client.Object, next func(Facts) offload.Step) Kind {
	ours := labels.Set{api.LabelOrigin: o.Origin, api.LabelDestination: o.Destination}
	return Kind{
		Name: name, Workers: workers, Mapped: true,
		Local: Resource{Object: local},
		// One that is not ours is let through when it is read by name: Next must see that the name is taken.
		Remote: []Resource{{Object: remote, Labels: ours.String()}},
		Next:   next,
		Refused: func(_ client.Object, action offload.Action, message string) (offload.Step, bool) {
			return offload.Step{Why: "the provider refuses it", Warning: message}, action == offload.CreateRemote || action == offload.PatchRemote
		},
	}
}

// Services reflects the Services of offloaded namespaces.
func Services(workers int, options func() kinds.ServiceOptions) Kind {
	kind := copies(ServiceKind, workers, options().CopyOptions, &corev1.Service{}, &corev1.Service{}, func(f Facts) offload.Step {
		o := options()
		return offload.NextCopy(object(f.Local), object(f.Remote[0]), f.Mapping, f.RemoteSynced, offload.CopyRules{
			Options: o.CopyOptions,
			Copy: func(local offload.Object, namespace string) offload.Copy {
				service, ok := local.(*corev1.Service)
				if !ok {
					return offload.Copy{Why: "it is no Service"}
				}
				want, why := kinds.Service(service, namespace, o)
				if want == nil {
					return offload.Copy{Why: why}
				}
				return offload.Copy{Want: want}
			},
			Merge: merge(kinds.MergeService),
		})
	})
	kind.Local.Strip, kind.Remote[0].Strip = stripServiceStatus, stripServiceStatus
	return kind
}

// stripServiceStatus drops what never crosses.
func stripServiceStatus(obj client.Object) {
	if service, ok := obj.(*corev1.Service); ok {
		service.Status = corev1.ServiceStatus{}
	}
}

// EndpointSliceOptions are the facts about EndpointSlices that are not in their namespace.
type EndpointSliceOptions struct {
	kinds.EndpointSliceOptions
	// Service tells about the Services that the slices follow.
	Service kinds.CopyOptions
	// Translate tells that addresses are translated: as they are where Native says so, and otherwise as an IP object of the namespace says.
	Translate bool
	// Native tells whether the provider's network knows an address of ours as it is.
	Native func(address string) bool
}

// EndpointSlices reflects the EndpointSlices of offloaded namespaces as ShadowEndpointSlices.
func EndpointSlices(workers int, options func() EndpointSliceOptions) Kind {
	kind := copies(EndpointSliceKind, workers, options().CopyOptions, &discoveryv1.EndpointSlice{}, &offv1.ShadowEndpointSlice{}, func(f Facts) offload.Step {
		o := options()
		return offload.NextCopy(object(f.Local), object(f.Remote[0]), f.Mapping, f.RemoteSynced, offload.CopyRules{
			Options: o.CopyOptions,
			Copy: func(local offload.Object, namespace string) offload.Copy {
				slice, ok := local.(*discoveryv1.EndpointSlice)
				if !ok || len(f.Beside) != 2 {
					return offload.Copy{Why: "it is no EndpointSlice"}
				}
				return o.copy(slice, namespace, f.Beside[0], f.Beside[1])
			},
			Merge: merge(kinds.MergeEndpointSlice),
		})
	})
	kind.Local.Index = indexSlice
	kind.Beside = []Beside{
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

// Values in the index of EndpointSlices.
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

// addressOf is the address here that an IP object is for.
func addressOf(obj client.Object) string {
	ip, ok := obj.(*ipamv1alpha1.IP)
	if !ok {
		return ""
	}
	return ip.Spec.IP
}

// stripService keeps of a Service what decides about its EndpointSlices.
func stripService(obj client.Object) {
	if service, ok := obj.(*corev1.Service); ok {
		service.Spec, service.Status = corev1.ServiceSpec{}, corev1.ServiceStatus{}
	}
}

// copy follows the Service: a slice of a Service that stays here stays, too.
func (o EndpointSliceOptions) copy(slice *discoveryv1.EndpointSlice, namespace string, services, ips Neighbours) offload.Copy {
	service, _ := services.Get(slice.Labels[discoveryv1.LabelServiceName]).(*corev1.Service)
	if service == nil {
		return offload.Copy{Why: "it belongs to no service"}
	}
	if why := kinds.Kept(service.Annotations, o.Service); why != "" {
		return offload.Copy{Why: "of its service: " + why}
	}
	if service.Namespace == "default" && service.Name == "kubernetes" {
		return offload.Copy{Why: "it is of the service of the API server"}
	}
	rules := o.EndpointSliceOptions
	if o.Translate {
		rules.Address = func(address, pod string) (string, error) {
			if o.Native != nil && o.Native(address) {
				return address, nil
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

// addresses reads IP objects.
func addresses(objects []client.Object) []*ipamv1alpha1.IP {
	var out []*ipamv1alpha1.IP
	for _, obj := range objects {
		if ip, ok := obj.(*ipamv1alpha1.IP); ok {
			out = append(out, ip)
		}
	}
	return out
}

// object is obj, or nothing at all: an interface that holds none must not look like one that holds something.
func object(obj client.Object) offload.Object {
	if obj == nil {
		return nil
	}
	return obj
}

// merge gives a function of one type the shape that CopyRules has.
func merge[T offload.Object](f func(have, want T) (T, kinds.Change)) func(have, want offload.Object) (offload.Object, kinds.Change) {
	return func(have, want offload.Object) (offload.Object, kinds.Change) {
		h, ok := have.(T)
		w, ok2 := want.(T)
		if !ok || !ok2 {
			return nil, kinds.Same
		}
		return f(h, w)
	}
}
