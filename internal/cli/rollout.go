package cli

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

	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/install/installer"
)

// rolledOut waits until everything runs, in its newest version; an error says what does not, and why.
func (c *cluster) rolledOut(ctx context.Context, step *console.Step, workloads []installer.Workload) error {
	for _, workload := range workloads {
		meta := metav1.ObjectMeta{Namespace: c.namespace, Name: workload.Name}
		var err error
		var selector *metav1.LabelSelector
		if workload.Kind == "DaemonSet" {
			set := &appsv1.DaemonSet{ObjectMeta: meta}
			err = c.wait(ctx, step, set, func() verdict { return daemonSetAvailable(set, c.lost(ctx, set)) })
			selector = set.Spec.Selector
		} else {
			deployment := &appsv1.Deployment{ObjectMeta: meta}
			err = c.wait(ctx, step, deployment, func() verdict { return deploymentAvailable(deployment) })
			selector = deployment.Spec.Selector
		}
		if err == nil {
			continue
		}
		if troubles := c.troubles(workload, selector); len(troubles) > 0 {
			return fmt.Errorf("%w\n  - %s", err, strings.Join(troubles, "\n  - "))
		}
		return err
	}
	return nil
}

func deploymentAvailable(deployment *appsv1.Deployment) verdict {
	wanted := int32(1)
	if deployment.Spec.Replicas != nil {
		wanted = *deployment.Spec.Replicas
	}
	status := deployment.Status
	switch {
	case status.ObservedGeneration < deployment.Generation:
		return notYet("its new version was not looked at")
	case status.UpdatedReplicas < wanted || status.Replicas > status.UpdatedReplicas:
		return notYet("%d of %d pods are of the new version", status.UpdatedReplicas, wanted)
	case status.AvailableReplicas < wanted:
		return notYet("%d of %d pods are available", status.AvailableReplicas, wanted)
	}
	return yes()
}

// daemonSetAvailable leaves out the lost: nobody can tell when a node that is down will be back, and its pod will start with it.
func daemonSetAvailable(set *appsv1.DaemonSet, lost int32) verdict {
	status := set.Status
	wanted := status.DesiredNumberScheduled - lost
	switch {
	case status.ObservedGeneration < set.Generation:
		return notYet("its new version was not looked at")
	case status.UpdatedNumberScheduled < wanted:
		return notYet("%d of %d pods are of the new version", status.UpdatedNumberScheduled, wanted)
	case status.NumberAvailable < wanted:
		return notYet("%d of %d pods are available", status.NumberAvailable, wanted)
	}
	return yes()
}

// lost counts the pods of a DaemonSet on nodes that are not ready.
func (c *cluster) lost(ctx context.Context, set *appsv1.DaemonSet) (n int32) {
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

// fewTroubles are told of a workload: the pods of one mostly have the same.
const fewTroubles = 3

// troubles tell what hinders the pods of a workload, to explain a wait that failed. The time of the command may be over.
func (c *cluster) troubles(workload installer.Workload, selector *metav1.LabelSelector) (out []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if selector != nil {
		var pods corev1.PodList
		if err := c.List(ctx, &pods, client.InNamespace(c.namespace), client.MatchingLabels(selector.MatchLabels)); err != nil {
			return nil
		}
		for i := range pods.Items {
			if why := podTrouble(&pods.Items[i]); why != "" && len(out) < fewTroubles {
				out = append(out, why+lastRun(&pods.Items[i]))
			}
		}
	}
	if len(out) > 0 {
		return out
	}
	// Pods that could not even be made are told of in events alone, those of a Deployment about its ReplicaSet.
	var events corev1.EventList
	if err := c.List(ctx, &events, client.InNamespace(c.namespace)); err != nil {
		return nil
	}
	for i := range events.Items {
		event := &events.Items[i]
		about := event.InvolvedObject
		told := fmt.Sprintf("%s %s: %s: %s", about.Kind, about.Name, event.Reason, event.Message)
		if event.Type == corev1.EventTypeWarning && len(out) < fewTroubles && !slices.Contains(out, told) &&
			(about.Name == workload.Name || (about.Kind == "ReplicaSet" && strings.HasPrefix(about.Name, workload.Name+"-"))) {
			out = append(out, told)
		}
	}
	return out
}

// lastRun is how containers that are started again and again ended before; empty where none did.
func lastRun(pod *corev1.Pod) string {
	for _, container := range pod.Status.ContainerStatuses {
		if ended := container.LastTerminationState.Terminated; ended != nil && !container.Ready {
			return strings.TrimSuffix(fmt.Sprintf("; container %s ended with code %d before, %s: %s", container.Name, ended.ExitCode, ended.Reason, ended.Message), ": ")
		}
	}
	return ""
}
