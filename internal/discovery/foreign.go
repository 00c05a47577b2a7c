package discovery

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
)

// maxDiscovered is the maximum number of ForeignClusters that discovery keeps for one discovery type.
const maxDiscovered = 64

// Changes are the changes that make the ForeignClusters agree with the discovered clusters.
type Changes struct {
	Create, Update, Delete []corev1beta1.ForeignCluster
}

// Compare returns the changes to ForeignClusters after a search for the clusters of one discovery type (LabelDiscoveryType). own is the ID of this
// cluster.
//
// A ForeignCluster that discovery did not create is never changed. If discovery created it, its address is updated to the announced one until it
// requests a peering: from then on, the user who requested it owns the address. It is deleted when the cluster is no longer announced, unless it is
// in use or requests a peering.
func Compare(found []Cluster, existing []corev1beta1.ForeignCluster, way, own string) Changes {
	var out Changes
	kept := 0
	for i := range existing {
		if existing[i].Labels[corev1beta1.LabelDiscoveryType] == way {
			kept++
		}
	}
	for _, cluster := range found {
		at := slices.IndexFunc(existing, func(fc corev1beta1.ForeignCluster) bool { return fc.Name == cluster.ID })
		switch {
		case cluster.ID == own, len(cluster.URLs) == 0:
		case at < 0 && kept < maxDiscovered:
			kept++
			out.Create = append(out.Create, newForeignCluster(&cluster, way))
		case at >= 0 && existing[at].Labels[corev1beta1.LabelDiscoveryType] == way && existing[at].DeletionTimestamp == nil && !asks(&existing[at]) &&
			!slices.Contains(cluster.URLs, existing[at].Spec.ForeignAuthURL):
			changed := existing[at].DeepCopy()
			changed.Spec.ForeignAuthURL, changed.Spec.TTL = cluster.URLs[0], seconds(cluster.TTL)
			out.Update = append(out.Update, *changed)
		}
	}
	for i := range existing {
		fc := &existing[i]
		announced := slices.ContainsFunc(found, func(c Cluster) bool { return c.ID == fc.Name })
		if fc.Labels[corev1beta1.LabelDiscoveryType] == way && fc.DeletionTimestamp == nil && !announced && !inUse(fc) {
			out.Delete = append(out.Delete, *fc)
		}
	}
	return out
}

func newForeignCluster(cluster *Cluster, way string) corev1beta1.ForeignCluster {
	return corev1beta1.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: cluster.ID, Labels: map[string]string{
			corev1beta1.LabelDiscoveryType: way, api.LabelRemoteClusterID: cluster.ID,
		}},
		Spec: corev1beta1.ForeignClusterSpec{
			ClusterID: cluster.ID, OutgoingPeeringEnabled: corev1beta1.PeeringAuto, ForeignAuthURL: cluster.URLs[0], TTL: seconds(cluster.TTL),
		},
	}
}

func seconds(d time.Duration) int32 { return int32(d / time.Second) } //nolint:gosec // at most maxTTL

// inUse reports whether a ForeignCluster has a peering or requests one.
func inUse(fc *corev1beta1.ForeignCluster) bool {
	modules := &fc.Status.Modules
	return len(fc.Finalizers) > 0 || modules.Authentication.Enabled || modules.Networking.Enabled || modules.Offloading.Enabled || asks(fc)
}

// asks reports whether the spec of a ForeignCluster requests a peering, or its end.
func asks(fc *corev1beta1.ForeignCluster) bool {
	return fc.Spec.OutgoingPeeringEnabled == corev1beta1.PeeringYes || fc.Spec.OutgoingPeeringEnabled == corev1beta1.PeeringNo
}
