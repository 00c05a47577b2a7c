package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/storage"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

const (
	// sharedClass is a class of the playground whose volumes can be mounted by several pods, and expanded.
	sharedClass = "shared"
	// retainedClass is a StorageClass of Liqo that retains the data of deleted claims.
	retainedClass = "claims-retained"
)

// unfit is a claim that gets no volume, with its pod and the expected Warnings about both.
type unfit struct {
	claim *corev1.PersistentVolumeClaim
	pod   *corev1.Pod
	says  []string
}

// claims: claims of class liqo work in rome, milan and naples as far as the classes there support their features. Events report the features that a class does
// not support.
func claims(s *story.Story) {
	const ns, homely = "claims", "claims-homely"
	rome, milan, naples, twin := s.Rome, s.Milan, s.Naples, story.Twin(ns)
	home := rome.Node()
	s.Step("a namespace, and claims that no class there has", func() {
		s.Offload(ns)
		wait, retain := storagev1.VolumeBindingWaitForFirstConsumer, corev1.PersistentVolumeReclaimRetain
		class := &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: retainedClass}, Provisioner: storage.Provisioner, VolumeBindingMode: &wait, ReclaimPolicy: &retain,
		}
		s.Must(rome.Create(s.Context(), class))
		s.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Context()), start)
			defer cancel()
			for discard(ctx, s) != nil && ctx.Err() == nil { // if the story has failed: retained volumes block the deletion of their VirtualNode
				time.Sleep(time.Second)
			}
			_ = rome.Delete(ctx, class)
		})
	})
	all := impossible(ns, home)
	for _, r := range all {
		s.Must(rome.Create(s.Context(), r.claim))
		s.Must(rome.Create(s.Context(), r.pod))
	}

	users := map[string]string{"user-home": home, "user-milan": "milan", "user-naples": "naples"}
	s.Step("pods in three clusters, each with a volume that stays, one that grows, one of its own, and an ephemeral one", func() {
		for name, node := range users {
			for _, claim := range []*corev1.PersistentVolumeClaim{
				claimOfClass(claimFor(ns, "kept-"+name), retainedClass), growing(ns, "grows-"+name), claimOfModes(claimFor(ns, "alone-"+name), corev1.ReadWriteOncePod),
			} {
				s.Must(rome.Create(s.Context(), claim))
			}
			s.Must(rome.Create(s.Context(), ephemeral(mounts(shell(node, ns, name), "kept-"+name, "grows-"+name, "alone-"+name))))
		}
		for name := range users {
			s.PodReady(rome, ns, name, 2*start)
			say(s, rome, ns, name, "for d in /kept-* /grows-* /alone-* /own; do echo "+name+" > $d/file; done; sync", "")
		}
	})
	s.Step("ReadWriteMany: two pods use one volume at the same time, in milan and in rome", func() {
		s.Namespace(homely, nil)
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, api.AnnotationRealStorageClass, sharedClass)
		s.Must(rome.Patch(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: homely}}, client.RawPatch(types.MergePatchType, patch)))
		places := map[string]string{ns: "milan", homely: home}
		for namespace, node := range places {
			s.Must(rome.Create(s.Context(), claimOfModes(growing(namespace, "wide"), corev1.ReadWriteMany)))
			for _, name := range []string{"reader", "writer"} {
				s.Must(rome.Create(s.Context(), mounts(shell(node, namespace, name), "wide")))
			}
		}
		for namespace := range places {
			s.PodReady(rome, namespace, "reader", start)
			s.PodReady(rome, namespace, "writer", start)
			say(s, rome, namespace, "writer", "echo both > /wide/file", "")
			say(s, rome, namespace, "reader", "cat /wide/file", "both\n")
		}
		if backing := claimOf(s, milan, twin, "wide"); *backing.Spec.StorageClassName != sharedClass || !slices.Equal(backing.Spec.AccessModes, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}) {
			s.Errorf("in milan it is %+v", backing.Spec)
		}
	})
	s.Step("ReadWriteOncePod: a second pod waits, and is told why", func() {
		for name, node := range users {
			s.Must(rome.Create(s.Context(), mounts(shell(node, ns, "second-"+name), "alone-"+name)))
		}
		for name := range users {
			told(s, ns, "Pod", "second-"+name, string(corev1.ReadWriteOncePod))
			if backing := claimOf(s, rome, ns, "alone-"+name); !slices.Equal(backing.Spec.AccessModes, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}) {
				s.Errorf("%s has access modes %v", backing.Name, backing.Spec.AccessModes)
			}
		}
	})
	s.Step("volumes grow where the class can, and the Event of the claim says so where it can't", func() {
		says := map[string]string{"user-home": "does not allow expansion", "user-milan": "must support resize", "user-naples": "must support resize"}
		grow := func(ns, name string) {
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
			s.Must(rome.Patch(s.Context(), claim, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"resources":{"requests":{"storage":"32Mi"}}}}`))))
		}
		for name := range users {
			grow(ns, "alone-"+name)
		}
		grow(ns, "grows-user-milan")
		grow(ns, "grows-user-naples")
		grow(homely, "wide")
		for name := range users {
			told(s, ns, "PersistentVolumeClaim", "alone-"+name, says[name])
			told(s, ns, "Pod", name, "alone-"+name, says[name])
		}
		larger(s, rome, homely, "wide")
		larger(s, rome, ns, "grows-user-milan")
		larger(s, rome, ns, "grows-user-naples")
		larger(s, milan, twin, "grows-user-milan")
		larger(s, naples, twin, "grows-user-naples")
	})
	s.Step("what no class has is said by Events on the claims and their pods", func() {
		for _, r := range all {
			told(s, ns, "PersistentVolumeClaim", r.claim.Name, r.says...)
			told(s, ns, "Pod", r.pod.Name, append(r.says, r.claim.Name)...)
		}
	})
	s.Step("an ephemeral volume goes with its pod, a retained one stays without its claim", func() {
		s.Must(rome.DeleteAllOf(s.Context(), &corev1.Pod{}, client.InNamespace(ns)))
		backing := map[string]client.ObjectKey{}
		for name := range users {
			claim := claimOf(s, rome, ns, "kept-"+name)
			s.Must(rome.Delete(s.Context(), claim))
			backing[name] = client.ObjectKey{Namespace: twin, Name: claim.Name}
			if name == "user-home" {
				backing[name] = client.ObjectKey{Namespace: storageNamespace, Name: string(claim.UID)}
			}
		}
		at := map[string]*playground.Cluster{"user-home": rome, "user-milan": milan, "user-naples": naples}
		for name := range users {
			own := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name + "-own"}}
			s.Gone(rome, own, start)
			if own.Namespace = twin; name != "user-home" {
				s.Gone(at[name], own, start)
			}
		}
		s.Eventually(start, "the retained volume of rome to be released, and those of the providers to be in deletion", func(ctx context.Context) error {
			return let(ctx, s, ns)
		})
		held, err := retainedVolumes(s.Context(), s)
		if s.Must(err); len(held) != 2 {
			s.Errorf("%d volumes hold the data in milan and naples", len(held))
		}
		for name, c := range at {
			stays := claimOf(s, c, backing[name].Namespace, backing[name].Name)
			marked := stays.Annotations[storage.AnnotationRetained] == api.True // in a provider, its volume is the record
			if marked != (c == rome) || stays.DeletionTimestamp != nil || stays.Status.Phase != corev1.ClaimBound {
				s.Errorf("in %s, the retained claim has annotations %v, is %s, and was deleted at %v", c.ID, stays.Annotations, stays.Status.Phase, stays.DeletionTimestamp)
			}
			s.Must(c.Delete(s.Context(), stays))
		}
		s.Eventually(start, "the volumes to go with their data", func(ctx context.Context) error {
			left, err := retainedVolumes(ctx, s)
			if err == nil && len(left) > 0 {
				err = fmt.Errorf("%d volumes are left", len(left))
			}
			return err
		})
	})
}

// impossible returns claims that the classes of the playground do not support, each with a pod.
func impossible(ns, home string) []unfit {
	const disk = "which has the data, creates no volume"
	block := func(name, node string) unfit {
		claim, mode := claimFor(ns, name), corev1.PersistentVolumeBlock
		claim.Spec.VolumeMode = &mode
		pod := mounts(shell(node, ns, "on-"+name), name)
		pod.Spec.Containers[0].VolumeMounts = nil
		pod.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: name, DevicePath: "/dev/" + name}}
		return unfit{claim, pod, []string{disk, "block"}}
	}
	narrow := func(name, node string) unfit {
		return unfit{claimOfModes(claimFor(ns, name), corev1.ReadWriteMany), mounts(shell(node, ns, "on-"+name), name), []string{disk, "ReadWriteMany is not possible"}}
	}
	clone := claimFor(ns, "clone")
	clone.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "wide"}
	unknown := claimFor(ns, "unknown")
	unknown.Annotations = map[string]string{api.AnnotationRemoteStorageClass: "gold"}
	return []unfit{
		block("block-home", home), block("block-milan", "milan"), narrow("narrow-home", home), narrow("narrow-naples", "naples"),
		{clone, mounts(shell("milan", ns, "on-clone"), "clone"), []string{"spec.dataSource", "copy the data"}},
		{unknown, mounts(shell("naples", ns, "on-unknown"), "unknown"), []string{"gold", "does not offer", "standard"}},
	}
}

// retainedVolumes returns the volumes of class retainedClass.
func retainedVolumes(ctx context.Context, s *story.Story) ([]corev1.PersistentVolume, error) {
	var volumes corev1.PersistentVolumeList
	err := s.Rome.List(ctx, &volumes, client.MatchingLabels{storage.LabelVirtual: api.True})
	return slices.DeleteFunc(volumes.Items, func(v corev1.PersistentVolume) bool { return v.Spec.StorageClassName != retainedClass }), err
}

// let deletes the released volumes with retained data in the namespace, as an administrator would. It returns an error until those with data in rome are gone
// and the others are in deletion, where they stay until their data is gone.
func let(ctx context.Context, s *story.Story, ns string) error {
	volumes, err := retainedVolumes(ctx, s)
	if err != nil {
		return err
	}
	var left []string
	for _, volume := range volumes {
		if volume.DeletionTimestamp != nil && volume.Labels[api.LabelRemoteClusterID] != "" {
			continue
		}
		left = append(left, fmt.Sprintf("%s of claim %s is %s", volume.Name, volume.Spec.ClaimRef.Name, volume.Status.Phase))
		if volume.Status.Phase == corev1.VolumeReleased && volume.DeletionTimestamp == nil {
			if err := client.IgnoreNotFound(s.Rome.Delete(ctx, &volume)); err != nil {
				return err
			}
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("in namespace %s: %v", ns, left)
	}
	return nil
}

// discard has Liqo delete the retained volumes with their data. It returns an error while there are any.
func discard(ctx context.Context, s *story.Story) error {
	volumes, err := retainedVolumes(ctx, s)
	if err != nil || len(volumes) == 0 {
		return err
	}
	for i := range volumes {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`))
		if err := client.IgnoreNotFound(s.Rome.Patch(ctx, &volumes[i], patch)); err != nil {
			return err
		}
	}
	return fmt.Errorf("%d volumes are left", len(volumes))
}

// told waits for a Warning about an object of rome whose message contains all these parts.
func told(s *story.Story, ns, kind, name string, parts ...string) {
	s.Helper()
	s.Eventually(start, fmt.Sprintf("a Warning of %s %s that says %q", kind, name, parts), func(ctx context.Context) error {
		var events corev1.EventList
		if err := s.Rome.List(ctx, &events, client.InNamespace(ns)); err != nil {
			return err
		}
		var said []string
		for _, e := range events.Items {
			if e.InvolvedObject.Kind != kind || e.InvolvedObject.Name != name {
				continue
			}
			if e.Type == corev1.EventTypeWarning && !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(e.Message, part) }) {
				return nil
			}
			said = append(said, e.Type+" "+e.Reason+": "+e.Message)
		}
		return fmt.Errorf("it has the Events %q", said)
	})
}

// say runs a command line in a pod's shell and checks its output.
func say(s *story.Story, c *playground.Cluster, ns, pod, line, want string) {
	s.Helper()
	if said := s.Exec(c, story.WebSocket, ns, pod, "", "sh", "-c", line); said.Code != 0 || said.Out != want {
		s.Errorf("%s in %s: %+v, want %q", line, pod, said, want)
	}
}

// larger waits until the status of a claim shows that its volume was expanded.
func larger(s *story.Story, c *playground.Cluster, ns, name string) {
	s.Helper()
	s.Eventually(start, "claim "+name+" of "+c.ID+" to have 32Mi", func(ctx context.Context) error {
		var claim corev1.PersistentVolumeClaim
		if err := c.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, &claim); err != nil {
			return err
		}
		if size := claim.Status.Capacity[corev1.ResourceStorage]; size.String() != "32Mi" {
			return fmt.Errorf("it has %s, conditions %v", size.String(), claim.Status.Conditions)
		}
		return nil
	})
}

// shell returns a pod that runs without doing anything, for commands in its shell.
func shell(node, ns, name string) *corev1.Pod {
	return story.PodOn(node, ns, name, playground.Shell, "sleep", "infinity")
}

// ephemeral adds a generic ephemeral volume of class liqo to a pod.
func ephemeral(pod *corev1.Pod) *corev1.Pod {
	template := &corev1.PersistentVolumeClaimTemplate{Spec: claimFor("", "").Spec}
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "own", VolumeSource: corev1.VolumeSource{
		Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: template},
	}})
	pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "own", MountPath: "/own"})
	return pod
}

func claimOfClass(claim *corev1.PersistentVolumeClaim, class string) *corev1.PersistentVolumeClaim {
	claim.Spec.StorageClassName = &class
	return claim
}

func claimOfModes(claim *corev1.PersistentVolumeClaim, modes ...corev1.PersistentVolumeAccessMode) *corev1.PersistentVolumeClaim {
	claim.Spec.AccessModes = modes
	return claim
}

// growing returns a claim whose volume in a provider has the class that supports expansion.
func growing(ns, name string) *corev1.PersistentVolumeClaim {
	claim := claimFor(ns, name)
	claim.Annotations = map[string]string{api.AnnotationRemoteStorageClass: sharedClass}
	return claim
}
