package reflect_test

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/liqo/api"
	offv1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kinds"
	"liqo.io/liqo/internal/offload/reflect"
	"liqo.io/liqo/internal/remote"
	liqotesting "liqo.io/liqo/internal/testing"
)

const consumerID, providerID = "rome", "milan"

// TestEngine runs its subtests one after the other on two API servers that they share; each has its own namespaces and its own node.
func TestEngine(t *testing.T) {
	var near, far *rest.Config
	var starting sync.WaitGroup
	starting.Go(func() { near = liqotesting.APIServer(t) })
	starting.Go(func() { far = liqotesting.APIServer(t) })
	starting.Wait()
	if t.Failed() {
		t.FailNow()
	}
	for name, test := range map[string]func(*testing.T, *world){
		"pods run and go":                   podsRunAndGo,
		"killed at random":                  killedAtRandom,
		"a partition is not absence":        partitionIsNotAbsence,
		"drained by the provider":           drainedByTheProvider,
		"a namespace that is not offloaded": namespaceNotOffloaded,
		"a foreign ShadowPod stays":         foreignShadowPodStays,
		"any request may fail":              anyRequestMayFail,
		"metadata follows, leaving theirs":  metadataFollows,
	} {
		t.Run(name, func(t *testing.T) { test(t, newWorld(t, near, far)) })
	}
}

// world is a consumer and a provider, each a real API server, with a provider that makes pods of ShadowPods and runs them.
type world struct {
	t *testing.T
	// names of this world's own
	nodeName, tenant, localNS, twinNS string

	near, far  client.Client
	nearConfig *rest.Config
	farConfig  *rest.Config
	link       *link
	// created counts the ShadowPods that were created, by name.
	mu      sync.Mutex
	created map[string]int
	// writes counts the requests of engines that change something.
	nearWrites, farWrites atomic.Int32
	// fail, if set, is asked before and after every request of engines that is not a watch.
	fail func(after bool) error
}

func newWorld(t *testing.T, near, far *rest.Config) *world {
	t.Helper()
	w := &world{t: t, created: map[string]int{}, nearConfig: near, farConfig: far}
	id := crand.Text()[:8]
	id = strings.ToLower(id)
	w.nodeName, w.tenant, w.localNS, w.twinNS = "node-"+id, "tenant-"+id, "shop-"+id, "shop-"+id+"-rome"
	w.near, w.far = liqotesting.Client(t, w.nearConfig), liqotesting.Client(t, w.farConfig)
	w.create(w.near, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.tenant}})
	w.create(w.near, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.localNS}})
	w.create(w.far, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.twinNS}})
	w.link = newLink(t, w.farConfig)
	w.mapNamespace(offv1.MappingAccepted)
	go w.provide(t.Context())
	return w
}

func (w *world) create(c client.Client, obj client.Object) {
	w.t.Helper()
	if err := c.Create(w.t.Context(), obj); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) mapNamespace(phase offv1.MappingPhase) {
	w.t.Helper()
	m := &offv1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.tenant, Name: providerID}}
	if w.near.Get(w.t.Context(), client.ObjectKeyFromObject(m), m) != nil {
		m.Spec.DesiredMapping = map[string]string{w.localNS: w.twinNS}
		w.create(w.near, m)
	}
	m.Status.CurrentMapping = map[string]offv1.RemoteNamespaceStatus{}
	if phase != "" {
		m.Status.CurrentMapping[w.localNS] = offv1.RemoteNamespaceStatus{RemoteNamespace: w.twinNS, Phase: phase}
	}
	if err := w.near.Status().Update(w.t.Context(), m); err != nil {
		w.t.Fatal(err)
	}
}

// provide plays the provider: its controller of ShadowPods, its garbage collector and its kubelet.
func (w *world) provide(ctx context.Context) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var shadows offv1.ShadowPodList
		var pods corev1.PodList
		// The order matters: a Pod whose ShadowPod is not in a later list has lost it.
		if w.far.List(ctx, &pods, client.InNamespace(w.twinNS)) != nil || w.far.List(ctx, &shadows, client.InNamespace(w.twinNS)) != nil {
			continue
		}
		owners := map[string]*offv1.ShadowPod{}
		for i := range shadows.Items {
			owners[string(shadows.Items[i].UID)] = &shadows.Items[i]
			_ = w.far.Create(ctx, offload.Pod(&shadows.Items[i]))
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			switch owner := metav1.GetControllerOf(pod); {
			case owner == nil:
			case owners[string(owner.UID)] == nil:
				_ = w.far.Delete(ctx, pod, client.GracePeriodSeconds(0))
			case pod.Status.Phase == corev1.PodPending:
				run(pod)
				_ = w.far.Status().Update(ctx, pod)
			}
		}
	}
}

// run gives a Pod the status of one that runs and is ready.
func run(pod *corev1.Pod) {
	now := metav1.Now()
	pod.Status.Phase, pod.Status.PodIP, pod.Status.HostIP, pod.Status.StartTime = corev1.PodRunning, "10.0.0.7", "192.0.2.7", &now
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now},
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: now},
	}
	started := true
	for _, c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: true, Started: &started, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
}

// start runs an engine until stop is called.
func (w *world) start() (stop func()) {
	w.t.Helper()
	near := w.counting(w.nearConfig, &w.nearWrites)
	far := w.counting(w.link.config(w.farConfig), &w.farWrites)
	health, err := remote.NewHealth(w.link.config(w.farConfig), remote.HealthOptions{
		Interval: 50 * time.Millisecond, RetryInterval: 50 * time.Millisecond, Timeout: time.Second, Failures: 2,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	engine := reflect.New(reflect.Options{
		Local: near, Remote: far, Health: health, Namespace: w.tenant, Map: providerID, Log: slog.New(slog.DiscardHandler),
		RequestTimeout: 3 * time.Second,
		Kinds: []reflect.Kind{reflect.Pods(10, func() kinds.PodOptions {
			return kinds.PodOptions{Origin: consumerID, Destination: providerID, Node: w.nodeName, HostIP: "192.0.2.1"}
		})},
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = health.Run(ctx) })
	running.Go(func() { _ = engine.Run(ctx) })
	var once sync.Once
	stop = func() { once.Do(func() { cancel(); running.Wait() }) }
	w.t.Cleanup(stop)
	return stop
}

// counting is a client that counts what it writes, and the ShadowPods it creates, and fails as the world says.
func (w *world) counting(cfg *rest.Config, writes *atomic.Int32) client.WithWatch {
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: kube.NewScheme()})
	if err != nil {
		w.t.Fatal(err)
	}
	// An answer that is lost and a request that is lost look the same to whoever asked.
	try := func(f func() error) error {
		if w.fail == nil {
			return f()
		}
		if err := w.fail(false); err != nil {
			return err
		}
		if err := f(); err != nil {
			return err
		}
		return w.fail(true)
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			return try(func() error { return c.Get(ctx, key, obj, opts...) })
		},
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			writes.Add(1)
			return try(func() error {
				err := c.Create(ctx, obj, opts...)
				if _, ok := obj.(*offv1.ShadowPod); ok && err == nil {
					w.mu.Lock()
					w.created[obj.GetName()]++
					w.mu.Unlock()
				}
				return err
			})
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			writes.Add(1)
			return try(func() error { return c.Delete(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			writes.Add(1)
			return try(func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			writes.Add(1)
			return try(func() error { return c.SubResource(sub).Patch(ctx, obj, patch, opts...) })
		},
	})
}

// anyRequestMayFail takes a pod from creation to its end, over and over, each time with another request failing, before it had an effect
// or after.
func anyRequestMayFail(t *testing.T, w *world) {
	var mu sync.Mutex
	requests, victim, after := 0, -1, false
	w.fail = func(isAfter bool) error {
		mu.Lock()
		defer mu.Unlock()
		if isAfter != after {
			return nil
		}
		requests++
		if requests-1 == victim {
			return errors.New("the link is gone")
		}
		return nil
	}
	w.start()
	for n := 0; ; n++ {
		mu.Lock()
		requests, victim, after = 0, n/2, n%2 == 1
		mu.Unlock()
		w.pod("web-0")
		w.waitReady(1)
		w.deleteAll()
		w.waitGone()
		mu.Lock()
		done := requests <= victim // the request to fail never came
		mu.Unlock()
		if done {
			if n < 8 {
				t.Errorf("only %d faults were tried", n)
			}
			t.Logf("%d faults", n)
			break
		}
	}
	for name, n := range w.created {
		if n == 0 {
			t.Errorf("ShadowPod %s was not created", name)
		}
	}
}

// metadataFollows changes labels on both sides: ours follow, theirs stay.
func metadataFollows(t *testing.T, w *world) {
	w.start()
	pod := w.pod("web-0")
	w.waitReady(1)
	shadow := &offv1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: w.twinNS, Name: "web-0"}}
	if err := w.far.Get(t.Context(), client.ObjectKeyFromObject(shadow), shadow); err != nil {
		t.Fatal(err)
	}
	theirs := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"policy":"checked"}}}`))
	if err := w.far.Patch(t.Context(), shadow, theirs); err != nil {
		t.Fatal(err)
	}
	ours := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"app":null,"color":"red"},"annotations":{"note":"x"}}}`))
	if err := w.near.Patch(t.Context(), pod, ours); err != nil {
		t.Fatal(err)
	}
	liqotesting.Eventually(t, 10*time.Second, "the labels to follow", func() error {
		if err := w.far.Get(t.Context(), client.ObjectKeyFromObject(shadow), shadow); err != nil {
			return err
		}
		_, app := shadow.Labels["app"]
		if app || shadow.Labels["color"] != "red" || shadow.Labels["policy"] != "checked" || shadow.Annotations["note"] != "x" {
			return fmt.Errorf("labels %v, annotations %v", shadow.Labels, shadow.Annotations)
		}
		return nil
	})
}

// pod makes a Pod bound to the virtual node.
func (w *world) pod(name string) *corev1.Pod {
	w.t.Helper()
	no := false
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.localNS, Name: name, Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{
			NodeName: w.nodeName, AutomountServiceAccountToken: &no,
			Containers: []corev1.Container{{Name: "web", Image: "web:1"}},
		},
	}
	w.create(w.near, pod)
	return pod
}

func (w *world) count(ready func(*corev1.Pod) bool) (n int, err error) {
	var pods corev1.PodList
	if err := w.near.List(w.t.Context(), &pods, client.InNamespace(w.localNS)); err != nil {
		return 0, err
	}
	for i := range pods.Items {
		if ready(&pods.Items[i]) {
			n++
		}
	}
	return n, nil
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue && pod.Labels[offv1.LabelShadowPod] == api.True
		}
	}
	return false
}

func (w *world) waitReady(n int) {
	w.t.Helper()
	liqotesting.Eventually(w.t, 60*time.Second, fmt.Sprintf("%d ready pods", n), func() error {
		got, err := w.count(isReady)
		if err == nil && got != n {
			err = fmt.Errorf("%d are", got)
		}
		return err
	})
}

func (w *world) waitGone() {
	w.t.Helper()
	liqotesting.Eventually(w.t, 60*time.Second, "nothing left", func() error {
		var pods, remotePods corev1.PodList
		var shadows offv1.ShadowPodList
		for _, err := range []error{
			w.near.List(w.t.Context(), &pods, client.InNamespace(w.localNS)),
			w.far.List(w.t.Context(), &remotePods, client.InNamespace(w.twinNS)),
			w.far.List(w.t.Context(), &shadows, client.InNamespace(w.twinNS)),
		} {
			if err != nil {
				return err
			}
		}
		if n := len(pods.Items) + len(remotePods.Items) + len(shadows.Items); n > 0 {
			return fmt.Errorf("%d local pods, %d ShadowPods, %d remote pods", len(pods.Items), len(shadows.Items), len(remotePods.Items))
		}
		return nil
	})
}

func (w *world) deleteAll() {
	w.t.Helper()
	if err := w.near.DeleteAllOf(w.t.Context(), &corev1.Pod{}, client.InNamespace(w.localNS)); err != nil {
		w.t.Fatal(err)
	}
}

func podsRunAndGo(t *testing.T, w *world) {
	w.start()
	for i := range 20 {
		w.pod(fmt.Sprintf("web-%d", i))
	}
	w.waitReady(20)
	if n := w.farWrites.Load(); n != 20 {
		t.Errorf("%d writes in the provider for 20 pods", n)
	}
	if n := w.nearWrites.Load(); n > 20 {
		t.Errorf("%d writes in the consumer for 20 pods that were ready within the grace", n)
	}
	pod := &corev1.Pod{}
	if err := w.near.Get(t.Context(), client.ObjectKey{Namespace: w.localNS, Name: "web-3"}, pod); err != nil {
		t.Fatal(err)
	}
	if s := pod.Status; s.PodIP != "10.0.0.7" || s.HostIP != "192.0.2.1" || s.Phase != corev1.PodRunning {
		t.Errorf("status %+v", s)
	}
	w.deleteAll()
	w.waitGone()
}

func killedAtRandom(t *testing.T, w *world) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const pods = 50
	stop := w.start()
	for i := range pods {
		w.pod(fmt.Sprintf("web-%d", i))
		if random.IntN(6) == 0 {
			stop()
			stop = w.start()
		}
	}
	w.waitReady(pods)
	for name, n := range w.created {
		if n != 1 {
			t.Errorf("ShadowPod %s was created %d times", name, n)
		}
	}
	w.deleteAll()
	for range 5 {
		time.Sleep(time.Duration(random.IntN(200)) * time.Millisecond)
		stop()
		stop = w.start()
	}
	w.waitGone()
}

func partitionIsNotAbsence(t *testing.T, w *world) {
	w.start()
	for i := range 5 {
		w.pod(fmt.Sprintf("web-%d", i))
	}
	w.waitReady(5)
	w.link.cut()
	w.pod("late")
	gone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.localNS, Name: "web-0"}}
	if err := w.near.Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second)
	var pods corev1.PodList
	if err := w.near.List(t.Context(), &pods, client.InNamespace(w.localNS)); err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 6 {
		t.Fatalf("%d pods of 6 while the provider can't be reached", len(pods.Items))
	}
	for _, pod := range pods.Items {
		if pod.Status.Phase == corev1.PodFailed {
			t.Errorf("pod %s failed because the provider can't be reached", pod.Name)
		}
	}
	// Meanwhile a pod is lost there, and made again.
	if err := w.far.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.twinNS, Name: "web-1"}}, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1100 * time.Millisecond) // its successor starts in another second
	w.link.heal()
	w.waitReady(5) // web-1..4 and late
	pod := &corev1.Pod{}
	liqotesting.Eventually(t, 10*time.Second, "the restart to be counted", func() error {
		if err := w.near.Get(t.Context(), client.ObjectKey{Namespace: w.localNS, Name: "web-1"}, pod); err != nil {
			return err
		}
		if len(pod.Status.ContainerStatuses) != 1 || pod.Status.ContainerStatuses[0].RestartCount != 1 {
			return fmt.Errorf("container statuses %+v", pod.Status.ContainerStatuses)
		}
		return nil
	})
	liqotesting.Eventually(t, 10*time.Second, "web-0 to be gone", func() error {
		if err := w.near.Get(t.Context(), client.ObjectKeyFromObject(gone), gone); err == nil {
			return fmt.Errorf("it is there: %v", gone.DeletionTimestamp)
		}
		return nil
	})
}

func drainedByTheProvider(t *testing.T, w *world) {
	w.start()
	w.pod("web-0")
	w.waitReady(1)
	if err := w.far.Delete(t.Context(), &offv1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: w.twinNS, Name: "web-0"}}); err != nil {
		t.Fatal(err)
	}
	liqotesting.Eventually(t, 10*time.Second, "the pod to fail", func() error {
		n, err := w.count(func(p *corev1.Pod) bool {
			return p.Status.Phase == corev1.PodFailed && p.Status.Reason == offv1.PodOffloadingAborted
		})
		if err == nil && n != 1 {
			err = fmt.Errorf("%d did", n)
		}
		return err
	})
}

func namespaceNotOffloaded(t *testing.T, w *world) {
	w.mapNamespace("")
	w.start()
	w.pod("web-0")
	refused := func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodPending && p.Status.Reason == offv1.PodOffloadingBackOff
	}
	liqotesting.Eventually(t, 10*time.Second, "the pod to be refused", func() error {
		n, err := w.count(refused)
		if err == nil && n != 1 {
			err = fmt.Errorf("%d are", n)
		}
		return err
	})
	w.mapNamespace(offv1.MappingAccepted)
	w.waitReady(1)
}

func foreignShadowPodStays(t *testing.T, w *world) {
	other := &offv1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: w.twinNS, Name: "web-0", Labels: map[string]string{api.LabelOrigin: "naples"}}}
	other.Spec.Pod.Containers = []corev1.Container{{Name: "x", Image: "x"}}
	w.create(w.far, other)
	w.start()
	w.pod("web-0")
	liqotesting.Eventually(t, 10*time.Second, "the pod to be refused", func() error {
		n, err := w.count(func(p *corev1.Pod) bool { return p.Status.Reason == offv1.PodOffloadingBackOff })
		if err == nil && n != 1 {
			err = fmt.Errorf("%d are", n)
		}
		return err
	})
	w.deleteAll()
	liqotesting.Eventually(t, 10*time.Second, "the pod to be gone", func() error {
		n, err := w.count(func(*corev1.Pod) bool { return true })
		if err == nil && n != 0 {
			err = fmt.Errorf("%d are left", n)
		}
		return err
	})
	if err := w.far.Get(t.Context(), client.ObjectKeyFromObject(other), other); err != nil || other.DeletionTimestamp != nil {
		t.Errorf("the foreign ShadowPod was touched: %v, %v", err, other.DeletionTimestamp)
	}
}

// link is the way to the provider, which can be cut without a word: bytes vanish and connections hang.
type link struct {
	listener net.Listener
	target   string
	mu       sync.Mutex
	open     chan struct{} // closed while bytes pass
	conns    []net.Conn
}

func newLink(t *testing.T, far *rest.Config) *link {
	t.Helper()
	u, err := url.Parse(far.Host)
	if err != nil {
		t.Fatal(err)
	}
	target := u.Host
	if target == "" {
		target = far.Host
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{listener: listener, target: target, open: make(chan struct{})}
	close(l.open)
	t.Cleanup(func() {
		_ = listener.Close()
		l.heal()
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, c := range l.conns {
			_ = c.Close()
		}
	})
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", target)
			if err != nil {
				_ = near.Close()
				continue
			}
			l.mu.Lock()
			l.conns = append(l.conns, near, far)
			l.mu.Unlock()
			go l.pump(near, far)
			go l.pump(far, near)
		}
	}()
	return l
}

func (l *link) pump(from, to net.Conn) {
	defer func() { _ = from.Close(); _ = to.Close() }()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		l.mu.Lock()
		open := l.open
		l.mu.Unlock()
		<-open
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = make(chan struct{})
}

func (l *link) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.open:
	default:
		close(l.open)
	}
}

// config is cfg through the link.
func (l *link) config(cfg *rest.Config) *rest.Config {
	out := rest.CopyConfig(cfg)
	out.Host = "https://" + l.listener.Addr().String()
	remote.Tune(out)
	return out
}
