package controllers

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kubelet"
	"liqo.io/liqo/internal/reasons"
)

// FinalizerVirtualNode holds a VirtualNode until its pods, its virtual kubelet and its Node are gone. It also holds the ResourceSlice from which the
// VirtualNode was created until the VirtualNode is gone.
const FinalizerVirtualNode = "virtualnode-controller.liqo.io/finalizer"

// +kubebuilder:rbac:groups=offloading.liqo.io,resources=virtualnodes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=virtualnodes/status,verbs=patch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=virtualnodes/finalizers,verbs=update
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=vkoptionstemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespacemaps,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=core.liqo.io,resources=foreignclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterrolebindings,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,verbs=bind,resourceNames=liqo-virtual-kubelet-local
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch

// virtualNodes runs the virtual kubelet of every VirtualNode and, on deletion, drains the pods before it removes the virtual kubelet.
type virtualNodes struct {
	client.Client
	Options
	// live reads without the cache, which holds only virtual Nodes.
	live   client.Reader
	drains *drains
	events events.EventRecorder
}

func setupVirtualNode(mgr ctrl.Manager, opts Options) error {
	direct, err := client.NewWithWatch(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("creating a client that watches: %w", err)
	}
	r := &virtualNodes{Client: mgr.GetClient(), Options: opts, live: mgr.GetAPIReader(), drains: newDrains(direct), events: kube.EventRecorder(mgr, "virtualnode")}
	ofCluster := func(id func(client.Object) string) handler.EventHandler {
		return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
			return r.nodes(ctx, func(n *offloadingv1beta1.VirtualNode) bool { return n.Spec.ClusterID == id(obj) })
		})
	}
	controller := kube.NewController(mgr, "virtualnode").
		For(&offloadingv1beta1.VirtualNode{}, builder.WithPredicates(changedByUser)).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.ServiceAccount{}).
		Watches(&offloadingv1beta1.VirtualNode{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, gone client.Object) []reconcile.Request {
			return r.nodes(ctx, func(n *offloadingv1beta1.VirtualNode) bool { return n.Name == gone.GetName() })
		}), builder.WithPredicates(goneOnly)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
			return r.nodes(ctx, func(n *offloadingv1beta1.VirtualNode) bool { return n.Name == obj.GetName() })
		}), builder.WithPredicates(nodeChanged)).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
			return r.nodes(ctx, func(n *offloadingv1beta1.VirtualNode) bool {
				return n.Namespace == obj.GetNamespace() && n.Spec.KubeconfigSecretRef != nil && n.Spec.KubeconfigSecretRef.Name == obj.GetName()
			})
		}), builder.WithPredicates(identityChanged)).
		Watches(&offloadingv1beta1.VkOptionsTemplate{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
			return r.nodes(ctx, func(*offloadingv1beta1.VirtualNode) bool { return true })
		}), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&offloadingv1beta1.NamespaceMap{}, ofCluster(client.Object.GetName), builder.WithPredicates(goneOnly)).
		Watches(&corev1beta1.ForeignCluster{}, ofCluster(func(o client.Object) string {
			if fc, ok := o.(*corev1beta1.ForeignCluster); ok {
				return fc.Spec.ClusterID
			}
			return ""
		}), builder.WithPredicates(reachabilityChanged)).
		WatchesRawSource(source.Channel(r.drains.done, &handler.EnqueueRequestForObject{}))
	return r.watchVolumes(controller, func(ctx context.Context, volume *offload.Volume) []reconcile.Request {
		return r.nodes(ctx, func(n *offloadingv1beta1.VirtualNode) bool {
			return volume.Cluster == "" || n.Spec.ClusterID == volume.Cluster
		})
	}).Complete(&kube.Reconciler[*offloadingv1beta1.VirtualNode]{
		Name: "virtualnode", Client: mgr.GetClient(), Finalizer: FinalizerVirtualNode, Sync: r.sync, Finalize: r.finalize,
	})
}

func (r *virtualNodes) sync(ctx context.Context, node *offloadingv1beta1.VirtualNode) error {
	if err := r.label(ctx, node); err != nil {
		return err
	}
	options, err := r.options(ctx, node)
	if err != nil {
		return err
	}
	first, err := namesake(ctx, r.Client, node)
	if err != nil {
		return err
	}
	if first != nil {
		return r.refuse(node, reasons.NodeNameTaken, fmt.Sprintf("VirtualNode %s/%s has the same name, and there can be one Node of that name: "+
			"create this VirtualNode under another name", first.Namespace, first.Name))
	}
	if node.Spec.ClusterID == "" || node.Spec.KubeconfigSecretRef == nil || node.Spec.KubeconfigSecretRef.Name == "" {
		return r.refuse(node, reasons.Invalid, "spec.clusterID and spec.kubeconfigSecretRef.name must be set")
	}
	creates := kubelet.CreatesNode(node, &options.Spec)
	host, err := r.host(ctx, node)
	if err != nil {
		return err
	}
	if creates && host != nil && host.Labels[api.LabelType] != api.TypeVirtualNode {
		return r.refuse(node, reasons.NodeNameTaken, "Node "+node.Name+" exists and is not a virtual node: create the VirtualNode under another name")
	}
	available, err := r.kubelet(ctx, node, options)
	if err != nil {
		return err
	}
	if available {
		r.condition(node, offloadingv1beta1.VirtualNodeVirtualKubelet, offloadingv1beta1.VirtualNodeRunning, reasons.VkRunning, "")
	} else {
		r.condition(node, offloadingv1beta1.VirtualNodeVirtualKubelet, offloadingv1beta1.VirtualNodeCreating, reasons.VkCreating,
			"waiting for Deployment "+kubelet.Name(node.Name))
	}
	switch {
	case !creates:
		r.condition(node, offloadingv1beta1.VirtualNodeNode, offloadingv1beta1.VirtualNodeNone, reasons.NodeNotWanted, "spec.createNode is false")
	case host != nil:
		r.condition(node, offloadingv1beta1.VirtualNodeNode, offloadingv1beta1.VirtualNodeRunning, reasons.NodeCreated, "")
	default:
		r.condition(node, offloadingv1beta1.VirtualNodeNode, offloadingv1beta1.VirtualNodeCreating, reasons.NodeCreating, "waiting for the virtual kubelet")
	}
	return r.metricsService(ctx, node, options)
}

func (r *virtualNodes) condition(node *offloadingv1beta1.VirtualNode, t offloadingv1beta1.VirtualNodeConditionType,
	s offloadingv1beta1.VirtualNodeConditionStatus, reason, message string) {
	offload.SetCondition(node, t, s, reason, message, r.now())
}

// namesake returns the earlier VirtualNode with the same name in another namespace, nil if there is none.
func namesake(ctx context.Context, c client.Client, node *offloadingv1beta1.VirtualNode) (*offloadingv1beta1.VirtualNode, error) {
	var list offloadingv1beta1.VirtualNodeList
	if err := c.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing VirtualNodes: %w", err)
	}
	return offload.Namesake(list.Items, node), nil
}

// refuse records in the conditions why the VirtualNode gets no virtual kubelet and no Node.
func (r *virtualNodes) refuse(node *offloadingv1beta1.VirtualNode, reason, message string) error {
	r.condition(node, offloadingv1beta1.VirtualNodeVirtualKubelet, offloadingv1beta1.VirtualNodeNone, reason, message)
	r.condition(node, offloadingv1beta1.VirtualNodeNode, offloadingv1beta1.VirtualNodeNone, reason, message)
	if reason == reasons.NodeNameTaken {
		return kube.WaitFor(time.Minute, reason, "%s", message) // requeue, since foreign nodes are not watched
	}
	return kube.Invalid(reason, "%s", message)
}

// label sets the label with the cluster ID, by which the VirtualNode can be listed.
func (r *virtualNodes) label(ctx context.Context, node *offloadingv1beta1.VirtualNode) error {
	if node.Spec.ClusterID == "" || node.Labels[api.LabelRemoteClusterID] == node.Spec.ClusterID {
		return nil
	}
	before := &metav1.PartialObjectMetadata{ObjectMeta: *node.ObjectMeta.DeepCopy()}
	before.SetGroupVersionKind(offloadingv1beta1.GroupVersion.WithKind("VirtualNode"))
	after := before.DeepCopy()
	metav1.SetMetaDataLabel(&after.ObjectMeta, api.LabelRemoteClusterID, node.Spec.ClusterID)
	if err := r.Patch(ctx, after, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("labelling VirtualNode %s/%s: %w", node.Namespace, node.Name, err)
	}
	return nil
}

func (r *virtualNodes) options(ctx context.Context, node *offloadingv1beta1.VirtualNode) (*offloadingv1beta1.VkOptionsTemplate, error) {
	key := client.ObjectKey{Namespace: r.LiqoNamespace, Name: offloadingv1beta1.VkOptionsTemplateDefault}
	if ref := node.Spec.VkOptionsTemplateRef; ref != nil && ref.Name != "" {
		key.Name = ref.Name
		if ref.Namespace != "" {
			key.Namespace = ref.Namespace
		}
	}
	options := &offloadingv1beta1.VkOptionsTemplate{}
	found, err := exists(ctx, r.Client, options, key)
	if err == nil && !found {
		err = r.missing(node, key)
	}
	return options, err
}

func (r *virtualNodes) missing(node *offloadingv1beta1.VirtualNode, key client.ObjectKey) error {
	message := fmt.Sprintf("waiting for VkOptionsTemplate %s", key)
	r.condition(node, offloadingv1beta1.VirtualNodeVirtualKubelet, offloadingv1beta1.VirtualNodeNone, reasons.VkOptionsTemplateNotFound, message)
	return kube.Wait(reasons.VkOptionsTemplateNotFound, "%s", message)
}

// host returns the Node with the name of the VirtualNode, nil if there is none.
func (r *virtualNodes) host(ctx context.Context, node *offloadingv1beta1.VirtualNode) (*corev1.Node, error) {
	host := &corev1.Node{}
	found, err := exists(ctx, r.Client, host, client.ObjectKey{Name: node.Name})
	if err == nil && !found { // the cache holds only virtual Nodes
		found, err = exists(ctx, r.live, host, client.ObjectKey{Name: node.Name})
	}
	if err != nil || !found {
		return nil, err
	}
	return host, nil
}

// kubelet creates or updates the virtual kubelet's Deployment and the objects that it needs. It reports whether a replica is available.
func (r *virtualNodes) kubelet(ctx context.Context, node *offloadingv1beta1.VirtualNode, options *offloadingv1beta1.VkOptionsTemplate) (bool, error) {
	labels := kubelet.Labels(node, r.GlobalLabels)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: node.Namespace, Name: node.Name}}
	if err := r.ensure(ctx, account, func() error {
		account.Labels, account.Annotations = api.Layered(account.Labels, labels), api.Layered(account.Annotations, r.GlobalAnnotations)
		return controllerutil.SetControllerReference(node, account, r.Scheme())
	}); err != nil {
		return false, err
	}
	rights := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: kubelet.Binding(node.Name)}}
	if err := r.ensure(ctx, rights, func() error {
		rights.Labels, rights.Annotations = api.Layered(rights.Labels, labels), api.Layered(rights.Annotations, r.GlobalAnnotations)
		rights.RoleRef, rights.Subjects = kubelet.Rights(node)
		return nil
	}); err != nil {
		return false, err
	}
	// The cache holds only labeled Secrets and may lag behind, so read a missing Secret from the API server. Without the Secret, the Deployment would
	// be wrong, and its correction later would restart the virtual kubelet.
	identity, key := &corev1.Secret{}, client.ObjectKey{Namespace: node.Namespace, Name: node.Spec.KubeconfigSecretRef.Name}
	err := r.Get(ctx, key, identity)
	if apierrors.IsNotFound(err) {
		err = r.live.Get(ctx, key, identity)
	}
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading Secret %s: %w", key, err)
	}
	want := kubelet.Deployment(node, kubelet.Facts{
		ClusterID: r.ClusterID, Options: &options.Spec, Labels: r.GlobalLabels, Annotations: r.GlobalAnnotations,
		Identity: identity.Data[authv1beta1.KubeconfigSecretKey],
	})
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: want.Namespace, Name: want.Name}}
	missing, known := false, ""
	err = r.ensure(ctx, deployment, func() error {
		missing, known = deployment.UID == "", deployment.Annotations[kubelet.AnnotationIdentityHash]
		kubelet.UpdateDeployment(deployment, want)
		return controllerutil.SetControllerReference(node, deployment, r.Scheme())
	})
	if err != nil {
		return false, err
	}
	if missing {
		r.events.Eventf(node, deployment, corev1.EventTypeNormal, reasons.VkCreated, "Create", "created Deployment %s of the virtual kubelet", deployment.Name)
	} else if hash := want.Annotations[kubelet.AnnotationIdentityHash]; known != hash {
		if err := r.refreshIdentity(ctx, node, hash); err != nil {
			return false, err
		}
	}
	return deployment.Status.AvailableReplicas > 0 && deployment.Status.ObservedGeneration == deployment.Generation, nil
}

// metricsService creates, updates or deletes the metrics Service of a virtual kubelet.
func (r *virtualNodes) metricsService(ctx context.Context, node *offloadingv1beta1.VirtualNode, options *offloadingv1beta1.VkOptionsTemplate) error {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: node.Namespace, Name: kubelet.ServiceName(node.Name)}}
	want := kubelet.Service(node, kubelet.Facts{Options: &options.Spec, Labels: r.GlobalLabels, Annotations: r.GlobalAnnotations})
	if want != nil {
		return r.ensure(ctx, service, func() error {
			kubelet.UpdateService(service, want)
			return controllerutil.SetControllerReference(node, service, r.Scheme())
		})
	}
	found, err := exists(ctx, r.Client, service, client.ObjectKeyFromObject(service))
	if err != nil || !found || !metav1.IsControlledBy(service, node) {
		return err
	}
	return kube.Delete(ctx, r.Client, service)
}

// refreshIdentity annotates the running pods of a virtual kubelet, so that the node's kubelet updates their mounted identity now, not at its next
// sync.
func (r *virtualNodes) refreshIdentity(ctx context.Context, node *offloadingv1beta1.VirtualNode, hash string) error {
	pods := &corev1.PodList{}
	if err := r.live.List(ctx, pods, client.InNamespace(node.Namespace), client.MatchingLabels(kubelet.Selector(node))); err != nil {
		return fmt.Errorf("listing the pods of virtual kubelet %s/%s: %w", node.Namespace, node.Name, err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		before := pod.DeepCopy()
		pod.Annotations = api.Layered(pod.Annotations, map[string]string{kubelet.AnnotationIdentityHash: hash})
		if err := r.Patch(ctx, pod, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("marking pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	return nil
}

// ensure is kube.Ensure, but it waits if the object exists and the cache does not have it yet.
func (r *virtualNodes) ensure(ctx context.Context, obj client.Object, mutate func() error) error {
	_, err := kube.Ensure(ctx, r.Client, obj, mutate)
	if apierrors.IsAlreadyExists(err) {
		return kube.WaitFor(staleDelay, reasons.WaitingForCache, "waiting for the cache to have %T %s", obj, client.ObjectKeyFromObject(obj))
	}
	return err
}
