package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// Latency is how long changes of one kind of object took from the request that made them to the news of the twin, in milliseconds.
type Latency struct {
	Kind string `json:"kind"`
	// PerSecond is how many changes there were; 0 means one after the other.
	PerSecond int     `json:"perSecond"`
	Changes   int     `json:"changes"`
	P50       float64 `json:"p50Milliseconds"`
	P99       float64 `json:"p99Milliseconds"`
	Longest   float64 `json:"longestMilliseconds"`
	// Problem is why there are no figures.
	Problem string `json:"problem,omitempty"`
}

const (
	// changeKey is the annotation or condition that is changed, dataKey the entry of data.
	changeKey = "bench.liqo.io/change"
	dataKey   = "change"
	// quietChanges and busyChanges are how many changes make a figure.
	quietChanges = 300
	busyChanges  = 1000
	busyRate     = 100
	// quietPause is between the news of one change and the next one.
	quietPause = 20 * time.Millisecond
)

// subject is one kind whose changes are followed.
type subject struct {
	kind string
	// names are those of the objects, in a namespace of rome and its twin.
	names []string
	// change makes the change with that number; number reads it from a twin.
	change func(ctx context.Context, name string, n int) error
	number func(runtime.Object) (int, bool)
	watch  func(ctx context.Context) (watch.Interface, error)
}

// latencies measures all kinds, with the pods of the run that is going on.
func (b *scaleBench) latencies(ctx context.Context) ([]Latency, error) {
	rome, err := frugal(b.rome)
	if err != nil {
		return nil, err
	}
	milan, err := frugal(b.milan)
	if err != nil {
		return nil, err
	}
	var all []Latency
	for _, make := range []func(context.Context, kubernetes.Interface, kubernetes.Interface) (subject, error){configMaps, services, podStatuses} {
		s, err := make(ctx, rome, milan)
		if err != nil {
			return nil, fmt.Errorf("preparing latencies: %w", err)
		}
		for _, rate := range []int{0, busyRate} {
			latency, err := s.measure(ctx, rate)
			if err != nil {
				latency.Problem = err.Error()
			}
			report("%s, %d changes a second: p50 %.0f ms, p99 %.0f ms %s", s.kind, rate, latency.P50, latency.P99, latency.Problem)
			all = append(all, latency)
			if latency.Problem != "" {
				break
			}
		}
	}
	return all, nil
}

// measure makes changes, that many a second or, for 0, each after the news of the one before.
func (s *subject) measure(ctx context.Context, perSecond int) (Latency, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("changes took too long"))
	defer cancel()
	latency := Latency{Kind: s.kind, PerSecond: perSecond, Changes: quietChanges}
	if perSecond > 0 {
		latency.Changes = busyChanges
	}
	arrivals, err := s.follow(ctx)
	if err != nil {
		return latency, err
	}
	// Numbers of another measurement are not mistaken for those of this one.
	first := int(time.Now().UnixMilli())
	made := make([]time.Time, latency.Changes)
	var group errgroup.Group
	group.SetLimit(perSecond + 1)
	tick := time.NewTicker(time.Second / time.Duration(max(perSecond, 1)))
	defer tick.Stop()
	for i := range latency.Changes {
		name := s.names[i*7%len(s.names)] // not in the order in which they were made
		made[i] = time.Now()
		if perSecond > 0 {
			group.Go(func() error { return s.change(ctx, name, first+i) })
			<-tick.C
			continue
		}
		if err := s.change(ctx, name, first+i); err != nil {
			return latency, err
		}
		if !arrivals.wait(ctx, first, i+1, 10*time.Second) {
			latency.Problem = "a change did not arrive within 10 s"
			return latency, nil
		}
		pause(ctx, quietPause)
	}
	if err := group.Wait(); err != nil {
		return latency, err
	}
	if !arrivals.wait(ctx, first, latency.Changes, 10*time.Second) {
		latency.Problem = "not all changes arrived within 10 s"
		return latency, nil
	}
	var milliseconds []float64
	for i, t := range made {
		milliseconds = append(milliseconds, arrivals.at(first+i).Sub(t).Seconds()*1000)
	}
	slices.Sort(milliseconds)
	latency.P50, latency.P99 = milliseconds[len(milliseconds)/2], milliseconds[len(milliseconds)*99/100]
	latency.Longest = milliseconds[len(milliseconds)-1]
	return latency, nil
}

// arrivals are when changes were seen first.
type arrivals struct {
	mu   sync.Mutex
	seen map[int]time.Time
	news chan struct{}
}

// follow watches the twins until the context ends.
func (s *subject) follow(ctx context.Context) (*arrivals, error) {
	w, err := s.watch(ctx)
	if err != nil {
		return nil, err
	}
	a := &arrivals{seen: map[int]time.Time{}, news: make(chan struct{}, 1)}
	go func() {
		defer w.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case event, ok := <-w.ResultChan():
				if !ok {
					return // what is missing then is told
				}
				n, found := s.number(event.Object)
				if !found {
					continue
				}
				a.mu.Lock()
				if _, known := a.seen[n]; !known {
					a.seen[n] = time.Now()
				}
				a.mu.Unlock()
				select {
				case a.news <- struct{}{}:
				default:
				}
			}
		}
	}()
	return a, nil
}

func (a *arrivals) at(n int) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen[n]
}

// wait waits until count changes from the first one have arrived.
func (a *arrivals) wait(ctx context.Context, first, count int, limit time.Duration) bool {
	deadline := time.After(limit)
	for {
		a.mu.Lock()
		there := 0
		for n := range a.seen {
			if n >= first {
				there++
			}
		}
		a.mu.Unlock()
		if there >= count {
			return true
		}
		select {
		case <-a.news:
		case <-deadline:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// several makes as many objects, some at a time, and returns their names.
func several(create func(name string) error) ([]string, error) {
	var group errgroup.Group
	group.SetLimit(8)
	var names []string
	for i := range objects {
		name := "bench-" + strconv.Itoa(i)
		names = append(names, name)
		group.Go(func() error { return create(name) })
	}
	return names, group.Wait()
}

func configMaps(ctx context.Context, rome, milan kubernetes.Interface) (subject, error) {
	here := rome.CoreV1().ConfigMaps(offloadedNamespace)
	names, err := several(func(name string) error {
		_, err := here.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		return err
	})
	return subject{
		kind: "ConfigMap", names: names,
		watch: func(ctx context.Context) (watch.Interface, error) {
			return milan.CoreV1().ConfigMaps(twinNamespace).Watch(ctx, metav1.ListOptions{})
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
		_, err := here.Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: 80}},
		}}, metav1.CreateOptions{})
		return err
	})
	return subject{
		kind: "Service", names: names,
		watch: func(ctx context.Context) (watch.Interface, error) {
			return milan.CoreV1().Services(twinNamespace).Watch(ctx, metav1.ListOptions{})
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
