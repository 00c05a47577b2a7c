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

// Object is what can be replicated: any API object.
type Object interface {
	metav1.Object
	runtime.Object
}

// Kind is one replicated kind: its spec flows from the source to the copy, its status back.
type Kind struct {
	// Name of the kind.
	Name string
	// New makes an empty object.
	New func() Object

	spec, status func(o Object) any
	setSpec      func(from, to Object)
	setStatus    func(from, to Object)
	// missing names what the source still lacks before it may be copied.
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

// Link is the way from this cluster to one provider.
type Link struct {
	// Own and Remote are the cluster IDs here and there.
	Own, Remote string
	// RemoteNamespace is our tenant namespace there.
	RemoteNamespace string
	// Withdrawn tells that the identity behind the link is going away: every copy has to go before it.
	Withdrawn bool
}

// Step is what brings source and copy one pass closer together. More than one field may be set; they are independent of each other.
type Step struct {
	// Create or Update is the copy as it should be.
	Create, Update Object
	// Delete the copy.
	Delete bool
	// Status is the source with the status that the copy has.
	Status Object
	// Release the source: there is no copy of it (any more).
	Release bool
	// Wait says, for people, what has to happen first; empty when nothing has.
	Wait string
	// Refuse says why nothing will be done: the name is taken by something that is not ours.
	Refuse string
}

// Selected tells whether an object is the source of a copy in the cluster that its label names.
func Selected(o metav1.Object) bool {
	labels := o.GetLabels()
	return labels[api.LabelReplication] == api.True && labels[api.LabelRemoteID] != ""
}

// IsCopy tells whether an object is the copy of one in the cluster origin; any cluster when origin is empty.
func IsCopy(o metav1.Object, origin string) bool {
	labels := o.GetLabels()
	return labels[api.LabelReplicated] == api.True && labels[api.LabelOriginID] != "" &&
		(origin == "" || labels[api.LabelOriginID] == origin)
}

// Plan decides the next step for a source and its copy; copy is nil when it is known not to exist. It looks at the two objects only, so it
// does not matter which news came first.
func (k Kind) Plan(link Link, source, copy Object) Step {
	leaving := link.Withdrawn || !Selected(source) || source.GetDeletionTimestamp() != nil
	switch {
	case leaving && (copy == nil || !IsCopy(copy, link.Own)):
		return Step{Release: slices.Contains(source.GetFinalizers(), FinalizerReplicated)}
	case leaving && copy.GetDeletionTimestamp() != nil:
		return Step{Wait: fmt.Sprintf("the copy in cluster %s to be gone", link.Remote)}
	case leaving:
		return Step{Delete: true, Wait: fmt.Sprintf("the copy in cluster %s to be gone", link.Remote)}
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
		return Step{Wait: fmt.Sprintf("the deleted copy in cluster %s to be gone before it is made again", link.Remote)}
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

// copyOf is the copy as it should be: present with our labels and spec, or new.
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
