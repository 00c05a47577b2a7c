package reflection_test

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
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kinds"
	"liqo.io/liqo/internal/offload/kinds/podrules"
	"liqo.io/liqo/internal/offload/reflection"
	"liqo.io/liqo/internal/remote"
	"liqo.io/liqo/test/apitest"
)

// world is a consumer and a provider with real API servers. The test acts as the controllers and the kubelet of the provider: it creates and runs the Pods of
// ShadowPods.
type world struct {
	// preparing makes the provider's kubelet report that init containers are still running.
	preparing atomic.Bool
	t         *testing.T
	// names that only this world uses
	nodeName, tenant, localNS, twinNS string

	near, far  client.Client
	nearConfig *rest.Config
	farConfig  *rest.Config
	link       *link
	// nearLink, if set, is the connection of engines to the consumer's API server.
	nearLink *link
	// nearUser and farUser are the users that engines act as; administrators if empty.
	nearUser, farUser rest.ImpersonationConfig
	// created counts the ShadowPods that were created, by name.
	mu      sync.Mutex
	created map[string]int
	// warnings are the warnings that the engine reported to users.
	warnings []string
	// announced are the objects whose copies were announced.
	announced []string
	// waiting, if set, is the reason why the engine handles no copies (kinds.CopyOptions.Waiting).
	waiting atomic.Pointer[string]
	// apiServer describes how pods in the provider reach the consumer's API server.
	apiServer podrules.APIServer
	engine    *reflection.Engine
	// nearWrites and farWrites count the write requests of engines to the consumer and to the provider.
	nearWrites, farWrites atomic.Int32
	// fail, if set, is called before and after every request of the engines except watches. Its error makes the request fail.
	fail func(after bool) error
}

func newWorld(t *testing.T, near, far *rest.Config) *world {
	t.Helper()
	w := &world{t: t, created: map[string]int{}, nearConfig: near, farConfig: far}
	id := crand.Text()[:8]
	id = strings.ToLower(id)
	w.nodeName, w.tenant, w.localNS, w.twinNS = "node-"+id, "tenant-"+id, "shop-"+id, "shop-"+id+"-rome"
	w.near, w.far = apitest.Client(t, w.nearConfig), apitest.Client(t, w.farConfig)
	w.create(w.near, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.tenant}})
	w.create(w.near, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.localNS}})
	w.create(w.far, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.twinNS}})
	w.link = newLink(t, w.farConfig)
	w.mapNamespace(offloadingv1beta1.MappingAccepted)
	go w.provide(t.Context())
	return w
}

func (w *world) create(c client.Client, obj client.Object) {
	w.t.Helper()
	if err := c.Create(w.t.Context(), obj); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) mapNamespace(phase offloadingv1beta1.MappingPhase) {
	w.t.Helper()
	m := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.tenant, Name: providerID}}
	if w.near.Get(w.t.Context(), client.ObjectKeyFromObject(m), m) != nil {
		m.Spec.DesiredMapping = map[string]string{w.localNS: w.twinNS}
		w.create(w.near, m)
	}
	m.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{}
	if phase != "" {
		m.Status.CurrentMapping[w.localNS] = offloadingv1beta1.RemoteNamespaceStatus{RemoteNamespace: w.twinNS, Phase: phase}
	}
	if err := w.near.Status().Update(w.t.Context(), m); err != nil {
		w.t.Fatal(err)
	}
}

// provide acts as the provider's ShadowPod controller, garbage collector and kubelet.
func (w *world) provide(ctx context.Context) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var shadows offloadingv1beta1.ShadowPodList
		var pods corev1.PodList
		// List the Pods first: a Pod whose ShadowPod is missing in a later list has lost its owner.
		if w.far.List(ctx, &pods, client.InNamespace(w.twinNS)) != nil || w.far.List(ctx, &shadows, client.InNamespace(w.twinNS)) != nil {
			continue
		}
		owners := map[string]*offloadingv1beta1.ShadowPod{}
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
	engine := reflection.New(reflection.Options{
		Local: near, Remote: far, Health: health, Namespace: w.tenant, Map: providerID, Log: slog.New(slog.NewTextHandler(w.t.Output(), nil)),
		RequestTimeout: 3 * time.Second,
		Kinds: []reflection.Kind{
			reflection.Pods(10, func() podrules.Options {
				return podrules.Options{Origin: consumerID, Destination: providerID, Node: w.nodeName, HostIP: "192.0.2.1", APIServer: w.apiServer}
			}),
			reflection.Services(3, func() kinds.ServiceOptions { return kinds.ServiceOptions{CopyOptions: w.copyOptions()} }),
			reflection.EndpointSlices(3, func() reflection.EndpointSliceOptions {
				return reflection.EndpointSliceOptions{
					EndpointSliceOptions: kinds.EndpointSliceOptions{
						CopyOptions: w.copyOptions(), AtTarget: func(node string) bool { return node == w.nodeName },
					},
					Translate: true, Native: func(address string) bool { return strings.HasPrefix(address, "10.10.") },
				}
			}),
			reflection.ConfigMaps(3, w.copyOptions), reflection.Secrets(3, w.copyOptions),
			reflection.Ingresses(3, func() kinds.IngressOptions {
				return kinds.IngressOptions{CopyOptions: w.copyOptions(), Class: "theirs"}
			}),
			reflection.Events(3, w.copyOptions),
			reflection.PodDisruptionBudgets(3, func() reflection.PodDisruptionBudgetOptions {
				return reflection.PodDisruptionBudgetOptions{CopyOptions: w.copyOptions(), Node: w.nodeName, AtTarget: func(node string) bool { return node == w.nodeName }}
			}),
			reflection.NetworkPolicies(3, func() kinds.NetworkPolicyOptions {
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

// counting returns a client that counts its writes and the ShadowPods that it creates, and that fails as w.fail decides.
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
				if _, ok := obj.(*offloadingv1beta1.ShadowPod); ok && err == nil {
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

// pod creates a Pod bound to the virtual node.
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
			return c.Status == corev1.ConditionTrue && pod.Labels[offloadingv1beta1.LabelShadowPod] == api.True
		}
	}
	return false
}

func (w *world) waitReady(n int) {
	w.t.Helper()
	apitest.Eventually(w.t, 60*time.Second, fmt.Sprintf("%d ready pods", n), func() error {
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
	apitest.Eventually(w.t, 60*time.Second, "nothing left", func() error {
		var pods, remotePods corev1.PodList
		var shadows offloadingv1beta1.ShadowPodList
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

// link is a connection to an API server that can be cut silently: bytes are lost and connections hang.
type link struct {
	listener net.Listener
	target   string
	mu       sync.Mutex
	open     chan struct{} // closed while the link forwards bytes
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

// snap closes all connections, which ends all watches. New connections are possible at once.
func (l *link) snap() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		_ = c.Close()
	}
	l.conns = nil
}

// config returns cfg with all connections going through the link.
func (l *link) config(cfg *rest.Config) *rest.Config {
	out := rest.CopyConfig(cfg)
	out.Host = "https://" + l.listener.Addr().String()
	remote.Tune(out)
	return out
}
