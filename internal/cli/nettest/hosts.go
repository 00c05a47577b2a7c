package nettest

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/workload"
	"liqo.io/liqo/internal/kube"
)

// enforceLabel is the label of a namespace with the Pod Security level of its pods.
const enforceLabel = "pod-security.kubernetes.io/enforce"

// hostsUser is the user of the pods in the host network: they send requests, and need no right of root.
const hostsUser = 65532

// hostsNamespaceOf returns the namespace of the pods in the host network, which is the same in all clusters. A consumer executes commands in every pod of its remote
// namespaces, so in providers these pods need a namespace in which it has no rights.
func hostsNamespaceOf(consumer string) string { return completed(testHostsPrefix, consumer) }

// hostsNamespace returns the namespace of the pods in the host network.
func (t *networkTest) hostsNamespace() string { return hostsNamespaceOf(t.consumer.ID) }

// deployHosts creates or updates the DaemonSet with a host network pod on every real node, in a namespace of its own, unless no check needs it. Such pods can't be offloaded,
// so each cluster needs its own DaemonSet. It removes the DaemonSet of earlier releases, which consumers could use.
func (t *networkTest) deployHosts(ctx context.Context, c *session.Cluster) error {
	if err := removeSharedHosts(ctx, c, t.namespace()); err != nil {
		return err
	}
	if t.options.basic {
		return nil
	}
	if err := ensureHostsNamespace(ctx, c, t.hostsNamespace()); err != nil {
		return fmt.Errorf("%w; or check only connections between pods: --basic", err)
	}
	return ensureHosts(ctx, c, t.hostsNamespace(), t.options.image)
}

// removeSharedHosts removes the pods in the host network that earlier releases created in the namespace of the test, which a consumer can use in its providers.
func removeSharedHosts(ctx context.Context, c *session.Cluster, namespace string) error {
	hosts := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: testHosts}}
	if err := c.Get(ctx, client.ObjectKeyFromObject(hosts), hosts); kube.Absent(err) {
		return nil
	} else if err != nil {
		return c.Err(fmt.Errorf("reading %s: %w", c.Name(hosts), err))
	}
	return c.Err(kube.Delete(ctx, c, hosts))
}

// ensureHostsNamespace creates the namespace of the pods in the host network. It refuses a namespace of that name that belongs to a consumer or to another program.
func ensureHostsNamespace(ctx context.Context, c *session.Cluster, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := c.Ensure(ctx, namespace, func() error {
		if consumer := namespace.Labels[api.LabelRemoteClusterID]; consumer != "" {
			return fmt.Errorf("namespace %s belongs to cluster %s, which could use the pods in the host network: have that cluster unoffload its namespace", name, consumer)
		}
		if namespace.ResourceVersion != "" && namespace.Labels[testLabel] != testHosts {
			return fmt.Errorf("namespace %s is not of this command: it lacks label %s=%s. Move what it has to another namespace", name, testLabel, testHosts)
		}
		if namespace.ResourceVersion != "" && namespace.Labels[enforceLabel] != session.PodSecurity()[enforceLabel] { // who may set the other label must not get this one by it
			return fmt.Errorf("namespace %s permits no pods in the host network: an administrator of cluster %s has to set label %s=%s, or to delete the namespace if it has nothing that is needed",
				name, c.ID, enforceLabel, session.PodSecurity()[enforceLabel])
		}
		if namespace.ResourceVersion == "" {
			kube.AddLabels(namespace, session.PodSecurity())
			kube.AddLabels(namespace, map[string]string{testLabel: testHosts})
		}
		return nil
	})
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w: ask an administrator of cluster %s to create and label it: kubectl create namespace %[3]s; kubectl label --overwrite namespace %[3]s %s=%s %s=%s",
			err, c.ID, name, testLabel, testHosts, enforceLabel, session.PodSecurity()[enforceLabel])
	}
	return err
}

// ensureHosts creates or updates the DaemonSet.
func ensureHosts(ctx context.Context, c *session.Cluster, namespace, image string) error {
	hosts := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: testHosts}}
	_, err := c.Ensure(ctx, hosts, func() error {
		labels := map[string]string{testLabel: testHosts}
		hosts.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		hosts.Spec.Template.Labels = labels
		pod := &hosts.Spec.Template.Spec
		pod.HostNetwork = true
		pod.Affinity = affinityTo(corev1.NodeSelectorRequirement{Key: api.LabelRemoteClusterID, Operator: corev1.NodeSelectorOpDoesNotExist})
		rights := testContainer(pod, image, "sleep", "infinity")
		user, yes := int64(hostsUser), true
		rights.RunAsUser, rights.RunAsNonRoot = &user, &yes
		return nil
	})
	return err
}

// gatherHosts reads the pods in the host network of a cluster. The result why says what is still missing.
func (t *networkTest) gatherHosts(ctx context.Context, c *session.Cluster, into *testedCluster) (why string, err error) {
	if t.options.basic {
		return "", nil
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(t.hostsNamespace()), client.MatchingLabels{testLabel: testHosts}); err != nil {
		return "", c.Err(fmt.Errorf("listing pods: %w", err))
	}
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp != nil {
			continue
		}
		if !api.PodReady(&pod) {
			why = fmt.Sprintf("pod %s of cluster %s is not ready, %s", pod.Name, c.ID, workload.Trouble(&pod))
		}
		into.hosts = append(into.hosts, pod.Name)
	}
	if len(into.hosts) == 0 {
		why = fmt.Sprintf("cluster %s has no pod in the host network", c.ID)
	}
	slices.Sort(into.hosts)
	return why, nil
}

// removeHosts deletes the namespace of the pods in the host network of a cluster, if it is that of this command. It returns the namespace, or nil if there is none.
func (t *networkTest) removeHosts(ctx context.Context, c *session.Cluster) (*corev1.Namespace, error) {
	namespace := &corev1.Namespace{}
	if err := c.Get(ctx, client.ObjectKey{Name: t.hostsNamespace()}, namespace); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, c.Err(fmt.Errorf("reading namespace %s: %w", t.hostsNamespace(), err))
	}
	if namespace.Labels[testLabel] != testHosts || namespace.Labels[api.LabelRemoteClusterID] != "" {
		return nil, nil
	}
	return namespace, c.Err(kube.Delete(ctx, c, namespace))
}
