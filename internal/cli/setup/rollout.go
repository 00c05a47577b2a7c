package setup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/workload"
	"liqo.io/liqo/internal/install/installer"
)

// rolledOut waits until all workloads run their newest version. Its error names each workload that does not, and why.
func rolledOut(ctx context.Context, c *session.Cluster, step *console.Step, workloads []installer.Workload) error {
	watching, end := context.WithCancel(ctx)
	var reports sync.WaitGroup
	reports.Go(func() { reportStuck(watching, c) })
	defer reports.Wait()
	defer end()
	errs := make([]error, len(workloads))
	var group sync.WaitGroup
	for i, part := range workloads {
		group.Go(func() {
			err := rolledOutOne(ctx, c, step, part)
			if err != nil {
				if troubles := podTroubles(c, part); len(troubles) > 0 {
					err = fmt.Errorf("%w\n  - %s", err, strings.Join(troubles, "\n  - "))
				}
			}
			errs[i] = err
		})
	}
	group.Wait()
	err := errors.Join(errs...)
	if err != nil && missesImages(c) {
		err = fmt.Errorf("%w\n%s", err, imageCure)
	}
	return err
}

// imageCure is the advice for a node that cannot pull an image of Liqo.
const imageCure = "If the nodes have to pull the images from another registry, name it and install again: liqoctl install --set registry=HOST/PATH"

// missesImages reports whether a pod of the installation waits for an image that its node cannot pull. It has its own timeout, because the timeout of
// the command may have expired.
func missesImages(c *session.Cluster) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(c.Namespace), client.MatchingLabels{"app.kubernetes.io/part-of": "liqo"}); err != nil {
		return false
	}
	return slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool { return missesImage(&pod) })
}

// missesImage reports whether a container of the pod waits for an image that the node cannot pull.
func missesImage(pod *corev1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses), func(status corev1.ContainerStatus) bool {
		return status.State.Waiting != nil && slices.Contains(imageReasons, status.State.Waiting.Reason)
	})
}

// imageReasons are the reasons of a kubelet for a container whose image it does not have.
var imageReasons = []string{"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"}

// stuckEvery is the interval at which reportStuck lists the pods.
const stuckEvery = 2 * time.Second

// reportStuck warns once about each container that cannot start, as soon as that is known. The wait itself may last until its timeout.
func reportStuck(ctx context.Context, c *session.Cluster) {
	reported := map[string]bool{}
	for {
		var pods corev1.PodList
		if err := c.List(ctx, &pods, client.InNamespace(c.Namespace), client.MatchingLabels{"app.kubernetes.io/part-of": "liqo"}); err == nil {
			for i := range pods.Items {
				for about, why := range stuckContainers(&pods.Items[i]) {
					if !reported[about] {
						reported[about] = true
						c.Warn("%s", why)
					}
				}
				if missesImage(&pods.Items[i]) && !reported[imageCure] {
					reported[imageCure] = true
					c.Info("%s", imageCure)
				}
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(stuckEvery):
		}
	}
}

// stuckContainers returns a message for each container of a pod that cannot start. The key is the container with its image or reason.
func stuckContainers(pod *corev1.Pod) map[string]string {
	out := map[string]string{}
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		waiting := status.State.Waiting
		if waiting == nil {
			continue
		}
		switch {
		case slices.Contains(imageReasons, waiting.Reason):
			out[status.Name+" "+status.Image] = fmt.Sprintf("Image %s can not be pulled: container %s of pod %s in namespace %s is waiting, %s",
				status.Image, status.Name, pod.Name, pod.Namespace, strings.TrimSuffix(waiting.Reason+": "+waiting.Message, ": "))
		case waiting.Reason == "CreateContainerConfigError" || waiting.Reason == "CreateContainerError":
			out[status.Name+" "+waiting.Reason] = fmt.Sprintf("Container %s of pod %s in namespace %s can not be created, %s",
				status.Name, pod.Name, pod.Namespace, strings.TrimSuffix(waiting.Reason+": "+waiting.Message, ": "))
		}
	}
	return out
}

func rolledOutOne(ctx context.Context, c *session.Cluster, step *console.Step, part installer.Workload) error {
	meta := metav1.ObjectMeta{Namespace: c.Namespace, Name: part.Name}
	if part.Kind == "DaemonSet" {
		set := &appsv1.DaemonSet{ObjectMeta: meta}
		return c.WaitFor(ctx, step, set, func() session.Verdict { return daemonSetAvailable(set, podsOnLostNodes(ctx, c, set)) })
	}
	deployment := &appsv1.Deployment{ObjectMeta: meta}
	return c.WaitFor(ctx, step, deployment, func() session.Verdict { return workload.DeploymentAvailable(deployment) })
}

// podSelector returns the pod selector of a workload. It is nil if the workload cannot be read.
func podSelector(ctx context.Context, c *session.Cluster, part installer.Workload) *metav1.LabelSelector {
	key := client.ObjectKey{Namespace: c.Namespace, Name: part.Name}
	var set appsv1.DaemonSet
	var deployment appsv1.Deployment
	switch {
	case part.Kind == "DaemonSet" && c.Get(ctx, key, &set) == nil:
		return set.Spec.Selector
	case part.Kind == "Deployment" && c.Get(ctx, key, &deployment) == nil:
		return deployment.Spec.Selector
	}
	return nil
}

// daemonSetAvailable ignores the pods on nodes that are not ready. Such a node may be down for an unknown time, and starts its pod when it is ready
// again.
func daemonSetAvailable(set *appsv1.DaemonSet, lost int32) session.Verdict {
	status := set.Status
	wanted := status.DesiredNumberScheduled - lost
	switch {
	case status.ObservedGeneration < set.Generation:
		return session.NotYet("Kubernetes has not observed its new version")
	case status.UpdatedNumberScheduled < wanted:
		return session.NotYet("%d of %d pods are of the new version", status.UpdatedNumberScheduled, wanted)
	case status.NumberAvailable < wanted:
		return session.NotYet("%d of %d pods are available", status.NumberAvailable, wanted)
	}
	return session.Yes()
}

// podsOnLostNodes returns the number of pods of a DaemonSet on nodes that are not ready.
func podsOnLostNodes(ctx context.Context, c *session.Cluster, set *appsv1.DaemonSet) (n int32) {
	var nodes corev1.NodeList
	var pods corev1.PodList
	if set.Spec.Selector == nil || c.List(ctx, &nodes) != nil ||
		c.List(ctx, &pods, client.InNamespace(set.Namespace), client.MatchingLabels(set.Spec.Selector.MatchLabels)) != nil {
		return 0
	}
	down := map[string]bool{}
	for i := range nodes.Items {
		down[nodes.Items[i].Name] = !slices.ContainsFunc(nodes.Items[i].Status.Conditions, func(condition corev1.NodeCondition) bool {
			return condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
		})
	}
	for i := range pods.Items {
		if down[pods.Items[i].Spec.NodeName] {
			n++
		}
	}
	return n
}

// fewTroubles is the maximum number of problems listed for a workload. Its pods mostly have the same problem.
const fewTroubles = 3

// podTroubles returns the problems of the pods of a workload, to explain a failed wait. It has its own timeout, because the timeout of the
// command may have expired.
func podTroubles(c *session.Cluster, part installer.Workload) (out []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if selector := podSelector(ctx, c, part); selector != nil {
		var pods corev1.PodList
		if err := c.List(ctx, &pods, client.InNamespace(c.Namespace), client.MatchingLabels(selector.MatchLabels)); err != nil {
			return nil
		}
		for i := range pods.Items {
			if why := workload.Trouble(&pods.Items[i]); why != "" && len(out) < fewTroubles {
				out = append(out, why+lastRun(&pods.Items[i]))
			}
		}
	}
	if len(out) > 0 {
		return out
	}
	// If a pod could not be created, only events report it. For a Deployment, the events are about its ReplicaSet.
	var events corev1.EventList
	if err := c.List(ctx, &events, client.InNamespace(c.Namespace)); err != nil {
		return nil
	}
	for i := range events.Items {
		event := &events.Items[i]
		about := event.InvolvedObject
		warning := fmt.Sprintf("%s %s: %s: %s", about.Kind, about.Name, event.Reason, event.Message)
		if event.Type == corev1.EventTypeWarning && len(out) < fewTroubles && !slices.Contains(out, warning) &&
			(about.Name == part.Name || (about.Kind == "ReplicaSet" && strings.HasPrefix(about.Name, part.Name+"-"))) {
			out = append(out, warning)
		}
	}
	return out
}

// lastRun describes how a restarted container ended before; empty if no container was restarted.
func lastRun(pod *corev1.Pod) string {
	for _, container := range pod.Status.ContainerStatuses {
		if ended := container.LastTerminationState.Terminated; ended != nil && !container.Ready {
			return strings.TrimSuffix(fmt.Sprintf("; container %s ended with code %d before, %s: %s",
				container.Name, ended.ExitCode, ended.Reason, ended.Message), ": ")
		}
	}
	return ""
}
