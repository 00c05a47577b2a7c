package webhook

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
)

// +kubebuilder:rbac:groups=offloading.liqo.io,resources=quotas;shadowpods,verbs=get;list;watch
// +kubebuilder:rbac:groups=node.k8s.io,resources=runtimeclasses,verbs=get;list;watch

// quotas decides whether a ShadowPod is within the Quota of its creator, based on the ShadowPods in the cache. It reserves nothing, so a cancelled
// request leaves no trace. The cache may lag, so a ShadowPod may be accepted in excess of the Quota. Its Pod is not created before there is room,
// because the ShadowPod controller counts exactly.
type quotas struct {
	cached, live client.Reader
	// synced reports whether the tracker contains all ShadowPods of the initial list.
	synced func() bool

	mu      sync.Mutex
	tracker *offload.UsageTracker
}

func newQuotas(mgr ctrl.Manager) (*quotas, error) {
	q := &quotas{cached: mgr.GetClient(), live: mgr.GetAPIReader(), tracker: offload.NewUsageTracker()}
	var err error
	q.synced, err = kube.Follow(context.Background(), mgr.GetCache(), &offloadingv1beta1.ShadowPod{}, q.observe, q.forget)
	return q, err
}

// observe records the usage of a ShadowPod that was added or changed in the cache.
func (q *quotas) observe(sp *offloadingv1beta1.ShadowPod) {
	var usage corev1.ResourceList
	if !api.PhaseFinal(sp.Status.Phase) {
		usage = offload.Usage(&sp.Spec.Pod, nil)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tracker.Observe(client.ObjectKeyFromObject(sp), sp.UID, sp.Labels[offloadingv1beta1.LabelCreatorUser], usage)
}

// forget removes a deleted ShadowPod from the tracker.
func (q *quotas) forget(sp *offloadingv1beta1.ShadowPod) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tracker.Forget(client.ObjectKeyFromObject(sp), sp.UID)
}

// errNoQuota reports that a user has no Quota.
var errNoQuota = errors.New("that user has no Quota: Liqo creates one when it accepts the resources of a ResourceSlice")

// refusal returns why a user may not have a ShadowPod, nil if the user may. The argument before is the stored ShadowPod, nil on creation.
//
// On an update, only the resources that increase are checked against the Quota. If the stored ShadowPod declares what the limits enforcement of the Quota
// demands, the updated one must declare it too, because its Pod may be recreated. If the stored ShadowPod does not, it is older than the enforcement. The
// update is then accepted without these declarations, unless it increases the resources.
func (q *quotas) refusal(ctx context.Context, key types.NamespacedName, creator string, sp, before *offloadingv1beta1.ShadowPod) (refused, err error) {
	if refused = offload.Negative(&sp.Spec.Pod); refused != nil {
		return refused, nil
	}
	overhead, err := kube.PodOverhead(ctx, q.cached, &sp.Spec.Pod)
	if err != nil {
		return nil, err
	}
	wanted := offload.Usage(&sp.Spec.Pod, overhead)
	if before != nil {
		wanted = offload.Growth(offload.Usage(&before.Spec.Pod, overhead), wanted)
	}
	grows := len(wanted) > 0
	found, err := q.quotasOf(ctx, creator)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 && grows {
		return errNoQuota, nil
	}
	used := q.used(creator, key)
	for _, quota := range found {
		enforcement := quota.Spec.LimitsEnforcement
		switch {
		case grows && quota.Spec.Cordoned != nil && *quota.Spec.Cordoned:
			refused = errors.New("it is cordoned, no further pods are accepted: ask the administrator of the provider")
		case grows || offload.Undeclared(&before.Spec.Pod, enforcement) == nil:
			if refused = offload.Undeclared(&sp.Spec.Pod, enforcement); refused == nil {
				refused = offload.Exceeded(&quota.Spec, used, wanted)
			}
		}
		if refused != nil {
			return fmt.Errorf("quota %s/%s: %w", quota.Namespace, quota.Name, refused), nil
		}
	}
	return nil, nil
}

// used returns the sum of the resources that the ShadowPods of a user use, without the ShadowPod named except. It returns nil until the tracker is complete.
func (q *quotas) used(creator string, except types.NamespacedName) corev1.ResourceList {
	if !q.synced() {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.tracker.Used(creator, except).DeepCopy()
}

// quotasOf returns the Quotas of a user. If the cache has none, it asks the API server, because a Quota may be too new for the cache.
func (q *quotas) quotasOf(ctx context.Context, creator string) ([]*offloadingv1beta1.Quota, error) {
	for _, reader := range []client.Reader{q.cached, q.live} {
		list := &offloadingv1beta1.QuotaList{}
		if err := reader.List(ctx, list); err != nil {
			return nil, fmt.Errorf("listing Quotas: %w", err)
		}
		if found := offload.QuotasOf(list.Items, creator); len(found) > 0 {
			return found, nil
		}
	}
	return nil, nil
}
