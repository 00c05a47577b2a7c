package peering

import (
	"fmt"
	"slices"
	"strings"

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
	// Name is the name of the kind. Resource is its name for kubectl, with the group, because Kubernetes has a kind ResourceSlice, too.
	Name, Resource string
	// New returns an empty object of the kind.
	New func() Object

	spec, status func(o Object) any
	setSpec      func(from, to Object)
	setStatus    func(from, to Object)
	// missing returns the name of a field that must be set in the source before the source may be copied; empty when all are set.
	missing func(o Object) string
}

// Kinds lists every replicated kind.
func Kinds() []Kind {
	return []Kind{
		kind("ResourceSlice", "resourceslices.authentication.liqo.io",
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
		kind("Renew", "renews.authentication.liqo.io",
			func() *authv1beta1.Renew { return &authv1beta1.Renew{} },
			func(o *authv1beta1.Renew) any { return &o.Spec },
			func(o *authv1beta1.Renew) any { return &o.Status },
			func(from, to *authv1beta1.Renew) { from.Spec.DeepCopyInto(&to.Spec) },
			func(from, to *authv1beta1.Renew) { from.Status.DeepCopyInto(&to.Status) },
			func(*authv1beta1.Renew) string { return "" }),
		kind("NetworkRequest", "networkrequests.networking.liqo.io",
			func() *networkingv1beta1.NetworkRequest { return &networkingv1beta1.NetworkRequest{} },
			func(o *networkingv1beta1.NetworkRequest) any { return &o.Spec },
			func(o *networkingv1beta1.NetworkRequest) any { return &o.Status },
			func(from, to *networkingv1beta1.NetworkRequest) { from.Spec.DeepCopyInto(&to.Spec) },
			func(from, to *networkingv1beta1.NetworkRequest) { from.Status.DeepCopyInto(&to.Status) },
			func(*networkingv1beta1.NetworkRequest) string { return "" }),
		kind("NamespaceMap", "namespacemaps.offloading.liqo.io",
			func() *offloadingv1beta1.NamespaceMap { return &offloadingv1beta1.NamespaceMap{} },
			func(o *offloadingv1beta1.NamespaceMap) any { return &o.Spec },
			func(o *offloadingv1beta1.NamespaceMap) any { return &o.Status },
			func(from, to *offloadingv1beta1.NamespaceMap) { from.Spec.DeepCopyInto(&to.Spec) },
			func(from, to *offloadingv1beta1.NamespaceMap) { from.Status.DeepCopyInto(&to.Status) },
			func(*offloadingv1beta1.NamespaceMap) string { return "" }),
	}
}

func kind[T Object](name, resource string, fresh func() T, spec, status func(T) any, setSpec, setStatus func(from, to T), missing func(T) string) Kind {
	return Kind{
		Name:      name,
		Resource:  resource,
		New:       func() Object { return fresh() },
		spec:      func(o Object) any { return spec(o.(T)) },
		status:    func(o Object) any { return status(o.(T)) },
		setSpec:   func(from, to Object) { setSpec(from.(T), to.(T)) },
		setStatus: func(from, to Object) { setStatus(from.(T), to.(T)) },
		missing:   func(o Object) string { return missing(o.(T)) },
	}
}

// Resources returns the names for kubectl of all replicated kinds, separated by commas.
func Resources() string {
	var out []string
	for _, k := range Kinds() {
		out = append(out, k.Resource)
	}
	return strings.Join(out, ",")
}

// resourceOf returns the name of a replicated kind for kubectl, or the name of the kind if it is not replicated.
func resourceOf(name string) string {
	for _, k := range Kinds() {
		if k.Name == name {
			return k.Resource
		}
	}
	return name
}

// Link describes the connection from this cluster to one provider.
type Link struct {
	// Own is the ID of this cluster, Remote that of the provider.
	Own, Remote string
	// RemoteNamespace is the tenant namespace of this cluster in the provider.
	RemoteNamespace string
	// Withdrawn means that the identity behind the link is being deleted. Every copy must be deleted before it.
	Withdrawn bool
}

// Step is the next step in the replication of one object. More than one field may be set; the fields are independent of each other.
type Step struct {
	// Create is the copy to create. Update is the new content of the existing copy.
	Create, Update Object
	// Delete means that the copy must be deleted, after the Update.
	Delete bool
	// Status is the source object after its status is replaced by that of the copy. The caller patches the status of the source with it. It is nil if the two
	// statuses are equal.
	Status Object
	// Release means that the finalizer must be removed from the source, because its copy is deleted or never existed.
	Release bool
	// Wait describes, for people, what must happen before the next step; empty if nothing must.
	Wait string
	// Refuse is the reason why nothing is done: the provider already has an object of that name, and this cluster did not create it.
	Refuse string
}

// Selected reports whether an object is the source of a copy. Its label names the cluster that the copy belongs to.
func Selected(o metav1.Object) bool {
	labels := o.GetLabels()
	return labels[api.LabelReplication] == api.True && labels[api.LabelRemoteID] != ""
}

// IsCopy reports whether an object is a copy of an object in the cluster origin, or in any cluster when origin is empty.
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
	case leaving:
		step := Step{Delete: copy.GetDeletionTimestamp() == nil, Wait: fmt.Sprintf("the deletion of the copy in cluster %s", link.Remote)}
		if !equality.Semantic.DeepEqual(k.spec(source), k.spec(copy)) { // the last state of the spec matters: a NamespaceMap names the namespaces whose data stays
			step.Update = copy.DeepCopyObject().(Object)
			nameSource(source, step.Update, false)
			k.setSpec(source, step.Update)
		}
		return step
	}
	if missing := k.missing(source); missing != "" {
		return Step{Wait: missing + " to be filled"}
	}
	switch {
	case copy == nil:
		return Step{Create: k.copyOf(link, source, nil)}
	case !IsCopy(copy, link.Own):
		return Step{Refuse: fmt.Sprintf("%s %s/%s in cluster %s exists and was not created by this cluster",
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

// copyOf returns the desired copy: the present copy with the labels and spec of the source, or a new copy if present is nil.
func (k Kind) copyOf(link Link, source, present Object) Object {
	want := k.New()
	if present != nil {
		want = present.DeepCopyObject().(Object)
	} else {
		want.SetNamespace(link.RemoteNamespace)
		want.SetName(source.GetName())
	}
	labels := api.Layered(want.GetLabels(), source.GetLabels(), map[string]string{
		api.LabelReplication: api.False, api.LabelReplicated: api.True, api.LabelOriginID: link.Own, api.LabelRemoteClusterID: link.Own,
	})
	delete(labels, api.LabelRemoteID)
	want.SetLabels(labels)
	nameSource(source, want, present == nil)
	k.setSpec(source, want)
	return want
}

// nameSource records the UID of the source in a copy that is new, or that was created for another source. So the provider can distinguish sources: if a new
// source lacks something that the former one had, this is no request to remove it. A copy of an earlier release has no record. It gets one only if the source
// is younger than the copy, because then the copy was created for another source. Otherwise it stays without one, as everything that the provider derived from
// it.
func nameSource(source, copy Object, fresh bool) {
	former, named := copy.GetAnnotations()[api.AnnotationSourceUID]
	created, sourceCreated := copy.GetCreationTimestamp(), source.GetCreationTimestamp()
	if !fresh && (named && former == string(source.GetUID()) || !named && !created.Before(&sourceCreated)) {
		return
	}
	copy.SetAnnotations(api.Layered(copy.GetAnnotations(), map[string]string{api.AnnotationSourceUID: string(source.GetUID())}))
}
