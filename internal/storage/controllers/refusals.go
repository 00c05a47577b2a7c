package controllers

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/reasons"
	"liqo.io/liqo/internal/trigger"
)

// RefusalOptions are the dependencies of Refusals.
type RefusalOptions struct {
	// HasNode reports whether a node is a virtual node of the provider. Node is the node of this virtual kubelet.
	HasNode func(name string) bool
	Node    string
	// Decides reports whether this virtual kubelet decides about a claim. LeftToPods reports whether the virtual kubelet of each pod's node reports to that
	// pod; see storage.LeftToPods.
	Decides, LeftToPods func(*corev1.PersistentVolumeClaim) bool
	// Claim returns a claim of this cluster from a cache, nil if the cache has none.
	Claim func(types.NamespacedName) *corev1.PersistentVolumeClaim
	// Client lists the claims of this cluster, and the pods that use refused claims.
	Client client.Reader
	Log    *slog.Logger
	// Warn emits an Event about an object. It returns false if the API server did not accept the Event.
	Warn func(ctx context.Context, obj client.Object, message string) bool
	// Record is Warn with the type and the reason of the Event.
	Record func(ctx context.Context, obj client.Object, kind, reason, message string) bool
}

// Refusals reports why claims get no volume. It emits Events about each claim, and about each pod on a virtual node of the provider that uses the claim. Pods
// that are created later get them too. Each object gets each message once, even if the provider is unreachable in between. An object that has received too
// many messages gets the current one later; see messageLimits.
//
// Refusals emits a message until the claim has its volume or size, until another message replaces it, or until the claim is deleted. A step that tries again
// does not end the message, because each retry of a refused write begins with such a step.
type Refusals struct {
	opts RefusalOptions
	to   audience
	// changed wakes Run to emit Events.
	changed trigger.Trigger
	limits  *messageLimits

	mu      sync.Mutex
	records refusalRecords
	// recovered are the volumes that were created again, and that no Event has reported yet.
	recovered []recoveredVolume
}

// recoveredVolume is a volume that was created again, with the message about it.
type recoveredVolume struct {
	volume  *corev1.PersistentVolume
	message string
}

// failedReport is the first pause before a failed report is repeated. It doubles up to refusedRetry. reportPause is the pause after each report, because a
// report lists pods.
const (
	failedReport = 2 * time.Second
	reportPause  = 200 * time.Millisecond
)

// NewRefusals returns an empty Refusals.
func NewRefusals(opts RefusalOptions) *Refusals {
	return &Refusals{
		opts: opts, changed: trigger.New(), limits: newMessageLimits(), records: refusalRecords{},
		to: audience{hasNode: opts.HasNode, node: opts.Node, decides: opts.Decides, leftToPods: opts.LeftToPods},
	}
}

// Run reports refusals until ctx is done. It reports at once after a change, and after failedReport if a report failed. It also reports every refusedRetry,
// because no watch of the virtual kubelet shows pods that are not scheduled.
func (r *Refusals) Run(ctx context.Context) error {
	tick := time.NewTicker(refusedRetry)
	defer tick.Stop()
	var again <-chan time.Time
	pause := failedReport
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-again:
		case <-r.changed:
		}
		again = nil
		if r.report(ctx) {
			pause = failedReport
		} else {
			again = time.After(pause)
			pause = min(2*pause, refusedRetry)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(reportPause):
		}
	}
}

// Refuse records why a claim gets no volume, or no larger one, and wakes Run.
func (r *Refusals) Refuse(claim *corev1.PersistentVolumeClaim, message string) {
	r.mu.Lock()
	r.records.of(claim).message = message
	r.mu.Unlock()
	r.changed.Fire()
}

// DriverWarning records the Warning Event of a driver about the backing claim in the provider. It applies until Provided is called.
func (r *Refusals) DriverWarning(claim *corev1.PersistentVolumeClaim, message string) {
	r.mu.Lock()
	r.records.of(claim).driverWarning = message
	r.mu.Unlock()
	r.changed.Fire()
}

// Provided records that the backing claim in the provider has its volume. uid is the UID for which the backing claim was created.
func (r *Refusals) Provided(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records.provided(uid)
}

// Recovered reports a volume that was created again; see storage.Recovered.
func (r *Refusals) Recovered(volume *corev1.PersistentVolume, message string) {
	r.mu.Lock()
	r.recovered = append(r.recovered, recoveredVolume{volume, message})
	r.mu.Unlock()
	r.changed.Fire()
}

// reportRecovered emits the Events about volumes that were created again. It returns false if it has to be called again.
func (r *Refusals) reportRecovered(ctx context.Context) bool {
	r.mu.Lock()
	due := r.recovered
	r.recovered = nil
	r.mu.Unlock()
	for i, one := range due {
		if !r.opts.Record(ctx, one.volume, corev1.EventTypeWarning, reasons.VolumeRecovered, one.message) {
			r.mu.Lock()
			r.recovered = append(r.recovered, due[i:]...)
			r.mu.Unlock()
			return false
		}
	}
	return true
}

// Observe wakes Run if a pod uses a refused claim.
func (r *Refusals) Observe(claim types.NamespacedName) {
	r.mu.Lock()
	due := r.records.has(claim)
	r.mu.Unlock()
	if due {
		r.changed.Fire()
	}
}

// Settle records that nothing is left to do for this version of a claim.
func (r *Refusals) Settle(claim *corev1.PersistentVolumeClaim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records.settle(claim)
}

// report emits the current messages about the claims and pods that have not received them. It returns false if it has to be called again.
func (r *Refusals) report(ctx context.Context) bool {
	reported := r.reportRecovered(ctx)
	claims, done := r.refresh(ctx)
	due := map[string]map[types.UID]reach{}
	for _, claim := range claims {
		if due[claim.Namespace] == nil {
			due[claim.Namespace] = map[types.UID]reach{}
		}
		due[claim.Namespace][claim.UID] = r.to.of(claim) // without r.mu, because the caches have their own locks
	}
	accepts := true
	for _, namespace := range slices.Sorted(maps.Keys(due)) {
		complete := true
		var pods corev1.PodList
		if err := r.opts.Client.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
			r.opts.Log.Error("Failed to list the pods of PersistentVolumeClaims", "namespace", namespace, "error", err)
			done, complete = false, false // but the claims still get their messages
		}
		r.mu.Lock()
		notices := r.records.notices(due[namespace], pods.Items, complete, &r.to)
		r.mu.Unlock()
		var failed []notice
		for _, n := range notices {
			// Do not send hundreds of Events to an API server that rejected one. Do not count them either.
			received := accepts && r.limits.allow(n.obj, time.Now())
			if received {
				accepts = r.opts.Warn(ctx, n.obj, n.text)
				received = accepts
			}
			if !received {
				failed = append(failed, n)
			}
		}
		r.mu.Lock()
		for _, n := range failed {
			r.records.failed(n)
		}
		r.mu.Unlock()
	}
	return reported && done && accepts
}

// refresh updates the records, and returns the claims with a message. It lists the claims of a namespace only if the cache does not have them all. If a list
// fails, done is false, and due lacks the claims of which it is unknown whether they still exist.
func (r *Refusals) refresh(ctx context.Context) (due []*corev1.PersistentVolumeClaim, done bool) {
	r.mu.Lock()
	keys := map[types.UID]types.NamespacedName{}
	for uid, known := range r.records {
		keys[uid] = known.key()
	}
	r.mu.Unlock()
	cached := map[types.UID]*corev1.PersistentVolumeClaim{}
	for uid, key := range keys {
		cached[uid] = r.opts.Claim(key) // without r.mu, because the cache has its own lock
	}
	r.mu.Lock()
	skip := r.records.cached(cached)
	r.mu.Unlock()
	doubtful := map[string][]types.UID{}
	for uid := range skip {
		doubtful[keys[uid].Namespace] = append(doubtful[keys[uid].Namespace], uid)
	}
	done = true
	for namespace, uids := range doubtful {
		var list corev1.PersistentVolumeClaimList
		err := r.opts.Client.List(ctx, &list, client.InNamespace(namespace))
		if apierrors.IsForbidden(err) { // the next report, after refusedRetry, is early enough
			r.mu.Lock()
			for _, uid := range uids {
				r.records.forbidden(uid, time.Now())
			}
			r.mu.Unlock()
			continue
		}
		if err != nil {
			r.opts.Log.Error("Failed to list PersistentVolumeClaims", "namespace", namespace, "error", err)
			done = false
			continue
		}
		present := map[types.UID]*corev1.PersistentVolumeClaim{}
		for i := range list.Items {
			present[list.Items[i].UID] = &list.Items[i]
		}
		r.mu.Lock()
		for _, uid := range uids {
			r.records.listed(uid, present)
			delete(skip, uid)
		}
		r.mu.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid, known := range r.records {
		if known.due() && !skip[uid] {
			due = append(due, known.claim)
		}
	}
	return due, done
}
