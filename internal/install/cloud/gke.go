package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/api/container/v1"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	transport "google.golang.org/api/transport/http"

	"liqo.io/liqo/internal/install"
)

// GKE identifies a cluster of Google Kubernetes Engine.
type GKE struct {
	Project string
	// Location is a zone, or the region of a regional cluster.
	Location, Name string
	// Credentials is the path of a service account key. If it is empty, the application default credentials are used.
	Credentials string
}

// Ask reads the facts about the cluster from Google. It needs the role roles/container.clusterViewer. With the role
// roles/compute.networkViewer, it also reads the range of the nodes.
func (g GKE) Ask(ctx context.Context) (install.Cloud, error) {
	options := []option.ClientOption{option.WithScopes(container.CloudPlatformScope)}
	if g.Credentials != "" {
		options = append(options, option.WithAuthCredentialsFile(option.ServiceAccount, g.Credentials))
	}
	client, _, err := transport.NewClient(ctx, options...)
	if err != nil {
		return install.Cloud{}, fmt.Errorf("reading the credentials for Google: %w\nGive the key of a service account with --credentials-path, or log in with \"gcloud auth application-default login\"", err)
	}
	return g.ask(ctx, client, "https://container.googleapis.com/", "https://compute.googleapis.com/")
}

func (g GKE) ask(ctx context.Context, client *http.Client, endpoint, compute string) (install.Cloud, error) {
	service, err := container.NewService(ctx, option.WithHTTPClient(client), option.WithEndpoint(endpoint))
	if err != nil {
		return install.Cloud{}, fmt.Errorf("creating a client for Google: %w", err)
	}
	cluster, err := service.Projects.Locations.Clusters.Get(fmt.Sprintf("projects/%s/locations/%s/clusters/%s", g.Project, g.Location, g.Name)).Context(ctx).Do()
	if refused := (*googleapi.Error)(nil); errors.As(err, &refused) && refused.Code == http.StatusNotFound {
		return install.Cloud{}, fmt.Errorf("there is no GKE cluster %s in %s of project %s: check --cluster-id, --zone or --region, and --project-id", g.Name, g.Location, g.Project)
	}
	if err != nil {
		return install.Cloud{}, fmt.Errorf("reading GKE cluster %s in %s of project %s from Google: %w\nCheck that the account has the role roles/container.clusterViewer", g.Name, g.Location, g.Project, err)
	}
	if cluster.Autopilot != nil && cluster.Autopilot.Enabled {
		return install.Cloud{}, fmt.Errorf("GKE cluster %s is an Autopilot cluster, whose nodes do not admit the agents of the network: use a standard cluster", g.Name)
	}
	out := install.Cloud{
		Name: g.Name, PodCIDRs: compact(cluster.ClusterIpv4Cidr), ServiceCIDR: cluster.ServicesIpv4Cidr,
		Labels: location(region(g.Location)),
	}
	// A cluster whose pods do not fit the first range has additional ones. The API returns only their names.
	if policy := cluster.IpAllocationPolicy; policy != nil && policy.AdditionalPodRangesConfig != nil {
		for _, more := range policy.AdditionalPodRangesConfig.PodRangeInfo {
			out.Notes = append(out.Notes, fmt.Sprintf("the pods have the additional range %s, whose addresses the API does not report: give all ranges with --pod-cidr", more.RangeName))
		}
	}
	if cluster.Endpoint != "" {
		out.APIServerURL = "https://" + cluster.Endpoint
	}
	if private := cluster.PrivateClusterConfig; private != nil {
		out.APIServerNames = compact(private.PrivateEndpoint, private.PublicEndpoint)
	}
	if endpoints := cluster.ControlPlaneEndpointsConfig; endpoints != nil && endpoints.DnsEndpointConfig != nil {
		out.APIServerNames = compact(append(out.APIServerNames, endpoints.DnsEndpointConfig.Endpoint)...)
	}
	if cluster.NetworkConfig != nil && cluster.NetworkConfig.Subnetwork != "" {
		nodes, err := rangeOfSubnetwork(ctx, client, compute, cluster.NetworkConfig.Subnetwork)
		if err != nil {
			out.Notes = append(out.Notes, fmt.Sprintf("the range of the nodes can't be read (%v): reserve it with --reserved-subnets, or grant the role roles/compute.networkViewer", err))
		}
		out.ReservedSubnets = compact(nodes)
	}
	return out, nil
}

// region returns the region of a zone ("europe-west1-b"). It returns a region unchanged.
func region(location string) string {
	if parts := strings.Split(location, "-"); len(parts) > 2 {
		return strings.Join(parts[:2], "-")
	}
	return location
}

// rangeOfSubnetwork sends a single request to Compute Engine over the transport of the library. The client for Compute Engine is fifteen
// times the size of the client for clusters.
func rangeOfSubnetwork(ctx context.Context, client *http.Client, endpoint, name string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+"compute/v1/"+name, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	if err := googleapi.CheckResponse(response); err != nil {
		return "", fmt.Errorf("reading %s from Google: %s", name, response.Status)
	}
	var subnetwork struct {
		IPCIDRRange string `json:"ipCidrRange"`
	}
	if err := json.NewDecoder(response.Body).Decode(&subnetwork); err != nil {
		return "", fmt.Errorf("parsing Google's answer about %s: %w", name, err)
	}
	return subnetwork.IPCIDRRange, nil
}
