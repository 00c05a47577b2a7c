package story

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"liqo.io/liqo/test/playground"
)

// Recorder records every pod that was ever in a namespace, including pods that were deleted since.
type Recorder struct {
	story     *Story
	cluster   *playground.Cluster
	namespace string
	end       context.CancelFunc

	mu   sync.Mutex
	pods map[types.UID]*recorded
}

// recorded is the recorded state of a pod.
type recorded struct {
	name string
	// version is the last resource version.
	version string
	// containers that were observed running
	containers []string
}

// Record starts to watch a namespace. The watch lasts until End or the end of the story.
func (s *Story) Record(c *playground.Cluster, namespace string) *Recorder {
	s.Helper()
	ctx, end := context.WithCancel(s.Context())
	r := &Recorder{story: s, cluster: c, namespace: namespace, end: end, pods: map[types.UID]*recorded{}}
	factory := informers.NewSharedInformerFactoryWithOptions(c.Set, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().Pods().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { r.see(object) },
		UpdateFunc: func(_, object any) { r.see(object) },
	})
	s.Must(err)
	factory.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		s.Fatal("watching pods: the story ended first")
	}
	return r
}

// End ends the watch and keeps what was recorded.
func (r *Recorder) End() { r.end() }

func (r *Recorder) see(object any) {
	pod, is := object.(*corev1.Pod)
	if !is {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.pods[pod.UID]
	if seen == nil {
		seen = &recorded{name: pod.Name}
		r.pods[pod.UID] = seen
	}
	seen.version = pod.ResourceVersion
	for _, id := range Containers(*pod) {
		if id != "" && !slices.Contains(seen.containers, id) {
			seen.containers = append(seen.containers, id)
		}
	}
}

// Pods returns the names of all pods that have existed so far, sorted. A name appears once for each pod of that name.
func (r *Recorder) Pods() []string {
	r.story.Helper()
	r.catchUp()
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for _, pod := range r.pods {
		names = append(names, pod.name)
	}
	slices.Sort(names)
	return names
}

// Started counts the containers that have run so far.
func (r *Recorder) Started() int {
	r.story.Helper()
	r.catchUp()
	_, started := r.SoFar()
	return started
}

// SoFar counts the pods, and the containers that ran, as far as the watch has reported them. It may lag behind the cluster.
func (r *Recorder) SoFar() (pods, started int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, pod := range r.pods {
		started += len(pod.containers)
	}
	return len(r.pods), started
}

// catchUp waits until the watch has reported everything that happened before this call.
func (r *Recorder) catchUp() {
	r.story.Helper()
	r.story.Eventually(time.Minute, "the watch of "+r.namespace+" in "+r.cluster.ID, func(ctx context.Context) error {
		pods, err := r.story.TryPods(ctx, r.cluster, r.namespace)
		if err != nil {
			return err
		}
		for i := range pods {
			if err := r.has(&pods[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// has returns an error unless the present state of the pod, or a later one, was recorded.
func (r *Recorder) has(pod *corev1.Pod) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.pods[pod.UID]
	if seen == nil {
		return fmt.Errorf("it has not told of pod %s", pod.Name)
	}
	order, err := resourceversion.CompareResourceVersion(seen.version, pod.ResourceVersion)
	if err == nil && order < 0 {
		err = fmt.Errorf("it has told of version %s of pod %s, not of %s", seen.version, pod.Name, pod.ResourceVersion)
	}
	return err
}
