package controllers

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/storage"
)

// refusalRecords holds the records of refused claims by the UID of the claim, because a recreated claim needs a record of its own. The methods are free of I/O
// and read no clock.
//
// The cache may be older than a record, because records are often made from a claim that was just read from the API server. So two rules apply. A record with a
// message is deleted only if the claim is missing in a list that was requested after the record was made. The claim in a record is replaced only by a version
// that is not older.
type refusalRecords map[types.UID]*claimRefusal

// claimRefusal is the record of one claim.
type claimRefusal struct {
	claim *corev1.PersistentVolumeClaim
	// message is the current reason for the refusal, empty if the claim is not refused.
	message string
	// driverWarning is the last Warning Event of a driver about the backing claim in the provider, empty if that claim has its volume.
	driverWarning string
	// forbiddenSince is the time when the API server first refused to list the claims of the namespace. It is zero if the API server permits it.
	forbiddenSince time.Time
	// delivered holds the messages that the claim and its pods received, by the UID of the object. It holds at most mostMessages of each object, so a later
	// message may repeat an earlier one.
	delivered map[types.UID]map[string]bool
}

// longestForbidden is the time after which the records of a namespace are deleted if the API server keeps refusing to list its claims. The namespace is then no
// longer offloaded, or was deleted. The time is long, because an API server that is starting may refuse requests. If the namespace is offloaded again, Liqo
// decides about each claim again.
const longestForbidden = 5 * time.Minute

// audience selects the objects to which a virtual kubelet reports. If a provider has several virtual kubelets, exactly one of them reports to each object.
type audience struct {
	// hasNode reports whether a node is a virtual node of the provider. node is the name of the virtual node of this virtual kubelet.
	hasNode func(name string) bool
	node    string
	// decides reports whether this virtual kubelet decides about a claim. Then it reports to the claim, and to the claim's pods on all virtual nodes of the
	// provider.
	decides func(*corev1.PersistentVolumeClaim) bool
	// leftToPods reports whether no virtual kubelet creates a volume for a claim; see storage.LeftToPods. Only the virtual kubelet of a pod's node knows that
	// the pod mounts such a claim, so that virtual kubelet reports to the pod.
	leftToPods func(*corev1.PersistentVolumeClaim) bool
}

// reach holds the results of decides and leftToPods of an audience for one claim, so that they are computed once for all pods.
type reach struct{ decides, leftToPods bool }

func (a *audience) of(claim *corev1.PersistentVolumeClaim) reach {
	return reach{decides: a.decides(claim), leftToPods: a.leftToPods(claim)}
}

// hasPod reports whether this virtual kubelet reports to a pod. claimReach is the reach of the claim.
func (a *audience) hasPod(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim, claimReach reach) bool {
	reports := claimReach.decides
	if claimReach.leftToPods && pod.Spec.NodeName != "" {
		reports = pod.Spec.NodeName == a.node
	}
	return reports && storage.UsesOn(pod, claim, a.hasNode)
}

// of returns the record of a claim. It creates the record if there is none.
func (r refusalRecords) of(claim *corev1.PersistentVolumeClaim) *claimRefusal {
	known := r[claim.UID]
	if known == nil {
		known = &claimRefusal{claim: claim, delivered: map[types.UID]map[string]bool{}}
		r[claim.UID] = known
	}
	known.update(claim)
	return known
}

// update replaces the claim in the record, unless the given version is older.
func (c *claimRefusal) update(claim *corev1.PersistentVolumeClaim) {
	if c.forbiddenSince = (time.Time{}); !older(claim, c.claim) {
		c.claim = claim
	}
}

// older reports whether version a of an object is older than version b. It returns false if the versions can't be compared.
func older(a, b *corev1.PersistentVolumeClaim) bool {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err == nil && order < 0
}

func (c *claimRefusal) key() types.NamespacedName { return client.ObjectKeyFromObject(c.claim) }

// due reports whether the claim has a message.
func (c *claimRefusal) due() bool { return c.message != "" || c.driverWarning != "" }

// has reports whether a claim of that name has a message.
func (r refusalRecords) has(key types.NamespacedName) bool {
	for _, known := range r {
		if known.key() == key && known.due() {
			return true
		}
	}
	return false
}

// settle records that nothing is left to do for this version of a claim. It keeps the received messages, because the same message may follow again.
func (r refusalRecords) settle(claim *corev1.PersistentVolumeClaim) {
	if known := r[claim.UID]; known != nil && !older(claim, known.claim) {
		known.message = ""
	}
}

// provided records that the backing claim in the provider has its volume. uid is the UID for which the backing claim was created.
func (r refusalRecords) provided(uid types.UID) {
	for _, known := range r {
		for _, own := range storage.UIDs(known.claim) {
			if own == uid {
				known.driverWarning = ""
			}
		}
	}
}

// cached updates records from the cache. claims maps the UID of each record to the claim that the cache has under the name in the record, nil if it has none.
// cached returns the UIDs of claims that may have been deleted: the cache has no such claim, or one with another UID. It deletes a record without a message at
// once, because that loses no information.
func (r refusalRecords) cached(claims map[types.UID]*corev1.PersistentVolumeClaim) map[types.UID]bool {
	doubtful := map[types.UID]bool{}
	for uid, now := range claims {
		switch known := r[uid]; {
		case known == nil:
		case now != nil && now.UID == uid:
			known.update(now)
		case known.due():
			doubtful[uid] = true
		default:
			delete(r, uid)
		}
	}
	return doubtful
}

// listed compares a record with the claims of its namespace. The list must have been requested after the record was made.
func (r refusalRecords) listed(uid types.UID, present map[types.UID]*corev1.PersistentVolumeClaim) {
	switch known, now := r[uid], present[uid]; {
	case known == nil:
	case now == nil: // a UID is never used again
		delete(r, uid)
	default:
		known.update(now.DeepCopy()) // a copy, so that the record does not keep the whole list in memory
	}
}

// forbidden records that the API server refuses to list the claims in the namespace of a record. It deletes the record after longestForbidden.
func (r refusalRecords) forbidden(uid types.UID, now time.Time) {
	switch known := r[uid]; {
	case known == nil:
	case known.forbiddenSince.IsZero():
		known.forbiddenSince = now
	case now.Sub(known.forbiddenSince) >= longestForbidden:
		delete(r, uid)
	}
}

// notice is a message about a claim that one object receives: the claim or a pod.
type notice struct {
	claim         types.UID
	obj           client.Object
	message, text string
}

// notices returns the messages to report on the given claims of a namespace and on their pods, and records them as received. complete means that pods contains
// all pods of the namespace.
func (r refusalRecords) notices(claims map[types.UID]reach, pods []corev1.Pod, complete bool, to *audience) []notice {
	present := map[types.UID]bool{}
	for i := range pods {
		present[pods[i].UID] = true
	}
	var out []notice
	for uid, of := range claims {
		known := r[uid]
		if known == nil || !known.due() {
			continue
		}
		add := func(obj client.Object, prefix string) {
			for _, message := range []string{known.message, known.driverWarning} {
				if message != "" && known.deliver(obj.GetUID(), message) {
					out = append(out, notice{uid, obj, message, prefix + message})
				}
			}
		}
		if of.decides {
			add(known.claim, "")
		}
		for i := range pods {
			if to.hasPod(&pods[i], known.claim, of) {
				add(&pods[i], "PersistentVolumeClaim "+known.claim.Name+": ")
			}
		}
		if complete {
			maps.DeleteFunc(known.delivered, func(to types.UID, _ map[string]bool) bool { return to != uid && !present[to] })
		}
	}
	return out
}

// deliver records that an object receives a message. It returns false if the object has received this message already.
func (c *claimRefusal) deliver(uid types.UID, message string) bool {
	known := c.delivered[uid]
	if known == nil {
		known = map[string]bool{}
		c.delivered[uid] = known
	}
	if known[message] {
		return false
	}
	if len(known) >= mostMessages {
		clear(known)
	}
	known[message] = true
	return true
}

// failed records that an object did not receive a message.
func (r refusalRecords) failed(n notice) {
	if known := r[n.claim]; known != nil {
		delete(known.delivered[n.obj.GetUID()], n.message)
	}
}
