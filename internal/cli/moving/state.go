package moving

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/storage"
	"liqo.io/liqo/internal/storage/move"
)

// read reads everything that the next step depends on.
func (v *volumeMove) read(ctx context.Context) (*move.State, error) {
	s := &move.State{Request: *v.request}
	claim := &corev1.PersistentVolumeClaim{}
	switch err := v.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: s.Name}, claim); {
	case err == nil:
		s.Claim = claim
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("reading PersistentVolumeClaim %s in namespace %s: %w", s.Name, s.Namespace, err)
	}
	var pods, movers corev1.PodList
	lists := listing{{&pods, []client.ListOption{client.InNamespace(s.Namespace)}}, {&movers, ofMoves(s.StorageNamespace)}}
	if err := lists.read(ctx, v); err != nil {
		return nil, err
	}
	s.Pods = append(pods.Items, movers.Items...)
	readCluster := v.readAgain
	if v.first == nil {
		readCluster = v.readFirst
	}
	if err := readCluster(ctx, s); err != nil {
		return nil, err
	}
	v.first = s
	if err := v.readProtection(ctx, s); err != nil {
		return nil, err
	}
	if s.NeedsOwners() {
		if err := v.readOwners(ctx, s); err != nil {
			return nil, err
		}
	}
	if err := v.readParts(ctx, s); err != nil {
		return nil, err
	}
	for i := range s.Volumes {
		if s.Volumes[i].Annotations[storage.AnnotationMove] != "" { // a move that has started needs no check for obstacles
			return s, v.unchanged(ctx, claim)
		}
	}
	var quotas corev1.ResourceQuotaList
	if err := v.List(ctx, &quotas, client.InNamespace(s.StorageNamespace)); err != nil {
		return nil, fmt.Errorf("listing the ResourceQuotas of namespace %s: %w", s.StorageNamespace, err)
	}
	s.Quotas = quotas.Items
	var err error
	if s.Obstacle, err = v.obstacle(ctx, s.Nodes); err != nil {
		return nil, err
	}
	s.Refusals, err = v.rehearse(ctx, s)
	return s, err
}

// unchanged fails with a conflict if the claim was changed while the rest of the state was read. Another command may cancel or finish the same move meanwhile.
// Its writes are safe in their order, so no decision may rely on a state that has a later one of them and lacks an earlier one.
func (v *volumeMove) unchanged(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	if claim.ResourceVersion == "" { // there was none
		return nil
	}
	now := &corev1.PersistentVolumeClaim{}
	if err := v.Get(ctx, client.ObjectKeyFromObject(claim), now); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading PersistentVolumeClaim %s in namespace %s: %w", claim.Name, claim.Namespace, err)
	}
	if now.ResourceVersion != claim.ResourceVersion {
		return apierrors.NewConflict(corev1.Resource("persistentvolumeclaims"), claim.Name, errors.New("it was changed while the move was read"))
	}
	return nil
}

// rehearse creates the objects of the move in a dry run, once. It returns the creations that the API server refuses.
func (v *volumeMove) rehearse(ctx context.Context, s *move.State) ([]move.Refusal, error) {
	if v.rehearsed {
		return v.refusals, nil
	}
	var dry client.Writer = client.NewDryRunClient(v.WithWatch)
	if v.IsDryRun() {
		dry = v.Plan.Client // it does not print these objects
	}
	v.refusals = nil
	for _, part := range s.Rehearsed() {
		object, ok := part.(client.Object)
		if !ok {
			return nil, fmt.Errorf("%T is not an object", part)
		}
		switch err := dry.Create(ctx, object); {
		case err == nil, apierrors.IsAlreadyExists(err), strings.Contains(err.Error(), "does not support dry run"): // the last one is about a webhook
		case session.Transient(err):
			return nil, fmt.Errorf("checking the creation of %s: %w", v.Name(object), err)
		default:
			v.refusals = append(v.refusals, move.Refusal{Object: v.Name(object), Namespace: object.GetNamespace(), Reason: err.Error()})
		}
	}
	v.rehearsed = true
	return v.refusals, nil
}

// readFirst reads the volumes of claims of the name and those that are Available, all nodes, all classes, and what drivers report.
func (v *volumeMove) readFirst(ctx context.Context, s *move.State) error {
	var volumes corev1.PersistentVolumeList
	var nodes corev1.NodeList
	var classes storagev1.StorageClassList
	lists := listing{{&volumes, nil}, {&nodes, nil}, {&classes, nil}}
	if err := lists.read(ctx, v); err != nil {
		return err
	}
	for i := range volumes.Items {
		if ofClaim(&volumes.Items[i], s) {
			s.Volumes = append(s.Volumes, volumes.Items[i])
		} else if volumes.Items[i].Status.Phase == corev1.VolumeAvailable {
			s.Available = append(s.Available, volumes.Items[i])
		}
	}
	var capacities storagev1.CSIStorageCapacityList // they are in the namespaces of drivers, which the user may not be allowed to read
	if err := v.List(ctx, &capacities); err != nil && !apierrors.IsForbidden(err) && !kube.Absent(err) {
		return fmt.Errorf("listing CSIStorageCapacities: %w", err)
	}
	s.Nodes, s.Classes, s.Capacities = nodes.Items, classes.Items, capacities.Items
	return nil
}

// ofClaim reports whether a volume of Liqo was created, or is reserved, for a claim of the name.
func ofClaim(volume *corev1.PersistentVolume, s *move.State) bool {
	key := client.ObjectKey{Namespace: s.Namespace, Name: s.Name}
	return storage.VolumeUID(volume) != "" && (storage.ReservedFor(volume) == key || storage.DataOf(volume) == key)
}

// readAgain reads only the objects that may have changed since the previous read: the volumes that the previous read found, their copies, the
// volume of the claim, the target node, and the nodes of the providers that have the volumes. It does not list all volumes and nodes, because a
// large cluster has many of them and a move may take hours.
func (v *volumeMove) readAgain(ctx context.Context, s *move.State) error {
	var names []string
	for i := range v.first.Volumes {
		names = append(names, v.first.Volumes[i].Name)
	}
	if s.Claim != nil {
		names = append(names, storage.VolumeName(s.Claim.UID))
	}
	for names = cmdline.Unique(names); len(names) > 0; names = names[1:] {
		volume := &corev1.PersistentVolume{}
		switch err := v.Get(ctx, client.ObjectKey{Name: names[0]}, volume); {
		case apierrors.IsNotFound(err):
		case err != nil:
			return fmt.Errorf("reading PersistentVolume %s: %w", names[0], err)
		case ofClaim(volume, s):
			s.Volumes = append(s.Volumes, *volume)
			if further := move.CopyOf(volume); further != "" && !slices.Contains(names, further) && !s.Has(further) {
				names = append(names, further)
			}
		}
	}
	s.Classes, s.Available, s.Capacities = v.first.Classes, v.first.Available, v.first.Capacities
	return v.readNodes(ctx, s)
}

// readNodes reads the target node, the nodes of the providers of the volumes, and the nodes of this cluster that the move needs.
func (v *volumeMove) readNodes(ctx context.Context, s *move.State) error {
	fresh, target := map[string]bool{s.Node: true}, &corev1.Node{}
	switch err := v.Get(ctx, client.ObjectKey{Name: s.Node}, target); {
	case err == nil:
		s.Nodes = append(s.Nodes, *target)
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("reading Node %s: %w", s.Node, err)
	}
	var providers []string
	for i := range s.Volumes {
		target, err := move.TargetOf(&s.Volumes[i])
		if err != nil {
			target = "" // move.Next reports the broken record
		}
		providers = append(providers, storage.ClusterOf(&s.Volumes[i]), target)
	}
	for _, provider := range cmdline.Unique(providers) {
		if provider == "" {
			continue
		}
		var nodes corev1.NodeList
		if err := v.List(ctx, &nodes, client.MatchingLabels{api.LabelRemoteClusterID: provider}); err != nil {
			return fmt.Errorf("listing the nodes of cluster %s: %w", provider, err)
		}
		for _, node := range nodes.Items {
			if !fresh[node.Name] {
				fresh[node.Name] = true
				s.Nodes = append(s.Nodes, node)
			}
		}
	}
	return v.readNodesHere(ctx, s, fresh)
}

// readNodesHere reads again the nodes of this cluster that were not Ready, and those with the data until one of them is Ready: a node may fail after the first read,
// and one Ready node suffices. A node that is gone counts as not Ready, because it may return. known are the nodes that were read.
func (v *volumeMove) readNodesHere(ctx context.Context, s *move.State, known map[string]bool) error {
	found := false
	for _, node := range v.first.Nodes {
		if known[node.Name] || storage.ProviderOf(&node) != "" {
			continue
		}
		if move.Away(&node) || !found && s.HasData(&node) {
			now := &corev1.Node{}
			switch err := v.Get(ctx, client.ObjectKey{Name: node.Name}, now); {
			case apierrors.IsNotFound(err):
				node.Status = corev1.NodeStatus{}
			case err != nil:
				return fmt.Errorf("reading Node %s: %w", node.Name, err)
			default:
				node = *now
			}
			found = found || s.HasData(&node) && !move.Away(&node)
		}
		s.Nodes = append(s.Nodes, node)
	}
	return nil
}

// readOwners reads the objects that may own or scale the pods of the claim.
func (v *volumeMove) readOwners(ctx context.Context, s *move.State) error {
	var deployments appsv1.DeploymentList
	var sets appsv1.StatefulSetList
	var replicaSets appsv1.ReplicaSetList
	var autoscalers autoscalingv2.HorizontalPodAutoscalerList
	here := []client.ListOption{client.InNamespace(s.Namespace)}
	if err := (listing{{&deployments, here}, {&sets, here}, {&replicaSets, here}, {&autoscalers, here}}).read(ctx, v); err != nil {
		return fmt.Errorf("reading namespace %s: %w", s.Namespace, err)
	}
	s.Deployments, s.StatefulSets, s.ReplicaSets, s.Autoscalers = deployments.Items, sets.Items, replicaSets.Items, autoscalers.Items
	return nil
}

// listing is a list of queries: each reads the objects of one kind with its options.
type listing []struct {
	list    client.ObjectList
	options []client.ListOption
}

// read reads all lists in parallel, because applications wait during a live move.
func (l listing) read(ctx context.Context, from client.Reader) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, read := range l {
		group.Go(func() error {
			if err := from.List(ctx, read.list, read.options...); err != nil {
				return fmt.Errorf("listing %s: %w", kube.KindsOf(read.list), err)
			}
			return nil
		})
	}
	return group.Wait()
}

// ofMoves selects the objects of moves in a namespace.
func ofMoves(namespace string) []client.ListOption {
	return []client.ListOption{client.InNamespace(namespace), client.HasLabels{move.LabelMove}}
}

// readParts reads the objects of moves.
func (v *volumeMove) readParts(ctx context.Context, s *move.State) error {
	for _, namespace := range cmdline.Unique([]string{s.Namespace, s.StorageNamespace}) {
		var secrets corev1.SecretList
		var services corev1.ServiceList
		var claims corev1.PersistentVolumeClaimList
		ours := ofMoves(namespace)
		if err := (listing{{&secrets, ours}, {&services, ours}, {&claims, ours}}).read(ctx, v); err != nil {
			return fmt.Errorf("reading namespace %s: %w", namespace, err)
		}
		s.Secrets, s.Services, s.Claims = append(s.Secrets, secrets.Items...), append(s.Services, services.Items...), append(s.Claims, claims.Items...)
	}
	return nil
}

// obstacle returns the reason why pods of the namespace can't run on the target node, with the cure; empty if they can.
func (v *volumeMove) obstacle(ctx context.Context, nodes []corev1.Node) (string, error) {
	namespace, provider, offers := v.request.Namespace, "", false
	for i := range nodes {
		if nodes[i].Name == v.request.Node {
			provider, offers = storage.ProviderOf(&nodes[i]), nodes[i].Labels[offloadingv1beta1.LabelStorageAvailable] == api.True
		}
	}
	strategy := offloadingv1beta1.PodsLocal
	offloading := &offloadingv1beta1.NamespaceOffloading{}
	key := client.ObjectKey{Namespace: namespace, Name: offloadingv1beta1.NamespaceOffloadingName}
	switch err := v.Get(ctx, key, offloading); {
	case err == nil:
		strategy = offloading.Spec.PodOffloadingStrategy
	case !kube.Absent(err):
		return "", fmt.Errorf("reading NamespaceOffloading %s: %w", key, err)
	}
	if provider == "" {
		if strategy == offloadingv1beta1.PodsRemote {
			return fmt.Sprintf("namespace %s offloads all pods, so none could use a volume here: change that with liqoctl offload namespace %s "+
				"--pod-offloading-strategy %s", namespace, namespace, offloadingv1beta1.PodsLocalAndRemote), nil
		}
		return "", nil
	}
	var maps offloadingv1beta1.NamespaceMapList
	if err := v.List(ctx, &maps); err != nil && !kube.Absent(err) {
		return "", fmt.Errorf("listing NamespaceMaps: %w", err)
	}
	switch {
	case strategy == offloadingv1beta1.PodsLocal || !offload.HasRemoteNamespace(maps.Items, provider, namespace):
		return fmt.Sprintf("no pod of namespace %s is offloaded to cluster %s: offload it with liqoctl offload namespace %s",
			namespace, provider, namespace), nil
	case !offers:
		return fmt.Sprintf("cluster %s offers no storage class: its administrator has to set a default StorageClass there, or chart value "+
			"storage.realStorageClassName", provider), nil
	}
	return "", nil
}
