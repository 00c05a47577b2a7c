package reflection

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"liqo.io/liqo/internal/excerpt"
	"liqo.io/liqo/internal/offload/kinds"
	"liqo.io/liqo/internal/reasons"
)

// announcementsWaiting is the maximum number of announcements that wait, and announcementPause the pause between two of them. They limit bursts: each
// announcement is a write, and no user reads a burst of them.
const (
	announcementsWaiting = 100
	announcementPause    = 100 * time.Millisecond
)

// Recorder emits events about reflection and about the virtual node. Its callers must emit only one event per change.
type Recorder struct {
	client client.Client
	log    *slog.Logger
	// node is the name of the virtual node, cluster the ID of the provider.
	node, cluster string
	announcements chan client.Object
}

// NewRecorder returns a Recorder for a virtual node of a provider.
func NewRecorder(c client.Client, log *slog.Logger, node, cluster string) *Recorder {
	return &Recorder{client: c, log: log, node: node, cluster: cluster, announcements: make(chan client.Object, announcementsWaiting)}
}

// Run emits the announced events until ctx ends.
func (e *Recorder) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case obj := <-e.announcements:
			e.Record(ctx, obj, corev1.EventTypeNormal, reasons.SuccessfulReflection, fmt.Sprintf("reflected the object to cluster %s", e.cluster))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(announcementPause):
		}
	}
}

// Warn emits a Warning about an object whose copying failed. It returns false if a later attempt may succeed.
func (e *Recorder) Warn(ctx context.Context, obj client.Object, message string) bool {
	return e.Record(ctx, obj, corev1.EventTypeWarning, reasons.FailedReflection, message)
}

// Announce emits a Normal Event about a copied object. It never blocks: it drops the announcement if too many are waiting.
func (e *Recorder) Announce(obj client.Object) {
	select {
	case e.announcements <- obj:
	default:
	}
}

// Record emits an Event about an object. The message may contain a response of the provider, so it is truncated. Record returns false if a later
// attempt may succeed.
func (e *Recorder) Record(ctx context.Context, obj client.Object, kind, reason, message string) bool {
	c, log := e.client, e.log
	gvk, err := apiutil.GVKForObject(obj, c.Scheme())
	if err != nil {
		log.Error("Failed to create an Event", "namespace", obj.GetNamespace(), "name", obj.GetName(), "error", err)
		return true
	}
	now := metav1.Now()
	namespace, component := obj.GetNamespace(), "liqo-"+strings.ToLower(gvk.Kind)+"-reflection"
	if namespace == "" { // the API server accepts Events about objects without a namespace only there
		namespace, component = metav1.NamespaceDefault, "liqo-virtual-kubelet"
	}
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: obj.GetName() + "."},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(),
		},
		Type: kind, Reason: reason, Message: excerpt.Of(message, kinds.MaxMessage),
		Source:         corev1.EventSource{Component: component, Host: e.node},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	if err := c.Create(ctx, event); err != nil {
		log.Error("Failed to create an Event", "kind", gvk.Kind, "namespace", obj.GetNamespace(), "name", obj.GetName(), "error", err)
		return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsNotFound(err)
	}
	return true
}
