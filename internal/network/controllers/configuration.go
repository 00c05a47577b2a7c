package controllers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/network"
	"liqo.io/liqo/internal/reasons"
)

// +kubebuilder:rbac:groups=networking.liqo.io,resources=configurations,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=networking.liqo.io,resources=configurations/status,verbs=patch
// +kubebuilder:rbac:groups=networking.liqo.io,resources=configurations/finalizers,verbs=update
// +kubebuilder:rbac:groups=ipam.liqo.io,resources=networks,verbs=get;list;watch;create;patch;delete

// configurations reconciles Configurations. It creates a Network for each range of a peer, and reports in the status under which ranges
// this cluster sees them. It also writes this cluster's own ranges into spec.local.
type configurations struct {
	Options
	client client.Client
}

func (r *configurations) setup(mgr ctrl.Manager) error {
	return kube.NewController(mgr, "configuration").
		For(&networkingv1beta1.Configuration{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Owns(&ipamv1alpha1.Network{}, builder.WithPredicates(anyChange())).
		Watches(&ipamv1alpha1.Network{}, handler.EnqueueRequestsFromMapFunc(toAll(mgr.GetClient(), &networkingv1beta1.ConfigurationList{}, false)),
			builder.WithPredicates(anyChange(), ofThisCluster(r.LiqoNamespace, ipamv1alpha1.LabelNetworkType))).
		Complete(&kube.Reconciler[*networkingv1beta1.Configuration]{
			Name: "configuration", Client: mgr.GetClient(), Sync: r.sync,
			Conditions: func(c *networkingv1beta1.Configuration) *[]metav1.Condition { return &c.Status.Conditions },
		})
}

func (r *configurations) sync(ctx context.Context, c *networkingv1beta1.Configuration) error {
	condition := metav1.Condition{Type: networkingv1beta1.ConditionCIDRsConfigured, Status: metav1.ConditionFalse}
	var found networkingv1beta1.ConfigurationStatus
	own := &ipamv1alpha1.NetworkList{}
	if err := r.client.List(ctx, own, client.InNamespace(r.LiqoNamespace), client.HasLabels{ipamv1alpha1.LabelNetworkType}); err != nil {
		return fmt.Errorf("listing the Networks of this cluster: %w", err)
	}
	err := r.remote(ctx, c, own.Items, &found, &condition)
	switch {
	case kube.IsInvalid(err):
		condition.Reason, condition.Message = reasons.Invalid, err.Error()
	case errors.Is(err, errRefused):
		condition.Reason, condition.Message = reasons.Invalid, err.Error()
		err = kube.WaitFor(secretDelay, reasons.Invalid, "%v", err)
	case err != nil:
		return err
	}
	c.Status.Remote, c.Status.Ranges = found.Remote, found.Ranges
	condition.ObservedGeneration = c.Generation
	meta.SetStatusCondition(&c.Status.Conditions, condition)
	if err != nil {
		return err
	}
	if err := r.fillLocal(ctx, c, own.Items); err != nil {
		return err
	}
	if condition.Status != metav1.ConditionTrue {
		return kube.Wait(condition.Reason, "%s", condition.Message)
	}
	return nil
}

// errRefused marks errors about a conflicting object. The controller requeues after them, because the deletion of that object may trigger no
// reconcile.
var errRefused = errors.New("delete one of them")

// remote creates, updates and deletes the Networks of the peer's ranges, and reads their results into found and condition. own are the Networks of this cluster.
func (r *configurations) remote(
	ctx context.Context, c *networkingv1beta1.Configuration, own []ipamv1alpha1.Network, found *networkingv1beta1.ConfigurationStatus, condition *metav1.Condition,
) error {
	cluster := c.Labels[api.LabelRemoteClusterID]
	if cluster == "" {
		return kube.Invalid(reasons.Invalid, "label %s is missing: set it to the cluster ID of the peer", api.LabelRemoteClusterID)
	}
	if err := r.requireOldest(ctx, c, cluster); err != nil {
		return err
	}
	wanted, err := network.RemoteNetworks(c)
	if err != nil {
		return kube.Invalid(reasons.Invalid, "%v", err)
	}
	networks, err := r.owned(ctx, c)
	if err != nil {
		return err
	}
	stale := maps.Clone(networks)
	for _, w := range wanted {
		delete(stale, w.Name)
	}
	for _, n := range stale {
		if err := kube.Delete(ctx, r.client, n); err != nil {
			return err
		}
	}
	choose := network.ChoosesViews(c, own)
	var first []string
	for _, w := range wanted {
		// Wait until a Network that is being deleted releases its addresses. Otherwise, IPAM would remap the new Network to another range
		// permanently.
		if leaving := network.InTheWay(w, stale); networks[w.Name] == nil && leaving != "" {
			first = append(first, leaving)
			continue
		}
		n := &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: w.Name}}
		if err := r.ensure(ctx, c, n, w, cluster, choose); err != nil {
			return err
		}
		networks[w.Name] = n
	}
	*condition = network.RemoteRanges(wanted, networks, found)
	if len(first) > 0 {
		condition.Message += ", after Network " + strings.Join(first, ", ") + " is gone"
	}
	return nil
}

// requireOldest returns an error if the cluster has an older Configuration than c. All components use the oldest Configuration of a cluster.
func (r *configurations) requireOldest(ctx context.Context, c *networkingv1beta1.Configuration, cluster string) error {
	list := &networkingv1beta1.ConfigurationList{}
	if err := r.client.List(ctx, list, client.MatchingLabels{api.LabelRemoteClusterID: cluster}); err != nil {
		return fmt.Errorf("listing the Configurations of cluster %s: %w", cluster, err)
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.UID != c.UID && api.CompareAge(other, c) < 0 {
			return fmt.Errorf("the Configuration %s/%s for cluster %s exists already: %w", other.Namespace, other.Name, cluster, errRefused)
		}
	}
	return nil
}

// ensure creates or updates the Network n of the range w. choose means that this cluster, not the peer, chooses the view of the range.
func (r *configurations) ensure(ctx context.Context, c *networkingv1beta1.Configuration, n *ipamv1alpha1.Network, w network.RemoteNetwork, cluster string, choose bool) error {
	_, err := kube.Ensure(ctx, r.client, n, func() error {
		if n.UID != "" && !metav1.IsControlledBy(n, c) {
			return fmt.Errorf("the Network %s/%s exists and does not belong to this Configuration: %w", n.Namespace, n.Name, errRefused)
		}
		n.Labels = api.Layered(r.Labels, n.Labels, map[string]string{api.LabelRemoteClusterID: cluster, networkingv1beta1.LabelCIDRType: w.Type})
		for label, set := range map[string]bool{ipamv1alpha1.LabelNetworkNegotiated: choose, ipamv1alpha1.LabelNetworkReported: network.ReportedByPeer(c)} {
			if set {
				n.Labels[label] = api.True
			} else {
				delete(n.Labels, label)
			}
		}
		n.Annotations = api.Layered(r.Annotations, n.Annotations)
		n.Spec.CIDR = w.CIDR.String()
		return controllerutil.SetControllerReference(c, n, r.client.Scheme())
	})
	if apierrors.IsAlreadyExists(err) {
		return staleCache(n, err)
	}
	return err
}

// owned returns the Networks that a Configuration controls, by name.
func (r *configurations) owned(ctx context.Context, c *networkingv1beta1.Configuration) (map[string]*ipamv1alpha1.Network, error) {
	list := &ipamv1alpha1.NetworkList{}
	if err := r.client.List(ctx, list, client.InNamespace(c.Namespace)); err != nil {
		return nil, fmt.Errorf("listing Networks: %w", err)
	}
	networks := map[string]*ipamv1alpha1.Network{}
	for i := range list.Items {
		if n := &list.Items[i]; metav1.IsControlledBy(n, c) {
			networks[n.Name] = n
		}
	}
	return networks, nil
}

// fillLocal writes this cluster's own ranges, as its Networks report them, into spec.local of a Configuration. While a Network has no range
// yet, an existing spec.local stays unchanged.
func (r *configurations) fillLocal(ctx context.Context, c *networkingv1beta1.Configuration, own []ipamv1alpha1.Network) error {
	local, wait := network.LocalRanges(own)
	if wait != "" && c.Spec.Local != nil {
		return nil
	}
	if wait != "" {
		return kube.Wait(networkingv1beta1.ReasonWaitingForNetworks, "%s", wait)
	}
	if equality.Semantic.DeepEqual(c.Spec.Local, &local) {
		return nil
	}
	// Patch a copy of c: Patch overwrites the object with the API server's version, which does not have the new status of c yet.
	changed := c.DeepCopy()
	changed.Spec.Local = &local
	if err := r.client.Patch(ctx, changed, client.MergeFrom(c.DeepCopy())); err != nil {
		return fmt.Errorf("writing spec.local of Configuration %s/%s: %w", c.Namespace, c.Name, err)
	}
	return nil
}
