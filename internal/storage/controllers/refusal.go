package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// forget drops the record of a claim's refusal.
func (p *provisioner) forget(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.told, uid)
}
