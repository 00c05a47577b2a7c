package controllers

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload/kubelet"
)

func deploymentOf(node *offloadingv1beta1.VirtualNode) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: node.Namespace, Name: "vk-" + node.Name}}
}

// nodeOf is the Node that the virtual kubelet would make.
func nodeOf(node *offloadingv1beta1.VirtualNode) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: map[string]string{api.LabelType: api.TypeVirtualNode}}}
}

func podOn(namespace, name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
	}
}

// state waits for the conditions of a VirtualNode.
func (c *cluster) state(t *testing.T, node *offloadingv1beta1.VirtualNode, kubelet, host offloadingv1beta1.VirtualNodeConditionStatus) {
	t.Helper()
	eventually(t, c, node, fmt.Sprintf("VirtualKubelet %s, Node %s", kubelet, host), func(n *offloadingv1beta1.VirtualNode) error {
		for _, condition := range n.Status.Conditions {
			if want := map[offloadingv1beta1.VirtualNodeConditionType]offloadingv1beta1.VirtualNodeConditionStatus{"VirtualKubelet": kubelet, "Node": host}[condition.Type]; condition.Status != want {
				return fmt.Errorf("%+v", n.Status.Conditions)
			}
		}
		if len(n.Status.Conditions) != 2 {
			return fmt.Errorf("%+v", n.Status.Conditions)
		}
		return nil
	})
}

// up creates a VirtualNode and acts as its virtual kubelet until the Node is running.
func (c *cluster) up(t *testing.T, node *offloadingv1beta1.VirtualNode) {
	t.Helper()
	c.create(t, node)
	d := deploymentOf(node)
	eventually(t, c, d, "the Deployment", anything)
	report(t, c, d, func(d *appsv1.Deployment) {
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
	})
	c.create(t, nodeOf(node))
	c.state(t, node, offloadingv1beta1.VirtualNodeRunning, offloadingv1beta1.VirtualNodeRunning)
}

func testVirtualNode(t *testing.T, c *cluster) {
	const provider = "genoa"
	tenant := api.TenantNamespace(provider)
	c.namespace(t, tenant, nil)
	c.namespace(t, "genoa-apps", nil)
	node := virtualNode(tenant, "genoa", provider)
	c.create(t, node)
	c.state(t, node, offloadingv1beta1.VirtualNodeCreating, offloadingv1beta1.VirtualNodeCreating)
	if node.Labels[api.LabelRemoteClusterID] != provider {
		t.Errorf("labels %v", node.Labels)
	}
	m := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: provider}}
	eventually(t, c, m, "the NamespaceMap", anything)
	eventually(t, c, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "genoa"}}, "the ServiceAccount", anything)
	rights := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "liqo-node-genoa"}}
	eventually(t, c, rights, "the rights", func(b *rbacv1.ClusterRoleBinding) error {
		if b.RoleRef.Name != "liqo-virtual-kubelet-local" || b.Subjects[0].Namespace != tenant || b.Subjects[0].Name != "genoa" {
			return fmt.Errorf("%+v %+v", b.RoleRef, b.Subjects)
		}
		return nil
	})
	d := deploymentOf(node)
	eventually(t, c, d, "the Deployment", anything)
	report(t, c, d, func(d *appsv1.Deployment) {
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
	})
	c.state(t, node, offloadingv1beta1.VirtualNodeRunning, offloadingv1beta1.VirtualNodeCreating)
	host := nodeOf(node)
	c.create(t, host)
	c.state(t, node, offloadingv1beta1.VirtualNodeRunning, offloadingv1beta1.VirtualNodeRunning)
	generation := d.Generation
	options := &offloadingv1beta1.VkOptionsTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: liqoNamespace, Name: offloadingv1beta1.VkOptionsTemplateDefault}}
	change(t, c, options, func(o *offloadingv1beta1.VkOptionsTemplate) { o.Spec.ExtraArgs = []string{"--v=2"} })
	eventually(t, c, d, "the Deployment to follow its options", func(d *appsv1.Deployment) error {
		if d.Generation == generation {
			return errors.New("unchanged")
		}
		return nil
	})

	// A kubeconfig with another API server restarts the pods at once, without waiting for the kubelet to refresh the Secret.
	identity := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: node.Spec.KubeconfigSecretRef.Name, Labels: map[string]string{api.LabelRemoteClusterID: provider}},
		Data:       map[string][]byte{authv1beta1.KubeconfigSecretKey: []byte("direct")},
	}
	c.create(t, identity)
	generation = d.Generation
	for _, way := range []string{"direct", "in-band"} {
		change(t, c, identity, func(s *corev1.Secret) { s.Data[authv1beta1.KubeconfigSecretKey] = []byte(way) })
		eventually(t, c, d, "new pods with the way "+way, func(d *appsv1.Deployment) error {
			if d.Generation == generation {
				return errors.New("unchanged")
			}
			return nil
		})
		generation = d.Generation
	}

	// A renewed certificate does not replace the pods: the kubelet updates the mounted Secret of running pods.
	running := podOn(tenant, "vk-genoa-x", "")
	running.Labels = kubelet.Selector(node)
	c.create(t, running)
	renew := func(server, certificate string) {
		t.Helper()
		text := fmt.Sprintf("clusters: [{cluster: {server: '%s'}}]\nusers: [{user: {client-certificate-data: %s}}]", server, certificate)
		change(t, c, identity, func(s *corev1.Secret) { s.Data[authv1beta1.KubeconfigSecretKey] = []byte(text) })
	}
	follow := func(before string) string {
		t.Helper()
		eventually(t, c, running, "told of the identity", func(p *corev1.Pod) error {
			if p.Annotations[kubelet.AnnotationIdentityHash] == before {
				return errors.New("it is not")
			}
			return nil
		})
		return running.Annotations[kubelet.AnnotationIdentityHash]
	}
	template := d.Spec.Template.DeepCopy() // compare the template and not the generation, which changes with annotations of the Deployment too
	renew("https://genoa", "a")
	first := follow("")
	eventually(t, c, d, "new pods for another address", func(d *appsv1.Deployment) error {
		if cmp.Equal(template, &d.Spec.Template) {
			return errors.New("unchanged")
		}
		return nil
	})
	template = d.Spec.Template.DeepCopy()
	renew("https://genoa", "b")
	follow(first)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil || !cmp.Equal(template, &d.Spec.Template) {
		t.Errorf("a renewed identity replaced the pods of the virtual kubelet: %v, %s", err, cmp.Diff(template, &d.Spec.Template))
	}
	c.remove(t, running, atOnce)

	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-node-lease", Name: "genoa"}}
	c.create(t, lease)
	pod := podOn("genoa-apps", "web", "genoa")
	c.create(t, pod)
	c.remove(t, node)
	c.state(t, node, offloadingv1beta1.VirtualNodeCreating, offloadingv1beta1.VirtualNodeDraining)
	eventually(t, c, host, "the Node to be cordoned", func(n *corev1.Node) error {
		if !n.Spec.Unschedulable {
			return errors.New("it is not")
		}
		return nil
	})
	eventually(t, c, pod, "the pod to be evicted", func(p *corev1.Pod) error {
		if p.DeletionTimestamp.IsZero() {
			return errors.New("it is not")
		}
		return nil
	})
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil || !d.DeletionTimestamp.IsZero() {
		t.Fatalf("the virtual kubelet goes before its pods: %v", err)
	}
	c.remove(t, pod, atOnce) // deletes the pod as the virtual kubelet would after its termination
	c.state(t, node, offloadingv1beta1.VirtualNodeDeleting, offloadingv1beta1.VirtualNodeDraining)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(host), host); err != nil || !host.DeletionTimestamp.IsZero() {
		t.Fatalf("the Node goes before its virtual kubelet: %v", err)
	}
	dropFinalizers(t, c, d, metav1.FinalizerDeleteDependents)
	c.gone(t, host)
	c.gone(t, lease)
	c.gone(t, rights)
	c.gone(t, m)
	c.gone(t, node)
}

// Two VirtualNodes of one cluster are deleted at the same time, while the provider is slow to delete the remote namespaces. The last one deletes the
// NamespaceMap.
func testTwoVirtualNodes(t *testing.T, c *cluster) {
	const provider = "bari"
	tenant := api.TenantNamespace(provider)
	c.namespace(t, tenant, nil)
	nodes := []*offloadingv1beta1.VirtualNode{virtualNode(tenant, "bari-1", provider), virtualNode(tenant, "bari-2", provider)}
	for _, node := range nodes {
		c.up(t, node)
	}
	m := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: provider}}
	change(t, c, m, func(m *offloadingv1beta1.NamespaceMap) { m.Finalizers = []string{"crdreplicator.liqo.io/resource"} })
	for _, node := range nodes {
		c.remove(t, node)
	}
	dropFinalizers(t, c, deploymentOf(nodes[0]), metav1.FinalizerDeleteDependents)
	c.gone(t, nodes[0])
	eventually(t, c, m, "the NamespaceMap to stay for the other one", func(m *offloadingv1beta1.NamespaceMap) error {
		if !m.DeletionTimestamp.IsZero() {
			t.Fatal("it is deleted while a virtual kubelet still needs it")
		}
		return nil
	})
	dropFinalizers(t, c, deploymentOf(nodes[1]), metav1.FinalizerDeleteDependents)
	eventually(t, c, m, "the NamespaceMap to be deleted", func(m *offloadingv1beta1.NamespaceMap) error {
		if m.DeletionTimestamp.IsZero() {
			return errors.New("it is not")
		}
		return nil
	})
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(nodes[1]), nodes[1]); err != nil {
		t.Errorf("the last VirtualNode does not wait for the NamespaceMap: %v", err)
	}
	dropFinalizers(t, c, m, "crdreplicator.liqo.io/resource")
	c.gone(t, nodes[1])
	c.gone(t, m)
	for _, node := range nodes {
		c.gone(t, nodeOf(node))
	}
}

func testVirtualNodeOfSlice(t *testing.T, c *cluster) {
	const provider = "pisa"
	tenant := api.TenantNamespace(provider)
	c.namespace(t, tenant, nil)
	slice := &authv1beta1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "pisa", Annotations: map[string]string{authv1beta1.AnnotationCreateVirtualNode: "true"},
			Labels: map[string]string{api.LabelReplication: "true", api.LabelRemoteID: provider}},
		Spec: authv1beta1.ResourceSliceSpec{ProviderClusterID: provider, ConsumerClusterID: ownID},
	}
	c.create(t, slice)
	identity := &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "resourceslice-pisa", Labels: map[string]string{api.LabelResourceSliceName: "pisa"}}}
	c.create(t, identity)
	report(t, c, identity, func(i *authv1beta1.Identity) {
		i.Status.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: "kubeconfig-resourceslice-pisa"}
	})
	node := virtualNode(tenant, "pisa", provider)
	c.stays(t, "a VirtualNode was made of a ResourceSlice that nobody accepted", func() bool {
		return c.Get(t.Context(), client.ObjectKeyFromObject(node), node) != nil
	})
	grant := func(cpu string) {
		t.Helper()
		report(t, c, slice, func(s *authv1beta1.ResourceSlice) {
			s.Status.Conditions = []authv1beta1.ResourceSliceCondition{
				{Type: authv1beta1.ResourceSliceAuthentication, Status: authv1beta1.ResourceSliceAccepted},
				{Type: authv1beta1.ResourceSliceResources, Status: authv1beta1.ResourceSliceAccepted},
			}
			s.Status.Resources = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
		})
		eventually(t, c, node, "the VirtualNode to have "+cpu+" CPUs", func(n *offloadingv1beta1.VirtualNode) error {
			if got := n.Spec.ResourceQuota.Hard[corev1.ResourceCPU]; got.String() != cpu {
				return fmt.Errorf("it has %s", got.String())
			}
			return nil
		})
	}
	grant("4")
	grant("6")
	if !metav1.IsControlledBy(node, slice) || node.Spec.KubeconfigSecretRef.Name != "kubeconfig-resourceslice-pisa" || node.Spec.ClusterID != provider {
		t.Errorf("%+v", node)
	}
	eventually(t, c, deploymentOf(node), "the Deployment", anything)
	c.remove(t, slice)
	dropFinalizers(t, c, deploymentOf(node), metav1.FinalizerDeleteDependents)
	c.gone(t, node)
	c.gone(t, slice)
}

// The pods of an unreachable provider are deleted by force, and the deletion does not wait for its namespaces.
func testUnreachableProvider(t *testing.T, c *cluster) {
	const provider = "como"
	tenant := api.TenantNamespace(provider)
	c.namespace(t, tenant, nil)
	c.namespace(t, "como-apps", nil)
	node := virtualNode(tenant, "como", provider)
	c.up(t, node)
	fc := &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: provider}, Spec: corev1beta1.ForeignClusterSpec{ClusterID: provider}}
	c.create(t, fc)
	report(t, c, fc, func(fc *corev1beta1.ForeignCluster) {
		fc.Status.Role = corev1beta1.RoleProvider
		fc.Status.Conditions = []corev1beta1.Condition{{Type: corev1beta1.APIServerStatus, Status: corev1beta1.StatusError}}
	})
	m := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: provider}}
	change(t, c, m, func(m *offloadingv1beta1.NamespaceMap) { m.Finalizers = []string{"crdreplicator.liqo.io/resource"} })
	pod := podOn("como-apps", "web", "como")
	c.create(t, pod)
	c.remove(t, node)
	c.gone(t, pod)
	dropFinalizers(t, c, deploymentOf(node), metav1.FinalizerDeleteDependents)
	c.gone(t, node)
	dropFinalizers(t, c, m, "crdreplicator.liqo.io/resource")
	c.gone(t, m)
}

// If two VirtualNodes for different providers have the same name, the older one owns the Node, and the other one must not change it.
func testNamesakes(t *testing.T, c *cluster) {
	var nodes []*offloadingv1beta1.VirtualNode
	for _, provider := range []string{"alba", "asti"} {
		c.namespace(t, api.TenantNamespace(provider), nil)
		nodes = append(nodes, virtualNode(api.TenantNamespace(provider), "pool", provider))
	}
	c.up(t, nodes[0])
	c.create(t, nodes[1])
	c.state(t, nodes[1], offloadingv1beta1.VirtualNodeNone, offloadingv1beta1.VirtualNodeNone)
	untouched := func() {
		t.Helper()
		rights := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "liqo-node-pool"}}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(rights), rights); err != nil || rights.Subjects[0].Namespace != nodes[0].Namespace {
			t.Errorf("the rights of the first: %v %+v", err, rights.Subjects)
		}
		host := nodeOf(nodes[0])
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(host), host); err != nil || host.Spec.Unschedulable || !host.DeletionTimestamp.IsZero() {
			t.Errorf("the node of the first: %v %+v", err, host)
		}
	}
	untouched()
	c.remove(t, nodes[1])
	c.gone(t, nodes[1])
	untouched()

	successor := virtualNode(nodes[1].Namespace, "pool", "asti")
	c.create(t, successor)
	c.state(t, successor, offloadingv1beta1.VirtualNodeNone, offloadingv1beta1.VirtualNodeNone)
	c.remove(t, nodes[0])
	dropFinalizers(t, c, deploymentOf(nodes[0]), metav1.FinalizerDeleteDependents)
	c.gone(t, nodes[0])
	c.state(t, successor, offloadingv1beta1.VirtualNodeCreating, offloadingv1beta1.VirtualNodeCreating)
	c.remove(t, successor)
	dropFinalizers(t, c, deploymentOf(successor), metav1.FinalizerDeleteDependents)
	c.gone(t, successor)
}

// A Node that is not virtual is never taken over, nor deleted.
func testForeignNode(t *testing.T, c *cluster) {
	const provider = "lecce"
	tenant := api.TenantNamespace(provider)
	c.namespace(t, tenant, nil)
	c.create(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}})
	node := virtualNode(tenant, "worker-1", provider)
	c.create(t, node)
	c.state(t, node, offloadingv1beta1.VirtualNodeNone, offloadingv1beta1.VirtualNodeNone)
	c.remove(t, node)
	c.gone(t, node)
	host := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(host), host); err != nil || host.Spec.Unschedulable || !host.DeletionTimestamp.IsZero() {
		t.Errorf("a real node was touched: %v %+v", err, host)
	}
}
