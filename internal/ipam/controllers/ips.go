package controllers

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/internal/ipam"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/reasons"
)

// +kubebuilder:rbac:groups=ipam.liqo.io,resources=ips,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=ipam.liqo.io,resources=ips/status,verbs=patch

// ips gives IPs their addresses, and creates the Services that they request.
type ips struct {
	client   client.Client
	live     client.Reader
	events   events.EventRecorder
	external types.NamespacedName
	services *services
	pending  pendingAllocations
}

// Reconcile plans all IPs. It is no kube.Reconciler, because it decides about all objects together.
func (r *ips) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	// There may be many IPs, and nearly all of them are only read. So list them without copies, and copy an IP before changing it.
	var list ipamv1alpha1.IPList
	if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing IPs: %w", err)
	}
	current, pause, err := r.pending.current(ctx, ipEntries(&list), func(ctx context.Context) (entries, error) {
		var there ipamv1alpha1.IPList
		err := r.live.List(ctx, &there)
		return ipEntries(&there), err
	})
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("listing IPs: %w", err)
	}
	if !current {
		return reconcile.Result{RequeueAfter: pause}, nil
	}
	var networks ipamv1alpha1.NetworkList
	if err := r.client.List(ctx, &networks); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing Networks: %w", err)
	}
	made, err := r.services.list(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	plan := ipam.IPs(ipam.IPObjects{IPs: list.Items, Networks: networks.Items, External: r.external})
	var out outcomes
	var group errgroup.Group
	group.SetLimit(writers)
	for i := range list.Items {
		ip := &list.Items[i]
		if !ip.DeletionTimestamp.IsZero() && len(ip.Finalizers) == 0 || settled(ip, plan[client.ObjectKeyFromObject(ip)]) {
			continue
		}
		ip = ip.DeepCopy()
		group.Go(func() error {
			if ip.DeletionTimestamp.IsZero() {
				out.add(r.give(ctx, ip, plan[client.ObjectKeyFromObject(ip)], made))
			} else {
				out.add(r.release(ctx, ip))
			}
			return nil
		})
	}
	_ = group.Wait() // errors are in out
	out.add(r.services.sweep(ctx, list.Items, made))
	if out.behind {
		return reconcile.Result{RequeueAfter: behindDelay}, out.err()
	}
	return reconcile.Result{}, out.err()
}

// settled reports whether an IP already is as planned, without copying it. It only covers the most common case: an address, no
// Service and no problem.
func settled(ip *ipamv1alpha1.IP, plan ipam.IPPlan) bool {
	if !ip.DeletionTimestamp.IsZero() || ip.Spec.ServiceTemplate != nil || plan.Problem != (ipam.Problem{}) || ip.Status.IP != plan.Addr.String() {
		return false
	}
	condition := meta.FindStatusCondition(ip.Status.Conditions, kube.ConditionReady)
	return condition != nil && condition.Status == metav1.ConditionTrue && condition.ObservedGeneration == ip.Generation
}

// remade reports whether a controller recreates an IP after its deletion: it does for IPs of the system and of pods, but not for IPs of users.
func remade(ip *ipamv1alpha1.IP) bool {
	return ip.Labels[ipamv1alpha1.LabelIPType] != "" || metav1.GetControllerOf(ip) != nil
}

// give writes the planned address to an IP.
func (r *ips) give(ctx context.Context, ip *ipamv1alpha1.IP, plan ipam.IPPlan, made made) error {
	if plan.Problem.Reason == reasons.Conflict && remade(ip) {
		// The address is useless, for example after a reinstallation with another external CIDR, and it is immutable.
		return kube.Delete(ctx, r.client, ip)
	}
	before := ip.DeepCopy()
	if ip.Status.IP == "" && plan.Addr.IsValid() {
		ip.Status.IP = plan.Addr.String()
	}
	if ip.Status.CIDR == "" && plan.CIDR.IsValid() {
		ip.Status.CIDR = plan.CIDR.String()
	}
	problem, failed := plan.Problem, error(nil)
	if problem.Reason != reasons.Invalid {
		refused, err := r.services.ensure(ctx, ip, made)
		if failed = err; problem == (ipam.Problem{}) {
			problem = refused
		}
	}
	reported := meta.FindStatusCondition(before.Status.Conditions, kube.ConditionReady)
	meta.SetStatusCondition(&ip.Status.Conditions, readyCondition(ip.Generation, problem))
	written, err := patchStatus(ctx, r.client, ip, before, "IP")
	if written || err != nil {
		r.pending.wrote(client.ObjectKeyFromObject(ip), entry{ip.UID, ip.Status.IP}, err)
	}
	if err != nil {
		return err
	}
	if written {
		report(r.events, ip, reported, problem, "Give")
	}
	return failed
}

// release removes the finalizers that other versions put on IPs. The deletion of an IP needs no cleanup.
func (r *ips) release(ctx context.Context, ip *ipamv1alpha1.IP) error {
	before := ip.DeepCopy()
	old := controllerutil.RemoveFinalizer(ip, ipamv1alpha1.FinalizerIP)
	if !controllerutil.RemoveFinalizer(ip, ipamv1alpha1.FinalizerIPMapping) && !old {
		return nil
	}
	return patch(ctx, r.client, ip, before, "removing the finalizers of IP")
}

func ipEntries(list *ipamv1alpha1.IPList) entries {
	out := make(entries, len(list.Items))
	for i := range list.Items {
		ip := &list.Items[i]
		out[client.ObjectKeyFromObject(ip)] = entry{ip.UID, ip.Status.IP}
	}
	return out
}

// patch writes the difference between before and obj. It fails with a conflict if the object has changed since it was read.
func patch(ctx context.Context, c client.Client, obj, before client.Object, what string) error {
	if err := c.Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("%s %s: %w", what, client.ObjectKeyFromObject(obj), err)
	}
	return nil
}

// patchStatus writes the status if it differs, and reports whether it did. It fails with a conflict if the object has changed
// since it was read.
func patchStatus(ctx context.Context, c client.Client, obj, before client.Object, kind string) (bool, error) {
	if equality.Semantic.DeepEqual(obj, before) {
		return false, nil
	}
	if err := c.Status().Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return false, fmt.Errorf("writing the status of %s %s: %w", kind, client.ObjectKeyFromObject(obj), err)
	}
	return true, nil
}

// report emits an event for a problem, unless the object already had the same problem or only waits.
func report(to events.EventRecorder, about client.Object, before *metav1.Condition, p ipam.Problem, action string) {
	if p == (ipam.Problem{}) || p.Reason == reasons.WaitingForNetwork || before != nil && before.Reason == p.Reason && before.Message == p.Message {
		return
	}
	to.Eventf(about, nil, corev1.EventTypeWarning, p.Reason, action, "%s", p.Message)
}
