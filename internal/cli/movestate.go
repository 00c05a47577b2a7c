package cli

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
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
	var volumes corev1.PersistentVolumeList
	var nodes corev1.NodeList
	var classes storagev1.StorageClassList
	var pods, movers corev1.PodList
	for _, read := range []struct {
		list    client.ObjectList
		options []client.ListOption
	}{
		{&volumes, []client.ListOption{client.MatchingLabels{storage.LabelVirtual: api.True}}}, {&nodes, nil}, {&classes, nil},
		{&pods, []client.ListOption{client.InNamespace(s.Namespace)}}, {&movers, ofMoves(s.StorageNamespace)},
	} {
		if err := v.List(ctx, read.list, read.options...); err != nil {
			return nil, fmt.Errorf("listing %s: %w", kube.KindsOf(read.list), err)
		}
	}
	underway := false
	for i := range volumes.Items {
		volume := &volumes.Items[i]
		if ref := volume.Spec.ClaimRef; ref != nil && ref.Namespace == s.Namespace && ref.Name == s.Name {
			s.Volumes = append(s.Volumes, *volume)
			underway = underway || volume.Annotations[storage.AnnotationMove] != ""
		}
	}
	s.Nodes, s.Classes, s.Pods = nodes.Items, classes.Items, append(pods.Items, movers.Items...)
	if !underway { // what is under way goes on without regard to obstacles, and has objects of its own
		var err error
		s.Obstacle, err = v.obstacle(ctx, s.Nodes)
		return s, err
	}
	return s, v.readParts(ctx, s)
}

// ofMoves selects the objects of moves in a namespace.
func ofMoves(namespace string) []client.ListOption {
	return []client.ListOption{client.InNamespace(namespace), client.HasLabels{move.LabelMove}}
}

// readParts reads the objects of moves.
func (v *volumeMove) readParts(ctx context.Context, s *move.State) error {
	for _, namespace := range unique([]string{s.Namespace, s.StorageNamespace}) {
		var secrets corev1.SecretList
		var services corev1.ServiceList
		var claims corev1.PersistentVolumeClaimList
		for _, list := range []client.ObjectList{&secrets, &services, &claims} {
			if err := v.List(ctx, list, ofMoves(namespace)...); err != nil {
				return fmt.Errorf("listing %s in namespace %s: %w", kube.KindsOf(list), namespace, err)
			}
		}
		s.Secrets, s.Services, s.Claims = append(s.Secrets, secrets.Items...), append(s.Services, services.Items...), append(s.Claims, claims.Items...)
	}
	return nil
}

// obstacle returns why pods of the namespace can't run on the target node, with the cure. It is empty if they can.
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
	case !absent(err):
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
	if err := v.List(ctx, &maps); err != nil && !absent(err) {
		return "", fmt.Errorf("listing NamespaceMaps: %w", err)
	}
	switch {
	case strategy == offloadingv1beta1.PodsLocal || !offload.HasRemoteNamespace(maps.Items, provider, namespace):
		return fmt.Sprintf("no pod of namespace %s is offloaded to cluster %s: offload it with liqoctl offload namespace %s", namespace, provider, namespace), nil
	case !offers:
		return fmt.Sprintf("cluster %s offers no storage class: its administrator has to set a default StorageClass there, or chart value "+
			"storage.realStorageClassName", provider), nil
	}
	return "", nil
}
