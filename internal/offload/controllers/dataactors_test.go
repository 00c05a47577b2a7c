package controllers

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/storage"
	storagecontrollers "liqo.io/liqo/internal/storage/controllers"
	"liqo.io/liqo/internal/storage/move"
)

// actors are the programs and persons that act by themselves, in the order in which settle lets them act.
func (w *dataWorld) actors() []func() {
	return []func(){
		w.kubernetes, w.manageVolumes, w.manageClaims, w.write, w.runRome, w.replicate, w.runMilan, w.endTenant,
	}
}

// act lets some actors act once, in this order.
func (w *dataWorld) act(which []int) {
	w.Helper()
	actors := w.actors()
	for _, i := range which {
		w.permitted()
		actors[i]()
	}
}

// settle lets everyone act until nothing is left to do.
func (w *dataWorld) settle() {
	w.Helper()
	for range 20 {
		w.writes = nil
		for i := range w.actors() {
			w.act([]int{i})
		}
		w.clock += 2 * time.Minute
		if len(w.writes) == 0 {
			return
		}
	}
	w.Fatalf("the clusters do not settle: %q after: %q", w.writes, w.done)
}

// run lets a real controller reconcile an object.
func (w *dataWorld) run(controller string, o client.Object) {
	w.Helper()
	_, err := w.controllers[controller].Reconcile(w.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
	w.must(err)
}

// runRome lets the controllers of rome act, and the virtual kubelet, which creates the Node.
func (w *dataWorld) runRome() {
	if w.stopped["rome"] {
		return
	}
	w.run("resourceslice", w.slice())
	w.run("virtualnode", w.node())
	if node := w.node(); w.read(w.rome, node) && node.DeletionTimestamp.IsZero() {
		labels := map[string]string{api.LabelRemoteClusterID: "milan", api.LabelType: api.TypeVirtualNode}
		w.must(client.IgnoreAlreadyExists(w.rome.Create(w.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan", Labels: labels}})))
	}
	_, err := w.mapping.Reconcile(w.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "milan"}})
	w.must(err)
	w.run("namespaceoffloading", w.offloading())
}

func (w *dataWorld) runMilan() {
	if !w.stopped["milan"] {
		w.run("namespacemap", lawMap(lawTenant))
		w.run("shadowpod", w.shadow())
	}
}

// volumes returns the volumes of rome that hold remote namespaces, as the controller manager gathers them.
func (w *dataWorld) volumes(ctx context.Context, c client.Reader) ([]offload.Volume, error) {
	var list corev1.PersistentVolumeList
	if err := c.List(ctx, &list); err != nil {
		return nil, err
	}
	out, virtual := []offload.Volume{}, storage.Virtual(list.Items)
	for i := range virtual {
		v := &virtual[i]
		data := storage.DataOf(v)
		one := offload.Volume{Name: v.Name, Namespace: data.Namespace, Claim: data.Name}
		if target, err := move.TargetOf(v); target != "" || err != nil {
			copied := one
			copied.Cluster, copied.Retain = target, true
			out = append(out, copied)
		}
		if !storage.InProvider(v) {
			continue
		}
		waits := storage.Unclaimed(v) && v.Status.Phase != corev1.VolumeReleased
		one.Cluster, one.Released = storage.ClusterOf(v), storage.Unclaimed(v) && !storage.InMove(v, virtual)
		one.Retain = v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain || waits || storage.ReservedFor(v) != data || storage.IsRecovered(v)
		out = append(out, one)
	}
	return out, nil
}

// mapped returns the remote namespace of a namespace of rome.
func (w *dataWorld) mapped(namespace string) offload.Mapping {
	m := lawMap(lawPeer)
	if !w.read(w.rome, m) {
		m = nil
	}
	return offload.MappingOf(m, namespace)
}

// granted reports whether rome has access to its remote namespaces.
func (w *dataWorld) granted() bool {
	tenant, foreign := w.tenant(), &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}
	w.read(w.rome, foreign)
	return w.identity && !offload.Gone(foreign) && w.read(w.milan, tenant) && tenant.DeletionTimestamp.IsZero() && peering.GrantsOf(tenant).Access
}

// manageClaims lets the virtual kubelet act for the claims of the application.
func (w *dataWorld) manageClaims() {
	w.Helper()
	deployed := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}
	if w.stopped["rome"] || w.disabled["rome"] || !w.read(w.rome, w.node()) || !w.read(w.rome, deployed) {
		return
	}
	clear(w.view.confirmed)
	for range 20 {
		mapping, here, there := w.mapped("shop"), lawClaim("shop"), lawClaim(lawRemote)
		f := &storagecontrollers.RemoteFacts{
			Key: client.ObjectKeyFromObject(here), Namespace: mapping.Namespace, Unmapped: mapping.State == offload.Unmapped,
			Complete: mapping.State == offload.Mapped && w.granted() && !w.disabled["milan"],
		}
		if w.read(w.rome, here) {
			f.Claim = here
		}
		there.Namespace = mapping.Namespace
		if f.Complete && w.read(w.milan, there) {
			f.Backing = there
		}
		step := w.claims.Next(f)
		if decided := step.Action; step.Confirm {
			w.must(w.claims.Refresh(w.Context(), w.rome, w.milan, f))
			if step = w.claims.Next(f); step.Action != decided {
				return
			}
		}
		if !w.obey(step) {
			return
		}
	}
	w.Fatalf("the decisions about claims do not settle after: %q", w.done)
}

// obey writes what a step of package storage asks for. It reports whether there may be another step.
func (w *dataWorld) obey(step storage.Step) bool {
	w.Helper()
	c := w.rome
	if slices.Contains([]storage.Action{storage.CreateBacking, storage.PatchBacking, storage.DeleteBacking}, step.Action) {
		c = w.milan
	}
	var err error
	switch step.Action {
	case storage.Nothing:
		return false
	case storage.CreateBacking, storage.CreateVolume:
		err = c.Create(w.Context(), step.Object.(client.Object))
	case storage.DeleteBacking, storage.DeleteVolume:
		err = c.Delete(w.Context(), step.Object.(client.Object))
	case storage.PatchClaimStatus:
		err = c.Status().Update(w.Context(), step.Object.(client.Object))
	default:
		err = c.Update(w.Context(), step.Object.(client.Object))
	}
	if apierrors.IsForbidden(err) {
		return false
	}
	w.must(err)
	return true
}

// manageVolumes lets the controller manager of rome act for its virtual volumes.
func (w *dataWorld) manageVolumes() {
	w.Helper()
	if w.stopped["rome"] || w.disabled["rome"] {
		return
	}
	volumes := listed(w, w.rome, &corev1.PersistentVolumeList{}).Items
	for i := range volumes {
		for more := true; more; {
			v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: volumes[i].Name}}
			if !w.read(w.rome, v) || storage.VolumeUID(v) == "" {
				break
			}
			s := storage.State{UID: storage.VolumeUID(v), Volume: v, Place: storage.Place{Origin: "rome", Namespace: "liqo-storage"}}
			s.Classes = listed(w, w.rome, &storagev1.StorageClassList{}).Items
			if s.Tenant = lawPeer; !w.read(w.rome, w.node()) && !w.read(w.rome, lawMap(lawPeer)) {
				s.Abandoned, s.Tenant = true, ""
			}
			if claim, ref := lawClaim("shop"), v.Spec.ClaimRef; ref != nil && w.read(w.rome, claim) && (ref.UID == "" || ref.UID == claim.UID) {
				s.Claim = claim
			}
			more = w.obey(storage.Next(s))
		}
	}
}

// write lets the pods of the application write data to the volume of their claim, once.
func (w *dataWorld) write() {
	here, there := lawClaim("shop"), lawClaim(lawRemote)
	if !w.granted() || w.mapped("shop").State != offload.Mapped || !w.read(w.rome, here) || here.Status.Phase != corev1.ClaimBound || !w.read(w.milan, there) {
		return
	}
	if shadow := w.shadow(); !w.read(w.milan, shadow) {
		shadow.Spec.Pod = corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}, Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: there.Name},
		}}}}
		w.must(w.milan.Create(w.Context(), shadow))
	}
	uid, disk := storage.BackingUID(there), there.Spec.VolumeName
	if here.Spec.VolumeName != storage.VolumeName(uid) || disk == "" || w.disks[disk] != "" {
		return
	}
	w.disks[disk] = fmt.Sprintf("data of %s in %s", uid, disk)
	m := lawMap(lawPeer)
	w.read(w.rome, m)
	w.written = append(w.written, &datum{by: m.UID, claim: uid, volume: disk, sum: sha256.Sum256([]byte(w.disks[disk]))})
}

// kubernetes does in both clusters what the controllers of Kubernetes and the driver of milan's disks do.
func (w *dataWorld) kubernetes() {
	w.Helper()
	for _, c := range []client.WithWatch{w.rome, w.milan} {
		for _, namespace := range listed(w, c, &corev1.NamespaceList{}).Items {
			w.endNamespace(c, &namespace)
		}
	}
	if w.read(w.milan, w.pod()) && !w.read(w.milan, w.shadow()) {
		w.delete(w.milan, w.pod())
	}
	w.bind()
	w.provision()
}

// endNamespace deletes everything in a namespace that is being deleted, and then the namespace.
func (w *dataWorld) endNamespace(c client.WithWatch, namespace *corev1.Namespace) {
	w.Helper()
	if namespace.DeletionTimestamp.IsZero() {
		return
	}
	w.delete(c, &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "web"}})
	left := 0
	for _, list := range []client.ObjectList{&corev1.PersistentVolumeClaimList{}, &offloadingv1beta1.NamespaceOffloadingList{}} {
		switch list := listed(w, c, list, client.InNamespace(namespace.Name)).(type) {
		case *corev1.PersistentVolumeClaimList:
			for i := range list.Items {
				w.delete(c, &list.Items[i])
			}
		case *offloadingv1beta1.NamespaceOffloadingList:
			for i := range list.Items {
				if left++; list.Items[i].DeletionTimestamp.IsZero() {
					w.delete(c, &list.Items[i])
				}
			}
		}
	}
	if left == 0 {
		w.vanish(c, namespace)
	}
}

// bind binds the claim and the volumes of rome, and releases volumes whose claim is gone.
func (w *dataWorld) bind() {
	w.Helper()
	for _, v := range listed(w, w.rome, &corev1.PersistentVolumeList{}).Items {
		claim, ref, phase := lawClaim("shop"), v.Spec.ClaimRef, corev1.VolumeAvailable
		switch exists := w.read(w.rome, claim); {
		case ref == nil:
		case exists && claim.DeletionTimestamp.IsZero() && v.DeletionTimestamp.IsZero() && claim.Name == ref.Name && claim.Namespace == ref.Namespace &&
			(ref.UID == "" || ref.UID == claim.UID) && (claim.Spec.VolumeName == "" || claim.Spec.VolumeName == v.Name):
			if claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName != v.Name {
				claim.Spec.VolumeName, claim.Status.Phase, claim.Status.Capacity = v.Name, corev1.ClaimBound, v.Spec.Capacity
				w.put(w.rome, claim)
			}
			ref.UID, phase = claim.UID, corev1.VolumeBound
		case exists && ref.UID == claim.UID:
			phase = v.Status.Phase
		case ref.UID != "":
			phase = corev1.VolumeReleased
		}
		if v.Status.Phase != phase {
			v.Status.Phase = phase
			w.put(w.rome, &v)
		}
	}
}

// provision creates the volumes of the claims of milan, and deletes or retains them when their claim is gone.
func (w *dataWorld) provision() {
	w.Helper()
	for _, claim := range listed(w, w.milan, &corev1.PersistentVolumeClaimList{}).Items {
		if claim.Spec.VolumeName != "" || !claim.DeletionTimestamp.IsZero() {
			continue
		}
		w.made++
		volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("disk-", w.made)}, Spec: corev1.PersistentVolumeSpec{
			ClaimRef: &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		}}
		w.must(w.milan.Create(w.Context(), volume))
		claim.Spec.VolumeName, claim.Status.Phase, claim.Status.Capacity = volume.Name, corev1.ClaimBound, claim.Spec.Resources.Requests
		w.put(w.milan, &claim)
	}
	for _, volume := range listed(w, w.milan, &corev1.PersistentVolumeList{}).Items {
		if !w.hasClaim(&volume) && volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
			w.delete(w.milan, &volume)
			delete(w.disks, volume.Name)
		}
	}
}

// replicate does one step in the replication of the NamespaceMap.
func (w *dataWorld) replicate() {
	w.Helper()
	source, copied, tenant := lawMap(lawPeer), lawMap(lawTenant), w.tenant()
	if w.stopped["rome"] || !w.read(w.rome, source) {
		return
	}
	release := func() {
		w.change(w.rome, source, func() { controllerutil.RemoveFinalizer(source, peering.FinalizerReplicated) })
	}
	held := controllerutil.ContainsFinalizer(source, peering.FinalizerReplicated)
	deleting := !source.DeletionTimestamp.IsZero()
	if !held && (deleting || !peering.Selected(source)) {
		return
	}
	leaving := deleting || !peering.Selected(source)
	refused := !w.read(w.milan, tenant) || !tenant.DeletionTimestamp.IsZero() || !peering.GrantsOf(tenant).Access
	foreign := &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}
	w.read(w.rome, foreign)
	if offload.Gone(foreign) || !w.identity || refused {
		if leaving {
			release()
		}
		return
	}
	kinds := peering.Kinds()
	kind := kinds[slices.IndexFunc(kinds, func(k peering.Kind) bool { return k.Name == "NamespaceMap" })]
	var present peering.Object
	if w.read(w.milan, copied) {
		present = copied
	}
	step := kind.Plan(peering.Link{Own: "rome", Remote: "milan", RemoteNamespace: lawTenant}, source, present)
	switch {
	case step.Refuse != "":
		return
	case step.Release:
		release()
		return
	case step.Create != nil:
		w.change(w.rome, source, func() { controllerutil.AddFinalizer(source, peering.FinalizerReplicated) })
		w.must(w.milan.Create(w.Context(), step.Create.(client.Object)))
		return
	}
	if step.Update != nil {
		w.must(w.milan.Update(w.Context(), step.Update.(client.Object)))
	}
	if step.Delete {
		w.delete(w.milan, copied)
	}
	if step.Status != nil {
		w.must(w.rome.Status().Update(w.Context(), step.Status.(client.Object)))
	}
}

// endTenant does what the controller of Tenants does about remote namespaces.
func (w *dataWorld) endTenant() {
	w.Helper()
	tenant := w.tenant()
	if w.stopped["milan"] || !w.read(w.milan, tenant) || tenant.DeletionTimestamp.IsZero() {
		return
	}
	var claims []corev1.PersistentVolumeClaim
	var namespaces []corev1.Namespace
	for _, namespace := range listed(w, w.milan, &corev1.NamespaceList{}).Items {
		if owner, _, _ := strings.Cut(offloadingv1beta1.NamespaceMapOf(&namespace), "/"); owner == lawTenant {
			namespaces = append(namespaces, namespace)
			claims = append(claims, listed(w, w.milan, &corev1.PersistentVolumeClaimList{}, client.InNamespace(namespace.Name)).Items...)
		}
	}
	if peering.ClaimsKept(tenant, kube.HeldClaims(claims)) != "" {
		return
	}
	if copied := lawMap(lawTenant); w.read(w.milan, copied) {
		if copied.DeletionTimestamp.IsZero() {
			w.delete(w.milan, copied)
		}
		return
	}
	for i := range namespaces {
		if namespaces[i].DeletionTimestamp.IsZero() {
			w.delete(w.milan, &namespaces[i])
		}
	}
	if len(namespaces) == 0 {
		w.vanish(w.milan, tenant)
	}
}

// lawKinds are the kinds of the objects of a backup.
func lawKinds() []client.ObjectList {
	return []client.ObjectList{
		&corev1.NamespaceList{}, &corev1.NodeList{}, &corev1.PersistentVolumeClaimList{}, &corev1.PersistentVolumeList{}, &storagev1.StorageClassList{},
		&corev1beta1.ForeignClusterList{}, &authv1beta1.IdentityList{}, &authv1beta1.ResourceSliceList{}, &authv1beta1.TenantList{},
		&offloadingv1beta1.NamespaceOffloadingList{}, &offloadingv1beta1.NamespaceMapList{}, &offloadingv1beta1.VirtualNodeList{}, &offloadingv1beta1.VkOptionsTemplateList{},
	}
}

// save makes a backup of a cluster.
func (w *dataWorld) save(name string, c client.WithWatch) {
	w.Helper()
	b := &backup{written: map[string]bool{}}
	for _, list := range lawKinds() {
		w.must(apimeta.EachListItem(listed(w, c, list), func(o runtime.Object) error {
			b.objects = append(b.objects, o.DeepCopyObject().(client.Object))
			return nil
		}))
	}
	for _, d := range w.written {
		b.written[d.volume] = true
	}
	w.backups[name] = b
}

// restoreRome replaces the content of rome by that of its backup.
func (w *dataWorld) restoreRome() {
	if b := w.backups["rome"]; b != nil {
		w.rome = w.cluster(b.copies()...)
		w.start()
	}
}

// restoreMilan replaces the content of milan by that of its backup. Milan forgets the volumes of later claims; their disks stay.
func (w *dataWorld) restoreMilan() {
	if b := w.backups["milan"]; b != nil {
		w.request(func(d *datum) bool { return !b.written[d.volume] })
		w.milan = w.cluster(b.copies()...)
		w.start()
	}
}

func (b *backup) copies() []client.Object {
	var out []client.Object
	for _, o := range b.objects {
		out = append(out, o.DeepCopyObject().(client.Object))
	}
	return out
}
