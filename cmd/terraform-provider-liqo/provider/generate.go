package provider

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/peering/enrollment"
	"liqo.io/liqo/internal/peering/invite"
)

const tokenLifetime = 24 * time.Hour

// generateResource is resource liqo_generate: a token with which another cluster peers with this one, like the token of liqoctl generate peer-command.
type generateResource struct{ connected }

// generateModel holds the attributes of liqo_generate.
type generateModel struct {
	ConsumerClusterID types.String `tfsdk:"consumer_cluster_id"`
	TokenLifetime     types.String `tfsdk:"token_lifetime"`
	ClusterID         types.String `tfsdk:"cluster_id"`
	ClusterName       types.String `tfsdk:"cluster_name"`
	AuthEP            types.String `tfsdk:"auth_ep"`
	LocalToken        types.String `tfsdk:"local_token"`
}

// Metadata returns the name of the resource.
func (r *generateResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_generate"
}

// Schema describes the attributes of the resource.
func (r *generateResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	replaced := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	result := func(description string, sensitive bool) schema.StringAttribute {
		return schema.StringAttribute{
			Computed: true, Sensitive: sensitive, MarkdownDescription: description, PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
		}
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "What another cluster, the consumer, needs to peer with this one, the provider: as `liqoctl generate peer-command` prints it.",
		Attributes: map[string]schema.Attribute{
			"consumer_cluster_id": schema.StringAttribute{
				Optional: true, PlanModifiers: replaced, MarkdownDescription: "Cluster ID of the only cluster that may use the token. By default, the first cluster that uses it.",
			},
			"token_lifetime": schema.StringAttribute{
				Optional: true, PlanModifiers: replaced, Validators: []validator.String{duration},
				MarkdownDescription: fmt.Sprintf("Lifetime of the token, at most `%s`, or `%s` with `consumer_cluster_id`. By default `%s`.",
					invite.MaxTokenLifetime, invite.MaxNamedTokenLifetime, tokenLifetime),
			},
			"cluster_id":   result("Cluster ID of this cluster.", false),
			"cluster_name": result("Name of this cluster, which is its cluster ID.", false),
			"auth_ep":      result("URL of the authentication service of this cluster.", false),
			"local_token":  result("Token for the authentication service. It admits one cluster, once, until it expires.", true),
		},
	}
}

// ValidateConfig checks the lifetime of the token.
func (r *generateResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var consumer, lifetime types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("consumer_cluster_id"), &consumer)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("token_lifetime"), &lifetime)...)
	if resp.Diagnostics.HasError() || consumer.IsUnknown() || lifetime.IsUnknown() {
		return
	}
	if err := checkLifetime(within(lifetime, tokenLifetime), consumer.ValueString()); err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("token_lifetime"), "Invalid token_lifetime", err.Error())
	}
}

// checkLifetime fails if a token for the consumer must not live that long. An empty consumer means any.
func checkLifetime(lifetime time.Duration, consumer string) error {
	most, named := invite.MaxTokenLifetime, fmt.Sprintf(", or %s with consumer_cluster_id", invite.MaxNamedTokenLifetime)
	if consumer != "" {
		most, named = invite.MaxNamedTokenLifetime, ""
	}
	if lifetime > most {
		return fmt.Errorf("token_lifetime is %s: want at most %s%s", lifetime, most, named)
	}
	return nil
}

// Create creates a token.
func (r *generateResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m generateModel
	if resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...); resp.Diagnostics.HasError() || !r.ready(&resp.Diagnostics) {
		return
	}
	warning, err := r.issue(ctx, &m)
	if err != nil {
		resp.Diagnostics.AddError("Creating a token failed", err.Error())
		return
	}
	if warning != "" {
		resp.Diagnostics.AddAttributeWarning(path.Root("auth_ep"), "The address may change", warning)
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
}

func (r *generateResource) issue(ctx context.Context, m *generateModel) (warning string, err error) {
	lifetime, consumer := within(m.TokenLifetime, tokenLifetime), m.ConsumerClusterID.ValueString()
	if err := checkLifetime(lifetime, consumer); err != nil { // attributes that were unknown when they were validated
		return "", err
	}
	id, namespace, err := r.c.installation(ctx)
	if err != nil {
		return "", err
	}
	url, service, err := enrollment.URL(ctx, r.c, namespace)
	if err != nil {
		return "", err
	}
	if enrollment.NodePortInstead(service) {
		warning = fmt.Sprintf("Service %s has no address from a load balancer yet: auth_ep is the address of a node of this cluster", client.ObjectKeyFromObject(service))
	}
	token := &invite.Token{Expires: time.Now().Add(lifetime), Consumer: consumer}
	text, err := enrollment.Seal(ctx, &enrollment.Options{Namespace: namespace, Client: r.c, Reader: r.c, Now: time.Now, Random: rand.Reader}, token, true)
	if err != nil {
		return "", err
	}
	m.ClusterID, m.ClusterName, m.AuthEP, m.LocalToken = types.StringValue(id), types.StringValue(id), types.StringValue(url), types.StringValue(text)
	return warning, nil
}

// Read reads the address. A token that the cluster does not know any more leaves the state, so that Terraform creates another one: the tokens were revoked, or
// Liqo was installed again. An expired or used token stays: the consumer has peered with it.
func (r *generateResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var m generateModel
	if resp.Diagnostics.Append(req.State.Get(ctx, &m)...); resp.Diagnostics.HasError() || !r.ready(&resp.Diagnostics) {
		return
	}
	known, err := r.observe(ctx, &m)
	switch {
	case err != nil:
		resp.Diagnostics.AddError("Reading the token of cluster "+m.ClusterID.ValueString()+" failed", err.Error())
	case !known:
		resp.State.RemoveResource(ctx)
	default:
		resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
	}
}

// observe reads the address, and reports whether the cluster knows the token.
func (r *generateResource) observe(ctx context.Context, m *generateModel) (known bool, err error) {
	id, namespace, err := r.c.installation(ctx)
	if errors.Is(err, errNotInstalled) { // for example, a helm_release of the same configuration installs it again
		return false, nil
	}
	if err != nil {
		return false, err
	}
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: namespace, Name: invite.KeySecret}
	if err := r.c.Get(ctx, key, secret); apierrors.IsNotFound(err) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("reading Secret %s: %w", key, err)
	}
	_, err = invite.CheckToken(secret.Data[invite.SecretKey], m.LocalToken.ValueString(), m.ConsumerClusterID.ValueString(), time.Now())
	if errors.Is(err, invite.ErrTokenForged) || id != m.ClusterID.ValueString() {
		return false, nil
	}
	if url, _, err := enrollment.URL(ctx, r.c, namespace); err == nil { // otherwise the last address stays
		m.AuthEP = types.StringValue(url)
	}
	return true, nil
}

// Update is never called: a change of an argument replaces the token.
func (r *generateResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	resp.State.Raw = req.Plan.Raw
}

// Delete leaves the token, which the cluster can't revoke alone, and says how long it is valid.
func (r *generateResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var m generateModel
	if resp.Diagnostics.Append(req.State.Get(ctx, &m)...); resp.Diagnostics.HasError() {
		return
	}
	token, err := invite.ParseToken(m.LocalToken.ValueString())
	if err != nil || time.Now().After(token.Expires) {
		return
	}
	resp.Diagnostics.AddAttributeWarning(path.Root("local_token"), "The token stays valid", fmt.Sprintf("Until %s it admits one cluster, if none has used it. "+
		"To revoke it, with all other tokens that were not used yet, delete Secret %s in the namespace of the installation", token.Expires.UTC().Format(time.RFC3339), invite.KeySecret))
}
