package setup

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/install"
	"liqo.io/liqo/internal/version"
)

type installOptions struct {
	request               install.Request
	chartVersion, repoURL string
	// versionAsked means that the user set --version.
	versionAsked               bool
	chartPath, valuesPath      string
	onlyValues, dryRun         bool
	skipValidation             bool
	timeout                    time.Duration
	set, setString, valueFiles []string
	disableTelemetry           bool
	upgrade                    bool // called as "upgrade": an installation must exist
	sharing                    int
	// look queries the API of the cloud provider about the cluster. It is nil if the provider has no such API.
	look func(context.Context) (install.Cloud, error)
}

// providerTexts holds the help texts for each distribution or cloud service.
var providerTexts = map[install.Provider]struct{ short, long, example string }{
	install.Generic: {"Install Liqo in any cluster", "The command assumes nothing: give the settings that it cannot detect.",
		"--api-server-url https://rome.example.org:6443 --pod-cidr 10.244.0.0/16 --service-cidr 10.96.0.0/12"},
	install.Kubeadm: {"Install Liqo in a cluster made by kubeadm",
		"The command reads the address ranges from the configuration of kubeadm, the CNI and the control plane.",
		"--cluster-id rome"},
	install.Kind: {"Install Liqo in a kind cluster", "Services for peers have type NodePort, because a kind cluster usually has no load balancers.",
		"--cluster-id rome"},
	install.K3s: {"Install Liqo in a k3s cluster", "Services for peers have type NodePort. Without another setting, the kubeconfig is /etc/rancher/k3s/k3s.yaml.",
		"--cluster-id rome --api-server-url https://192.0.2.10:6443"},
	install.OpenShift: {"Install Liqo in an OpenShift cluster",
		"The command reads the address ranges from the network operator, and grants the agents the security context constraints that they need.",
		"--cluster-id rome"},
	install.AKS: {"Install Liqo in a cluster of Azure (AKS)", "The command reads the address ranges and the address of the API server from Azure, with the login of the az CLI or the AZURE_* variables.\n" +
		"The login needs permission to read the cluster and, if pods have addresses of the virtual network, that network.",
		"--resource-group-name my-group --resource-name rome --subscription-name my-subscription"},
	install.EKS: {"Install Liqo in a cluster of Amazon (EKS)", "The command reads the address ranges and the address of the API server from AWS, with the configuration of the aws CLI. The user needs\n" +
		"the permissions eks:DescribeCluster and ec2:DescribeVpcs.",
		"--eks-cluster-region eu-west-1 --eks-cluster-name rome"},
	install.GKE: {"Install Liqo in a cluster of Google (GKE)", "The command reads the address ranges and the address of the API server from Google, with the service account of --credentials-path or\n" +
		"the application default credentials. The account needs the role roles/container.clusterViewer. --cluster-name gives the cluster ID.",
		"--project-id my-project --zone europe-west1-b --cluster-id rome --credentials-path ~/.liqo/gcp_service_account"},
}

// InstallCommand returns the command that installs and upgrades.
func InstallCommand(a *session.Session) *cobra.Command {
	command := &cobra.Command{
		Use:     "install",
		Aliases: []string{"upgrade"},
		Short:   "Install Liqo in a cluster, or upgrade it there",
		Long: "Install Liqo in the cluster, or upgrade the installation. The command detects the distribution and the address ranges and shows\n" +
			"them; flags override them. A subcommand selects the distribution. An upgrade keeps the settings of the installation unless flags\n" +
			"change them. If a step fails or takes too long, the command rolls back: it removes a new installation, and restores the previous\n" +
			"version after an upgrade. The command upgrade is the same, but it fails if Liqo is not installed.",
		Example: cmdline.Example(`
			# A cluster with a name of its own, and labels for its virtual nodes in other clusters
			%[1]s install --cluster-id rome --cluster-labels topology.kubernetes.io/region=europe
			# A cluster whose kubeconfig is not how others reach it
			%[1]s install --api-server-url https://rome.example.org:6443 --pod-cidr 10.244.0.0/16 --service-cidr 10.96.0.0/12
			# With values of the chart, and a second one of everything that a failure must not stop
			%[1]s install kubeadm --enable-ha --set offloading.runtimeClass.name=elsewhere --values my-values.yaml
			# Only write the values, for Helm or GitOps
			%[1]s install kubeadm --only-output-values --dump-values-path values.yaml
			# See what would be installed, and whether the cluster is fit for it
			%[1]s install --dry-run`),
	}
	cmdline.ListAlias(command, "upgrade", "Upgrade Liqo in a cluster: the command install, for an existing installation only")
	addProvider(a, command, "")
	for _, provider := range install.Providers {
		texts := providerTexts[provider]
		child := &cobra.Command{
			Use: string(provider), Short: texts.short, Long: texts.short + ". " + texts.long + "\nSee install --help for the rest.",
			Example: cmdline.Example("\t%[1]s install " + string(provider) + " " + texts.example),
		}
		addProvider(a, child, provider)
		command.AddCommand(child)
	}
	return command
}

// addProvider adds the flags and the implementation for a distribution or cloud service to a command. If provider is empty, the command detects it.
func addProvider(a *session.Session, command *cobra.Command, provider install.Provider) {
	o := &installOptions{request: install.Request{Provider: provider}}
	flags := command.Flags()
	flags.StringVar(&o.chartVersion, "version", version.Version,
		"Version to install, also the tag of the images; a version other than that of liqoctl needs --local-chart-path")
	flags.StringVar(&o.repoURL, "repo-url", "", "No effect, accepted for compatibility: the chart is part of liqoctl, or at --local-chart-path")
	flags.StringVar(&o.chartPath, "local-chart-path", "", "Install the chart in this folder or archive instead of the one inside liqoctl")
	flags.BoolVar(&o.onlyValues, "only-output-values", false, "Only write the values of the chart, without installing")
	flags.StringVar(&o.valuesPath, "dump-values-path", "", "Write the values of the chart to this file (default: ./values.yaml with --only-output-values)")
	flags.BoolVar(&o.dryRun, "dry-run", false, "Validate the installation on the API server, without applying anything")
	flags.DurationVar(&o.timeout, "timeout", 10*time.Minute, "Maximum time for the whole command; afterwards the installation is rolled back")
	flags.StringToStringVar(&o.request.ClusterLabels, "cluster-labels", nil, "Labels of this cluster's virtual nodes in other clusters (key=value,...)")
	flags.StringSliceVar(&o.request.PodCIDRs, "pod-cidr", nil, "Address ranges of the pods (default: detected)")
	flags.StringVar(&o.request.ServiceCIDR, "service-cidr", "", "Address range of the services (default: detected)")
	flags.StringSliceVar(&o.request.ReservedSubnets, "reserved-subnets", nil, "Address ranges that must not be used for remapping")
	flags.StringVar(&o.request.APIServerURL, "api-server-url", "",
		"URL under which the peers reach the API server (default: that of the kubeconfig, unless it is local)")
	flags.IntVar(&o.sharing, "sharing-percentage", 90, "Percentage of the free resources of this cluster that peers may use (an upgrade keeps the value unless the flag is given)")
	flags.StringVar(&o.request.ServiceType, "service-type", "", "Type of the Services by which peers reach the authentication service and new gateways: LoadBalancer, NodePort or ClusterIP (default: NodePort for kind and k3s, else LoadBalancer)")
	flags.BoolVar(&o.request.HighlyAvailable, "enable-ha", false, "Run two replicas of every component that must survive a failure")
	flags.StringArrayVar(&o.set, "set", nil, "Values of the chart (a.b=c,...)")
	flags.StringArrayVar(&o.setString, "set-string", nil, "Values of the chart, always as strings (a.b=c,...)")
	flags.StringArrayVar(&o.valueFiles, "values", nil, "Files with values of the chart")
	flags.BoolVar(&o.request.SkipAPIServerCheck, "disable-api-server-sanity-check", false, "Do not check whether --api-server-url is reachable")
	flags.BoolVar(&o.skipValidation, "skip-validation", false, "Install although requirements are not met")
	flags.BoolVar(&o.request.EnableMetrics, "enable-metrics", false,
		"Serve Prometheus metrics, and create the objects by which the Prometheus Operator, if installed, scrapes them")
	flags.BoolVar(&o.disableTelemetry, "disable-telemetry", false, "No effect, accepted for compatibility: there is no telemetry")
	flags.BoolVar(&o.request.SkipKernelCheck, "disable-kernel-version-check", false,
		"Do not check whether the kernel of a node is older than "+install.MinimumKernel)
	addClusterID(command, o)
	addCloud(command, o)
	session.CompleteOneOf(command, "service-type", cmdline.ServiceTypes...)
	command.Args = cobra.NoArgs
	command.RunE = session.WithTimeout(&o.timeout, func(ctx context.Context, _ []string) error {
		o.versionAsked = command.Flags().Changed("version")
		o.upgrade = calledAsUpgrade(a, command)
		if command.Flags().Changed("sharing-percentage") {
			o.request.SharingPercentage = &o.sharing
		}
		return runInstall(ctx, a, o)
	})
}

// addClusterID registers the flag for the cluster ID under two names, --cluster-id and --cluster-name, as different versions call it. For
// GKE, --cluster-id is the name of the cluster in the cloud, so only --cluster-name is registered.
func addClusterID(command *cobra.Command, o *installOptions) {
	const usage = "ID of the cluster among its peers, a DNS label (default: the one installed, else its name in the cloud, else a random one)"
	if o.request.Provider == install.GKE {
		command.Flags().StringVar(&o.request.ClusterID, "cluster-name", "", usage)
		return
	}
	command.Flags().StringVar(&o.request.ClusterID, "cluster-id", "", usage)
	command.Flags().StringVar(&o.request.ClusterID, "cluster-name", "", "The same as --cluster-id")
	command.MarkFlagsMutuallyExclusive("cluster-id", "cluster-name")
}

func (o *installOptions) validate() error {
	if o.chartVersion != version.Version && o.chartPath == "" {
		return fmt.Errorf("--version %s: this liqoctl carries the chart of version %s: use the liqoctl of that version, or give its chart with --local-chart-path", o.chartVersion, version.Version)
	}
	if o.repoURL != "" && o.chartPath == "" {
		return fmt.Errorf("--repo-url %s: charts are not fetched: clone the repository and give its chart with --local-chart-path", o.repoURL)
	}
	if o.request.ServiceType != "" {
		return cmdline.OneOf("service-type", o.request.ServiceType, cmdline.ServiceTypes...)
	}
	return nil
}

func runInstall(ctx context.Context, a *session.Session, o *installOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	c, err := a.Local()
	if err != nil {
		return err
	}
	if o.upgrade || !c.NamespaceGiven { // if the user named a namespace, the check of the request has a more specific error
		id, err := c.Locate(ctx)
		if err != nil {
			return err
		}
		if id == "" && o.upgrade { // with a wrong kubeconfig, it would install Liqo there
			return fmt.Errorf("there is nothing to upgrade: liqo is not installed in namespace %s of %s: install it with liqoctl install, or name the right kubeconfig", c.Namespace, c.Config.Host)
		}
	}
	ready, err := prepareInstall(ctx, a, c, o)
	if err != nil {
		return err
	}
	if o.onlyValues || o.valuesPath != "" {
		path := cmp.Or(o.valuesPath, "values.yaml")
		if err := writeValues(path, withTag(ready.values, ready.chart.AppVersion())); err != nil {
			return err
		}
		if o.onlyValues {
			c.Info("All Set! The values of the chart are in %s", path)
			return nil
		}
		c.Info("The values of the chart are in %s", path)
	}
	return runApply(ctx, a, c, o, ready)
}

// calledAsUpgrade reports whether install or one of its subcommands was called by the alias "upgrade".
func calledAsUpgrade(a *session.Session, cmd *cobra.Command) bool {
	if cmd.CalledAs() == "upgrade" {
		return true
	}
	first := slices.IndexFunc(a.Args, func(word string) bool { return word == "install" || word == "upgrade" })
	return cmd.Parent() != cmd.Root() && first >= 0 && a.Args[first] == "upgrade"
}

// withTag returns the values with the tag of the images. The tag is the version of the chart, unless the values have one. Helm needs the
// tag if it installs the values with the chart from the repository, which has no version of its own.
func withTag(values map[string]any, version string) map[string]any {
	if tag, _ := values["tag"].(string); tag != "" {
		return values
	}
	return install.Merge(values, map[string]any{"tag": version})
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
