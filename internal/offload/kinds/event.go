package kinds

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/excerpt"
)

// Maximum lengths, in bytes, of a provider's texts in Events and conditions (excerpt.Of). MaxMessage is the limit of the API server for the note of
// an Event (events.k8s.io/v1). For core Events it has no limit of its own.
const (
	MaxMessage = 1024
	MaxName    = 253
	maxWord    = 128
)

// RemoteSource is the suffix of the source component of an Event that was copied from a provider.
const RemoteSource = " (remote)"

// Involved returns the local kind and the remote name of the object that an Event of the provider is about. A Pod and its ShadowPod in the provider
// are one Pod in this cluster, and so are an EndpointSlice and its ShadowEndpointSlice.
func Involved(remote *corev1.Event) (kind, name string) {
	kind = remote.InvolvedObject.Kind
	switch kind {
	case "ShadowPod", "ShadowEndpointSlice":
		kind = kind[len("Shadow"):]
	}
	return kind, remote.InvolvedObject.Name
}

// OwnsEvent reports whether this consumer copied a local Event from the provider. Other Events must not be changed.
func OwnsEvent(local metav1.Object, o CopyOptions) bool {
	return Owns(local, CopyOptions{Origin: o.Destination, Destination: o.Origin})
}

// Event returns the local copy of a provider's Event, or the reason why the Event is not copied. about is the local object of the Event, and remoteObject its counterpart
// in the provider. An Event older than remoteObject is not copied: it concerns an earlier object of the same name.
func Event(remote *corev1.Event, about, remoteObject metav1.Object, o CopyOptions) (*corev1.Event, string) {
	if why := Kept(remote.Annotations, o); why != "" {
		return nil, why
	}
	kind, _ := Involved(remote)
	switch {
	case about == nil || remoteObject == nil:
		return nil, "its object has no counterpart in this cluster"
	case remote.CreationTimestamp.Time.Before(remoteObject.GetCreationTimestamp().Time):
		return nil, "it is about an earlier object of that name"
	}
	if shadow, ok := remoteObject.(*offloadingv1beta1.ShadowPod); ok {
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
	if in.Kind != kind { // for ShadowPods and ShadowEndpointSlices
		in.APIVersion = map[string]string{"Pod": "v1", "EndpointSlice": "discovery.k8s.io/v1"}[kind]
	}
	in.Kind, in.Namespace, in.Name, in.UID, in.ResourceVersion = kind, about.GetNamespace(), about.GetName(), about.GetUID(), ""
	boundEvent(out)
	out.Source.Component += RemoteSource
	return out, ""
}

// boundEvent truncates the texts that a provider wrote into an Event, because this cluster stores them and people read them.
func boundEvent(out *corev1.Event) {
	out.Message = excerpt.Of(out.Message, MaxMessage)
	short := []*string{&out.Type, &out.Reason, &out.Action, &out.ReportingInstance, &out.Source.Component}
	long := []*string{&out.ReportingController, &out.Source.Host, &out.InvolvedObject.APIVersion, &out.InvolvedObject.FieldPath}
	if r := out.Related; r != nil {
		r.UID = types.UID(excerpt.Of(string(r.UID), maxWord))
		short = append(short, &r.Kind, &r.ResourceVersion)
		long = append(long, &r.Namespace, &r.Name, &r.APIVersion, &r.FieldPath)
	}
	for _, text := range short {
		*text = excerpt.Of(*text, maxWord)
	}
	for _, text := range long {
		*text = excerpt.Of(*text, MaxName)
	}
}

// LocalEventTimes replaces, in the copy of an Event, timestamps that are in the future by this cluster's clock: the provider's clock is ahead. A
// client would show them as invalid, and sort them last for hours. Such a timestamp becomes the time when the Event, or its latest count, was first
// observed here. The argument have is the present copy, nil for none.
func LocalEventTimes(out, have *corev1.Event, now time.Time) {
	if now.IsZero() {
		return
	}
	now = now.Truncate(time.Second)
	observed := func(shown time.Time) time.Time {
		if shown.IsZero() || shown.After(now) {
			return now
		}
		return shown
	}
	past := &corev1.Event{Series: &corev1.EventSeries{}}
	if have != nil {
		past.FirstTimestamp, past.EventTime = have.FirstTimestamp, have.EventTime
		if have.Count == out.Count {
			past.LastTimestamp = have.LastTimestamp
		}
		if have.Series != nil && out.Series != nil && have.Series.Count == out.Series.Count {
			past.Series.LastObservedTime = have.Series.LastObservedTime
		}
	}
	for _, of := range []struct{ at, shown *metav1.Time }{{&out.FirstTimestamp, &past.FirstTimestamp}, {&out.LastTimestamp, &past.LastTimestamp}} {
		if of.at.After(now) {
			of.at.Time = observed(of.shown.Time)
		}
	}
	if out.EventTime.After(now) {
		out.EventTime.Time = observed(past.EventTime.Time)
	}
	if s := out.Series; s != nil && s.LastObservedTime.After(now) {
		s.LastObservedTime.Time = observed(past.Series.LastObservedTime.Time)
	}
}

// MergeEvent returns the object have with the content of want, and the change that this needs.
func MergeEvent(have, want *corev1.Event) (*corev1.Event, Change) {
	out := want.DeepCopy()
	out.ObjectMeta = *have.ObjectMeta.DeepCopy()
	out.InvolvedObject = have.InvolvedObject // the Event stays with the object that it was first copied for
	return merged(have, out)
}

// MadeFor reports whether the ShadowPod belongs to this very Pod, and not to an earlier Pod of the same name. A ShadowPod without the UID annotation,
// created by another release, belongs to the Pod of its name.
func MadeFor(shadow *offloadingv1beta1.ShadowPod, local *corev1.Pod) bool {
	uid, said := shadow.Annotations[AnnotationLocalUID]
	return !said || uid == string(local.UID)
}
