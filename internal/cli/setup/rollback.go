package setup

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/install/installer"
	"liqo.io/liqo/internal/kube"
)

// rollbackTimeout bounds the rollback of a failed installation. It is separate from the timeout of the installation, which may have expired
// by then.
const rollbackTimeout = 2 * time.Minute

// rollback rolls back the changes of this installation. It keeps everything that existed before.
func (u *installRun) rollback() error {
	ctx, cancel := context.WithTimeout(context.Background(), rollbackTimeout)
	defer cancel()
	step := u.Start("Rolling back the installation")
	defer step.End()
	var errs []error
	if u.applied != nil {
		errs = append(errs, u.applied.Undo())
	}
	errs = append(errs, installer.RestoreCRDs(ctx, u.Cluster, u.defined.Before))
	if u.applied != nil && !u.applied.Fresh() {
		workloads, err := u.release.Workloads()
		return errors.Join(append(errs, err, rolledOut(ctx, u.Cluster, step, workloads))...)
	}
	var objects []client.Object
	for _, crd := range u.defined.Created {
		objects = append(objects, crd)
	}
	errs = append(errs, installer.ReleaseObjects(ctx, u.Cluster, objects, nil))
	if u.admitting != nil {
		errs = append(errs, u.admit(ctx, u.admitting, "null"))
	}
	if u.created != nil {
		objects = append(objects, u.created)
	}
	errs = append(errs, installer.Remove(ctx, u.Cluster, objects))
	for _, object := range objects {
		errs = append(errs, u.WaitGone(ctx, step, object))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return u.removeStorage(ctx, step)
}

// removeStorage removes the namespaces that this installation created and that Helm keeps, because they may hold data of users: the storage namespace.
// It keeps a namespace with claims, or with workloads that are not Liqo's. The release is uninstalled before, so no controller of Liqo has the right to create a claim any more.
func (u *installRun) removeStorage(ctx context.Context, step *console.Step) error {
	if u.existing == nil {
		return nil
	}
	created, err := installer.KeptNamespaces(ctx, u.Cluster, u.Namespace)
	if err != nil {
		return err
	}
	for _, namespace := range created {
		if u.existing[namespace.Name] {
			continue
		}
		why, err := installer.WhyKept(ctx, u.Cluster, namespace.Name)
		if err != nil {
			return err
		}
		if why != "" {
			u.Warn("This installation created a namespace that is kept: %s", why)
			continue
		}
		if err := kube.Delete(ctx, u.Cluster, namespace); err != nil {
			return err
		}
		if err := u.WaitGone(ctx, step, namespace); err != nil {
			return err
		}
	}
	return nil
}

// namespaces returns the names of all namespaces.
func (u *installRun) namespaces(ctx context.Context) (map[string]bool, error) {
	var list corev1.NamespaceList
	if err := u.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing Namespaces: %w", err)
	}
	names := map[string]bool{}
	for i := range list.Items {
		names[list.Items[i].Name] = true
	}
	return names, nil
}
