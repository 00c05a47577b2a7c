package workload

import (
	"cmp"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/cli/session"
)

// Trouble says in one sentence why a pod is not ready. It is empty if the pod shows no problem.
func Trouble(pod *corev1.Pod) string {
	for _, container := range pod.Status.ContainerStatuses {
		if waiting := container.State.Waiting; waiting != nil {
			why := strings.TrimSuffix(waiting.Reason+": "+waiting.Message, ": ")
			return fmt.Sprintf("container %s of pod %s in namespace %s is waiting, %s", container.Name, pod.Name, pod.Namespace, why)
		}
		if ended := container.State.Terminated; ended != nil {
			return fmt.Sprintf("container %s of pod %s in namespace %s ended with code %d, %s: %s",
				container.Name, pod.Name, pod.Namespace, ended.ExitCode, ended.Reason, ended.Message)
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Status == corev1.ConditionFalse && condition.Message != "" {
			return fmt.Sprintf("pod %s in namespace %s: %s, %s: %s", pod.Name, pod.Namespace, condition.Type, condition.Reason, condition.Message)
		}
	}
	return ""
}

// DeploymentAvailable checks that all pods of a Deployment are of its newest version and available.
func DeploymentAvailable(deployment *appsv1.Deployment) session.Verdict {
	wanted := int32(1)
	if deployment.Spec.Replicas != nil {
		wanted = *deployment.Spec.Replicas
	}
	status := deployment.Status
	switch {
	case status.ObservedGeneration < deployment.Generation:
		return session.NotYet("Kubernetes has not observed its new version")
	case status.UpdatedReplicas < wanted || status.Replicas > status.UpdatedReplicas:
		return session.NotYet("%d of %d pods are of the new version", status.UpdatedReplicas, wanted)
	case status.AvailableReplicas < wanted:
		return session.NotYet("%d of %d pods are available", status.AvailableReplicas, wanted)
	}
	return session.Yes()
}

// CRDEstablished checks that the API server serves the kind of a CustomResourceDefinition.
func CRDEstablished(crd *apiextensionsv1.CustomResourceDefinition) session.Verdict {
	for _, condition := range crd.Status.Conditions {
		switch {
		case condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue:
			return session.Yes()
		case condition.Type == apiextensionsv1.NamesAccepted && condition.Status == apiextensionsv1.ConditionFalse:
			return session.Never("its names are taken, %s: %s: remove the definition that holds them", condition.Reason, condition.Message)
		}
	}
	return session.NotYet("condition Established is not true")
}

// Unhealthy says why a pod is not ready. It is empty if the pod is ready, has succeeded, or is being deleted.
func Unhealthy(pod *corev1.Pod) string {
	if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || api.PodReady(pod) {
		return ""
	}
	return cmp.Or(Trouble(pod), "not ready, phase "+string(pod.Status.Phase))
}
