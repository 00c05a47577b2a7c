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

// repairAfter is the period of the regular resync. It limits how long an address stays missing after another program removed it
// from the interface.
const repairAfter = 30 * time.Second

// balancer assigns addresses to Services of type LoadBalancer.
type balancer struct {
	client   kubernetes.Interface
	config   Config
	recorder record.EventRecorder
	// reported maps the UID of each Service without an address to the last reported reason. It prevents repeated Events.
	reported map[types.UID]string
}

// serveAddresses runs the balancer until ctx ends. Each change of a relevant Service triggers a round over all Services.
func serveAddresses(ctx context.Context, client kubernetes.Interface, config Config) error {
	events := record.NewBroadcaster(record.WithContext(ctx))
	defer events.Shutdown()
	events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	b := &balancer{
		client:   client,
		config:   config,
		recorder: events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "playground-cloud"}),
		reported: map[types.UID]string{},
	}

	// The queue has only one item, which stands for all Services. So a burst of changes causes only one round.
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

// concerns reports whether a Service has or wants a load balancer address. Other Services trigger no round, because each round lists all
// Services from the API server.
func concerns(obj any) bool {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	service, ok := obj.(*corev1.Service)
	return ok && (service.Spec.Type == corev1.ServiceTypeLoadBalancer || len(service.Status.LoadBalancer.Ingress) > 0)
}

// round lists all Services, assigns addresses, and updates the interface and the statuses. It lists from the API server instead of the
// informer's cache: a stale cache could show a Service without its newly written address, and that address would be assigned twice.
func (b *balancer) round(ctx context.Context) error {
	services, err := b.client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing Services: %w", err)
	}
	want := assign(services.Items, b.config.AddressPool)

	// Configure the interface before the status, so that a published address already responds.
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
		return failures[0] // unwrapped, so that the caller can recognize a conflict
	}
	return errors.Join(failures...)
}

// explain emits an Event for each Service without an address, once per reason.
func (b *balancer) explain(refused []refusal) {
	reported := map[types.UID]string{}
	for _, r := range refused {
		reported[r.service.UID] = r.reason
		if b.reported[r.service.UID] != r.reason {
			b.recorder.Event(r.service, corev1.EventTypeWarning, "NoAddress", r.reason)
			b.config.Logger.Warn("no address for a Service", "service", r.service.Namespace+"/"+r.service.Name, "reason", r.reason)
		}
	}
	b.reported = reported
}
