package cloud

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
)

// repairAfter is how long an address that someone else removed from the interface may be missing.
const repairAfter = 30 * time.Second

// balancer gives Services their addresses.
type balancer struct {
	client   kubernetes.Interface
	config   Config
	recorder record.EventRecorder
	// told holds the last reason given to a Service without address, so that it is said once.
	told map[types.UID]string
}

// serveAddresses computes everything anew whenever a Service changes, until ctx ends.
func serveAddresses(ctx context.Context, client kubernetes.Interface, config Config) error {
	events := record.NewBroadcaster(record.WithContext(ctx))
	defer events.Shutdown()
	events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	b := &balancer{
		client:   client,
		config:   config,
		recorder: events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "playground-cloud"}),
		told:     map[types.UID]string{},
	}

	// There is one item: the whole. A burst of changes becomes one round.
	const whole = "services"
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](50*time.Millisecond, 10*time.Second))
	defer queue.ShutDown()
	defer context.AfterFunc(ctx, queue.ShutDown)()
	factory := informers.NewSharedInformerFactory(client, 0)
	services := factory.Core().V1().Services().Informer()
	changed := func(objects ...any) {
		if slices.ContainsFunc(objects, concerns) {
			queue.Add(whole)
		}
	}
	if _, err := services.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { changed(obj) }, UpdateFunc: func(before, obj any) { changed(before, obj) }, DeleteFunc: func(obj any) { changed(obj) },
	}); err != nil {
		return fmt.Errorf("watching Services: %w", err)
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	queue.Add(whole)

	for {
		item, ended := queue.Get()
		if ended {
			return nil
		}
		err := b.round(ctx)
		switch {
		case err == nil:
			queue.Forget(item)
			queue.AddAfter(item, repairAfter)
		case ctx.Err() != nil:
		default:
			if !apierrors.IsConflict(err) {
				config.Logger.Error("serving load balancers failed", "error", err)
			}
			queue.AddRateLimited(item)
		}
		queue.Done(item)
	}
}

// concerns tells whether a Service has, or wants, an address. A round costs the API server all Services, which are nobody's business here as long as
// they are of other types.
func concerns(obj any) bool {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	service, ok := obj.(*corev1.Service)
	return ok && (service.Spec.Type == corev1.ServiceTypeLoadBalancer || len(service.Status.LoadBalancer.Ingress) > 0)
}

// round reads all Services, decides, and applies. It reads from the server and not from the watch, because a Service whose
// address was written a moment ago must not appear without one: its address would be given twice.
func (b *balancer) round(ctx context.Context) error {
	services, err := b.client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing Services: %w", err)
	}
	want := assign(services.Items, b.config.AddressPool)

	// First the interface, then the status: who reads the address finds it answering.
	added, removed, err := setAddresses(b.config.Interface, want.addresses, b.config.AddressPool)
	for _, address := range added {
		b.config.Logger.Info("address added", "address", address, "interface", b.config.Interface)
	}
	for _, address := range removed {
		b.config.Logger.Info("address removed", "address", address, "interface", b.config.Interface)
	}
	if err != nil {
		return err
	}
	failures := []error(nil)
	for _, service := range want.statuses {
		_, err := b.client.CoreV1().Services(service.Namespace).UpdateStatus(ctx, service, metav1.UpdateOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			failures = append(failures, fmt.Errorf("writing the status of Service %s/%s: %w", service.Namespace, service.Name, err))
		}
	}
	b.explain(want.refused)
	if len(failures) == 1 {
		return failures[0] // keeps a lone conflict recognisable
	}
	return errors.Join(failures...)
}

// explain tells each Service without address why, once per reason.
func (b *balancer) explain(refused []refusal) {
	told := map[types.UID]string{}
	for _, r := range refused {
		told[r.service.UID] = r.reason
		if b.told[r.service.UID] != r.reason {
			b.recorder.Event(r.service, corev1.EventTypeWarning, "NoAddress", r.reason)
			b.config.Logger.Warn("no address for a Service", "service", r.service.Namespace+"/"+r.service.Name, "reason", r.reason)
		}
	}
	b.told = told
}
