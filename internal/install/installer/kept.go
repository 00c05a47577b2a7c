package installer

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
)

// WhyKept returns why Liqo must not delete a namespace, "" if it may: the namespace holds a claim, or a workload that is not Liqo's. A namespace of Liqo may
// hold both: a tenant namespace may have any name, other programs may run in the namespace of the installation, and a storage namespace holds data of users. If
// the user may not list one of the kinds, the content is unknown, and WhyKept returns an error.
func WhyKept(ctx context.Context, c client.Client, namespace string) (string, error) {
	others, err := labels.Parse("app.kubernetes.io/part-of!=liqo")
	if err != nil {
		return "", fmt.Errorf("selecting workloads that are not Liqo's: %w", err)
	}
	var held []string
	for _, list := range []client.ObjectList{
		&corev1.PersistentVolumeClaimList{}, &appsv1.DeploymentList{}, &appsv1.StatefulSetList{}, &appsv1.DaemonSetList{}, &batchv1.CronJobList{}, &batchv1.JobList{},
		&corev1.PodList{},
	} {
		options := []client.ListOption{client.InNamespace(namespace), client.Limit(1)}
		if _, claims := list.(*corev1.PersistentVolumeClaimList); !claims {
			options = append(options, client.MatchingLabelsSelector{Selector: others})
		}
		if err := c.List(ctx, list, options...); err != nil {
			return "", fmt.Errorf("namespace %s stays, because its content is unknown: listing %s: %w. Run the command as a user who may list them", namespace, kube.KindsOf(list), err)
		}
		objects, err := kube.Items(list)
		if err != nil {
			return "", err
		}
		if len(objects) > 0 {
			kind, _, _ := strings.Cut(kube.Called(c, objects[0]), " ")
			held = append(held, kind+" "+objects[0].GetName())
		}
	}
	if len(held) == 0 {
		return "", nil
	}
	return fmt.Sprintf("namespace %s stays, because it holds %s, and maybe more (kubectl get pvc,deployments,statefulsets,daemonsets,cronjobs,jobs,pods --namespace %[1]s). Copy the data that "+
		"you need, delete the claims, and move the workloads to another namespace", namespace, strings.Join(held, ", ")), nil
}
