package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/cli/loss"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering/invite"
	"liqo.io/liqo/internal/reasons"
)

const peerTimeout = 5 * time.Minute

// peerResource is resource liqo_peer: a ForeignCluster that requests a peering, and the Secret with the token for it.
type peerResource struct{ connected }

// peerModel holds the attributes of liqo_peer.
type peerModel struct {
	ClusterID      types.String `tfsdk:"cluster_id"`
	ClusterName    types.String `tfsdk:"cluster_name"`
	ClusterAuthURL types.String `tfsdk:"cluster_authurl"`
	ClusterToken   types.String `tfsdk:"cluster_token"`
	Timeout        types.String `tfsdk:"timeout"`
}

func (m *peerModel) id() string { return m.ClusterID.ValueString() }

func (m *peerModel) foreign() *corev1beta1.ForeignCluster {
	return &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: m.id()}}
}

func (m *peerModel) secret(namespace string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: corev1beta1.TokenSecretPrefix + m.id()}}
}

// checkName fails if the name of the cluster is not its cluster ID.
func (m *peerModel) checkName() error {
	if name := m.ClusterName; !name.IsNull() && !name.IsUnknown() && !m.ClusterID.IsUnknown() && name.ValueString() != m.id() {
		return fmt.Errorf("cluster_name is %q and cluster_id is %q: the name of a cluster is its cluster ID; leave cluster_name out", name.ValueString(), m.id())
	}
	return nil
}

// Metadata returns the name of the resource.
func (r *peerResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_peer"
}

// Schema describes the attributes of the resource.
func (r *peerResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Peers the cluster, the consumer, with a provider by a token, as `liqoctl peer out-of-band` does. To destroy it ends the peering, and is refused " +
			"while claims have data in the provider.",
		Attributes: map[string]schema.Attribute{
			"cluster_id": schema.StringAttribute{
				Required: true, MarkdownDescription: "Cluster ID of the provider.", PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
				Validators: []validator.String{checked{"a cluster ID", func(text string) error {
					if problems := validation.IsDNS1123Label(text); len(problems) > 0 {
						return fmt.Errorf("%q is not a cluster ID: %s", text, problems[0])
					}
					return nil
				}}},
			},
			"cluster_name": schema.StringAttribute{Optional: true, MarkdownDescription: "Name of the provider. It is the cluster ID, and can be left out."},
			"cluster_authurl": schema.StringAttribute{
				Required: true, MarkdownDescription: "URL of the provider's authentication service.", Validators: []validator.String{checked{"https://host[:port]", invite.CheckURL}},
			},
			"cluster_token": schema.StringAttribute{
				Required: true, Sensitive: true, MarkdownDescription: "Token for the authentication service, from a `liqo_generate` or from `liqoctl generate peer-command`.",
				Validators: []validator.String{checked{"a token", func(text string) error {
					_, err := invite.ParseToken(text)
					return err
				}}},
			},
			"timeout": timeoutAttribute(peerTimeout),
		},
	}
}

// ValidateConfig checks the name.
func (r *peerResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var m peerModel
	if resp.Diagnostics.Append(req.Config.Get(ctx, &m)...); resp.Diagnostics.HasError() {
		return
	}
	if err := m.checkName(); err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("cluster_name"), "Invalid cluster_name", err.Error())
	}
}

// outgoing returns the condition of a ForeignCluster about the peering that it requests; nil if there is none yet.
func outgoing(foreign *corev1beta1.ForeignCluster) *corev1beta1.Condition {
	if foreign.Status.ObservedGeneration < foreign.Generation {
		return nil
	}
	for i := range foreign.Status.Conditions {
		if foreign.Status.Conditions[i].Type == corev1beta1.OutgoingPeering {
			return &foreign.Status.Conditions[i]
		}
	}
	return nil
}

// ended reports whether this cluster uses nothing of the provider any more. The network may stay, because the provider uses this cluster through it.
func ended(foreign *corev1beta1.ForeignCluster) bool {
	condition := outgoing(foreign)
	return condition != nil && (condition.Status == corev1beta1.StatusNone || condition.Reason == reasons.NetworkInUse)
}

// ending returns an error if a peering is being ended, by another user for example: to request it again now would cancel that without a question.
func ending(foreign *corev1beta1.ForeignCluster) error {
	if foreign.Spec.OutgoingPeeringEnabled != corev1beta1.PeeringNo || ended(foreign) {
		return nil
	}
	return fmt.Errorf("ForeignCluster %[1]s says that the peering ends (spec.outgoingPeeringEnabled is %[2]s): apply again when it has ended, or, to keep the peering, run: "+
		"kubectl patch foreigncluster %[1]s --type merge --patch '{\"spec\":{\"outgoingPeeringEnabled\":\"%[3]s\"}}'", foreign.Name, corev1beta1.PeeringNo, corev1beta1.PeeringYes)
}

// has reports whether the status of a ForeignCluster has a condition of its authentication.
func has(foreign *corev1beta1.ForeignCluster, kind corev1beta1.ConditionType) bool {
	return slices.ContainsFunc(foreign.Status.Modules.Authentication.Conditions, func(c corev1beta1.Condition) bool { return c.Type == kind })
}

// unreachable returns the condition about the API server of the provider if that does not respond, nil otherwise.
func unreachable(foreign *corev1beta1.ForeignCluster) *corev1beta1.Condition {
	for i := range foreign.Status.Conditions {
		if c := &foreign.Status.Conditions[i]; c.Type == corev1beta1.APIServerStatus && c.Status == corev1beta1.StatusError {
			return c
		}
	}
	return nil
}

// Create requests the peering, and waits until it is established.
func (r *peerResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m peerModel
	if resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...); resp.Diagnostics.HasError() || !r.ready(&resp.Diagnostics) {
		return
	}
	foreign := m.foreign()
	err := r.c.Get(ctx, client.ObjectKeyFromObject(foreign), foreign)
	switch {
	case err == nil && foreign.DeletionTimestamp != nil:
		err = fmt.Errorf("ForeignCluster %s is being deleted since %s: apply again when it is gone", m.id(), foreign.DeletionTimestamp.UTC().Format(time.RFC3339))
	case err == nil && foreign.Spec.OutgoingPeeringEnabled == corev1beta1.PeeringYes:
		err = fmt.Errorf("ForeignCluster %s requests the peering already: import it, with terraform import liqo_peer.NAME %s", m.id(), m.id())
	case err == nil && foreign.Spec.OutgoingPeeringEnabled != corev1beta1.PeeringNo && has(foreign, corev1beta1.AuthIdentityControlPlaneStatus):
		err = fmt.Errorf("this cluster is peered with cluster %[1]s already, for example by liqoctl peer. To let Terraform manage the peering, run "+
			"kubectl patch foreigncluster %[1]s --type merge --patch '{\"spec\":{\"outgoingPeeringEnabled\":\"%[2]s\"}}', and then terraform import liqo_peer.NAME %[1]s", m.id(), corev1beta1.PeeringYes)
	case client.IgnoreNotFound(err) != nil:
		err = fmt.Errorf("reading ForeignCluster %s: %w", m.id(), err)
	default:
		if err = ending(foreign); err == nil {
			err = r.request(context.WithoutCancel(ctx), &m) // Ctrl-C must not leave objects that are not in the state
		}
	}
	if err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("cluster_id"), "Peering with cluster "+m.id()+" failed", err.Error())
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
	r.established(ctx, &m, &resp.Diagnostics)
}

// request writes the Secret with the token, and the ForeignCluster.
func (r *peerResource) request(ctx context.Context, m *peerModel) error {
	if err := m.checkName(); err != nil { // attributes that were unknown when they were validated
		return err
	}
	_, namespace, err := r.c.installation(ctx)
	if err != nil {
		return err
	}
	secret, foreign := m.secret(namespace), m.foreign()
	if _, err := kube.Ensure(ctx, r.c, secret, func() error {
		kube.AddLabels(secret, map[string]string{api.LabelRemoteClusterID: m.id()})
		secret.Data = map[string][]byte{
			corev1beta1.TokenSecretKey: []byte(m.ClusterToken.ValueString()), corev1beta1.TokenURLKey: []byte(m.ClusterAuthURL.ValueString()),
		}
		return nil
	}); err != nil {
		return err
	}
	_, err = kube.Ensure(ctx, r.c, foreign, func() error {
		foreign.Spec.ClusterID, foreign.Spec.ForeignAuthURL, foreign.Spec.OutgoingPeeringEnabled = m.id(), m.ClusterAuthURL.ValueString(), corev1beta1.PeeringYes
		return nil
	})
	return err
}

// established waits until the peering is established. It adds an error to d if the condition reports the same error for longer than r.c.settle. It keeps
// waiting while the reason is ProviderUnreachable or InvitationUnconfirmed.
func (r *peerResource) established(ctx context.Context, m *peerModel, d *diag.Diagnostics) {
	foreign := m.foreign()
	var failing string
	var since time.Time
	err := r.c.wait(ctx, within(m.Timeout, peerTimeout), func(ctx context.Context) (string, error) {
		if err := r.c.Get(ctx, client.ObjectKeyFromObject(foreign), foreign); err != nil {
			return "", fmt.Errorf("reading ForeignCluster %s: %w", m.id(), err)
		}
		condition := outgoing(foreign)
		switch {
		case condition == nil:
			return fmt.Sprintf("the controller manager has not reconciled ForeignCluster %s yet: check that it runs", m.id()), nil
		case condition.Status == corev1beta1.StatusEstablished:
			return "", nil
		case condition.Status != corev1beta1.StatusError || condition.Reason == reasons.ProviderUnreachable || condition.Reason == reasons.InvitationUnconfirmed:
			failing = ""
		case failing != condition.Message:
			failing, since = condition.Message, time.Now()
		case time.Since(since) > r.c.settle:
			return "", errors.New(condition.Message)
		}
		return condition.Message, nil
	})
	switch {
	case unfinished(err): // an error would taint a new resource, and the next apply would end the peering and need another token
		d.AddAttributeWarning(path.Root("cluster_id"), "Peering with cluster "+m.id()+" is not finished", err.Error()+"\nThe controllers go on")
	case err != nil:
		d.AddAttributeError(path.Root("cluster_id"), "Peering with cluster "+m.id()+" failed", err.Error()+
			"\nFor another token of a liqo_generate, run: terraform apply -replace and its address")
	}
}

// Read reads the ForeignCluster. If it was deleted, or does not request the peering any more and that has ended, the resource leaves the state, so that Terraform
// creates it again.
func (r *peerResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var m peerModel
	if resp.Diagnostics.Append(req.State.Get(ctx, &m)...); resp.Diagnostics.HasError() || !r.ready(&resp.Diagnostics) {
		return
	}
	foreign := m.foreign()
	requested, err := r.observe(ctx, &m, foreign)
	switch {
	case err != nil:
		resp.Diagnostics.AddError("Reading the peering with cluster "+m.id()+" failed", err.Error())
	case !requested:
		resp.State.RemoveResource(ctx)
	default:
		resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
		if err := ending(foreign); err != nil {
			resp.Diagnostics.AddAttributeWarning(path.Root("cluster_id"), "The peering with cluster "+m.id()+" is being ended", err.Error())
		} else if condition := outgoing(foreign); condition != nil && condition.Status == corev1beta1.StatusError { // of an apply that did not wait until its end, for example
			resp.Diagnostics.AddAttributeWarning(path.Root("cluster_id"), "The peering with cluster "+m.id()+" has an error", condition.Message)
		}
	}
}

// observe reads the objects, and reports whether they request the peering, or are still ending it.
func (r *peerResource) observe(ctx context.Context, m *peerModel, foreign *corev1beta1.ForeignCluster) (requested bool, err error) {
	err = r.c.Get(ctx, client.ObjectKeyFromObject(foreign), foreign)
	switch wish := foreign.Spec.OutgoingPeeringEnabled; {
	case kube.Absent(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading ForeignCluster %s: %w", m.id(), err)
	case wish != corev1beta1.PeeringYes && wish != corev1beta1.PeeringNo, wish == corev1beta1.PeeringNo && ended(foreign):
		return false, nil
	}
	if foreign.Spec.ForeignAuthURL != "" {
		m.ClusterAuthURL = types.StringValue(foreign.Spec.ForeignAuthURL)
	}
	_, namespace, err := r.c.installation(ctx)
	if err != nil {
		return false, err
	}
	secret := m.secret(namespace)
	err = r.c.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	switch {
	case apierrors.IsNotFound(err): // an established peering does not need the token
		return true, nil
	case err != nil:
		return false, fmt.Errorf("reading Secret %s: %w", client.ObjectKeyFromObject(secret), err)
	}
	m.ClusterToken = types.StringValue(string(secret.Data[corev1beta1.TokenSecretKey]))
	return true, nil
}

// Update writes another address or token.
func (r *peerResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var m peerModel
	if resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...); resp.Diagnostics.HasError() || !r.ready(&resp.Diagnostics) {
		return
	}
	foreign := m.foreign()
	err := client.IgnoreNotFound(r.c.Get(ctx, client.ObjectKeyFromObject(foreign), foreign))
	if err == nil {
		err = ending(foreign)
	}
	if err == nil {
		err = r.request(ctx, &m)
	}
	if err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("cluster_id"), "Changing the peering with cluster "+m.id()+" failed", err.Error())
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
	r.established(ctx, &m, &resp.Diagnostics)
}

// Delete ends the peering, and waits until it has ended. It changes nothing while claims have data in the provider. While the provider is unreachable, the
// controllers release nothing.
func (r *peerResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var m peerModel
	if resp.Diagnostics.Append(req.State.Get(ctx, &m)...); resp.Diagnostics.HasError() || !r.ready(&resp.Diagnostics) {
		return
	}
	lines, err := loss.Volumes(ctx, r.c, func(_, provider string) bool { return provider == m.id() }, true)
	if err == nil {
		err = loss.Error(lines)
	}
	if err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("cluster_id"), "The peering with cluster "+m.id()+" stays", err.Error())
		return
	}
	stays, err := r.end(ctx, &m)
	if err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("cluster_id"), "Ending the peering with cluster "+m.id()+" is not finished", err.Error()+"\nTo wait on, run terraform destroy again")
		return
	}
	if stays != "" {
		resp.Diagnostics.AddAttributeWarning(path.Root("cluster_id"), "A part of the peering with cluster "+m.id()+" stays", stays)
	}
}

// end ends the peering. stays says which part of it stays, and why.
func (r *peerResource) end(ctx context.Context, m *peerModel) (stays string, err error) {
	_, namespace, err := r.c.installation(ctx)
	if err != nil {
		return "", err
	}
	foreign := m.foreign()
	err = r.c.Get(ctx, client.ObjectKeyFromObject(foreign), foreign)
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("reading ForeignCluster %s: %w", m.id(), err)
	}
	if err == nil && foreign.DeletionTimestamp == nil && foreign.Spec.OutgoingPeeringEnabled != corev1beta1.PeeringNo {
		if lost := unreachable(foreign); lost != nil {
			return "", fmt.Errorf("the API server of cluster %[1]s, %[2]s, does not respond since %[3]s: %[4]s\nNothing was changed: its pods can't be stopped now, and would run twice once they "+
				"are replaced elsewhere. If cluster %[1]s is gone for good, run: liqoctl force unpeer %[1]s",
				m.id(), foreign.Status.APIServerURL, lost.LastTransitionTime.UTC().Format(time.RFC3339), lost.Message)
		}
	}
	// Delete the Secret first: once the peering has ended, the resource leaves the state, so a destroy that was killed in between would leave the Secret
	// behind. An established peering does not need it.
	if err := kube.Delete(ctx, r.c, m.secret(namespace)); err != nil {
		return "", err
	}
	if err == nil && foreign.DeletionTimestamp == nil && foreign.Spec.OutgoingPeeringEnabled != corev1beta1.PeeringNo {
		before := foreign.DeepCopy()
		foreign.Spec.OutgoingPeeringEnabled = corev1beta1.PeeringNo
		if err := r.c.Patch(ctx, foreign, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("setting spec.outgoingPeeringEnabled of ForeignCluster %s to %s: %w", m.id(), corev1beta1.PeeringNo, err)
		}
	}
	err = r.c.wait(ctx, within(m.Timeout, peerTimeout), func(ctx context.Context) (string, error) {
		err := r.c.Get(ctx, client.ObjectKeyFromObject(foreign), foreign)
		condition := outgoing(foreign)
		switch {
		case kube.Absent(err):
			return "", nil
		case err != nil:
			return "", fmt.Errorf("reading ForeignCluster %s: %w", m.id(), err)
		case condition == nil:
			return fmt.Sprintf("the controller manager has not reconciled ForeignCluster %s yet: check that it runs", m.id()), nil
		case ended(foreign):
			if condition.Reason == reasons.NetworkInUse {
				stays = condition.Message
				return "", nil
			}
			if has(foreign, corev1beta1.AuthTenantStatus) {
				stays = fmt.Sprintf("ForeignCluster %s stays, because cluster %s uses this cluster", foreign.Name, m.id())
				return "", nil
			}
			return "", kube.Delete(ctx, r.c, foreign) // the record of a former peer
		}
		return condition.Message, nil
	})
	return stays, err
}

// ImportState takes over the ForeignCluster of the cluster with the given ID.
func (r *peerResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	resource.ImportStatePassthroughID(ctx, path.Root("cluster_id"), req, resp)
}
