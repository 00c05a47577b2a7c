package app

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/reasons"
)

// newClient returns a client without a cache. It lists the few kinds that a virtual kubelet uses, because the discovery of all
// kinds of an API server would take longer than the rest of the startup.
func newClient(cfg *rest.Config) (client.WithWatch, error) {
	mapper := meta.NewDefaultRESTMapper(nil)
	namespaced, root := meta.RESTScopeNamespace, meta.RESTScopeRoot
	for gvk, scope := range map[schema.GroupVersionKind]meta.RESTScope{
		corev1.SchemeGroupVersion.WithKind("Pod"):                               namespaced,
		corev1.SchemeGroupVersion.WithKind("Event"):                             namespaced,
		corev1.SchemeGroupVersion.WithKind("Secret"):                            namespaced,
		corev1.SchemeGroupVersion.WithKind("ConfigMap"):                         namespaced,
		corev1.SchemeGroupVersion.WithKind("Service"):                           namespaced,
		corev1.SchemeGroupVersion.WithKind("ServiceAccount"):                    namespaced,
		corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"):             namespaced,
		corev1.SchemeGroupVersion.WithKind("PersistentVolume"):                  root,
		storagev1.SchemeGroupVersion.WithKind("StorageClass"):                   root,
		corev1.SchemeGroupVersion.WithKind("Node"):                              root,
		coordinationv1.SchemeGroupVersion.WithKind("Lease"):                     namespaced,
		certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"): root,
		authenticationv1.SchemeGroupVersion.WithKind("TokenReview"):             root,
		authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview"):      root,
		networkingv1.SchemeGroupVersion.WithKind("Ingress"):                     namespaced,
		networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"):               namespaced,
		policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"):             namespaced,
		offv1.GroupVersion.WithKind("ShadowPod"):                                namespaced,
		offv1.GroupVersion.WithKind("ShadowEndpointSlice"):                      namespaced,
		discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"):                namespaced,
		ipamv1alpha1.GroupVersion.WithKind("IP"):                                namespaced,
		ipamv1alpha1.GroupVersion.WithKind("Network"):                           namespaced,
		networkingv1beta1.GroupVersion.WithKind("Configuration"):                namespaced,
		offv1.GroupVersion.WithKind("NamespaceMap"):                             namespaced,
		offv1.GroupVersion.WithKind("VirtualNode"):                              namespaced,
		corev1beta1.GroupVersion.WithKind("ForeignCluster"):                     root,
	} {
		mapper.Add(gvk, scope)
	}
	return client.NewWithWatch(cfg, client.Options{Scheme: kube.NewScheme(), Mapper: mapper})
}

// announcementsWaiting is the number of announcements that may wait, and announcementPause the pause between two of them. With
// more of them in a short time, users would not read them all, and each is a write.
const (
	announcementsWaiting = 100
	announcementPause    = 100 * time.Millisecond
)

// events emits events about reflection. Its callers must emit only one event per change.
type events struct {
	client client.Client
	log    *slog.Logger
	// node is the name of the virtual node, cluster the ID of the provider.
	node, cluster string
	announcements chan client.Object
}

func newEvents(c client.Client, log *slog.Logger, node, cluster string) *events {
	return &events{client: c, log: log, node: node, cluster: cluster, announcements: make(chan client.Object, announcementsWaiting)}
}

// run emits the announced events until ctx ends.
func (e *events) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case obj := <-e.announcements:
			e.record(ctx, obj, corev1.EventTypeNormal, reasons.SuccessfulReflection, fmt.Sprintf("reflected the object to cluster %s", e.cluster))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(announcementPause):
		}
	}
}

func (e *events) warn(ctx context.Context, obj client.Object, message string) {
	e.record(ctx, obj, corev1.EventTypeWarning, reasons.FailedReflection, message)
}

// announce never blocks: it drops the announcement if too many are waiting.
func (e *events) announce(obj client.Object) {
	select {
	case e.announcements <- obj:
	default:
	}
}

func (e *events) record(ctx context.Context, obj client.Object, kind, reason, message string) {
	c, log := e.client, e.log
	gvk, err := apiutil.GVKForObject(obj, c.Scheme())
	if err != nil {
		log.Error("Failed to create an Event", "namespace", obj.GetNamespace(), "name", obj.GetName(), "error", err)
		return
	}
	now := metav1.Now()
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: obj.GetNamespace(), GenerateName: obj.GetName() + "."},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(),
		},
		Type: kind, Reason: reason, Message: message,
		Source:         corev1.EventSource{Component: "liqo-" + strings.ToLower(gvk.Kind) + "-reflection", Host: e.node},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	if err := c.Create(ctx, event); err != nil {
		log.Error("Failed to create an Event", "kind", gvk.Kind, "namespace", obj.GetNamespace(), "name", obj.GetName(), "error", err)
	}
}
