package installer

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/action"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/release/common"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/internal/install"
)

// helmTimeout is the timeout of Helm's individual requests. Helm never waits for the rollout. A pending operation older than that counts as
// abandoned.
const helmTimeout = 5 * time.Minute

// historyLength is the number of revisions of the release that are kept for rollbacks.
const historyLength = 5

// Release is the Helm release of Liqo in one namespace of one cluster.
type Release struct {
	config    *action.Configuration
	namespace string
	// Abandoned means that the process that last changed the release has certainly ended. A pending operation may then be rolled back
	// immediately.
	Abandoned bool
}

// PendingError is returned if another Helm process is changing the release.
type PendingError struct {
	Namespace, Status string
	Since, Until      time.Time
}

// Error says when the release can be changed again.
func (e *PendingError) Error() string {
	return fmt.Sprintf("Helm release %s in namespace %s is %s since %s: another Helm process is changing it. Run the command again when that process has ended; "+
		"if it was killed, any run after %s rolls the release back", install.Release, e.Namespace, e.Status, e.Since.UTC().Format(time.RFC3339), e.Until.UTC().Format(time.RFC3339))
}

// Changeable returns a PendingError if, according to its status, another Helm process is changing the release.
func (r *Release) Changeable() error {
	last, err := r.last()
	if err != nil || last == nil || !last.Info.Status.IsPending() || r.Abandoned {
		return err
	}
	if until := last.Info.LastDeployed.Add(helmTimeout); time.Now().Before(until) {
		return &PendingError{Namespace: r.namespace, Status: string(last.Info.Status), Since: last.Info.LastDeployed, Until: until}
	}
	return nil
}

// Revision returns the number and the status of the newest revision, as "number status". It is empty if there is no release.
func (r *Release) Revision() (string, error) {
	release, err := r.last()
	if err != nil || release == nil {
		return "", err
	}
	return fmt.Sprintf("%d %s", release.Version, release.Info.Status), nil
}

// NewRelease initializes Helm for the release in a namespace. Helm writes its log to w.
func NewRelease(getter genericclioptions.RESTClientGetter, namespace string, w io.Writer) (*Release, error) {
	config := action.NewConfiguration(action.ConfigurationSetLogger(slog.NewTextHandler(w, nil)))
	if err := config.Init(getter, namespace, "secret"); err != nil {
		return nil, fmt.Errorf("initializing Helm: %w", err)
	}
	return &Release{config: config, namespace: namespace}, nil
}

// last returns the newest revision, or nil if there is none.
func (r *Release) last() (*releasev1.Release, error) {
	result, err := r.config.Releases.Last(install.Release)
	if errors.Is(err, driver.ErrReleaseNotFound) || errors.Is(err, driver.ErrNoDeployedReleases) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Helm release %s in namespace %s, which is kept in a Secret: %w", install.Release, r.namespace, err)
	}
	release, ok := result.(*releasev1.Release)
	if !ok {
		return nil, fmt.Errorf("reading Helm release %s in namespace %s: unexpected type %T", install.Release, r.namespace, result)
	}
	return release, nil
}

// versionOf returns the version that a release runs: its value "tag" for the images, or else the version of its chart.
func versionOf(release *releasev1.Release) string {
	if tag, _ := release.Config["tag"].(string); tag != "" {
		return tag
	}
	return release.Chart.AppVersion()
}

// Version returns the version of the newest revision. It is empty if nothing is installed.
func (r *Release) Version() (string, error) {
	release, err := r.last()
	if err != nil || release == nil {
		return "", err
	}
	return versionOf(release), nil
}

// Installed returns the version and the user's values that an upgrade starts from. They are empty if nothing is installed.
func (r *Release) Installed() (version string, values map[string]any, err error) {
	release, err := r.last()
	if err != nil || release == nil {
		return "", nil, err
	}
	if deployed := r.deployed(); deployed != nil { // a failed upgrade does not count
		release = deployed
	}
	return versionOf(release), release.Config, nil
}

// deployed returns the last revision that was deployed successfully; nil if there is none. After a failed upgrade it is not the newest one.
func (r *Release) deployed() *releasev1.Release {
	result, err := r.config.Releases.Deployed(install.Release)
	if err != nil {
		return nil
	}
	deployed, _ := result.(*releasev1.Release)
	return deployed
}

// baseline returns the revision that a change is rolled back to: the last deployed one, or else the given one.
func (r *Release) baseline(otherwise int) int {
	if deployed := r.deployed(); deployed != nil {
		return deployed.Version
	}
	return otherwise
}

// Applied is a change of the release that can be rolled back.
type Applied struct {
	release *Release
	// before is the revision to roll back to. 0 means that there was none.
	before int
	// Ignored lists the given values that have no effect in this version, each with the reason.
	Ignored []string
	// Workloads are the workloads of the release.
	Workloads []Workload
}

// Workload is a Deployment or a DaemonSet in the namespace of the release.
type Workload struct{ Kind, Name string }

// Fresh reports whether nothing was installed before.
func (a *Applied) Fresh() bool { return a.before == 0 }

// Apply installs the chart, or upgrades the release to it, with exactly the given values. To keep the values of the earlier revision, the
// caller merges them (see Installed). Apply returns once the objects are written. If a change failed half way, Apply returns an Applied too,
// which rolls it back.
func (r *Release) Apply(chart *chartv2.Chart, vals map[string]any, dryRun bool) (*Applied, error) {
	last, err := r.last()
	if err != nil {
		return nil, err
	}
	// Helm refuses to change a release with a pending operation, so an interrupted operation is rolled back first.
	if last != nil && last.Info.Status.IsPending() && !dryRun {
		if err := r.Changeable(); err != nil {
			return nil, err
		}
		if err := r.recover(last); err != nil {
			return nil, err
		}
		if last, err = r.last(); err != nil {
			return nil, err
		}
	}
	if last == nil || last.Info.Status == common.StatusUninstalled {
		return r.install(chart, vals, dryRun)
	}
	run := action.NewUpgrade(r.config)
	run.Namespace = r.namespace
	run.SkipCRDs = true
	// Helm's own merge with the values of the earlier revision drops a null for a key that the user had set, so the default would return.
	run.ResetValues = true
	run.ServerSideApply = "true"
	run.ForceConflicts = true
	run.DisableOpenAPIValidation = true
	run.WaitStrategy = kube.HookOnlyStrategy
	run.Timeout = helmTimeout
	run.MaxHistory = historyLength
	if dryRun {
		run.DryRunStrategy = action.DryRunServer
	}
	applied := &Applied{release: r, before: r.baseline(last.Version)}
	result, err := run.Run(install.Release, chart, vals)
	if err != nil {
		return applied, fmt.Errorf("upgrading Helm release %s in namespace %s: %w", install.Release, r.namespace, err)
	}
	if release, ok := result.(*releasev1.Release); ok {
		applied.Ignored, applied.Workloads = ignored(release), workloads(release)
	}
	return applied, nil
}

func (r *Release) install(chart *chartv2.Chart, vals map[string]any, dryRun bool) (*Applied, error) {
	run := action.NewInstall(r.config)
	run.ReleaseName = install.Release
	run.Namespace = r.namespace
	run.SkipCRDs = true
	run.ServerSideApply = true
	run.DisableOpenAPIValidation = true
	run.WaitStrategy = kube.HookOnlyStrategy
	run.Timeout = helmTimeout
	if dryRun {
		run.DryRunStrategy = action.DryRunServer
	}
	applied := &Applied{release: r}
	result, err := run.Run(chart, vals)
	if err != nil {
		return applied, fmt.Errorf("installing Helm release %s in namespace %s: %w", install.Release, r.namespace, err)
	}
	if release, ok := result.(*releasev1.Release); ok {
		applied.Ignored, applied.Workloads = ignored(release), workloads(release)
	}
	return applied, nil
}

// workloads returns the workloads in the manifest of a release.
func workloads(release *releasev1.Release) (out []Workload) {
	for _, document := range strings.Split(release.Manifest, "\n---\n") {
		var object struct {
			Kind     string `json:"kind"`
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
		}
		if yaml.Unmarshal([]byte(document), &object) == nil && (object.Kind == "Deployment" || object.Kind == "DaemonSet") {
			out = append(out, Workload{object.Kind, object.Metadata.Name})
		}
	}
	return out
}

// Workloads returns the workloads of the newest revision of the release.
func (r *Release) Workloads() ([]Workload, error) {
	release, err := r.last()
	if err != nil || release == nil {
		return nil, err
	}
	return workloads(release), nil
}

// Objects returns the number of objects in the manifest of the release.
func (r *Release) Objects() (n int, err error) {
	release, err := r.last()
	if err != nil || release == nil {
		return 0, err
	}
	for document := range strings.SplitSeq(release.Manifest, "\n---\n") {
		if strings.Contains(document, "\nkind: ") {
			n++
		}
	}
	return n, nil
}

// recover rolls back an interrupted operation.
func (r *Release) recover(last *releasev1.Release) error {
	if last.Info.Status == common.StatusPendingInstall || last.Version == 1 {
		return r.Uninstall()
	}
	return (&Applied{release: r, before: r.baseline(last.Version - 1)}).Undo()
}

// Undo rolls the release back to the revision before the change, or uninstalls the release if there was none.
func (a *Applied) Undo() error {
	if a.Fresh() {
		return a.release.Uninstall()
	}
	run := action.NewRollback(a.release.config)
	run.Version = a.before
	run.ServerSideApply = "true"
	run.ForceConflicts = true
	run.WaitStrategy = kube.HookOnlyStrategy
	run.Timeout = helmTimeout
	run.MaxHistory = historyLength
	if err := run.Run(install.Release); err != nil {
		return fmt.Errorf("rolling Helm release %s in namespace %s back to revision %d: %w", install.Release, a.release.namespace, a.before, err)
	}
	return nil
}

// Uninstall removes the release and its history. It is not an error if there is no release. It returns once the deletions are requested.
func (r *Release) Uninstall() error {
	run := action.NewUninstall(r.config)
	run.IgnoreNotFound = true
	run.WaitStrategy = kube.HookOnlyStrategy
	run.DeletionPropagation = "background"
	run.Timeout = helmTimeout
	if _, err := run.Run(install.Release); err != nil {
		return fmt.Errorf("uninstalling Helm release %s from namespace %s: %w", install.Release, r.namespace, err)
	}
	return nil
}
