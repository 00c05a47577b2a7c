package kinds

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/test/fieldtest"
)

var (
	eventsBegin = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	eventPod    = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "local"}}
	eventShadow = &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop-rome", Name: "web", CreationTimestamp: eventsBegin, Annotations: map[string]string{AnnotationLocalUID: "local"},
	}}
)

func remoteEvent(change func(*corev1.Event)) *corev1.Event {
	e := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "web.17", UID: "e1", ResourceVersion: "5", CreationTimestamp: eventsBegin, Labels: map[string]string{"x": "y"}},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: "shop-rome", Name: "web", UID: "remote", ResourceVersion: "9", FieldPath: "spec.containers{web}",
		},
		Reason: "BackOff", Message: "it fails", Type: corev1.EventTypeWarning, Count: 3, FirstTimestamp: eventsBegin, LastTimestamp: eventsBegin,
		Source: corev1.EventSource{Component: "kubelet", Host: "node-3"},
	}
	if change != nil {
		change(e)
	}
	return e
}

func TestEveryFieldOfAnEventHasARule(t *testing.T) {
	changed := []string{"InvolvedObject", "Source"}
	for field := range reflect.TypeFor[corev1.Event]().Fields() {
		if field.Name == "TypeMeta" || field.Name == "ObjectMeta" {
			continue
		}
		in := remoteEvent(nil)
		fieldtest.Fill(reflect.ValueOf(in).Elem().FieldByName(field.Name))
		out, why := Event(in, eventPod, eventShadow, plainOptions)
		if out == nil {
			t.Fatal(why)
		}
		a, b := reflect.ValueOf(in).Elem().FieldByName(field.Name).Interface(), reflect.ValueOf(out).Elem().FieldByName(field.Name).Interface()
		if same := reflect.DeepEqual(a, b); same == slices.Contains(changed, field.Name) {
			t.Errorf("%s: %v, %v", field.Name, a, b)
		}
	}
}

func TestEvent(t *testing.T) {
	want := remoteEvent(func(e *corev1.Event) {
		e.ObjectMeta = metav1.ObjectMeta{Namespace: "shop", Name: "web.17", Labels: map[string]string{api.LabelOrigin: "milan", api.LabelDestination: "rome"}}
		e.InvolvedObject = corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "web", UID: "local", FieldPath: "spec.containers{web}"}
		e.Source.Component = "kubelet (remote)"
	})
	got, why := Event(remoteEvent(nil), eventPod, eventShadow, plainOptions)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(why, diff)
	}
	of := func(kind, version string) func(*corev1.Event) {
		return func(e *corev1.Event) { e.InvolvedObject.Kind, e.InvolvedObject.APIVersion = kind, version }
	}
	got, _ = Event(remoteEvent(of("ShadowPod", "offloading.liqo.io/v1beta1")), eventPod, eventShadow, plainOptions)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("of a ShadowPod", diff)
	}
	// The copy of the root CA has another name.
	ca := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "kube-root-ca.crt", UID: "ca"}}
	got, _ = Event(remoteEvent(func(e *corev1.Event) { of("ConfigMap", "v1")(e); e.InvolvedObject.Name = "kube-root-ca.crt.rome" }), ca, &corev1.ConfigMap{}, plainOptions)
	if got == nil || got.InvolvedObject.Name != "kube-root-ca.crt" || got.InvolvedObject.UID != "ca" {
		t.Errorf("of a ConfigMap: %v", got)
	}
	later := metav1.NewTime(eventsBegin.Add(time.Second))
	for name, row := range map[string]struct {
		event               *corev1.Event
		about, remoteObject metav1.Object
		kind                offloadingv1beta1.ReflectionType
		says                string
	}{
		"of nothing here":          {remoteEvent(nil), nil, eventShadow, "", "no counterpart"},
		"of what is not our copy":  {remoteEvent(nil), eventPod, nil, "", "no counterpart"},
		"of another pod there":     {remoteEvent(nil), eventPod, &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: later}}, "", "earlier object"},
		"of another pod here":      {remoteEvent(nil), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "second"}}, eventShadow, "", "earlier pod"},
		"of another kind of thing": {remoteEvent(nil), &corev1.Service{}, eventShadow, "", "earlier pod"},
		"skipped":                  {remoteEvent(func(e *corev1.Event) { e.Annotations = map[string]string{AnnotationSkip: ""} }), eventPod, eventShadow, "", AnnotationSkip},
		"not allowed":              {remoteEvent(nil), eventPod, eventShadow, offloadingv1beta1.AllowList, AnnotationAllow},
	} {
		o := plainOptions
		o.Type = row.kind
		if got, why := Event(row.event, row.about, row.remoteObject, o); got != nil || !strings.Contains(why, row.says) {
			t.Errorf("%s: %v, %q", name, got, why)
		}
	}
}

func TestMergeEvent(t *testing.T) {
	made := func(change func(*corev1.Event)) *corev1.Event {
		out, _ := Event(remoteEvent(change), eventPod, eventShadow, plainOptions)
		return out
	}
	have := made(nil)
	have.UID, have.ResourceVersion, have.Labels["mine"] = "l1", "77", "x"
	try(t, "nothing", have, made(nil), Same, MergeEvent)
	try(t, "another pod by now", have, made(func(e *corev1.Event) { e.InvolvedObject.FieldPath = "x" }), Same, MergeEvent)
	again := made(func(e *corev1.Event) { e.Count, e.LastTimestamp = 9, metav1.NewTime(eventsBegin.Add(time.Minute)) })
	try(t, "again", have, again, Update, MergeEvent)
	if out, _ := MergeEvent(have, again); out.Count != 9 || out.UID != "l1" || out.Labels["mine"] != "x" || out.LastTimestamp.Equal(&eventsBegin) {
		t.Errorf("%+v", out)
	}
}
