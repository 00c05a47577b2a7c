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
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// oursLabels are set on all objects that the benchmark creates.
var oursLabels = map[string]string{"app": "bench"}

// ours selects these objects.
var ours = metav1.ListOptions{LabelSelector: "app=bench"}

// subject is a kind of object whose changes are measured.
type subject struct {
	kind string
	// without means that Liqo takes no part in the changes.
	without bool
	// names are the names of the objects, in a namespace of rome and in its remote namespace.
	names []string
	// change makes change number n of an object; number returns the number of the last change from the object's copy.
	change func(ctx context.Context, name string, n int) error
	// count counts the copies; nil if they are known to exist.
	count  func(ctx context.Context) (int, error)
	number func(runtime.Object) (int, bool)
	// remove deletes the objects; nil if they are deleted elsewhere.
	remove func(ctx context.Context) error
	watch  func(ctx context.Context) (watch.Interface, error)
	// read returns the copy of an object; nil if the copy has another name.
	read func(ctx context.Context, name string) (runtime.Object, error)
}

// several calls do for the names of all objects, some at a time, and returns the names.
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
		read: func(ctx context.Context, name string) (runtime.Object, error) {
			return milan.CoreV1().ConfigMaps(twinNamespace).Get(ctx, name, metav1.GetOptions{})
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

// services measures Services without an address and a selector, so that only Liqo processes them.
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
		read: func(ctx context.Context, name string) (runtime.Object, error) {
			return milan.CoreV1().Services(twinNamespace).Get(ctx, name, metav1.GetOptions{})
		},
		change: func(ctx context.Context, name string, n int) error {
			_, err := here.Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:"%d"}}}`, versionLabel, n), metav1.PatchOptions{})
			return err
		},
		number: func(obj runtime.Object) (int, bool) {
			object, ok := obj.(*corev1.Service)
			if !ok {
				return 0, false
			}
			n, err := strconv.Atoi(object.Labels[versionLabel])
			return n, err == nil
		},
	}, err
}

// podStatuses measures statuses of pods: they change in milan, and Liqo copies them to the pods in rome.
func podStatuses(ctx context.Context, rome, milan kubernetes.Interface) (subject, error) {
	names, err := podNames(ctx, milan, twinNamespace)
	return statuses("pod status", names, milan.CoreV1().Pods(twinNamespace), rome.CoreV1().Pods(offloadedNamespace)), err
}

// statuses measures a condition of pods. No other program processes the condition, because its type is unknown to them.
func statuses(kind string, names []string, from, to typedcorev1.PodInterface) subject {
	return subject{
		kind: kind, names: names,
		watch:  func(ctx context.Context) (watch.Interface, error) { return to.Watch(ctx, metav1.ListOptions{}) },
		change: func(ctx context.Context, name string, n int) error { return changeStatus(ctx, from, name, n) },
		number: statusNumber,
		read: func(ctx context.Context, name string) (runtime.Object, error) {
			return to.Get(ctx, name, metav1.GetOptions{})
		},
	}
}

func podNames(ctx context.Context, c kubernetes.Interface, namespace string) ([]string, error) {
	list, err := c.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, nil
}

func changeStatus(ctx context.Context, pods typedcorev1.PodInterface, name string, n int) error {
	_, err := pods.Patch(ctx, name, types.StrategicMergePatchType,
		fmt.Appendf(nil, `{"status":{"conditions":[{"type":%q,"status":"True","message":"%d"}]}}`, changeKey, n), metav1.PatchOptions{}, "status")
	return err
}

func statusNumber(obj runtime.Object) (int, bool) {
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
}

// bareWorkers is the number of statuses that the bare program writes concurrently.
const bareWorkers = 10

// oneStatuses measures pods of one cluster: the minimum that an API server needs.
func oneStatuses(ctx context.Context, rome, _ kubernetes.Interface) (subject, error) {
	names, err := podNames(ctx, rome, directNamespace)
	pods := rome.CoreV1().Pods(directNamespace)
	s := statuses("pod status in one cluster, without us", names, pods, pods)
	s.without = true
	return s, err
}

// bareStatuses measures a minimal program that copies statuses from pods in milan to other pods in rome: the minimum that two API servers on this
// machine need.
func bareStatuses(ctx context.Context, rome, milan kubernetes.Interface) (subject, error) {
	from, to := milan.CoreV1().Pods(directNamespace), rome.CoreV1().Pods(directNamespace)
	there, err := podNames(ctx, milan, directNamespace)
	if err != nil {
		return subject{}, err
	}
	here, err := podNames(ctx, rome, directNamespace)
	if err != nil {
		return subject{}, err
	}
	twin := map[string]string{}
	for i := range min(len(there), len(here)) {
		twin[there[i]] = here[i]
	}
	s := statuses("pod status by a bare program, without us", there[:len(twin)], from, to)
	s.without, s.read = true, nil
	s.watch = func(ctx context.Context) (watch.Interface, error) {
		changes, err := from.Watch(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		go func() {
			defer changes.Stop()
			var group errgroup.Group
			group.SetLimit(bareWorkers)
			for {
				select {
				case <-ctx.Done():
					_ = group.Wait() // a failed write shows as a missing change
					return
				case event, ok := <-changes.ResultChan():
					if !ok {
						return
					}
					if n, found := statusNumber(event.Object); found {
						name := event.Object.(*corev1.Pod).Name
						group.Go(func() error { return changeStatus(ctx, to, twin[name], n) })
					}
				}
			}
		}()
		return to.Watch(ctx, metav1.ListOptions{})
	}
	return s, nil
}
