package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/discovery"
	"liqo.io/liqo/internal/discovery/query"
)

// sync updates the ForeignClusters to the clusters found for one discovery type (way). The regular pass (full) also deletes ForeignClusters, unless
// the search was incomplete, and logs problems. Between the regular passes, sync only writes new clusters and new addresses. So other hosts can cause
// at most one list of ForeignClusters per settle, one log of problems per refresh, and a limited number of writes (writesPerSecond).
func (a *Agent) sync(ctx context.Context, way string, found query.Found, full bool) {
	same := func(x, y discovery.Cluster) bool { return x.ID == y.ID && slices.Equal(x.URLs, y.URLs) }
	if !full && slices.EqualFunc(found.Clusters, a.found[way], same) {
		return
	}
	a.found[way] = found.Clusters
	// A new process has not received all announcements yet.
	remove := full && !found.Partial && time.Since(a.began) >= a.TTL
	err := a.apply(ctx, way, found.Clusters, remove)
	if !full {
		return // the regular pass tries again
	}
	slices.SortFunc(found.Problems, func(x, y error) int { return cmp.Compare(x.Error(), y.Error()) })
	a.logChange("reading the announcements of others ("+way+")", errors.Join(found.Problems...))
	a.logChange("writing ForeignClusters ("+way+")", err)
}

// apply updates the ForeignClusters to the discovered clusters, as far as the limit of writes allows. remove allows it to delete ForeignClusters.
func (a *Agent) apply(ctx context.Context, way string, found []discovery.Cluster, remove bool) error {
	list := &corev1beta1.ForeignClusterList{}
	if err := a.Client.List(ctx, list); err != nil {
		return fmt.Errorf("listing ForeignClusters: %w", err)
	}
	changes := discovery.Compare(found, list.Items, way, a.ClusterID)
	if !remove {
		changes.Delete = nil
	}
	var failed []error
	late := 0
	write := func(all []corev1beta1.ForeignCluster, one func(context.Context, string, *corev1beta1.ForeignCluster) error) {
		for i := range all {
			if !a.writes[way].Allow() {
				late++
			} else if err := one(ctx, way, &all[i]); err != nil {
				failed = append(failed, err)
			}
		}
	}
	write(changes.Create, a.create)
	write(changes.Update, a.update)
	write(changes.Delete, a.remove)
	if late > 0 {
		failed = append(failed, fmt.Errorf("%d changes of ForeignClusters are delayed: at most %d changes, and then %d per second, are written",
			late, writesAtOnce, writesPerSecond))
	}
	return errors.Join(failed...)
}

func (a *Agent) create(ctx context.Context, way string, fc *corev1beta1.ForeignCluster) error {
	err := a.Client.Create(ctx, fc)
	switch {
	case apierrors.IsAlreadyExists(err): // another client created it first
		return nil
	case err != nil:
		return fmt.Errorf("creating ForeignCluster %s: %w", fc.Name, err)
	}
	a.Log.Info("Cluster discovered", "clusterID", fc.Name, "discovery", way, "url", fc.Spec.ForeignAuthURL)
	return nil
}

// update fails if the ForeignCluster was changed since it was read.
func (a *Agent) update(ctx context.Context, way string, fc *corev1beta1.ForeignCluster) error {
	patch, err := addressPatch(fc)
	if err == nil {
		err = a.Client.Patch(ctx, fc.DeepCopy(), patch)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("changing ForeignCluster %s: %w", fc.Name, err)
	}
	a.Log.Info("Address of a discovered cluster changed", "clusterID", fc.Name, "discovery", way, "url", fc.Spec.ForeignAuthURL)
	return nil
}

// remove deletes the ForeignCluster only if it was not changed since it was read: a user may just have requested a peering in it.
func (a *Agent) remove(ctx context.Context, way string, fc *corev1beta1.ForeignCluster) error {
	err := a.Client.Delete(ctx, fc, client.Preconditions{UID: &fc.UID, ResourceVersion: &fc.ResourceVersion})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	case err != nil:
		return fmt.Errorf("deleting ForeignCluster %s: %w", fc.Name, err)
	}
	a.Log.Info("Discovered cluster is no longer announced", "clusterID", fc.Name, "discovery", way)
	return nil
}

// addressPatch returns the patch that gives a ForeignCluster its address. It fails if the ForeignCluster was changed meanwhile.
func addressPatch(fc *corev1beta1.ForeignCluster) (client.Patch, error) {
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": fc.ResourceVersion},
		"spec":     map[string]any{"foreignAuthUrl": fc.Spec.ForeignAuthURL, "ttl": fc.Spec.TTL},
	})
	if err != nil {
		return nil, fmt.Errorf("writing a patch: %w", err)
	}
	return client.RawPatch(types.MergePatchType, data), nil
}
