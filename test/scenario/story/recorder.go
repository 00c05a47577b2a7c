package story

import (
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"liqo.io/liqo/test/playground"
)

// Recorder remembers every pod that was ever in a namespace, also those that came and went.
type Recorder struct {
	mu sync.Mutex
	// containers that were seen running, by pod.
	containers map[types.UID][]string
	names      map[types.UID]string
	end        context.CancelFunc
}

// Record begins to watch a namespace, until End or the end of the story.
func (s *Story) Record(c *playground.Cluster, namespace string) *Recorder {
	s.Helper()
	ctx, end := context.WithCancel(s.Context())
	r := &Recorder{containers: map[types.UID][]string{}, names: map[types.UID]string{}, end: end}
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

// End ends the watch; what was seen stays.
func (r *Recorder) End() { r.end() }

func (r *Recorder) see(object any) {
	pod, is := object.(*corev1.Pod)
	if !is {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names[pod.UID] = pod.Name
	if r.containers[pod.UID] == nil {
		r.containers[pod.UID] = []string{}
	}
	for _, id := range Containers(*pod) {
		if id != "" && !slices.Contains(r.containers[pod.UID], id) {
			r.containers[pod.UID] = append(r.containers[pod.UID], id)
		}
	}
}

// Pods returns the names of all pods that were seen, sorted; a name appears as often as there was another pod of that name.
func (r *Recorder) Pods() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for _, name := range r.names {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Started counts the containers that were seen running.
func (r *Recorder) Started() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ids := range r.containers {
		n += len(ids)
	}
	return n
}
