package story

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/playground"
)

// Start is how long a pod may take from its creation to Ready, on a machine of half the usual speed that is busy with other things. How long users wait is
// measured by make bench.
const Start = 2 * time.Minute

// PodOn returns a pod for the virtual node called node, with one container that runs the command; without a command, the entrypoint of its image.
func PodOn(node, namespace, name, image string, command ...string) *corev1.Pod {
	grace := int64(1)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			NodeSelector:                  map[string]string{corev1.LabelHostname: node},
			TerminationGracePeriodSeconds: &grace, // a shell as the first process ignores SIGTERM
			Containers:                    []corev1.Container{{Name: "main", Image: image, Command: command}},
		},
	}
}

// Asking returns the command of a pod that requests a URL five times a second, starting with the first successful request. Answers evaluates its output. A busy
// machine may delay an answer by seconds, so only a request without an answer for 10 s has failed.
func Asking(url string) []string {
	return []string{"/bin/sh", "-c", fmt.Sprintf("until testserver get %[1]s; do sleep 0.2; done >/dev/null 2>&1;"+
		" while true; do why=$(testserver get -timeout 10s %[1]s 2>&1 >/dev/null) && echo well || echo \"failed $(date +%%T) $why\"; sleep 0.2; done", url)}
}

// Answers summarizes the output of a pod of Asking. It prints the failed requests and returns their number.
func (s *Story) Answers(c *playground.Cluster, namespace, name string) (text string, failed int) {
	s.Helper()
	answered := 0
	for line := range strings.Lines(s.Logs(c, namespace, name, corev1.PodLogOptions{})) {
		switch {
		case strings.HasPrefix(line, "well"):
			answered++
		case strings.HasPrefix(line, "failed"):
			failed++
			fmt.Printf("             %s of %s in %s: %s", name, namespace, c.ID, line)
		}
	}
	return fmt.Sprintf("%d requests were answered, %d were not", answered, failed), failed
}

// DeploymentOn returns a Deployment of such pods.
func DeploymentOn(node, namespace, name string, replicas int32, image string, command ...string) *appsv1.Deployment {
	pod := PodOn(node, namespace, name, image, command...)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec},
		},
	}
}

// Pods returns the pods of a namespace, sorted by name.
func (s *Story) Pods(c *playground.Cluster, namespace string, selector ...client.ListOption) []corev1.Pod {
	s.Helper()
	pods, err := pods(s.Context(), c, namespace, selector...)
	s.Must(err)
	return pods
}

// TryPods is Pods for a cluster that may not respond yet.
func (s *Story) TryPods(ctx context.Context, c *playground.Cluster, namespace string) ([]corev1.Pod, error) {
	return pods(ctx, c, namespace)
}

func pods(ctx context.Context, c *playground.Cluster, namespace string, options ...client.ListOption) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := c.List(ctx, &list, append(options, client.InNamespace(namespace))...); err != nil {
		return nil, fmt.Errorf("listing pods of %s: %w", c.ID, err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return list.Items, nil
}

// Pod reads a pod.
func (s *Story) Pod(c *playground.Cluster, namespace, name string) *corev1.Pod {
	s.Helper()
	var pod corev1.Pod
	s.Must(c.Get(s.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &pod))
	return &pod
}

// Only returns the pod with these labels, of which there must be exactly one.
func (s *Story) Only(c *playground.Cluster, namespace string, labels client.MatchingLabels) *corev1.Pod {
	s.Helper()
	pods := s.Pods(c, namespace, labels)
	if len(pods) != 1 {
		s.Must(fmt.Errorf("%s has the pods %v with labels %v in namespace %s, want one", c.ID, Names(pods), labels, namespace))
	}
	return &pods[0]
}

// PodReady waits until a pod is Ready in the cluster, and returns it.
func (s *Story) PodReady(c *playground.Cluster, namespace, name string, within time.Duration) *corev1.Pod {
	s.Helper()
	var pod corev1.Pod
	s.Eventually(within, fmt.Sprintf("pod %s/%s to be Ready in %s", namespace, name, c.ID), func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &pod); err != nil {
			return err
		}
		if !Ready(pod) {
			return fmt.Errorf("phase %s, conditions %v", pod.Status.Phase, pod.Status.Conditions)
		}
		return nil
	})
	return &pod
}

// PodsReady waits until the namespace has exactly count pods and all of them are Ready, and returns them sorted by name.
func (s *Story) PodsReady(c *playground.Cluster, namespace string, count int, within time.Duration) []corev1.Pod {
	s.Helper()
	var all []corev1.Pod
	s.Eventually(within, fmt.Sprintf("%d pods to be Ready in %s of %s", count, namespace, c.ID), func(ctx context.Context) error {
		var err error
		if all, err = pods(ctx, c, namespace); err != nil {
			return err
		}
		ready := 0
		for _, pod := range all {
			if Ready(pod) {
				ready++
			}
		}
		if ready != count || len(all) != count {
			return fmt.Errorf("%d of %d pods are Ready", ready, len(all))
		}
		return nil
	})
	return all
}

// Ready reports whether a pod is Ready and not being deleted.
func Ready(pod corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// NodeReady waits until rome's node is Ready, or NotReady if want is false, and returns the duration.
func (s *Story) NodeReady(name string, want bool, within time.Duration) time.Duration {
	s.Helper()
	began := time.Now()
	s.Eventually(within, fmt.Sprintf("node %s to be Ready: %t", name, want), func(ctx context.Context) error {
		var node corev1.Node
		if err := s.Rome.Get(ctx, client.ObjectKey{Name: name}, &node); err != nil {
			return err
		}
		ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
		if ready != want {
			return fmt.Errorf("conditions %v", node.Status.Conditions)
		}
		return nil
	})
	return time.Since(began)
}

// Restarts counts the restarts of all containers.
func Restarts(pod corev1.Pod) (n int32) {
	for _, c := range pod.Status.ContainerStatuses {
		n += c.RestartCount
	}
	return n
}

// Containers returns the IDs of the running containers of a pod. The IDs change when a container is restarted.
func Containers(pod corev1.Pod) (ids []string) {
	for _, c := range pod.Status.ContainerStatuses {
		ids = append(ids, c.ContainerID)
	}
	return ids
}

// Names returns the pods' names.
func Names(pods []corev1.Pod) []string {
	names := make([]string, len(pods))
	for i, pod := range pods {
		names[i] = pod.Name
	}
	return names
}
