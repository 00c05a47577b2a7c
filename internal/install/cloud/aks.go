package cloud

import (
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

// AKS names a cluster of Azure.
type AKS struct {
	// Subscription is an ID; SubscriptionName is looked up where it is empty.
	Subscription, SubscriptionName string
	ResourceGroup, Name            string
	// VNetResourceGroup is that of the virtual network, where it is another one than the cluster says.
	VNetResourceGroup string
	// FQDN of the API server to use; PrivateLink takes the one that only the virtual network knows.
	FQDN        string
	PrivateLink bool
}

// Versions of the APIs that answer in the shapes below.
const (
	versionClusters = "2024-09-01"
	versionNetworks = "2024-05-01"
)

// managedCluster is the part of Microsoft.ContainerService/managedClusters that tells ranges and addresses.
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

// Ask needs to read the cluster, and its virtual network if pods have addresses of that. It takes the login of the az CLI, or what the
// AZURE_* variables say.
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
		return install.Cloud{}, fmt.Errorf("preparing to ask Azure: %w", err)
	}
	var cluster managedCluster
	id := fmt.Sprintf("/subscriptions/%s/resourceGroups/%s/providers/Microsoft.ContainerService/managedClusters/%s", a.Subscription, a.ResourceGroup, a.Name)
	region, err := read(ctx, client, id, versionClusters, &cluster)
	if refused := (*azcore.ResponseError)(nil); errors.As(err, &refused) && refused.StatusCode == http.StatusNotFound {
		return install.Cloud{}, fmt.Errorf("there is no AKS cluster %s in resource group %s of subscription %s: check --resource-name, --resource-group-name and the subscription", a.Name, a.ResourceGroup, a.Subscription)
	}
	if err != nil {
		return install.Cloud{}, fmt.Errorf("asking Azure about AKS cluster %s in resource group %s: %w\nCheck that \"az aks show\" answers: it takes the same login", a.Name, a.ResourceGroup, short(err))
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
		return install.Cloud{}, fmt.Errorf("asking Azure about the virtual network of AKS cluster %s, whose addresses its pods have: %w\nCheck that the login may read it, name its resource group with --vnet-resource-group-name, or give the ranges with --pod-cidr",
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
	if name == "" {
		name = cluster.FQDN
	}
	if name == "" {
		return ""
	}
	return "https://" + name + ":443"
}

// networks are the ranges of the virtual networks that the nodes, or their pods, are in: those that the pools name, else those that the
// cluster made itself.
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
		group := a.VNetResourceGroup
		if group == "" {
			group = cluster.NodeResourceGroup
		}
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

// read asks for a resource of any kind and returns its location. The libraries for each kind are ten times the size of this one.
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

// subscription looks up the ID of a subscription by its name.
func subscription(ctx context.Context, name string, credential azcore.TokenCredential, options *arm.ClientOptions) (string, error) {
	client, err := armsubscriptions.NewClient(credential, options)
	if err != nil {
		return "", fmt.Errorf("preparing to ask Azure: %w", err)
	}
	for pages := client.NewListPager(nil); pages.More(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return "", fmt.Errorf("asking Azure about its subscriptions: %w\nCheck that \"az account list\" answers: it takes the same login", short(err))
		}
		for _, found := range page.Value {
			// What users export as a name is often the ID.
			if found.SubscriptionID != nil && (*found.SubscriptionID == name || (found.DisplayName != nil && *found.DisplayName == name)) {
				return *found.SubscriptionID, nil
			}
		}
	}
	return "", fmt.Errorf("the login has no Azure subscription called %q: check --subscription-name with \"az account list\"", name)
}

// short is an error of Azure in one line: code and status instead of the whole exchange.
func short(err error) error {
	if refused := (*azcore.ResponseError)(nil); errors.As(err, &refused) {
		return fmt.Errorf("%s (HTTP status %d)", refused.ErrorCode, refused.StatusCode)
	}
	return err
}
