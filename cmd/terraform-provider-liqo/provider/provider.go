// Package provider is the Terraform provider of Liqo. Its resources hand out a token of a cluster (liqo_generate), peer with a cluster (liqo_peer) and
// offload a namespace (liqo_offload).
package provider

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
)

// The optional interfaces of Terraform that the resources implement.
var (
	_ resource.ResourceWithConfigure      = &offloadResource{}
	_ resource.ResourceWithImportState    = &offloadResource{}
	_ resource.ResourceWithValidateConfig = &offloadResource{}
	_ resource.ResourceWithConfigure      = &generateResource{}
	_ resource.ResourceWithValidateConfig = &generateResource{}
	_ resource.ResourceWithConfigure      = &peerResource{}
	_ resource.ResourceWithImportState    = &peerResource{}
	_ resource.ResourceWithValidateConfig = &peerResource{}
)

// Provider is the Terraform provider of Liqo.
type Provider struct {
	version string
	// connect returns a client for a cluster. Tests replace it.
	connect func(*rest.Config) (client.Client, error)
	// interval is the time between two reads of an object that a resource waits for.
	interval time.Duration
	// settle is how long an error in a status has to last before it counts: the controllers may not have read the last change yet.
	settle time.Duration
}

// New returns a function that returns the provider.
func New(version string) func() provider.Provider {
	return func() provider.Provider {
		return &Provider{version: version, connect: connect, interval: time.Second, settle: 3 * peering.PollToken}
	}
}

// scheme is built once, because building takes longer than most requests.
var scheme = sync.OnceValue(kube.NewScheme)

func connect(config *rest.Config) (client.Client, error) {
	return client.New(config, client.Options{Scheme: scheme()})
}

// Metadata returns the prefix of the names of all resources.
func (p *Provider) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName, resp.Version = "liqo", p.version
}

// Schema describes the configuration of the provider.
func (p *Provider) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	text := func(description string) schema.StringAttribute {
		return schema.StringAttribute{Optional: true, MarkdownDescription: description}
	}
	secret := func(description string) schema.StringAttribute {
		return schema.StringAttribute{Optional: true, Sensitive: true, MarkdownDescription: description}
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "Joins Kubernetes clusters with Liqo. Each instance of the provider uses one cluster, where Liqo is installed.",
		Attributes: map[string]schema.Attribute{
			"namespace": text("Namespace of the installation. By default `" + api.Namespace + "`."),
			"kubernetes": schema.SingleNestedAttribute{
				Required: true, MarkdownDescription: "How to reach the API server of the cluster: `config_path`, or `host` and credentials.",
				Attributes: map[string]schema.Attribute{
					"config_path":            text("Path to the kubeconfig of the cluster."),
					"config_context":         text("Context of the kubeconfig. By default, its current context."),
					"host":                   text("URL of the API server, without a kubeconfig."),
					"token":                  secret("Bearer token for `host`."),
					"client_certificate":     text("Client certificate for `host`, in PEM."),
					"client_key":             secret("Key of the client certificate, in PEM."),
					"cluster_ca_certificate": text("Certificates of the CA of `host`, in PEM. By default, those of the system."),
					"insecure":               schema.BoolAttribute{Optional: true, MarkdownDescription: "Do not verify the certificate of `host`."},
				},
			},
		},
	}
}

// Configure connects to the cluster. It leaves the resources without a connection while a value of the configuration is unknown: Terraform configures
// the provider again when the values are known.
func (p *Provider) Configure(ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	var object types.Object
	var namespace types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("kubernetes"), &object)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("namespace"), &namespace)...)
	if resp.Diagnostics.HasError() || object.IsUnknown() || namespace.IsUnknown() {
		return
	}
	for _, value := range object.Attributes() {
		if value.IsUnknown() {
			return
		}
	}
	var s settings
	if resp.Diagnostics.Append(object.As(ctx, &s, basetypes.ObjectAsOptions{})...); resp.Diagnostics.HasError() {
		return
	}
	config, err := s.config()
	if err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("kubernetes"), "Provider liqo can't connect", err.Error())
		return
	}
	connected, err := p.connect(config)
	if err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("kubernetes"), "Provider liqo can't connect", "connecting to "+config.Host+": "+err.Error())
		return
	}
	resp.ResourceData = &connection{Client: connected, host: config.Host, namespace: cmp.Or(namespace.ValueString(), api.Namespace), interval: p.interval, settle: p.settle}
}

// Resources returns the kinds of resources.
func (p *Provider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{
		func() resource.Resource { return &generateResource{} },
		func() resource.Resource { return &offloadResource{} },
		func() resource.Resource { return &peerResource{} },
	}
}

// DataSources returns none.
func (p *Provider) DataSources(context.Context) []func() datasource.DataSource { return nil }
