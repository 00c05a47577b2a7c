package peering

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// Object is any API object. All of them can be replicated.
type Object interface {
	metav1.Object
	runtime.Object
}

// Kind is one replicated kind. Its spec flows from the source to the copy, its status from the copy to the source.
type Kind struct {
	// Name is the name of the kind.
	Name string
	// New returns an empty object of the kind.
	New func() Object

	spec, status func(o Object) any
	setSpec      func(from, to Object)
	setStatus    func(from, to Object)
	// missing returns the field that the source still lacks before it may be copied; empty when it lacks none.
	missing func(o Object) string
}

// Kinds lists every replicated kind.
func Kinds() []Kind {
	return []Kind{
		kind("ResourceSlice",
			func() *authv1beta1.ResourceSlice { return &authv1beta1.ResourceSlice{} },
			func(o *authv1beta1.ResourceSlice) any { return &o.Spec },
			func(o *authv1beta1.ResourceSlice) any { return &o.Status },
			func(from, to *authv1beta1.ResourceSlice) { from.Spec.DeepCopyInto(&to.Spec) },
			func(from, to *authv1beta1.ResourceSlice) { from.Status.DeepCopyInto(&to.Status) },
			func(o *authv1beta1.ResourceSlice) string {
				if len(o.Spec.CSR) == 0 {
					return "spec.csr"
				}
				return ""
			}),
		kind("NamespaceMap",
			func() *offloadingv1beta1.NamespaceMap { return &offloadingv1beta1.NamespaceMap{} },
			func(o *offloadingv1beta1.NamespaceMap) any { return &o.Spec },
			func(o *offloadingv1beta1.NamespaceMap) any { return &o.Status },
			func(from, to *offloadingv1beta1.NamespaceMap) { from.Spec.DeepCopyInto(&to.Spec) },
			func(from, to *offloadingv1beta1.NamespaceMap) { from.Status.DeepCopyInto(&to.Status) },
			func(*offloadingv1beta1.NamespaceMap) string { return "" }),
		kind("Renew",
			func() *authv1beta1.Renew { return &authv1beta1.Renew{} },
			func(o *authv1beta1.Renew) any { return &o.Spec },
			func(o *authv1beta1.Renew) any { return &o.Status },
			func(from, to *authv1beta1.Renew) { from.Spec.DeepCopyInto(&to.Spec) },
			func(from, to *authv1beta1.Renew) { from.Status.DeepCopyInto(&to.Status) },
			func(*authv1beta1.Renew) string { return "" }),
		kind("NetworkRequest",
			func() *networkingv1beta1.NetworkRequest { return &networkingv1beta1.NetworkRequest{} },
			func(o *networkingv1beta1.NetworkRequest) any { return &o.Spec },
			func(o *networkingv1beta1.NetworkRequest) any { return &o.Status },
			func(from, to *networkingv1beta1.NetworkRequest) { from.Spec.DeepCopyInto(&to.Spec) },
			func(from, to *networkingv1beta1.NetworkRequest) { from.Status.DeepCopyInto(&to.Status) },
			func(*networkingv1beta1.NetworkRequest) string { return "" }),
	}
}

func kind[T Object](name string, fresh func() T, spec, status func(T) any, setSpec, setStatus func(from, to T), missing func(T) string) Kind {
	return Kind{
		Name:      name,
		New:       func() Object { return fresh() },
		spec:      func(o Object) any { return spec(o.(T)) },
		status:    func(o Object) any { return status(o.(T)) },
		setSpec:   func(from, to Object) { setSpec(from.(T), to.(T)) },
		setStatus: func(from, to Object) { setStatus(from.(T), to.(T)) },
		missing:   func(o Object) string { return missing(o.(T)) },
	}
}

// Link describes the connection from this cluster to one provider.
type Link struct {
	// Own is the ID of this cluster, Remote that of the provider.
	Own, Remote string
	// RemoteNamespace is the tenant namespace of this cluster in the provider.
	RemoteNamespace string
	// Withdrawn is whether the identity behind the link is being deleted. Every copy must be deleted before it.
	Withdrawn bool
}

// Step brings a source and its copy closer together. More than one field may be set; the fields are independent of each other.
type Step struct {
	// Create is the copy to be created, Update the copy as it should become.
	Create, Update Object
	// Delete is whether to delete the copy.
	Delete bool
	// Status is the source with the status of the copy.
	Status Object
	// Release is whether to remove the finalizer from the source: its copy is deleted or never existed.
	Release bool
	// Wait is a message for people: what must happen before the next step. It is empty when nothing must.
	Wait string
	// Refuse is why nothing is done: an object that is not our copy has the name in the provider.
	Refuse string
}

// Selected reports whether an object is the source of a copy. Its label names the cluster that the copy belongs to.
func Selected(o metav1.Object) bool {
	labels := o.GetLabels()
	return labels[api.LabelReplication] == api.True && labels[api.LabelRemoteID] != ""
}

// IsCopy reports whether an object is the copy of one in the cluster origin, or in any cluster when origin is empty.
func IsCopy(o metav1.Object, origin string) bool {
	labels := o.GetLabels()
	return labels[api.LabelReplicated] == api.True && labels[api.LabelOriginID] != "" &&
		(origin == "" || labels[api.LabelOriginID] == origin)
}

// Plan returns the next step for a source and its copy; copy is nil when it is known not to exist. Plan depends on these two objects and
// the link only, not on the order of events.
func (k Kind) Plan(link Link, source, copy Object) Step {
	leaving := link.Withdrawn || !Selected(source) || source.GetDeletionTimestamp() != nil
	switch {
	case leaving && (copy == nil || !IsCopy(copy, link.Own)):
		return Step{Release: slices.Contains(source.GetFinalizers(), FinalizerReplicated)}
	case leaving && copy.GetDeletionTimestamp() != nil:
		return Step{Wait: fmt.Sprintf("the deletion of the copy in cluster %s", link.Remote)}
	case leaving:
		return Step{Delete: true, Wait: fmt.Sprintf("the deletion of the copy in cluster %s", link.Remote)}
	}
	if missing := k.missing(source); missing != "" {
		return Step{Wait: missing + " to be filled"}
	}
	switch {
	case copy == nil:
		return Step{Create: k.copyOf(link, source, nil)}
	case !IsCopy(copy, link.Own):
		return Step{Refuse: fmt.Sprintf("%s %s/%s in cluster %s exists and was not made by this cluster",
			k.Name, copy.GetNamespace(), copy.GetName(), link.Remote)}
	case copy.GetDeletionTimestamp() != nil:
		return Step{Wait: fmt.Sprintf("the deletion of the former copy in cluster %s, before it is created again", link.Remote)}
	}
	var step Step
	if want := k.copyOf(link, source, copy); !equality.Semantic.DeepEqual(want, copy) {
		step.Update = want
	}
	if !equality.Semantic.DeepEqual(k.status(source), k.status(copy)) {
		step.Status = source.DeepCopyObject().(Object)
		k.setStatus(copy, step.Status)
	}
	return step
}

// copyOf returns the copy as it should be: the present one with the labels and spec of the source, or a new one.
func (k Kind) copyOf(link Link, source, present Object) Object {
	want := k.New()
	if present != nil {
		want = present.DeepCopyObject().(Object)
	} else {
		want.SetNamespace(link.RemoteNamespace)
		want.SetName(source.GetName())
	}
	labels := maps.Clone(want.GetLabels())
	if labels == nil {
		labels = make(map[string]string, len(source.GetLabels())+4)
	}
	maps.Copy(labels, source.GetLabels())
	delete(labels, api.LabelRemoteID)
	labels[api.LabelReplication] = api.False
	labels[api.LabelReplicated] = api.True
	labels[api.LabelOriginID] = link.Own
	labels[api.LabelRemoteClusterID] = link.Own
	want.SetLabels(labels)
	k.setSpec(source, want)
	return want
}
