package kinds

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	offv1 "liqo.io/liqo/api/offloading/v1beta1"
)

// RemoteSource ends the component of an Event that comes from a provider.
const RemoteSource = " (remote)"

// Involved returns the kind, as it is called here, and the name, as it is called there, of what an Event of the provider is about. A pod
// is two objects there, and one here.
func Involved(remote *corev1.Event) (kind, name string) {
	kind = remote.InvolvedObject.Kind
	switch kind {
	case "ShadowPod", "ShadowEndpointSlice":
		kind = kind[len("Shadow"):]
	}
	return kind, remote.InvolvedObject.Name
}

// OwnsEvent tells whether an Event here was made of one of the provider's by this consumer. Any other is never touched.
func OwnsEvent(local metav1.Object, o CopyOptions) bool {
	return Owns(local, CopyOptions{Origin: o.Destination, Destination: o.Origin})
}

// Event returns the copy, here, of an Event of the provider about the twin of an object, or why it has none. The twin is what the provider
// has of that object; what happened before it was there happened to another one of its name.
func Event(remote *corev1.Event, about, twin metav1.Object, o CopyOptions) (*corev1.Event, string) {
	if why := Kept(remote.Annotations, o); why != "" {
		return nil, why
	}
	kind, _ := Involved(remote)
	switch {
	case about == nil || twin == nil:
		return nil, "it is about nothing of ours"
	case remote.CreationTimestamp.Time.Before(twin.GetCreationTimestamp().Time):
		return nil, "it is about an earlier object of that name"
	}
	if shadow, ok := twin.(*offv1.ShadowPod); ok {
		if pod, ok := about.(*corev1.Pod); !ok || !MadeFor(shadow, pod) {
			return nil, "it is about an earlier pod of that name"
		}
	}
	out := remote.DeepCopy()
	out.TypeMeta = metav1.TypeMeta{}
	out.ObjectMeta = metav1.ObjectMeta{
		Namespace: about.GetNamespace(), Name: remote.Name,
		Labels: map[string]string{api.LabelOrigin: o.Destination, api.LabelDestination: o.Origin},
	}
	in := &out.InvolvedObject
	if in.Kind != kind { // the shadows of a Pod and of an EndpointSlice
		in.APIVersion = map[string]string{"Pod": "v1", "EndpointSlice": "discovery.k8s.io/v1"}[kind]
	}
	in.Kind, in.Namespace, in.Name, in.UID, in.ResourceVersion = kind, about.GetNamespace(), about.GetName(), about.GetUID(), ""
	out.Source.Component += RemoteSource
	return out, ""
}

// MergeEvent returns have with what want says.
func MergeEvent(have, want *corev1.Event) (*corev1.Event, Change) {
	out := want.DeepCopy()
	out.ObjectMeta = *have.ObjectMeta.DeepCopy()
	out.InvolvedObject = have.InvolvedObject // the object that it was about stays the same
	return merged(have, out)
}
