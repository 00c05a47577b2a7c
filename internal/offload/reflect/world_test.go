package reflect_test

import (
	"context"
	crand "crypto/rand"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// world is a consumer and a provider, each a real API server, with a provider that makes pods of ShadowPods and runs them.
type world struct {
	// preparing has the provider's kubelet tell that init containers run, not that they have ended.
	preparing atomic.Bool
	t         *testing.T
	// names of this world's own
	nodeName, tenant, localNS, twinNS string

	near, far  client.Client
	nearConfig *rest.Config
	farConfig  *rest.Config
	link       *link
	// nearLink, if set, is the way of engines to the consumer.
	nearLink *link
	// nearUser and farUser are the users of engines, administrators if empty.
	nearUser, farUser rest.ImpersonationConfig
	// created counts the ShadowPods that were created, by name.
	mu      sync.Mutex
	created map[string]int
	// warnings are the warnings that users got.
	warnings []string
	// announced are the objects that they heard were copied.
	announced []string
	// waiting, if set, is why copies are not handled.
	waiting atomic.Pointer[string]
	// apiServer is how pods there reach the API server here.
	apiServer kinds.APIServer
	engine    *reflect.Engine
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
			_ = w.far.Create(ctx, offload.Pod(&shadows.Items[i], offload.PodMetadata{}))
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			switch owner := metav1.GetControllerOf(pod); {
			case owner == nil:
			case owners[string(owner.UID)] == nil:
				_ = w.far.Delete(ctx, pod, client.GracePeriodSeconds(0))
			case pod.Status.Phase == corev1.PodPending:
				run(pod)
				for _, c := range pod.Spec.InitContainers {
					status := corev1.ContainerStatus{Name: c.Name, Image: c.Image, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}
					if w.preparing.Load() {
						status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
					}
					pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, status)
				}
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
	nearConfig := w.nearConfig
	if w.nearLink != nil {
		nearConfig = w.nearLink.config(w.nearConfig)
	}
	farConfig := w.link.config(w.farConfig)
	nearConfig = rest.CopyConfig(nearConfig)
	nearConfig.Impersonate, farConfig.Impersonate = w.nearUser, w.farUser
	near := w.counting(nearConfig, &w.nearWrites)
	far := w.counting(farConfig, &w.farWrites)
	health, err := remote.NewHealth(farConfig, remote.HealthOptions{
		Interval: 50 * time.Millisecond, RetryInterval: 50 * time.Millisecond, Timeout: time.Second, Failures: 2,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	engine := reflect.New(reflect.Options{
		Local: near, Remote: far, Health: health, Namespace: w.tenant, Map: providerID, Log: slog.New(slog.NewTextHandler(w.t.Output(), nil)),
		RequestTimeout: 3 * time.Second,
		Kinds: []reflect.Kind{
			reflect.Pods(10, func() kinds.PodOptions {
				return kinds.PodOptions{Origin: consumerID, Destination: providerID, Node: w.nodeName, HostIP: "192.0.2.1", APIServer: w.apiServer}
			}),
			reflect.Services(3, func() kinds.ServiceOptions { return kinds.ServiceOptions{CopyOptions: w.copyOptions()} }),
			reflect.EndpointSlices(3, func() reflect.EndpointSliceOptions {
				return reflect.EndpointSliceOptions{
					EndpointSliceOptions: kinds.EndpointSliceOptions{
						CopyOptions: w.copyOptions(), AtTarget: func(node string) bool { return node == w.nodeName },
					},
					Translate: true, Native: func(address string) bool { return strings.HasPrefix(address, "10.10.") },
				}
			}),
			reflect.ConfigMaps(3, w.copyOptions), reflect.Secrets(3, w.copyOptions),
			reflect.Ingresses(3, func() kinds.IngressOptions {
				return kinds.IngressOptions{CopyOptions: w.copyOptions(), Class: "theirs"}
			}),
			reflect.Events(3, w.copyOptions),
			reflect.PodDisruptionBudgets(3, func() reflect.PodDisruptionBudgetOptions {
				return reflect.PodDisruptionBudgetOptions{CopyOptions: w.copyOptions(), Node: w.nodeName, AtTarget: func(node string) bool { return node == w.nodeName }}
			}),
			reflect.NetworkPolicies(3, func() kinds.NetworkPolicyOptions {
				return kinds.NetworkPolicyOptions{CopyOptions: w.copyOptions(), RemoteNamespace: func(namespace string) (string, bool) {
					w.mu.Lock()
					defer w.mu.Unlock()
					return w.engine.RemoteNamespace(namespace)
				}}
			}),
		},
		Announce: func(obj client.Object) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.announced = append(w.announced, obj.GetName())
		},
		Warn: func(obj client.Object, message string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.warnings = append(w.warnings, obj.GetName()+": "+message)
		},
	})
	w.mu.Lock()
	w.engine = engine
	w.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = health.Run(ctx) })
	running.Go(func() { _ = engine.Run(ctx) })
	var once sync.Once
	stop = func() { once.Do(func() { cancel(); running.Wait() }) }
	w.t.Cleanup(stop)
	return stop
}

func (w *world) copyOptions() kinds.CopyOptions {
	o := kinds.CopyOptions{Origin: consumerID, Destination: providerID}
	if waiting := w.waiting.Load(); waiting != nil {
		o.Waiting = *waiting
	}
	return o
}

// counting is a client that counts its writes and the ShadowPods that it creates, and fails as the world demands.
func (w *world) counting(cfg *rest.Config, writes *atomic.Int32) client.WithWatch {
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: kube.NewScheme()})
	if err != nil {
		w.t.Fatal(err)
	}
	// A lost response and a lost request look the same to the client.
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
			w.mu.Lock()
			defer w.mu.Unlock()
			err = fmt.Errorf("%d are; users heard %q", got, w.warnings)
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

// snap breaks every connection, and with them every watch; new ones can be made at once.
func (l *link) snap() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		_ = c.Close()
	}
	l.conns = nil
}

// config is cfg through the link.
func (l *link) config(cfg *rest.Config) *rest.Config {
	out := rest.CopyConfig(cfg)
	out.Host = "https://" + l.listener.Addr().String()
	remote.Tune(out)
	return out
}
