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

// helmTimeout bounds the single requests of Helm; it never waits for outcomes.
const helmTimeout = 5 * time.Minute

// historyLength is how many revisions of the release are kept to go back to.
const historyLength = 5

// Release is the Helm release in one namespace of one cluster.
type Release struct {
	config    *action.Configuration
	namespace string
	// Abandoned is whether the process that last changed the release is known to be gone: what it left half done may be rolled back at once.
	Abandoned bool
}

// PendingError is the refusal to change a release that another Helm is changing.
type PendingError struct {
	Namespace, Status string
	Since, Until      time.Time
}

// Error says when the release may be changed.
func (e *PendingError) Error() string {
	return fmt.Sprintf("Helm release %s in namespace %s is %s since %s: another Helm is changing it. Run the command again when that has ended; "+
		"if it was killed, the release is rolled back by any run after %s", install.Release, e.Namespace, e.Status, e.Since.UTC().Format(time.RFC3339), e.Until.UTC().Format(time.RFC3339))
}

// Changeable refuses while another Helm is changing the release, as far as its state tells.
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

// Revision is the number of the newest revision, with its state; empty when there is none.
func (r *Release) Revision() (string, error) {
	release, err := r.last()
	if err != nil || release == nil {
		return "", err
	}
	return fmt.Sprintf("%d %s", release.Version, release.Info.Status), nil
}

// NewRelease prepares for working with the release; Helm's own log goes to w.
func NewRelease(getter genericclioptions.RESTClientGetter, namespace string, w io.Writer) (*Release, error) {
	config := action.NewConfiguration(action.ConfigurationSetLogger(slog.NewTextHandler(w, nil)))
	if err := config.Init(getter, namespace, "secret"); err != nil {
		return nil, fmt.Errorf("initializing Helm: %w", err)
	}
	return &Release{config: config, namespace: namespace}, nil
}

// last returns the newest revision, or nil when there is none.
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

// versionOf is the version that a release runs: the tag that it was given for the images, or the version of its chart.
func versionOf(release *releasev1.Release) string {
	if tag, _ := release.Config["tag"].(string); tag != "" {
		return tag
	}
	return release.Chart.AppVersion()
}

// Version is the one that runs; empty when nothing is installed.
func (r *Release) Version() (string, error) {
	release, err := r.last()
	if err != nil || release == nil {
		return "", err
	}
	return versionOf(release), nil
}

// Installed is the version that an upgrade starts from and the values that it was given; empty when nothing is installed.
func (r *Release) Installed() (version string, values map[string]any, err error) {
	release, err := r.last()
	if err != nil || release == nil {
		return "", nil, err
	}
	// After an upgrade that came to grief, the one before counts.
	if result, err := r.config.Releases.Deployed(install.Release); err == nil {
		if deployed, ok := result.(*releasev1.Release); ok {
			release = deployed
		}
	}
	return versionOf(release), release.Config, nil
}

// Applied is a change of the release that can be taken back.
type Applied struct {
	release *Release
	// before is the revision to go back to; 0 means that there was none.
	before int
	// Ignored are the values that were given and do nothing in this version, each with the reason.
	Ignored []string
	// Workloads are what runs the pods of the release.
	Workloads []Workload
}

// Workload is a Deployment or a DaemonSet in the namespace of the release.
type Workload struct{ Kind, Name string }

// Fresh tells whether nothing was installed before.
func (a *Applied) Fresh() bool { return a.before == 0 }

// Apply installs the chart, or upgrades the release to it; values that the user gave to an earlier revision stay unless changed
// now. It returns once the objects are written; what it returns takes them back, also when it failed half way.
func (r *Release) Apply(chart *chartv2.Chart, vals map[string]any, dryRun bool) (*Applied, error) {
	last, err := r.last()
	if err != nil {
		return nil, err
	}
	// What was interrupted is finished first: Helm refuses to work on it.
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
	run.ResetThenReuseValues = true
	run.ServerSideApply = "true"
	run.ForceConflicts = true
	run.DisableOpenAPIValidation = true
	run.WaitStrategy = kube.HookOnlyStrategy
	run.Timeout = helmTimeout
	run.MaxHistory = historyLength
	if dryRun {
		run.DryRunStrategy = action.DryRunServer
	}
	applied := &Applied{release: r, before: last.Version}
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

// workloads are those in the manifest of a release.
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

// Workloads are those of the release as it is now.
func (r *Release) Workloads() ([]Workload, error) {
	release, err := r.last()
	if err != nil || release == nil {
		return nil, err
	}
	return workloads(release), nil
}

// Objects is how many there are in the manifest of the release.
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

// recover takes an interrupted operation back.
func (r *Release) recover(last *releasev1.Release) error {
	if last.Info.Status == common.StatusPendingInstall || last.Version == 1 {
		return r.Uninstall()
	}
	return (&Applied{release: r, before: last.Version - 1}).Undo()
}

// Undo goes back to the revision before, or removes the release when there was none.
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

// Uninstall removes the release with its history; that there is none is fine. It returns once the deletions are requested.
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
