package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/install/installer"
	"liqo.io/liqo/internal/version"
)

// rollbackTimeout bounds taking a failed installation back, which starts when the time of the installation may be over.
const rollbackTimeout = 2 * time.Minute

// apply makes the changes and waits for them to work; a failure takes them back.
func (a *app) apply(ctx context.Context, c *cluster, o *installOptions, ready *prepared) error {
	step := c.Start("Installing")
	defer step.End()
	release, err := installer.NewRelease(c.getter, c.namespace, helmLog(a))
	if err != nil {
		return err
	}
	if o.dryRun {
		return c.dryRun(ctx, step, release, ready)
	}
	undo := &undoing{cluster: c, release: release}
	err = undo.apply(ctx, step, ready)
	step.End()
	if err == nil {
		c.Info("All Set! This cluster is %s. You can now proceed establishing a peering (liqoctl peer --help for more information)", ready.id)
		c.Info("Make sure to use liqoctl %s with this cluster, and the same version of Liqo in all the clusters you peer", version.Version)
		return nil
	}
	if rollbackErr := undo.rollback(); rollbackErr != nil {
		return fmt.Errorf("%w\nTaking it back failed too: %w", err, rollbackErr)
	}
	return fmt.Errorf("%w\nEverything was taken back", err)
}

// dryRun lets the API server check the objects, as far as it knows their kinds.
func (c *cluster) dryRun(ctx context.Context, step *console.Step, release *installer.Release, ready *prepared) error {
	defined, err := installer.Definitions(ctx, c)
	if err != nil {
		return err
	}
	if len(defined) < len(ready.crds) {
		step.End()
		c.Info("Dry run: the chart can be rendered; its objects can be checked once the custom resource definitions are installed")
		return nil
	}
	if _, err := release.Apply(ready.chart, ready.values, true); err != nil {
		return err
	}
	step.Done("Dry run: the API server accepts the objects, nothing was changed")
	return nil
}

func helmLog(a *app) io.Writer {
	if a.verbose {
		return a.streams.ErrOut
	}
	return io.Discard
}

// undoing is an installation that knows how to take itself back.
type undoing struct {
	*cluster
	release   *installer.Release
	applied   *installer.Applied
	namespace *corev1.Namespace
	crds      []*apiextensionsv1.CustomResourceDefinition
}

func (u *undoing) apply(ctx context.Context, step *console.Step, ready *prepared) error {
	if err := u.createNamespace(ctx); err != nil {
		return err
	}
	step.Update("Applying the custom resource definitions")
	created, err := installer.ApplyCRDs(ctx, u.cluster, ready.crds, u.labels, u.annotations)
	u.crds = created
	if err != nil {
		return err
	}
	for _, crd := range ready.crds {
		established := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: crd.Name}}
		if err := u.wait(ctx, step, established, func() verdict { return crdEstablished(established) }); err != nil {
			return err
		}
	}
	step.Update("Applying the chart")
	if err := ctx.Err(); err != nil {
		return err
	}
	u.applied, err = u.release.Apply(ready.chart, ready.values, false)
	if err != nil {
		return err
	}
	for _, ignored := range u.applied.Ignored {
		u.Warn("No effect: %s", ignored)
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: u.cluster.namespace, Name: deploymentName}}
	err = u.wait(ctx, step, deployment, func() verdict { return deploymentAvailable(deployment) })
	if err != nil {
		if hint := u.deploymentTrouble(deployment); hint != "" {
			return fmt.Errorf("%w; %s", err, hint)
		}
		return err
	}
	return nil
}

func (u *undoing) createNamespace(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: u.cluster.namespace}}
	setLabel(namespace, api.LabelManaged, api.True)
	addTo(namespace.GetLabels, namespace.SetLabels, u.labels)
	addTo(namespace.GetAnnotations, namespace.SetAnnotations, u.annotations)
	err := u.Create(ctx, namespace)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("creating namespace %s: %w", namespace.Name, err)
	}
	u.namespace = namespace
	return nil
}

// rollback takes back what this installation changed, and nothing that was there before.
func (u *undoing) rollback() error {
	ctx, cancel := context.WithTimeout(context.Background(), rollbackTimeout)
	defer cancel()
	step := u.Start("Taking the installation back")
	defer step.End()
	var errs []error
	if u.applied != nil {
		errs = append(errs, u.applied.Undo())
	}
	if u.applied == nil || u.applied.Fresh() {
		var objects []client.Object
		for _, crd := range u.crds {
			objects = append(objects, crd)
		}
		errs = append(errs, installer.ReleaseObjects(ctx, u.cluster, objects, nil))
		if u.namespace != nil {
			objects = append(objects, u.namespace)
		}
		errs = append(errs, installer.Remove(ctx, u.cluster, objects))
		for _, object := range objects {
			errs = append(errs, u.gone(ctx, step, object))
		}
	}
	return errors.Join(errs...)
}

func crdEstablished(crd *apiextensionsv1.CustomResourceDefinition) verdict {
	for _, condition := range crd.Status.Conditions {
		switch {
		case condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue:
			return yes()
		case condition.Type == apiextensionsv1.NamesAccepted && condition.Status == apiextensionsv1.ConditionFalse:
			return never("its names are taken, %s: %s: remove the definition that holds them", condition.Reason, condition.Message)
		}
	}
	return notYet("condition Established is not true")
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

// deploymentTrouble tells what hinders the pods of a Deployment, to explain a wait that failed.
func (c *cluster) deploymentTrouble(deployment *appsv1.Deployment) string {
	if deployment.Spec.Selector == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(deployment.Namespace), client.MatchingLabels(deployment.Spec.Selector.MatchLabels)); err != nil {
		return ""
	}
	for i := range pods.Items {
		if why := podTrouble(&pods.Items[i]); why != "" {
			return why
		}
	}
	for _, condition := range deployment.Status.Conditions {
		if condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue {
			return fmt.Sprintf("its pods can not be created, %s: %s", condition.Reason, condition.Message)
		}
	}
	return ""
}
