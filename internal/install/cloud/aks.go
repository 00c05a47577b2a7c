package cloud

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resources/armresources"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resources/armsubscriptions"

	"liqo.io/liqo/internal/install"
)

// AKS identifies a cluster of Azure Kubernetes Service.
type AKS struct {
	// Subscription is the ID of the subscription. If it is empty, the ID is looked up by SubscriptionName.
	Subscription, SubscriptionName string
	ResourceGroup, Name            string
	// VNetResourceGroup is the resource group of the virtual network. If it is empty, the node resource group of the cluster is used.
	VNetResourceGroup string
	// FQDN is the name of the API server to use. PrivateLink selects the private name, which resolves only in the virtual network.
	FQDN        string
	PrivateLink bool
}

// API versions whose responses have the structure below.
const (
	versionClusters = "2024-09-01"
	versionNetworks = "2024-05-01"
)

// managedCluster holds the fields of Microsoft.ContainerService/managedClusters with address ranges and API server names.
type managedCluster struct {
	FQDN              string `json:"fqdn"`
	PrivateFQDN       string `json:"privateFQDN"`
	NodeResourceGroup string `json:"nodeResourceGroup"`
	NetworkProfile    struct {
		NetworkPlugin     string   `json:"networkPlugin"`
		NetworkPluginMode string   `json:"networkPluginMode"`
		PodCIDR           string   `json:"podCidr"`
		PodCIDRs          []string `json:"podCidrs"`
		ServiceCIDR       string   `json:"serviceCidr"`
	} `json:"networkProfile"`
	AgentPoolProfiles []struct {
		VNetSubnetID string `json:"vnetSubnetID"`
		PodSubnetID  string `json:"podSubnetID"`
	} `json:"agentPoolProfiles"`
}

// Ask reads the facts about the cluster from Azure. It needs permission to read the cluster. If pods have addresses of the virtual network, it
// also needs permission to read that network. It uses the login of the az CLI, or the AZURE_* environment variables.
func (a AKS) Ask(ctx context.Context) (install.Cloud, error) {
	credential, err := azidentity.NewDefaultAzureCredential(nil)
	if err != nil {
		return install.Cloud{}, fmt.Errorf("reading the credentials for Azure: %w\nLog in with \"az login\"", err)
	}
	return a.ask(ctx, credential, nil)
}

func (a AKS) ask(ctx context.Context, credential azcore.TokenCredential, options *arm.ClientOptions) (install.Cloud, error) {
	if a.Subscription == "" {
		id, err := subscription(ctx, a.SubscriptionName, credential, options)
		if err != nil {
			return install.Cloud{}, err
		}
		a.Subscription = id
	}
	client, err := armresources.NewClient(a.Subscription, credential, options)
	if err != nil {
		return install.Cloud{}, fmt.Errorf("creating a client for Azure: %w", err)
	}
	var cluster managedCluster
	id := fmt.Sprintf("/subscriptions/%s/resourceGroups/%s/providers/Microsoft.ContainerService/managedClusters/%s", a.Subscription, a.ResourceGroup, a.Name)
	region, err := read(ctx, client, id, versionClusters, &cluster)
	if refused := (*azcore.ResponseError)(nil); errors.As(err, &refused) && refused.StatusCode == http.StatusNotFound {
		return install.Cloud{}, fmt.Errorf("there is no AKS cluster %s in resource group %s of subscription %s: check --resource-name, --resource-group-name and the subscription", a.Name, a.ResourceGroup, a.Subscription)
	}
	if err != nil {
		return install.Cloud{}, fmt.Errorf("reading AKS cluster %s in resource group %s from Azure: %w\nCheck that \"az aks show\" works: it uses the same login", a.Name, a.ResourceGroup, short(err))
	}
	out := install.Cloud{
		Name: a.Name, ServiceCIDR: cluster.NetworkProfile.ServiceCIDR, Labels: location(region),
		APIServerURL: a.apiServer(cluster), APIServerNames: compact(cluster.FQDN, cluster.PrivateFQDN, a.FQDN),
	}
	network, err := a.networks(ctx, client, cluster)
	overlay := cluster.NetworkProfile.NetworkPlugin != "azure" || cluster.NetworkProfile.NetworkPluginMode == "overlay"
	switch {
	case overlay:
		out.PodCIDRs = compact(append(cluster.NetworkProfile.PodCIDRs, cluster.NetworkProfile.PodCIDR)...)
		out.ReservedSubnets = network
		if err != nil {
			out.Notes = append(out.Notes, fmt.Sprintf("the ranges of the virtual network can't be read (%v): reserve them with --reserved-subnets", short(err)))
		}
	case err != nil:
		return install.Cloud{}, fmt.Errorf("reading the virtual network of AKS cluster %s, whose pods have its addresses, from Azure: %w\nCheck that the login may read it, name its resource group with --vnet-resource-group-name, or give the ranges with --pod-cidr",
			a.Name, short(err))
	default:
		out.PodCIDRs = network
	}
	return out, nil
}

func (a AKS) apiServer(cluster managedCluster) string {
	name := a.FQDN
	if name == "" && (a.PrivateLink || cluster.FQDN == "") {
		name = cluster.PrivateFQDN
	}
	if name = cmp.Or(name, cluster.FQDN); name == "" {
		return ""
	}
	return "https://" + name + ":443"
}

// networks returns the ranges of the virtual networks of the nodes and pods. It reads the networks that the agent pools name. If they name
// none, it reads all networks in VNetResourceGroup, or else in the node resource group of the cluster.
func (a AKS) networks(ctx context.Context, client *armresources.Client, cluster managedCluster) ([]string, error) {
	var ids []string
	for _, pool := range cluster.AgentPoolProfiles {
		for _, subnet := range []string{pool.VNetSubnetID, pool.PodSubnetID} {
			id, _, _ := strings.Cut(subnet, "/subnets/")
			ids = append(ids, id)
		}
	}
	ids = compact(ids...)
	if len(ids) == 0 {
		group := cmp.Or(a.VNetResourceGroup, cluster.NodeResourceGroup)
		filter := "resourceType eq 'Microsoft.Network/virtualNetworks'"
		for pages := client.NewListByResourceGroupPager(group, &armresources.ClientListByResourceGroupOptions{Filter: &filter}); pages.More(); {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, err
			}
			for _, found := range page.Value {
				if found.ID != nil {
					ids = append(ids, *found.ID)
				}
			}
		}
	}
	var ranges []string
	for _, id := range ids {
		var network struct {
			AddressSpace struct {
				AddressPrefixes []string `json:"addressPrefixes"`
			} `json:"addressSpace"`
		}
		if _, err := read(ctx, client, id, versionNetworks, &network); err != nil {
			return nil, err
		}
		ranges = append(ranges, network.AddressSpace.AddressPrefixes...)
	}
	if ranges = compact(ranges...); len(ranges) == 0 {
		return nil, errors.New("no virtual network was found")
	}
	return ranges, nil
}

// read gets a resource of any type and returns its location. The libraries for specific types are ten times the size of this generic one.
func read(ctx context.Context, client *armresources.Client, id, version string, into any) (location string, err error) {
	response, err := client.GetByID(ctx, strings.TrimPrefix(id, "/"), version, nil)
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(response.Properties)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", id, err)
	}
	if response.Location != nil {
		location = *response.Location
	}
	return location, nil
}

// subscription returns the ID of a subscription, given its name or ID.
func subscription(ctx context.Context, name string, credential azcore.TokenCredential, options *arm.ClientOptions) (string, error) {
	client, err := armsubscriptions.NewClient(credential, options)
	if err != nil {
		return "", fmt.Errorf("creating a client for Azure: %w", err)
	}
	for pages := client.NewListPager(nil); pages.More(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return "", fmt.Errorf("reading the subscriptions from Azure: %w\nCheck that \"az account list\" works: it uses the same login", short(err))
		}
		for _, found := range page.Value {
			// Users often pass the ID as the name.
			if found.SubscriptionID != nil && (*found.SubscriptionID == name || (found.DisplayName != nil && *found.DisplayName == name)) {
				return *found.SubscriptionID, nil
			}
		}
	}
	return "", fmt.Errorf("the login has no Azure subscription called %q: check --subscription-name with \"az account list\"", name)
}

// short reduces an Azure error to one line: the error code and HTTP status instead of the whole exchange.
func short(err error) error {
	if refused := (*azcore.ResponseError)(nil); errors.As(err, &refused) {
		return fmt.Errorf("%s (HTTP status %d)", refused.ErrorCode, refused.StatusCode)
	}
	return err
}
