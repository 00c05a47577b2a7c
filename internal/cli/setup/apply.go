package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/cli/preview"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/workload"
	"liqo.io/liqo/internal/install"
	"liqo.io/liqo/internal/install/installer"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/version"
)

// runApply carries out the installation and waits until it works. It rolls back a failed installation.
func runApply(ctx context.Context, a *session.Session, c *session.Cluster, o *installOptions, ready *prepared) error {
	step := c.Start("Installing")
	defer step.End()
	release, err := installer.NewRelease(c.Getter, c.Namespace, helmLog(a))
	if err != nil {
		return err
	}
	if o.dryRun {
		return dryRunChart(ctx, c, step, release, ready)
	}
	a.Journal.RollsBack()
	undo := &installRun{Cluster: c, release: release}
	err = undo.apply(ctx, step, ready)
	step.End()
	if undo.lock == nil || errors.Is(err, installer.ErrLockLost) {
		if undo.created != nil && err != nil {
			err = fmt.Errorf("%w\nNamespace %s was created, and is left", err, undo.created.Name)
		}
		return err // another process is responsible for the current state
	}
	if err == nil {
		if err := undo.lock.Release(ctx); err != nil {
			c.Warn("The lock of the installation could not be released; it expires by itself: %v", err)
		}
		if ready.upgrades != "" && ready.upgrades != ready.chart.AppVersion() {
			c.Info("Upgraded from version %s to %s", ready.upgrades, ready.chart.AppVersion())
		}
		c.Info("All Set! This cluster is %s. You can now proceed establishing a peering (liqoctl peer --help for more information)", ready.id)
		c.Info("Make sure to use liqoctl %s with this cluster. Its peers must run the same version of Liqo, or the previous version during an upgrade",
			version.Version)
		return nil
	}
	if rollbackErr := undo.rollback(); rollbackErr != nil {
		undo.lock.Keep() // the next run then knows that this process has ended, and resumes immediately
		return fmt.Errorf("%w\nRolling it back failed too: %w", err, rollbackErr)
	}
	if releaseErr := undo.lock.Release(ctx); releaseErr != nil {
		c.Warn("The lock of the installation could not be released; it expires by itself: %v", releaseErr)
	}
	if undo.applied != nil && !undo.applied.Fresh() {
		return fmt.Errorf("%w\nRolled back to version %s", err, ready.upgrades)
	}
	return fmt.Errorf("%w\nThe installation was rolled back", err)
}

// dryRunChart lets the API server validate the objects of the chart. This is only possible if the custom resource definitions are installed already.
func dryRunChart(ctx context.Context, c *session.Cluster, step *console.Step, release *installer.Release, ready *prepared) error {
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

func helmLog(a *session.Session) io.Writer {
	if a.Verbose {
		return a.Streams.ErrOut
	}
	return io.Discard
}

// installRun is a running installation that can be rolled back.
type installRun struct {
	*session.Cluster
	release *installer.Release
	applied *installer.Applied
	defined installer.Defined
	// lock is held from before the first change until the end. It is nil if another process holds it, or has changed the installation since it was
	// prepared.
	lock *installer.Lock
	// created is the namespace if this run created it. admitting is set if this run labelled an existing namespace to admit Liqo's pods.
	created, admitting *corev1.Namespace
	// existing are the names of the namespaces that existed before a new release. It is nil if they were not read: the rollback then removes no
	// namespace of the release.
	existing map[string]bool
}

func (u *installRun) apply(ctx context.Context, step *console.Step, ready *prepared) error {
	namespace, err := u.ensureNamespace(ctx)
	if err != nil {
		return err
	}
	ctx, err = u.acquire(ctx, step, ready)
	if err != nil {
		return err
	}
	if err := u.admitPods(ctx, namespace); err != nil {
		return u.lostFirst(ctx, err)
	}
	if err := u.applyAll(ctx, step, ready); err != nil {
		return u.lostFirst(ctx, err)
	}
	return nil
}

// lostFirst returns err. If the lock was lost, it puts ErrLockLost first, because that is the cause of the failure.
func (u *installRun) lostFirst(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, installer.ErrLockLost) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// acquire takes the lock. It fails if the installation has changed since it was prepared.
func (u *installRun) acquire(ctx context.Context, step *console.Step, ready *prepared) (context.Context, error) {
	held, lock, err := installer.Acquire(ctx, withoutJournal(u.Cluster), u.Namespace, lockHolder(), installer.LockTiming{}, func(holder string) {
		step.Update("Waiting to see whether %s is still running", holder)
	})
	if err != nil {
		return ctx, err
	}
	if lock.From != "" {
		u.Warn("The lock of %s, acquired at %s, is no longer renewed, so that command was killed. This command first completes the unfinished steps",
			lock.From, lock.FromSince.UTC().Format(time.RFC3339))
		u.release.Abandoned = true
	}
	revision, err := u.release.Revision()
	if err == nil && revision != ready.revision {
		err = fmt.Errorf("another user or program changed the installation in namespace %s during this command (Helm release %s, revision %s): run the command again",
			u.Namespace, install.Release, cmp.Or(revision, "none"))
	}
	if err == nil {
		err = u.release.Changeable()
	}
	if err != nil {
		return ctx, errors.Join(err, lock.Release(ctx))
	}
	u.lock = lock
	return held, nil
}

// withoutJournal returns the client without the journal. It is for the Lease of the lock, which is temporary and must not appear among the changes of the
// command.
func withoutJournal(c *session.Cluster) client.Client { return preview.Unrecorded(c.WithWatch) }

// lockHolder returns the holder identity for the lock: the user, the machine and the process ID.
func lockHolder() string {
	who, where := os.Getenv("USER"), "an unknown machine"
	if current, err := user.Current(); err == nil {
		who = current.Username
	}
	if host, err := os.Hostname(); err == nil {
		where = host
	}
	return fmt.Sprintf("liqoctl of %s on %s (process %d)", cmp.Or(who, "an unknown user"), where, os.Getpid())
}

func (u *installRun) applyAll(ctx context.Context, step *console.Step, ready *prepared) error {
	step.Update("Applying the custom resource definitions")
	defined, err := installer.ApplyCRDs(ctx, u.Cluster, ready.crds, u.Labels, u.Annotations)
	u.defined = defined
	if err != nil {
		return err
	}
	for _, crd := range ready.crds {
		established := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: crd.Name}}
		if err := u.WaitFor(ctx, step, established, func() session.Verdict { return workload.CRDEstablished(established) }); err != nil {
			return err
		}
	}
	step.Update("Applying the chart")
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("applying the chart: %w", err)
	}
	if ready.revision == "" {
		if u.existing, err = u.namespaces(ctx); err != nil {
			return err
		}
	}
	u.applied, err = u.release.Apply(ready.chart, ready.values, false)
	if err != nil {
		return err
	}
	for _, ignored := range u.applied.Ignored {
		u.Warn("No effect: %s", ignored)
	}
	return rolledOut(ctx, u.Cluster, step, u.applied.Workloads)
}

// LabelPodSecurity is the namespace label with the Pod Security level that its pods must meet. The network agents need "privileged",
// because they use the host network.
const LabelPodSecurity = "pod-security.kubernetes.io/enforce"

// ensureNamespace creates the namespace of the installation. It returns the namespace if it existed before, and nil if this run created it.
func (u *installRun) ensureNamespace(ctx context.Context) (*corev1.Namespace, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: u.Namespace}}
	kube.AddLabels(namespace, map[string]string{api.LabelManaged: api.True, LabelPodSecurity: "privileged"})
	u.Mark(namespace)
	err := u.Create(ctx, namespace)
	if err == nil {
		u.created = namespace
		return nil, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("creating namespace %s: %w", namespace.Name, err)
	}
	found := &corev1.Namespace{}
	if err := u.Get(ctx, client.ObjectKeyFromObject(namespace), found); err != nil {
		return nil, fmt.Errorf("reading namespace %s: %w", namespace.Name, err)
	}
	if found.DeletionTimestamp != nil {
		return nil, u.Leaving(found)
	}
	return found, nil
}

// admitPods labels an existing namespace to admit Liqo's pods, whatever the default of the cluster is. It does not change an existing
// label.
func (u *installRun) admitPods(ctx context.Context, found *corev1.Namespace) error {
	if found == nil {
		return nil
	}
	if found.Labels[LabelPodSecurity] != "" {
		return nil
	}
	if err := u.admit(ctx, found, `"privileged"`); err != nil {
		return err
	}
	u.admitting = found
	return nil
}

// admit sets the Pod Security label of the namespace to the JSON value, or removes it if the value is null.
func (u *installRun) admit(ctx context.Context, namespace *corev1.Namespace, value string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, LabelPodSecurity, value)
	if err := u.Patch(ctx, namespace, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("labelling namespace %s: %w", namespace.Name, err)
	}
	return nil
}
