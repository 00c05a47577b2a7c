package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// oursLabels are on all objects that are made for it, and go with them.
var oursLabels = map[string]string{"app": "bench"}

// ours selects them.
var ours = metav1.ListOptions{LabelSelector: "app=bench"}

// subject is one kind whose changes are followed.
type subject struct {
	kind string
	// names are those of the objects, in a namespace of rome and its twin.
	names []string
	// change makes the change with that number; number reads it from a twin.
	change func(ctx context.Context, name string, n int) error
	// count counts the twins; nil if they are known to be there.
	count  func(ctx context.Context) (int, error)
	number func(runtime.Object) (int, bool)
	// remove removes the objects; nil if somebody else does.
	remove func(ctx context.Context) error
	watch  func(ctx context.Context) (watch.Interface, error)
}

// several does something for as many objects, some at a time, and returns their names.
func several(do func(name string) error) ([]string, error) {
	var group errgroup.Group
	group.SetLimit(8)
	var names []string
	for i := range objects {
		name := "bench-" + strconv.Itoa(i)
		names = append(names, name)
		group.Go(func() error { return do(name) })
	}
	return names, group.Wait()
}

func configMaps(ctx context.Context, rome, milan kubernetes.Interface) (subject, error) {
	here := rome.CoreV1().ConfigMaps(offloadedNamespace)
	names, err := several(func(name string) error {
		_, err := here.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: oursLabels}}, metav1.CreateOptions{})
		return err
	})
	return subject{
		kind: "ConfigMap", names: names,
		remove: func(ctx context.Context) error { return here.DeleteCollection(ctx, metav1.DeleteOptions{}, ours) },
		count: func(ctx context.Context) (int, error) {
			list, err := milan.CoreV1().ConfigMaps(twinNamespace).List(ctx, ours)
			return len(list.Items), err
		},
		watch: func(ctx context.Context) (watch.Interface, error) {
			return milan.CoreV1().ConfigMaps(twinNamespace).Watch(ctx, ours)
		},
		change: func(ctx context.Context, name string, n int) error {
			_, err := here.Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"data":{%q:"%d"}}`, dataKey, n), metav1.PatchOptions{})
			return err
		},
		number: func(obj runtime.Object) (int, bool) {
			object, ok := obj.(*corev1.ConfigMap)
			if !ok {
				return 0, false
			}
			n, err := strconv.Atoi(object.Data[dataKey])
			return n, err == nil
		},
	}, err
}

// services have no address and no selector, so that only we have work with them.
func services(ctx context.Context, rome, milan kubernetes.Interface) (subject, error) {
	here := rome.CoreV1().Services(offloadedNamespace)
	names, err := several(func(name string) error {
		_, err := here.Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: oursLabels}, Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: 80}},
		}}, metav1.CreateOptions{})
		return err
	})
	return subject{
		kind: "Service", names: names,
		remove: func(ctx context.Context) error {
			_, err := several(func(name string) error { return here.Delete(ctx, name, metav1.DeleteOptions{}) })
			return err
		},
		count: func(ctx context.Context) (int, error) {
			list, err := milan.CoreV1().Services(twinNamespace).List(ctx, ours)
			return len(list.Items), err
		},
		watch: func(ctx context.Context) (watch.Interface, error) {
			return milan.CoreV1().Services(twinNamespace).Watch(ctx, ours)
		},
		change: func(ctx context.Context, name string, n int) error {
			_, err := here.Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"%d"}}}`, changeKey, n), metav1.PatchOptions{})
			return err
		},
		number: func(obj runtime.Object) (int, bool) {
			object, ok := obj.(*corev1.Service)
			if !ok {
				return 0, false
			}
			n, err := strconv.Atoi(object.Annotations[changeKey])
			return n, err == nil
		},
	}, err
}

// podStatuses are changed in milan; the twin is the pod in rome. A condition that no kubelet knows is left alone by all.
func podStatuses(ctx context.Context, rome, milan kubernetes.Interface) (subject, error) {
	there := milan.CoreV1().Pods(twinNamespace)
	list, err := there.List(ctx, metav1.ListOptions{})
	if err != nil {
		return subject{}, err
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return subject{
		kind: "pod status", names: names,
		watch: func(ctx context.Context) (watch.Interface, error) {
			return rome.CoreV1().Pods(offloadedNamespace).Watch(ctx, metav1.ListOptions{})
		},
		change: func(ctx context.Context, name string, n int) error {
			_, err := there.Patch(ctx, name, types.StrategicMergePatchType,
				fmt.Appendf(nil, `{"status":{"conditions":[{"type":%q,"status":"True","message":"%d"}]}}`, changeKey, n), metav1.PatchOptions{}, "status")
			return err
		},
		number: func(obj runtime.Object) (int, bool) {
			object, ok := obj.(*corev1.Pod)
			if !ok {
				return 0, false
			}
			i := slices.IndexFunc(object.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == changeKey })
			if i < 0 {
				return 0, false
			}
			n, err := strconv.Atoi(object.Status.Conditions[i].Message)
			return n, err == nil
		},
	}, nil
}
