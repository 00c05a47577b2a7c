package cli

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/internal/install"
	"liqo.io/liqo/internal/install/installer"
	"liqo.io/liqo/internal/version"
)

type installOptions struct {
	request                       install.Request
	chartVersion, repoURL         string
	chartPath, valuesPath         string
	onlyValues, dryRun            bool
	skipValidation                bool
	timeout                       time.Duration
	set, setString, valueFiles    []string
	disableTelemetry, disableKern bool
}

func (a *app) installCommand() *cobra.Command {
	command := &cobra.Command{
		Use:     "install",
		Aliases: []string{"upgrade"},
		Short:   "Install or upgrade Liqo in a cluster",
		Long: "Install Liqo in the cluster, or upgrade the installation there. The address ranges are found out where the cluster\n" +
			"tells them; a subcommand names the kind of cluster where it matters. What fails is taken back.",
		Example: example(`
			# A cluster with a name of its own, and labels for its virtual nodes in other clusters
			%[1]s install --cluster-id rome --cluster-labels topology.kubernetes.io/region=europe
			# A cluster whose kubeconfig is not how others reach it
			%[1]s install --api-server-url https://rome.example.org:6443 --pod-cidr 10.244.0.0/16 --service-cidr 10.96.0.0/12
			# With values of the chart
			%[1]s install kubeadm --set controllerManager.replicas=2 --values my-values.yaml
			# Only write the values, for GitOps
			%[1]s install kubeadm --only-output-values --dump-values-path values.yaml`),
	}
	a.addProvider(command, install.Generic)
	for _, provider := range install.Providers {
		short := map[install.Provider]string{
			install.Generic: "Install Liqo in any cluster",
			install.Kubeadm: "Install Liqo in a cluster made by kubeadm",
			install.Kind:    "Install Liqo in a kind cluster",
			install.K3s:     "Install Liqo in a k3s cluster",
		}[provider]
		child := &cobra.Command{
			Use: string(provider), Short: short, Long: short + ". See install --help for what it does.",
			Example: example("\t%[1]s install " + string(provider) + " --cluster-id rome"),
		}
		a.addProvider(child, provider)
		command.AddCommand(child)
	}
	return command
}

// addProvider gives a command the flags and the work of installing into a kind of cluster.
func (a *app) addProvider(command *cobra.Command, provider install.Provider) {
	o := &installOptions{request: install.Request{Provider: provider}}
	flags := command.Flags()
	flags.StringVar(&o.chartVersion, "version", version.Version, "Version to install; another one than that of liqoctl wants --local-chart-path")
	flags.StringVar(&o.repoURL, "repo-url", "", "Accepted for compatibility: the chart is part of liqoctl, or at --local-chart-path")
	flags.StringVar(&o.chartPath, "local-chart-path", "", "Install the chart in this folder or archive instead of the one inside liqoctl")
	flags.BoolVar(&o.onlyValues, "only-output-values", false, "Only write the values of the chart, install nothing")
	flags.StringVar(&o.valuesPath, "dump-values-path", "", "Write the values of the chart to this file (default: ./values.yaml with --only-output-values)")
	flags.BoolVar(&o.dryRun, "dry-run", false, "Do everything up to the first change, and let the API server check the objects")
	flags.DurationVar(&o.timeout, "timeout", 10*time.Minute, "How long to wait in all; then everything is taken back")
	flags.StringVar(&o.request.ClusterID, "cluster-id", "", "ID of the cluster among its peers, a DNS label (default: the one installed, else a random name)")
	flags.StringVar(&o.request.ClusterID, "cluster-name", "", "The same as --cluster-id")
	flags.StringToStringVar(&o.request.ClusterLabels, "cluster-labels", nil, "Labels of this cluster's virtual nodes in other clusters (key=value,...)")
	flags.StringSliceVar(&o.request.PodCIDRs, "pod-cidr", nil, "Address ranges of the pods (default: found out)")
	flags.StringVar(&o.request.ServiceCIDR, "service-cidr", "", "Address range of the services (default: found out)")
	flags.StringSliceVar(&o.request.ReservedSubnets, "reserved-subnets", nil, "Address ranges that must not be used for remapping")
	flags.StringVar(&o.request.APIServerURL, "api-server-url", "", "URL under which the peers reach the API server (default: that of the kubeconfig, unless it is local)")
	flags.StringArrayVar(&o.set, "set", nil, "Values of the chart (a.b=c,...)")
	flags.StringArrayVar(&o.setString, "set-string", nil, "Values of the chart, always as text (a.b=c,...)")
	flags.StringArrayVar(&o.valueFiles, "values", nil, "Files with values of the chart")
	flags.BoolVar(&o.request.SkipAPIServerCheck, "disable-api-server-sanity-check", false, "Take --api-server-url as it is")
	flags.BoolVar(&o.skipValidation, "skip-validation", false, "Install although requirements are not met")
	flags.BoolVar(&o.request.EnableMetrics, "enable-metrics", false, "Serve Prometheus metrics")
	flags.BoolVar(&o.disableTelemetry, "disable-telemetry", false, "Accepted for compatibility: there is no telemetry")
	flags.BoolVar(&o.disableKern, "disable-kernel-version-check", false, "Accepted for compatibility: the kernel is not checked")
	command.Args = cobra.NoArgs
	command.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
		defer cancel()
		return a.install(ctx, o)
	}
	command.MarkFlagsMutuallyExclusive("cluster-id", "cluster-name")
}

func (o *installOptions) validate() error {
	if o.chartVersion != version.Version && o.chartPath == "" {
		return fmt.Errorf("--version %s: this liqoctl carries the chart of version %s: use the liqoctl of that version, or give its chart with --local-chart-path", o.chartVersion, version.Version)
	}
	if o.repoURL != "" && o.chartPath == "" {
		return fmt.Errorf("--repo-url %s: charts are not fetched: clone the repository and give its chart with --local-chart-path", o.repoURL)
	}
	return nil
}

// prepared is everything that is decided before the first change.
type prepared struct {
	chart  *chartv2.Chart
	crds   []*apiextensionsv1.CustomResourceDefinition
	values map[string]any
	id     string
}

func (a *app) install(ctx context.Context, o *installOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	c, err := a.local()
	if err != nil {
		return err
	}
	ready, err := a.prepare(ctx, c, o)
	if err != nil {
		return err
	}
	if o.onlyValues || o.valuesPath != "" {
		path := orDefault(o.valuesPath, "values.yaml")
		if err := writeValues(path, ready.values); err != nil {
			return err
		}
		if o.onlyValues {
			c.Info("All Set! The values of the chart are in %s", path)
			return nil
		}
		c.Info("The values of the chart are in %s", path)
	}
	return a.apply(ctx, c, o, ready)
}

// prepare finds out about the cluster and computes the values.
func (a *app) prepare(ctx context.Context, c *cluster, o *installOptions) (*prepared, error) {
	step := c.Start("Preparing the installation")
	defer step.End()
	chart, err := installer.Chart(o.chartPath)
	if err != nil {
		return nil, err
	}
	crds, err := installer.CRDs(chart)
	if err != nil {
		return nil, err
	}
	c.Info("Installer initialized")
	step.Update("Retrieving the cluster configuration")
	facts, err := installer.Gather(ctx, c.config, c, c.namespace)
	if err != nil {
		return nil, err
	}
	c.Info("Cluster configuration correctly retrieved")
	given, err := installer.UserValues(o.valueFiles, o.set, o.setString)
	if err != nil {
		return nil, err
	}
	request := o.request.WithValues(given)
	request.Namespace, request.GlobalLabels, request.GlobalAnnotations = c.namespace, a.labels, a.annotations
	if problems := install.Preflight(request, facts); len(problems) > 0 {
		if !o.skipValidation {
			return nil, install.Problems(problems)
		}
		for _, problem := range problems {
			c.Warn("%s", problem)
		}
	}
	computed, networks := install.Values(request, facts, rand.Uint64())
	c.Verbose("Pod CIDR %s, from %s", strings.Join(networks.PodCIDRs, ", "), networks.PodSource)
	c.Verbose("Service CIDR %s, from %s", strings.Join(networks.ServiceCIDRs, ", "), networks.ServiceSource)
	out := &prepared{chart: chart, crds: crds, values: install.Merge(computed, given)}
	if out.id, err = clusterIDOf(out.values); err != nil {
		return nil, err
	}
	// What the chart refuses is refused before the first change.
	if _, err := installer.Render(chart, c.namespace, out.values); err != nil {
		return nil, err
	}
	step.Done("Installation parameters correctly generated")
	return out, nil
}

// clusterIDOf reads the ID back from the values, where a file or --set may have changed it.
func clusterIDOf(values map[string]any) (string, error) {
	discovery, _ := values["discovery"].(map[string]any)
	config, _ := discovery["config"].(map[string]any)
	id, _ := config["clusterID"].(string)
	if err := install.ValidateClusterID(id); err != nil {
		return "", fmt.Errorf("value discovery.config.clusterID: %w", err)
	}
	return id, nil
}

func writeValues(path string, values map[string]any) error {
	data, err := yaml.Marshal(values)
	if err != nil {
		return fmt.Errorf("writing the values: %w", err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return fmt.Errorf("writing the values: %w", err)
	}
	return nil
}
