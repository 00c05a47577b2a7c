package controllers

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/reasons"
	"liqo.io/liqo/internal/storage"
)

// refuse reports a message on a claim and on all pods that use it, on each of them once. uid is that of the reconciled request.
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
	known := p.told[uid]
	if known == nil || known.message != message {
		known = &refusal{message: message, pods: map[types.UID]bool{}}
		p.told[uid] = known
		p.events.Eventf(claim, nil, corev1.EventTypeWarning, reasons.ProvisioningFailed, "Provision", "%s", message)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if storage.Uses(pod, claim.Name) && !known.pods[pod.UID] {
			known.pods[pod.UID] = true
			p.events.Eventf(pod, claim, corev1.EventTypeWarning, reasons.ProvisioningFailed, "Provision", "PersistentVolumeClaim %s: %s", claim.Name, message)
		}
	}
	return nil
}

// complaint returns the last Warning of a driver about a backing claim, with the cure, empty if there is none. Users do not see backing claims.
func (p *provisioner) complaint(ctx context.Context, backing *corev1.PersistentVolumeClaim) (string, error) {
	var list corev1.EventList
	if err := p.live.List(ctx, &list, client.InNamespace(backing.Namespace), client.MatchingFields{eventIndex: backing.Name}); err != nil {
		return "", fmt.Errorf("listing the Events of PersistentVolumeClaim %s in namespace %s: %w", backing.Name, backing.Namespace, err)
	}
	var last *corev1.Event
	for i := range list.Items {
		event := &list.Items[i]
		if event.Type == corev1.EventTypeWarning && event.InvolvedObject.Kind == "PersistentVolumeClaim" && (last == nil || latest(event).After(latest(last))) {
			last = event
		}
	}
	if last == nil {
		return "", nil
	}
	return fmt.Sprintf("StorageClass %s, which has the data, creates no volume: %s: cure the driver, or delete this claim and create it again with accessModes, "+
		"a volumeMode and a size that the class has. For another class, first set annotation %s of the namespace, or chart value storage.realStorageClassName",
		ptr.Deref(backing.Spec.StorageClassName, ""), last.Message, api.AnnotationRealStorageClass), nil
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
	delete(p.told, uid)
}
