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

// sync applies what was found in one way of discovery. Between the regular passes (full), only new clusters and new addresses are written, if
// something changed. The regular pass also deletes, unless clusters may be missing, and logs problems. So whatever others announce, the
// ForeignClusters are listed once per settle at most, problems are logged once per refresh at most, and the writes are limited (writesPerSecond).
func (a *Agent) sync(ctx context.Context, way string, found query.Found, full bool) {
	same := func(x, y discovery.Cluster) bool { return x.ID == y.ID && slices.Equal(x.URLs, y.URLs) }
	if !full && slices.EqualFunc(found.Clusters, a.found[way], same) {
		return
	}
	a.found[way] = found.Clusters
	// A new process has not heard everybody yet.
	remove := full && !found.Partial && time.Since(a.began) >= a.TTL
	err := a.apply(ctx, way, found.Clusters, remove)
	if !full {
		return // the regular pass tries again
	}
	slices.SortFunc(found.Problems, func(x, y error) int { return cmp.Compare(x.Error(), y.Error()) })
	a.tell("reading the announcements of others ("+way+")", errors.Join(found.Problems...))
	a.tell("writing ForeignClusters ("+way+")", err)
}

// apply brings the ForeignClusters to what was found, as far as the limit of writes allows. remove is whether it deletes.
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
		failed = append(failed, fmt.Errorf("%d changes of ForeignClusters are put off: more than %d changes, and then %d per second, are not written",
			late, writesAtOnce, writesPerSecond))
	}
	return errors.Join(failed...)
}

func (a *Agent) create(ctx context.Context, way string, fc *corev1beta1.ForeignCluster) error {
	err := a.Client.Create(ctx, fc)
	switch {
	case apierrors.IsAlreadyExists(err): // somebody else was faster
		return nil
	case err != nil:
		return fmt.Errorf("creating ForeignCluster %s: %w", fc.Name, err)
	}
	a.Log.Info("Cluster discovered", "clusterID", fc.Name, "discovery", way, "url", fc.Spec.ForeignAuthURL)
	return nil
}

// update fails if somebody changed the ForeignCluster since it was read.
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

// remove deletes only the ForeignCluster as it was read: somebody may just have asked it for a peering.
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

// addressPatch returns the patch that gives a ForeignCluster its address. It fails if somebody changed the ForeignCluster meanwhile.
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
