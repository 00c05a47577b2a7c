package controllers

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/excerpt"
	"liqo.io/liqo/internal/reasons"
	"liqo.io/liqo/internal/storage"
)

// refuse emits a message about a claim as an Event of the claim and of each pod that uses it, once for each of them. An object that has received too many
// messages gets it in a later call. uid is the UID in the request.
func (p *provisioner) refuse(ctx context.Context, uid types.UID, claim *corev1.PersistentVolumeClaim, message string) error {
	if claim == nil {
		return nil
	}
	var pods corev1.PodList
	if err := p.live.List(ctx, &pods, client.InNamespace(claim.Namespace)); err != nil {
		return fmt.Errorf("listing the pods of namespace %s: %w", claim.Namespace, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.reported[uid]
	if known == nil || known.message != message {
		known = &refusal{message: message}
		p.reported[uid] = known
	}
	received, now := map[types.UID]bool{}, time.Now() // a new map, without deleted pods
	due := func(obj client.Object) bool {
		before := known.received[obj.GetUID()]
		received[obj.GetUID()] = before || p.limits.allow(obj, now)
		return !before && received[obj.GetUID()]
	}
	if due(claim) {
		p.events.Eventf(claim, nil, corev1.EventTypeWarning, reasons.ProvisioningFailed, "Provision", "%s", message)
	}
	// The reference has no UID. client-go starts another series of Events for each UID, so a user who recreates a claim in a loop could fill its cache.
	related := &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name}
	for i := range pods.Items {
		if pod := &pods.Items[i]; storage.Uses(pod, claim.Name) && due(pod) {
			p.events.Eventf(pod, related, corev1.EventTypeWarning, reasons.ProvisioningFailed, "Provision", "PersistentVolumeClaim %s: %s", claim.Name, message)
		}
	}
	known.received = received
	return nil
}

// Reasons of Events of Kubernetes and of drivers about a claim.
const (
	// externalProvisioning says that Kubernetes waits for a driver. Kubernetes repeats it every few seconds, also if there is no driver of that name.
	externalProvisioning = "ExternalProvisioning"
	// provisioning says that a driver creates the volume.
	provisioning = "Provisioning"
)

// longestSilence is the time after which a driver that emits no Event is reported.
const longestSilence = 2 * time.Minute

// driverWarning returns the last Warning Event about a backing claim, with the cure, because users do not see backing claims. If neither that nor an Event of
// the driver exists, it returns the Event by which Kubernetes has reported for longestSilence that it waits for the driver. Otherwise it returns "".
func (p *provisioner) driverWarning(ctx context.Context, backing *corev1.PersistentVolumeClaim) (string, error) {
	var list corev1.EventList
	if err := p.live.List(ctx, &list, client.InNamespace(backing.Namespace), client.MatchingFields{eventIndex: backing.Name}); err != nil {
		return "", fmt.Errorf("listing the Events of PersistentVolumeClaim %s in namespace %s: %w", backing.Name, backing.Namespace, err)
	}
	var last, waits *corev1.Event
	creates := false
	for i := range list.Items {
		event := &list.Items[i]
		switch {
		case event.InvolvedObject.Kind != "PersistentVolumeClaim":
		case event.Type == corev1.EventTypeWarning:
			if last == nil || latest(event).After(latest(last)) {
				last = event
			}
		case event.Reason == provisioning:
			creates = true
		case event.Reason == externalProvisioning && latest(event).Sub(event.FirstTimestamp.Time) >= longestSilence:
			waits = event
		}
	}
	if last == nil && !creates {
		last = waits
	}
	if last == nil {
		return "", nil
	}
	return unprovided(backing, "", last.Message, fmt.Sprintf("first set annotation %s of the namespace, or chart value storage.realStorageClassName",
		api.AnnotationRealStorageClass)), nil
}

// longestWarning is the maximum length, in bytes, of a driver's message and of a name that comes from a provider. It leaves room for the cure in an Event,
// which has 1,024 bytes.
const longestWarning = 400

// unprovided returns the message to users about a driver that cannot create a volume, with the cure. cluster is the provider. another is the text that says how
// to choose another class.
func unprovided(backing *corev1.PersistentVolumeClaim, cluster, message, another string) string {
	if cluster != "" {
		cluster = " of cluster " + cluster
	}
	return fmt.Sprintf("StorageClass %s%s, which has the data, creates no volume: %s: repair the driver, have a PersistentVolume created if the class has no driver, or use a new claim "+
		"with accessModes, a volumeMode and a size that the class has. For another class, %s", excerpt.Line(ptr.Deref(backing.Spec.StorageClassName, ""), longestWarning), cluster, excerpt.Line(strings.TrimSuffix(message, "."), longestWarning), another)
}

// latest returns when an Event was last observed. Events of API group events.k8s.io have another field for it.
func latest(event *corev1.Event) time.Time {
	if event.Series != nil {
		return event.Series.LastObservedTime.Time
	}
	if event.LastTimestamp.IsZero() {
		return event.EventTime.Time
	}
	return event.LastTimestamp.Time
}

// forget drops the record of a claim's refusal.
func (p *provisioner) forget(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.reported, uid)
}
