package setup

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/install"
	"liqo.io/liqo/internal/install/cloud"
)

// addCloud adds the flags that identify a cluster in its cloud, and sets the function that queries the cloud. It does nothing for clusters of other
// distributions.
func addCloud(command *cobra.Command, o *installOptions) {
	switch o.request.Provider {
	case install.AKS:
		addAKS(command, o)
	case install.EKS:
		addEKS(command, o)
	case install.GKE:
		addGKE(command, o)
	}
}

func addAKS(command *cobra.Command, o *installOptions) {
	var of cloud.AKS
	flags := command.Flags()
	flags.StringVar(&of.Subscription, "subscription-id", "", "ID of the subscription of the cluster")
	flags.StringVar(&of.SubscriptionName, "subscription-name", "", "Name of the subscription of the cluster, instead of its ID")
	flags.StringVar(&of.ResourceGroup, "resource-group-name", "", "Resource group of the cluster")
	flags.StringVar(&of.Name, "resource-name", "", "Name of the cluster")
	flags.StringVar(&of.VNetResourceGroup, "vnet-resource-group-name", "", "Resource group of the virtual network (default: that of the nodes)")
	flags.StringVar(&of.FQDN, "fqdn", "", "Host name of the API server (default: the one that Azure reports)")
	flags.BoolVar(&of.PrivateLink, "private-link", false, "Use the private host name of the API server, which resolves only in the virtual network")
	cmdline.Required(command, "resource-group-name", "resource-name")
	command.MarkFlagsOneRequired("subscription-id", "subscription-name")
	command.MarkFlagsMutuallyExclusive("subscription-id", "subscription-name")
	o.look = func(ctx context.Context) (install.Cloud, error) { return of.Ask(ctx) }
}

func addEKS(command *cobra.Command, o *installOptions) {
	var of cloud.EKS
	var ignored string
	flags := command.Flags()
	flags.StringVar(&of.Region, "eks-cluster-region", "", "Region of the cluster")
	flags.StringVar(&of.Name, "eks-cluster-name", "", "Name of the cluster")
	for _, name := range []string{"user-name", "policy-name", "access-key-id", "secret-access-key"} {
		flags.StringVar(&ignored, name, "", "No effect, accepted for compatibility: Liqo creates no user of AWS")
	}
	cmdline.Required(command, "eks-cluster-region", "eks-cluster-name")
	o.look = func(ctx context.Context) (install.Cloud, error) { return of.Ask(ctx) }
}

func addGKE(command *cobra.Command, o *installOptions) {
	var of cloud.GKE
	var zone, region string
	flags := command.Flags()
	flags.StringVar(&of.Project, "project-id", "", "Project of the cluster")
	flags.StringVar(&zone, "zone", "", "Zone of the cluster")
	flags.StringVar(&region, "region", "", "Region of the cluster, if it is a regional cluster")
	flags.StringVar(&of.Name, "cluster-id", "", "Name of the cluster in Google Cloud; --cluster-name is its ID among its peers")
	flags.StringVar(&of.Credentials, "credentials-path", "", "Key of a service account (default: the application default credentials)")
	cmdline.Required(command, "project-id", "cluster-id")
	command.MarkFlagsOneRequired("zone", "region")
	command.MarkFlagsMutuallyExclusive("zone", "region")
	o.look = func(ctx context.Context) (install.Cloud, error) {
		of.Location = cmp.Or(zone, region)
		return of.Ask(ctx)
	}
}
