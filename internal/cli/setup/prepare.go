package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/install"
	"liqo.io/liqo/internal/install/installer"
	"liqo.io/liqo/internal/version"
)

// prepared holds everything that is decided before the first change.
type prepared struct {
	chart  *chartv2.Chart
	crds   []*apiextensionsv1.CustomResourceDefinition
	values map[string]any
	id     string
	// upgrades is the currently installed version. It is empty if there is none.
	upgrades string
	// revision is the revision of the Helm release on which the preparation is based. It is empty if there is none.
	revision string
}

// prepareInstall gathers the facts about the cluster, computes the values, and fails if the installation cannot work.
func prepareInstall(ctx context.Context, a *session.Session, c *session.Cluster, o *installOptions) (*prepared, error) {
	c.Info("Kubernetes clients successfully initialized")
	step := c.Start("Preparing the installation")
	defer step.End()
	chart, err := installer.Chart(o.chartPath)
	if err != nil {
		return nil, err
	}
	if o.chartPath != "" {
		installer.SetVersion(chart, o.chartVersion, o.versionAsked)
	}
	out := &prepared{chart: chart}
	if out.crds, err = installer.CRDs(chart); err != nil {
		return nil, err
	}
	given, err := installer.UserValues(o.valueFiles, o.set, o.setString)
	if err != nil {
		return nil, err
	}
	c.Info("Installer initialized")
	if err := out.readRevision(a, c); err != nil {
		return nil, err
	}
	facts, err := gatherInstallFacts(ctx, a, c, step, o)
	if err != nil {
		return nil, err
	}
	out.upgrades = facts.InstalledVersion
	dropTag(c, facts.Installed, given, chart.AppVersion())
	c.Info("Cluster configuration correctly retrieved")

	request := o.request.WithValues(given).WithAgents(install.Merge(chart.Values, facts.Installed, given))
	request.Namespace, request.GlobalLabels, request.GlobalAnnotations = c.Namespace, a.Labels, a.Annotations
	request.Version = cmp.Or(chart.AppVersion(), version.Version)
	evidence := "the subcommand"
	if request.Provider == "" {
		request.Provider, evidence = install.Detect(facts)
	} else if doubt := install.Doubt(request.Provider, facts); doubt != "" {
		c.Warn("%s", doubt)
	}
	computed, networks := install.Values(request, facts, rand.Uint64())
	out.values = install.DropNulls(install.Merge(facts.Installed, computed, given), chart.Values)
	c.Info("%s", install.Summary(install.Parameters(request, facts, out.values, networks, evidence)))
	for _, note := range facts.Cloud.Notes {
		c.Warn("%s", note)
	}
	if slices.Contains([]install.Provider{install.AKS, install.EKS, install.GKE}, request.Provider) && o.look == nil {
		c.Warn("The API of the cloud was not queried: \"liqoctl install %s\" reads the settings there, given the name of the cluster in the cloud",
			request.Provider)
	}
	problems := install.CheckRequest(request, facts)
	if !o.onlyValues { // the values may be meant for another user
		problems = append(problems, install.CheckCluster(request, facts)...)
	}
	if len(problems) > 0 {
		if !o.skipValidation {
			return nil, install.Problems(problems)
		}
		for _, problem := range problems {
			c.Warn("%s", problem)
		}
	}
	if out.id, err = clusterIDOf(out.values); err != nil {
		return nil, err
	}
	// Errors of the chart are found before the first change.
	if _, err := installer.Render(chart, c.Namespace, out.values); err != nil {
		return nil, err
	}
	step.Done("Installation parameters correctly generated")
	return out, nil
}

// dropTag removes the tag of the images from the values of an earlier installation. The images then have the version of the chart, unless
// the user passes a tag.
func dropTag(c *session.Cluster, installed, given map[string]any, version string) {
	tag, _ := installed["tag"].(string)
	if tag == "" {
		return
	}
	delete(installed, "tag")
	if now, _ := given["tag"].(string); now == "" && tag != version {
		c.Warn("The image tag %s of the installation is replaced by %s: to keep it, add --set tag=%s", tag, version, tag)
	}
}

// readRevision reads the revision of the release before all other facts.
func (p *prepared) readRevision(a *session.Session, c *session.Cluster) error {
	release, err := installer.NewRelease(c.Getter, c.Namespace, helmLog(a))
	if err != nil {
		return err
	}
	p.revision, err = release.Revision()
	return err
}

// gatherInstallFacts gathers the facts from the cluster, from its Helm release and from the API of the cloud provider.
func gatherInstallFacts(ctx context.Context, a *session.Session, c *session.Cluster, step *console.Step, o *installOptions) (install.Facts, error) {
	step.Update("Retrieving the cluster configuration")
	facts, err := installer.Gather(ctx, c.Config, c, c.Namespace)
	if err != nil {
		return facts, err
	}
	release, err := installer.NewRelease(c.Getter, c.Namespace, helmLog(a))
	if err != nil {
		return facts, err
	}
	if facts.InstalledVersion, facts.Installed, err = release.Installed(); err != nil {
		return facts, err
	}
	if o.look == nil {
		return facts, nil
	}
	step.Update("Asking the API of %s", o.request.Provider)
	if facts.Cloud, err = o.look(ctx); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return facts, fmt.Errorf("%w\nThe command timed out (--timeout)", err)
		}
		return facts, err
	}
	return facts, nil
}

// clusterIDOf reads the cluster ID from the final values, because a values file or --set may have changed it.
func clusterIDOf(values map[string]any) (string, error) {
	discovery, _ := values["discovery"].(map[string]any)
	config, _ := discovery["config"].(map[string]any)
	id, _ := config["clusterID"].(string)
	if err := install.ValidateClusterID(id); err != nil {
		return "", fmt.Errorf("value discovery.config.clusterID: %w", err)
	}
	return id, nil
}
