package watch

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/dashboard"
)

// store holds the objects of one cluster. The watcher guards its content.
type store struct {
	// cluster has everything but the objects.
	cluster dashboard.Cluster
	kinds   []kind
}

func newStore(c *Cluster) *store {
	return &store{
		cluster: dashboard.Cluster{ID: c.ID, Version: c.Version, Server: c.Server, Namespace: c.Namespace},
		kinds: []kind{
			collect(func(c *dashboard.Cluster) *[]corev1beta1.ForeignCluster { return &c.Peers }),
			collect(func(c *dashboard.Cluster) *[]networkingv1beta1.Connection { return &c.Connections }),
			collect(func(c *dashboard.Cluster) *[]offloadingv1beta1.VirtualNode { return &c.VirtualNodes }),
			collect(func(c *dashboard.Cluster) *[]offloadingv1beta1.NamespaceOffloading { return &c.Offloadings }),
			collect(func(c *dashboard.Cluster) *[]offloadingv1beta1.NamespaceMap { return &c.Maps }),
			collect(func(c *dashboard.Cluster) *[]corev1.Node { return &c.Nodes }),
			collect(func(c *dashboard.Cluster) *[]corev1.Pod { return &c.Pods }),
			collect(func(c *dashboard.Cluster) *[]corev1.Event { return &c.Events }),
			collect(func(c *dashboard.Cluster) *[]corev1.PersistentVolumeClaim { return &c.Claims }),
			collect(func(c *dashboard.Cluster) *[]corev1.PersistentVolume { return &c.Volumes }),
			collect(func(c *dashboard.Cluster) *[]storagev1.StorageClass { return &c.Classes }),
		},
	}
}

// read returns the cluster with its objects.
func (s *store) read() dashboard.Cluster {
	out := s.cluster
	for _, kind := range s.kinds {
		kind.fill(&out)
	}
	return out
}

// kind holds the objects of one kind.
type kind interface {
	// object returns an empty object of the kind.
	object() client.Object
	put(client.Object)
	remove(types.NamespacedName)
	// fill sets the list of this kind in the cluster.
	fill(*dashboard.Cluster)
}

type collection[T any, P interface {
	*T
	client.Object
}] struct {
	objects map[types.NamespacedName]P
	list    func(*dashboard.Cluster) *[]T
}

func collect[T any, P interface {
	*T
	client.Object
}](list func(*dashboard.Cluster) *[]T) kind {
	return &collection[T, P]{objects: map[types.NamespacedName]P{}, list: list}
}

func (c *collection[T, P]) object() client.Object { return P(new(T)) }

func (c *collection[T, P]) put(object client.Object) {
	if of, is := object.(P); is {
		c.objects[client.ObjectKeyFromObject(object)] = of
	}
}

func (c *collection[T, P]) remove(key types.NamespacedName) { delete(c.objects, key) }

func (c *collection[T, P]) fill(cluster *dashboard.Cluster) {
	all := make([]T, 0, len(c.objects))
	for _, object := range c.objects {
		all = append(all, *object)
	}
	*c.list(cluster) = all
}

// significant reports whether a change may change the diagnosis. A new measurement of a tunnel and an event do not.
func significant(before, after client.Object) bool {
	if _, event := after.(*corev1.Event); event {
		return false
	}
	if before == nil {
		return true
	}
	plain := func(object client.Object) client.Object {
		out, is := object.DeepCopyObject().(client.Object)
		if !is {
			return object
		}
		out.SetResourceVersion("")
		out.SetManagedFields(nil)
		if connection, is := out.(*networkingv1beta1.Connection); is {
			connection.Status.Latency = nil
		}
		return out
	}
	return !equality.Semantic.DeepEqual(plain(before), plain(after))
}
