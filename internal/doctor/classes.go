package doctor

import (
	"fmt"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/peering"
)

// annotationDefaultClass marks the default storage class of a cluster.
const annotationDefaultClass = "storageclass.kubernetes.io/is-default-class"

// offered are the classes of one kind that a provider offers.
type offered struct {
	// kind is the kind of the classes for messages, field the field of a VirtualNode's spec that lists them.
	kind, field string
	// names are the names of the classes. standard states for each of them whether it is the default.
	names    []string
	standard []bool
}

func (o *offered) add(name string, standard bool) {
	o.names, o.standard = append(o.names, name), append(o.standard, standard)
}

// several returns the indices of the defaults if there are more than one.
func (o *offered) several() (at []int) {
	for i, standard := range o.standard {
		if standard {
			at = append(at, i)
		}
	}
	if len(at) < 2 {
		return nil
	}
	return at
}

// text describes the defaults at these indices. Liqo uses the last one.
func (o *offered) text(at []int) string {
	names := make([]string, len(at))
	for i, index := range at {
		names[i] = o.names[index]
	}
	return fmt.Sprintf("the %s classes %s are all the default, and Liqo uses the last one", o.kind, strings.Join(names, ", "))
}

func offers(storage []authv1beta1.StorageType, ingress []authv1beta1.IngressType, balancers []authv1beta1.LoadBalancerType) []*offered {
	out := []*offered{
		{kind: "storage", field: "storageClasses"}, {kind: "ingress", field: "ingressClasses"}, {kind: "load balancer", field: "loadBalancerClasses"},
	}
	for _, class := range storage {
		out[0].add(class.StorageClassName, class.Default)
	}
	for _, class := range ingress {
		out[1].add(class.IngressClassName, class.Default)
	}
	for _, class := range balancers {
		out[2].add(class.LoadBalancerClassName, class.Default)
	}
	return out
}

// classes checks that at most one class of each kind is the default: among those that a provider offers, and among the storage classes of a
// cluster with consumers.
func classes(r *report) {
	for i := range r.Slices {
		slice := &r.Slices[i]
		r.about(partClass, slice.Labels[api.LabelRemoteClusterID])
		cure := "ask the administrator of cluster " + r.peer + " to leave one default"
		if peering.IsCopy(slice, "") {
			r.peer = slice.Labels[api.LabelOriginID]
			cure = "leave default: true at one of them in the values offloading.reflection.ingress.ingressClasses and " +
				"offloading.reflection.service.loadBalancerClasses (liqoctl upgrade --values FILE)"
		}
		for _, of := range offers(slice.Status.StorageClasses, slice.Status.IngressClasses, slice.Status.LoadBalancerClasses) {
			if at := of.several(); at != nil {
				r.warn(cure, "ResourceSlice %s in namespace %s: %s", slice.Name, slice.Namespace, of.text(at))
			}
		}
	}
	for i := range r.VirtualNodes {
		virtual := &r.VirtualNodes[i]
		if virtual.Labels[api.LabelResourceSliceName] != "" {
			continue // its classes are those of the ResourceSlice
		}
		r.about(partClass, virtual.Spec.ClusterID)
		for _, of := range offers(virtual.Spec.StorageClasses, virtual.Spec.IngressClasses, virtual.Spec.LoadBalancerClasses) {
			at := of.several()
			if at == nil {
				continue
			}
			var changes []string
			for _, index := range at[:len(at)-1] {
				changes = append(changes, fmt.Sprintf(`{"op":"remove","path":"/spec/%s/%d/default"}`, of.field, index))
			}
			cure := fmt.Sprintf("kubectl -n %s patch virtualnodes.offloading.liqo.io %s --type=json -p '[%s]'",
				virtual.Namespace, virtual.Name, strings.Join(changes, ","))
			r.warn(cure, "VirtualNode %s in namespace %s: %s", virtual.Name, virtual.Namespace, of.text(at))
		}
	}
	r.about(partClass, "")
	if len(r.Tenants) == 0 {
		return
	}
	if names := defaultStorageClasses(r.StorageClasses); len(names) > 1 {
		last := len(names) - 1
		r.warn(fmt.Sprintf("kubectl annotate storageclasses %s %s-", strings.Join(names[:last], " "), annotationDefaultClass),
			"the storage classes %s are all the default: claims of consumers' pods that name no class get the newest, %s", strings.Join(names, ", "), names[last])
	}
}

// defaultStorageClasses returns the names of the default storage classes. The last one is the newest, which Kubernetes uses.
func defaultStorageClasses(all []storagev1.StorageClass) []string {
	standard := slices.DeleteFunc(slices.Clone(all), func(c storagev1.StorageClass) bool { return c.Annotations[annotationDefaultClass] != api.True })
	slices.SortFunc(standard, func(a, b storagev1.StorageClass) int {
		if of := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); of != 0 {
			return of
		}
		return strings.Compare(b.Name, a.Name)
	})
	names := make([]string, len(standard))
	for i := range standard {
		names[i] = standard[i].Name
	}
	return names
}
