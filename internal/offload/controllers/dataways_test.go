package controllers

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/storage"
)

// ways are what persons do to both clusters, and by which something ends or is lost. No user requests the deletion of data by them.
func (w *dataWorld) ways() map[string]func() {
	ways := w.waysOfPeers()
	maps.Copy(ways, w.waysOfClusters())
	return ways
}

// returns are the ways in which something that has ended is there again.
func (w *dataWorld) returns() map[string]func() {
	tenant, offloading, remote := w.tenant(), w.offloading(), w.remote()
	return map[string]func(){
		"the tenant is activated":     func() { w.change(w.milan, tenant, func() { tenant.Spec.TenantCondition = authv1beta1.TenantActive }) },
		"the Tenant is created again": w.createTenant,
		"the remote namespace has its mark again": func() {
			w.change(w.milan, remote, func() {
				metav1.SetMetaDataAnnotation(&remote.ObjectMeta, offloadingv1beta1.AnnotationManagedByNamespaceMap, lawTenant+"/milan")
			})
		},
		"the NamespaceOffloading is new":       func() { w.offload(nil) },
		"the selector selects milan again":     func() { w.change(w.rome, offloading, func() { offloading.Spec.ClusterSelector = nil }) },
		"the namespace is no longer protected": func() { w.protected = nil; w.start() },
		"the ResourceSlice is created again":   w.createSlice,
		"the ResourceSlice is accepted":        func() { w.answer(authv1beta1.ResourceSliceAccepted) },
		"the identity is there again":          func() { w.identity = true },
		"the provider is reachable":            func() { w.unreachable(false) },
		"Liqo runs in rome":                    func() { w.stopped["rome"] = false; w.start() },
		"Liqo runs in milan":                   func() { w.stopped["milan"] = false; w.start() },
		"storage is enabled in rome":           func() { w.disabled["rome"] = false },
		"storage is enabled in milan":          func() { w.disabled["milan"] = false },
		"the user creates the claim":           func() { w.createClaim("") },
		"a retained volume is used again":      w.reuse,
		"the move is cancelled":                w.cancelMove,
		"the namespace is created in rome": func() {
			w.must(client.IgnoreAlreadyExists(w.rome.Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})))
		},
	}
}

// waysOfPeers are changes of the objects of the peering and of the offloading.
func (w *dataWorld) waysOfPeers() map[string]func() {
	tenant, node, offloading, slice, remote := w.tenant(), w.node(), w.offloading(), w.slice(), w.remote()
	source, copied := lawMap(lawPeer), lawMap(lawTenant)
	return map[string]func(){
		"the tenant is drained":             func() { w.change(w.milan, tenant, func() { tenant.Spec.TenantCondition = authv1beta1.TenantDrained }) },
		"the Tenant is deleted":             func() { w.delete(w.milan, tenant) },
		"the NamespaceMap is deleted":       func() { w.delete(w.rome, source) },
		"the NamespaceMap vanishes":         func() { w.vanish(w.rome, source) },
		"the copy of the NamespaceMap is":   func() { w.delete(w.milan, copied) },
		"the copy vanishes":                 func() { w.vanish(w.milan, copied) },
		"the NamespaceMap loses its labels": func() { w.change(w.rome, source, func() { source.Labels = nil }) },
		"the NamespaceMap is not replicated": func() {
			w.change(w.rome, source, func() { metav1.SetMetaDataLabel(&source.ObjectMeta, api.LabelReplication, api.False) })
		},
		"the copy loses its labels": func() { w.change(w.milan, copied, func() { copied.Labels = nil }) },
		"the remote namespace loses its mark": func() {
			w.change(w.milan, remote, func() { delete(remote.Annotations, offloadingv1beta1.AnnotationManagedByNamespaceMap) })
		},
		"the NamespaceOffloading is deleted": func() { w.delete(w.rome, offloading) },
		"the NamespaceOffloading vanishes":   func() { w.vanish(w.rome, offloading) },
		"the NamespaceOffloading is another one": func() {
			w.offload(func(o *offloadingv1beta1.NamespaceOffloading) {
				o.Spec.NamespaceMappingStrategy = offloadingv1beta1.EnforceSameName
			})
		},
		"the selector leaves milan out": func() { w.change(w.rome, offloading, func() { offloading.Spec.ClusterSelector = nowhere() }) },
		"the namespace is protected":    func() { w.protected = []string{"sh*"}; w.start() },
		"the ResourceSlice is deleted":  func() { w.delete(w.rome, slice) },
		"the ResourceSlice is denied":   func() { w.answer(authv1beta1.ResourceSliceDenied) },
		"the VirtualNode is deleted":    func() { w.delete(w.rome, node) },
		"the VirtualNode vanishes":      func() { w.vanish(w.rome, node) },
		"the Quota is deleted":          func() { w.delete(w.milan, w.quota()) },
		"the ShadowPod is deleted":      func() { w.delete(w.milan, w.shadow()) },
		"the pod is deleted in milan":   func() { w.delete(w.milan, w.pod()) },
		"the Node is deleted":           func() { w.delete(w.rome, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}) },
	}
}

// waysOfClusters are changes of clusters, of their programs, and of claims and volumes.
func (w *dataWorld) waysOfClusters() map[string]func() {
	return map[string]func(){
		"rome is installed again":                w.reinstall,
		"rome is backed up":                      func() { w.save("rome", w.rome) },
		"rome is restored":                       w.restoreRome,
		"milan is backed up":                     func() { w.save("milan", w.milan) },
		"milan is restored":                      w.restoreMilan,
		"rome is restored from a backup":         w.restore,
		"both clusters were of a former release": w.fromEarlierRelease,
		"the identity is lost":                   func() { w.identity = false },
		"the provider is declared unreachable":   func() { w.unreachable(true) },
		"Liqo is removed in rome":                func() { w.stopped["rome"] = true },
		"Liqo is removed in milan":               func() { w.stopped["milan"] = true },
		"storage is disabled in rome":            func() { w.disabled["rome"] = true },
		"storage is disabled in milan":           func() { w.disabled["milan"] = true },
		"the volume is retained": func() {
			w.eachVolume(func(v *corev1.PersistentVolume) { w.policy(v, corev1.PersistentVolumeReclaimRetain) })
		},
		"the volume vanishes": func() { w.eachVolume(func(v *corev1.PersistentVolume) { w.vanish(w.rome, v) }) },
		"the volume loses its labels": func() {
			w.eachVolume(func(v *corev1.PersistentVolume) { w.change(w.rome, v, func() { v.Labels = nil }) })
		},
		"a move stops halfway": w.moveAway,
	}
}

// requests are the ways in which a user requests the deletion of data.
func (w *dataWorld) requests() map[string]func() {
	tenant, node, offloading := w.tenant(), w.node(), w.offloading()
	return map[string]func(){
		"the user deletes the claim": func() { w.deleteClaim(); w.delete(w.rome, lawClaim("shop")) },
		"the namespace is deleted in rome": func() {
			w.deleteClaim()
			w.delete(w.rome, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
		},
		"the volume is deleted": func() {
			w.eachVolume(func(v *corev1.PersistentVolume) {
				if v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete && storage.Unclaimed(v) {
					w.requestVolume(v)
				}
				w.delete(w.rome, v)
			})
		},
		"the retained volumes are discarded": func() {
			w.eachVolume(func(v *corev1.PersistentVolume) {
				if storage.Unclaimed(v) && v.Annotations[storage.AnnotationMove] == "" {
					w.requestVolume(v)
					available := v.Status.Phase != corev1.VolumeReleased
					w.policy(v, corev1.PersistentVolumeReclaimDelete)
					if available {
						w.delete(w.rome, v)
					}
				}
			})
		},
		"the remote namespace is deleted in milan": func() {
			w.request(func(d *datum) bool { return w.namespaceOf(d) == lawRemote })
			w.delete(w.milan, w.remote())
		},
		"the claim is deleted in milan": func() {
			w.request(func(d *datum) bool { return w.namespaceOf(d) == lawRemote })
			w.delete(w.milan, lawClaim(lawRemote))
		},
		"the NamespaceOffloading is deleted with its data": func() { w.abandon(w.rome, offloading); w.delete(w.rome, offloading) },
		"the selector leaves milan out with the data": func() {
			w.abandon(w.rome, offloading)
			w.change(w.rome, offloading, func() { offloading.Spec.ClusterSelector = nowhere() })
		},
		"the VirtualNode is deleted with its data": func() { w.abandon(w.rome, node); w.delete(w.rome, node) },
		"the peering ends with its data":           func() { w.abandon(w.rome, node); w.delete(w.rome, node); w.delete(w.rome, w.slice()) },
		"the Tenant is deleted with its data":      func() { w.abandon(w.milan, tenant); w.delete(w.milan, tenant) },
	}
}

// abandon sets the annotation that permits the deletion of data.
func (w *dataWorld) abandon(c client.Client, o client.Object) {
	w.change(c, o, func() {
		o.SetAnnotations(api.Layered(o.GetAnnotations(), map[string]string{api.AnnotationDeleteVolumes: api.True}))
	})
}

// deleteClaim records that a user deletes the claim: its data is to be deleted if the policy of its volume says so.
func (w *dataWorld) deleteClaim() {
	claim := lawClaim("shop")
	if !w.read(w.rome, claim) {
		return
	}
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: claim.Spec.VolumeName}}
	if v.Name != "" && w.read(w.rome, v) && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
		w.requestVolume(v)
	}
}

// requestVolume records that the deletion of the data of a virtual volume is requested.
func (w *dataWorld) requestVolume(v *corev1.PersistentVolume) {
	w.request(func(d *datum) bool { return storage.VolumeName(d.claim) == v.Name })
}

// namespaceOf returns the namespace of the claim in milan that has some data.
func (w *dataWorld) namespaceOf(d *datum) string {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: d.volume}}
	if !w.read(w.milan, v) {
		return ""
	}
	return v.Spec.ClaimRef.Namespace
}

// eachVolume calls do for each virtual volume of rome.
func (w *dataWorld) eachVolume(do func(v *corev1.PersistentVolume)) {
	for _, v := range listed(w, w.rome, &corev1.PersistentVolumeList{}).Items {
		do(&v)
	}
}

func (w *dataWorld) policy(v *corev1.PersistentVolume, policy corev1.PersistentVolumeReclaimPolicy) {
	w.change(w.rome, v, func() { v.Spec.PersistentVolumeReclaimPolicy = policy })
}

// reuse reserves a retained volume for the claim of the application, and creates that claim.
func (w *dataWorld) reuse() {
	w.eachVolume(func(v *corev1.PersistentVolume) {
		if !w.read(w.rome, lawClaim("shop")) && v.Status.Phase == corev1.VolumeReleased && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain &&
			v.Annotations[storage.AnnotationMove] == "" {
			w.change(w.rome, v, func() { v.Spec.ClaimRef.UID = "" })
			w.createClaim(v.Name)
		}
	})
}

// moveAway starts a move of the data to a node of rome, which stops after it has deleted the claim.
func (w *dataWorld) moveAway() {
	claim := lawClaim("shop")
	if !w.read(w.rome, claim) || claim.Spec.VolumeName == "" {
		return
	}
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: claim.Spec.VolumeName}}
	w.change(w.rome, v, func() {
		metav1.SetMetaDataAnnotation(&v.ObjectMeta, storage.AnnotationMove, `{"claim":"`+string(claim.UID)+`","node":"n1","policy":"Delete"}`)
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	})
	if v.UID != "" {
		w.delete(w.rome, claim)
	}
}

// cancelMove gives the data of a move to a claim of the same name as before.
func (w *dataWorld) cancelMove() {
	w.eachVolume(func(v *corev1.PersistentVolume) {
		if v.Annotations[storage.AnnotationMove] != "" && v.Status.Phase == corev1.VolumeReleased {
			w.change(w.rome, v, func() { delete(v.Annotations, storage.AnnotationMove); v.Spec.ClaimRef.UID = "" })
			w.createClaim(v.Name)
		}
	})
}

// offload creates the NamespaceOffloading, unless there is one.
func (w *dataWorld) offload(fill func(*offloadingv1beta1.NamespaceOffloading)) {
	o := w.offloading()
	if fill != nil {
		fill(o)
	}
	w.must(client.IgnoreAlreadyExists(w.rome.Create(w.Context(), o)))
}

func nowhere() *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: "region", Operator: corev1.NodeSelectorOpIn, Values: []string{"nowhere"}},
	}}}}
}

func (w *dataWorld) unreachable(is bool) {
	fc := &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}
	w.change(w.rome, fc, func() {
		if fc.Annotations = nil; is {
			fc.Annotations = map[string]string{"liqo.io/foreign-cluster-permanently-unreachable": api.True}
		}
	})
}

// reinstall replaces rome by another cluster with the same ID, which is peered again and knows nothing about its former objects.
func (w *dataWorld) reinstall() { w.install() }

// restore replaces the state of rome by that of a backup in which the namespace was not offloaded yet. The NamespaceMap is the same object as before.
func (w *dataWorld) restore() {
	source := lawMap(lawPeer)
	w.change(w.rome, source, func() { source.Spec = offloadingv1beta1.NamespaceMapSpec{} })
	if w.read(w.rome, source) {
		source.Status = offloadingv1beta1.NamespaceMapStatus{}
		w.must(w.rome.Status().Update(w.Context(), source))
	}
	w.vanish(w.rome, w.offloading())
}

// fromEarlierRelease gives the NamespaceMap, its copy and the remote namespace the fields of a release that does not know releases, and whose copies do not name
// their source.
func (w *dataWorld) fromEarlierRelease() {
	source, copied, remote := lawMap(lawPeer), lawMap(lawTenant), w.remote()
	w.change(w.rome, source, func() { source.Spec.ReleasedMapping = nil })
	w.change(w.milan, copied, func() { copied.Annotations, copied.Spec.ReleasedMapping = nil, nil })
	w.change(w.milan, remote, func() {
		metav1.SetMetaDataAnnotation(&remote.ObjectMeta, offloadingv1beta1.AnnotationNamespaceMapUID, string(copied.UID))
	})
}
