package cloud

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	azure "github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/go-cmp/cmp"

	"liqo.io/liqo/internal/install"
)

// secret is in every credential here, and must be in no error.
const secret = "wJalrXUtnFEMI"

// answers are the responses of a cloud by method and path: the name of a file in testdata, or a status and a body.
type answers map[string]any

type refused struct {
	status int
	header map[string]string
	body   string
}

func (a answers) serve(t *testing.T, start func(http.Handler) *httptest.Server) *httptest.Server {
	t.Helper()
	server := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		key := r.Method + " " + r.URL.Path
		if r.Header.Get("Authorization") == "" && !strings.HasPrefix(key, "GET /v1/projects") && !strings.HasPrefix(key, "GET /compute") {
			t.Errorf("%s comes without credentials", key)
		}
		switch answer := a[key].(type) {
		case string:
			data, err := os.ReadFile(filepath.Join("testdata", answer))
			if err != nil {
				t.Error(err)
			}
			if strings.HasSuffix(answer, ".json") {
				w.Header().Set("Content-Type", "application/json")
			}
			_, _ = w.Write(data)
		case refused:
			for name, value := range answer.header {
				w.Header().Set(name, value)
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(answer.status)
			_, _ = w.Write([]byte(answer.body))
		default:
			t.Errorf("%s is asked for", key)
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// checked compares the result, or checks that the error contains want.
func checked(t *testing.T, name string, got install.Cloud, err error, want install.Cloud, wantErr string) {
	t.Helper()
	if wantErr != "" {
		if err == nil || !strings.Contains(err.Error(), wantErr) {
			t.Errorf("%s: error %v, want %q in it", name, err, wantErr)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error tells the credentials: %v", name, err)
		}
		return
	}
	if err != nil {
		t.Errorf("%s: %v", name, err)
	} else if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: %s", name, diff)
	}
}

func TestEKS(t *testing.T) {
	const described = "GET /clusters/rome"
	denied := `<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>You are not authorized to perform this operation.</Message></Error></Errors><RequestID>1</RequestID></Response>`
	for _, test := range []struct {
		name    string
		answers answers
		want    install.Cloud
		err     string
	}{
		{"all is told", answers{described: "eks.json", "POST /": "vpcs.xml"}, install.Cloud{
			Name: "rome", PodCIDRs: []string{"192.168.0.0/16", "100.64.0.0/16"}, ServiceCIDR: "172.20.0.0/16",
			APIServerURL: "https://A0DCCD80A04F01705DD065655C30CC3D.gr7.eu-west-1.eks.amazonaws.com", Labels: map[string]string{labelRegion: "eu-west-1"},
		}, ""},
		{"no such cluster", answers{described: refused{404, map[string]string{"X-Amzn-ErrorType": "ResourceNotFoundException"},
			`{"clusterName":null,"message":"No cluster found for name: rome."}`}}, install.Cloud{},
			"there is no EKS cluster rome in region eu-west-1: check --eks-cluster-name and --eks-cluster-region"},
		{"not allowed", answers{described: refused{403, map[string]string{"X-Amzn-ErrorType": "AccessDeniedException"},
			`{"message":"User: arn:aws:iam::111122223333:user/me is not authorized to perform: eks:DescribeCluster"}`}}, install.Cloud{}, "the permission eks:DescribeCluster"},
		{"not there yet", answers{described: refused{200, nil, `{"cluster":{"name":"rome","status":"CREATING"}}`}}, install.Cloud{}, "has no VPC yet: try again when it is active"},
		{"the network may not be read", answers{described: "eks.json", "POST /": refused{403, nil, denied}}, install.Cloud{},
			"reading VPC vpc-950809ec of EKS cluster rome from AWS: UnauthorizedOperation: You are not authorized to perform this operation.\nCheck that \"aws ec2 describe-vpcs\" works"},
		{"no sense", answers{described: "eks.json", "POST /": refused{502, nil, "<html>"}}, install.Cloud{}, "502 Bad Gateway"},
		{"no network", answers{described: "eks.json", "POST /": refused{200, nil, "<DescribeVpcsResponse><vpcSet/></DescribeVpcsResponse>"}}, install.Cloud{}, "the VPC has no IPv4 range"},
	} {
		server := test.answers.serve(t, httptest.NewServer)
		settings := aws.Config{
			Region: "eu-west-1", BaseEndpoint: &server.URL, RetryMaxAttempts: 1,
			Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
				return aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: secret}, nil
			}),
		}
		got, err := EKS{Region: "eu-west-1", Name: "rome"}.ask(t.Context(), settings, server.URL+"/")
		checked(t, test.name, got, err, test.want, test.err)
	}
	if got := domain("cn-north-1"); got != "amazonaws.com.cn" {
		t.Errorf("domain of China: %s", got)
	}
}

func TestGKE(t *testing.T) {
	const (
		described = "GET /v1/projects/my-project/locations/europe-west1-b/clusters/rome"
		nodes     = "GET /compute/v1/projects/my-project/regions/europe-west1/subnetworks/default"
	)
	all := install.Cloud{
		Name: "rome", PodCIDRs: []string{"10.108.0.0/14"}, ServiceCIDR: "34.118.224.0/20", ReservedSubnets: []string{"10.132.0.0/20"},
		APIServerURL: "https://34.76.1.2", APIServerNames: []string{"10.132.0.2", "34.76.1.2", "gke-abc-1234.europe-west1.gke.goog"},
		Labels: map[string]string{labelRegion: "europe-west1"},
	}
	blind := all
	blind.ReservedSubnets = nil
	blind.Notes = []string{"the range of the nodes can't be read (reading projects/my-project/regions/europe-west1/subnetworks/default from Google: 403 Forbidden): " +
		"reserve it with --reserved-subnets, or grant the role roles/compute.networkViewer"}
	subnetwork := refused{200, nil, `{"kind":"compute#subnetwork","name":"default","ipCidrRange":"10.132.0.0/20","gatewayAddress":"10.132.0.1"}`}
	failure := func(code int, status, message string) refused {
		return refused{code, nil, `{"error":{"code":` + map[int]string{403: "403", 404: "404"}[code] + `,"message":"` + message + `","status":"` + status + `"}}`}
	}
	for _, test := range []struct {
		name    string
		answers answers
		want    install.Cloud
		err     string
	}{
		{"all is told", answers{described: "gke.json", nodes: subnetwork}, all, ""},
		{"the network may not be read", answers{described: "gke.json", nodes: failure(403, "PERMISSION_DENIED", "Required 'compute.subnetworks.get' permission")}, blind, ""},
		{"no such cluster", answers{described: failure(404, "NOT_FOUND", "Not found: projects/my-project/zones/europe-west1-b/clusters/rome.")}, install.Cloud{},
			"there is no GKE cluster rome in europe-west1-b of project my-project: check --cluster-id, --zone or --region, and --project-id"},
		{"not allowed", answers{described: failure(403, "PERMISSION_DENIED", "Required container.clusters.get permission")}, install.Cloud{},
			"Check that the account has the role roles/container.clusterViewer"},
		{"autopilot", answers{described: refused{200, nil, `{"name":"rome","autopilot":{"enabled":true}}`}}, install.Cloud{},
			"GKE cluster rome is an Autopilot cluster, whose nodes do not admit the agents of the network: use a standard cluster"},
		{"more pods than planned", answers{described: refused{200, nil,
			`{"name":"rome","clusterIpv4Cidr":"10.4.0.0/14","ipAllocationPolicy":{"additionalPodRangesConfig":{"podRangeNames":["more"],"podRangeInfo":[{"rangeName":"more"}]}}}`}},
			install.Cloud{Name: "rome", PodCIDRs: []string{"10.4.0.0/14"}, Labels: map[string]string{labelRegion: "europe-west1"},
				Notes: []string{"the pods have the additional range more, whose addresses the API does not report: give all ranges with --pod-cidr"}}, ""},
	} {
		server := test.answers.serve(t, httptest.NewServer)
		got, err := GKE{Project: "my-project", Location: "europe-west1-b", Name: "rome"}.ask(t.Context(), server.Client(), server.URL+"/", server.URL+"/")
		checked(t, test.name, got, err, test.want, test.err)
	}
	if got := region("europe-west1"); got != "europe-west1" {
		t.Errorf("region %s", got)
	}
	key := filepath.Join(t.TempDir(), "key.json")
	if err := os.WriteFile(key, []byte(`{"type":"service_account","private_key":"`+secret+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{key, "/no/where"} {
		_, err := GKE{Credentials: path}.Ask(t.Context())
		checked(t, path, install.Cloud{}, err, install.Cloud{}, "Give the key of a service account with --credentials-path")
	}
}

// token is a login of Azure.
type token struct{ err error }

func (c token) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{Token: secret, ExpiresOn: time.Now().Add(time.Hour)}, c.err
}

func TestAKS(t *testing.T) {
	const (
		subscriptions = "GET /subscriptions"
		described     = "GET /subscriptions/0b1f6471/resourceGroups/rg/providers/Microsoft.ContainerService/managedClusters/rome"
		network       = "GET /subscriptions/0b1f6471/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/vnet"
		own           = "GET /subscriptions/0b1f6471/resourceGroups/MC_rg_rome_westeurope/resources"
		elsewhere     = "GET /subscriptions/0b1f6471/resourceGroups/nets/resources"
	)
	some := refused{200, nil, `{"value":[{"id":"/subscriptions/0b1f6470","subscriptionId":"0b1f6470","displayName":"other","state":"Enabled"},` +
		`{"id":"/subscriptions/0b1f6471","subscriptionId":"0b1f6471","displayName":"mine","state":"Enabled"}]}`}
	listed := refused{200, nil, `{"value":[{"id":"/subscriptions/0b1f6471/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/vnet","name":"vnet","type":"Microsoft.Network/virtualNetworks"}]}`}
	failure := func(status int, code string) refused {
		return refused{status, map[string]string{"x-ms-error-code": code}, `{"error":{"code":"` + code + `","message":"told at length"}}`}
	}
	region := map[string]string{labelRegion: "westeurope"}
	vnet := []string{"10.224.0.0/12", "10.100.0.0/16"}
	const fqdn, private = "rome-dns-abc123.hcp.westeurope.azmk8s.io", "rome-dns-abc123.8d0b.privatelink.westeurope.azmk8s.io"
	overlay := install.Cloud{Name: "rome", PodCIDRs: []string{"10.244.0.0/16"}, ServiceCIDR: "10.0.0.0/16", ReservedSubnets: vnet,
		APIServerURL: "https://" + private + ":443", APIServerNames: []string{private}, Labels: region}
	blind := overlay
	blind.ReservedSubnets = nil
	blind.Notes = []string{"the ranges of the virtual network can't be read (AuthorizationFailed (HTTP status 403)): reserve them with --reserved-subnets"}
	chosen := overlay
	chosen.APIServerURL, chosen.APIServerNames = "https://rome.example.org:443", []string{private, "rome.example.org"}
	for _, test := range []struct {
		name    string
		of      AKS
		answers answers
		want    install.Cloud
		err     string
	}{
		{"pods in the virtual network", AKS{SubscriptionName: "mine"}, answers{subscriptions: some, described: "aks-azure.json", network: "aks-network.json"}, install.Cloud{
			Name: "rome", PodCIDRs: vnet, ServiceCIDR: "10.0.0.0/16", APIServerURL: "https://" + fqdn + ":443", APIServerNames: []string{fqdn}, Labels: region,
		}, ""},
		{"the ID as a name", AKS{SubscriptionName: "0b1f6471"}, answers{subscriptions: some, described: "aks-overlay.json", own: listed, network: "aks-network.json"}, overlay, ""},
		{"an overlay", AKS{Subscription: "0b1f6471"}, answers{described: "aks-overlay.json", own: listed, network: "aks-network.json"}, overlay, ""},
		{"a network elsewhere", AKS{Subscription: "0b1f6471", VNetResourceGroup: "nets", FQDN: "rome.example.org"},
			answers{described: "aks-overlay.json", elsewhere: listed, network: "aks-network.json"}, chosen, ""},
		{"the network may not be read, and is not needed", AKS{Subscription: "0b1f6471"}, answers{described: "aks-overlay.json", own: failure(403, "AuthorizationFailed")}, blind, ""},
		{"the network may not be read, and is needed", AKS{Subscription: "0b1f6471"}, answers{described: "aks-azure.json", network: failure(403, "AuthorizationFailed")}, install.Cloud{},
			"reading the virtual network of AKS cluster rome, whose pods have its addresses, from Azure: AuthorizationFailed (HTTP status 403)\nCheck that the login may read it"},
		{"no such cluster", AKS{Subscription: "0b1f6471"}, answers{described: failure(404, "ResourceNotFound")}, install.Cloud{},
			"there is no AKS cluster rome in resource group rg of subscription 0b1f6471: check --resource-name, --resource-group-name and the subscription"},
		{"not allowed", AKS{Subscription: "0b1f6471"}, answers{described: failure(403, "AuthorizationFailed")}, install.Cloud{},
			"reading AKS cluster rome in resource group rg from Azure: AuthorizationFailed (HTTP status 403)\nCheck that \"az aks show\" works"},
		{"no such subscription", AKS{SubscriptionName: "theirs"}, answers{subscriptions: some}, install.Cloud{}, `the login has no Azure subscription called "theirs": check --subscription-name`},
		{"no subscriptions", AKS{SubscriptionName: "theirs"}, answers{subscriptions: failure(401, "ExpiredAuthenticationToken")}, install.Cloud{},
			"ExpiredAuthenticationToken (HTTP status 401)\nCheck that \"az account list\" works"},
	} {
		server := test.answers.serve(t, httptest.NewTLSServer)
		options := &arm.ClientOptions{DisableRPRegistration: true, ClientOptions: policy.ClientOptions{
			Transport: server.Client(), Retry: policy.RetryOptions{MaxRetries: -1},
			Cloud: azure.Configuration{Services: map[azure.ServiceName]azure.ServiceConfiguration{azure.ResourceManager: {Endpoint: server.URL, Audience: "a"}}},
		}}
		test.of.ResourceGroup, test.of.Name = "rg", "rome"
		got, err := test.of.ask(t.Context(), token{}, options)
		checked(t, test.name, got, err, test.want, test.err)
		if test.name == "an overlay" {
			_, err := test.of.ask(t.Context(), token{errors.New("not logged in")}, options)
			checked(t, "no login", install.Cloud{}, err, install.Cloud{}, "not logged in\nCheck that \"az aks show\" works")
		}
	}
}
