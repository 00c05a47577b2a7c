package provider

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cli/loss"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
)

const offloadTimeout = 2 * time.Minute

// offloadResource is resource liqo_offload: the NamespaceOffloading of a namespace.
type offloadResource struct{ connected }

// offloadModel holds the attributes of liqo_offload.
type offloadModel struct {
	Namespace                types.String   `tfsdk:"namespace"`
	PodOffloadingStrategy    types.String   `tfsdk:"pod_offloading_strategy"`
	NamespaceMappingStrategy types.String   `tfsdk:"namespace_mapping_strategy"`
	RemoteNamespaceName      types.String   `tfsdk:"remote_namespace_name"`
	ClusterSelectorTerms     []selectorTerm `tfsdk:"cluster_selector_terms"`
	Timeout                  types.String   `tfsdk:"timeout"`
}

type selectorTerm struct {
	MatchExpressions []requirement `tfsdk:"match_expressions"`
}

type requirement struct {
	Key      types.String   `tfsdk:"key"`
	Operator types.String   `tfsdk:"operator"`
	Values   []types.String `tfsdk:"values"`
}

// spec returns the spec of the NamespaceOffloading.
func (m *offloadModel) spec() offloadingv1beta1.NamespaceOffloadingSpec {
	out := offloadingv1beta1.NamespaceOffloadingSpec{
		PodOffloadingStrategy:    offloadingv1beta1.PodOffloadingStrategy(m.PodOffloadingStrategy.ValueString()),
		NamespaceMappingStrategy: offloadingv1beta1.NamespaceMappingStrategy(m.NamespaceMappingStrategy.ValueString()),
		RemoteNamespaceName:      m.RemoteNamespaceName.ValueString(),
	}
	if len(m.ClusterSelectorTerms) == 0 {
		return out
	}
	out.ClusterSelector = &corev1.NodeSelector{}
	for _, term := range m.ClusterSelectorTerms {
		var expressions []corev1.NodeSelectorRequirement
		for _, r := range term.MatchExpressions {
			expression := corev1.NodeSelectorRequirement{Key: r.Key.ValueString(), Operator: corev1.NodeSelectorOperator(r.Operator.ValueString())}
			for _, value := range r.Values {
				expression.Values = append(expression.Values, value.ValueString())
			}
			expressions = append(expressions, expression)
		}
		out.ClusterSelector.NodeSelectorTerms = append(out.ClusterSelector.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: expressions})
	}
	return out
}

// observe sets the attributes from the spec, if they differ: null and empty values, which mean the same, stay as they are.
func (m *offloadModel) observe(spec *offloadingv1beta1.NamespaceOffloadingSpec) {
	if apiequality.Semantic.DeepEqual(m.spec(), *spec) {
		return
	}
	m.PodOffloadingStrategy = types.StringValue(string(spec.PodOffloadingStrategy))
	m.NamespaceMappingStrategy = types.StringValue(string(spec.NamespaceMappingStrategy))
	m.RemoteNamespaceName = types.StringNull()
	if spec.RemoteNamespaceName != "" {
		m.RemoteNamespaceName = types.StringValue(spec.RemoteNamespaceName)
	}
	m.ClusterSelectorTerms = nil
	if spec.ClusterSelector == nil {
		return
	}
	for _, term := range spec.ClusterSelector.NodeSelectorTerms {
		var expressions []requirement
		for _, expression := range term.MatchExpressions {
			r := requirement{Key: types.StringValue(expression.Key), Operator: types.StringValue(string(expression.Operator))}
			for _, value := range expression.Values {
				r.Values = append(r.Values, types.StringValue(value))
			}
			expressions = append(expressions, r)
		}
		m.ClusterSelectorTerms = append(m.ClusterSelectorTerms, selectorTerm{MatchExpressions: expressions})
	}
}

func (m *offloadModel) object() *offloadingv1beta1.NamespaceOffloading {
	return &offloadingv1beta1.NamespaceOffloading{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace.ValueString(), Name: offloadingv1beta1.NamespaceOffloadingName},
	}
}

// Metadata returns the name of the resource.
func (r *offloadResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_offload"
}

// Schema describes the attributes of the resource.
func (r *offloadResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	immutable := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	resp.Schema = schema.Schema{
		MarkdownDescription: "Offloads a namespace to peers of the cluster, as `liqoctl offload namespace` does. To destroy it deletes the remote namespaces, " +
			"and is refused while claims of the namespace have data in other clusters.",
		Attributes: map[string]schema.Attribute{
			"namespace": schema.StringAttribute{Required: true, PlanModifiers: immutable, MarkdownDescription: "The namespace. It exists already."},
			"pod_offloading_strategy": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString(string(offloadingv1beta1.PodsLocalAndRemote)),
				Validators:          oneOf(offloadingv1beta1.PodsLocal, offloadingv1beta1.PodsRemote, offloadingv1beta1.PodsLocalAndRemote),
				MarkdownDescription: "Where pods may run: `Local`, `Remote` or `LocalAndRemote`, the default.",
			},
			"namespace_mapping_strategy": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString(string(offloadingv1beta1.DefaultName)), PlanModifiers: immutable,
				Validators: oneOf(offloadingv1beta1.DefaultName, offloadingv1beta1.EnforceSameName, offloadingv1beta1.SelectedName),
				MarkdownDescription: "Name of the remote namespaces: `DefaultName`, the default (the name and the ID of this cluster), `EnforceSameName`, or " +
					"`SelectedName` (that of `remote_namespace_name`).",
			},
			"remote_namespace_name": schema.StringAttribute{
				Optional: true, PlanModifiers: immutable, MarkdownDescription: "Name of the remote namespaces, with strategy `SelectedName` only.",
			},
			"cluster_selector_terms": schema.ListNestedAttribute{
				Optional: true, MarkdownDescription: "Selects virtual nodes by labels. The terms are alternatives. By default, all are selected.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"match_expressions": schema.ListNestedAttribute{
						Required: true, MarkdownDescription: "Requirements, all of which a virtual node has to meet.",
						NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
							"key": schema.StringAttribute{Required: true, MarkdownDescription: "Key of the label."},
							"operator": schema.StringAttribute{
								Required: true, MarkdownDescription: "`In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`.",
								Validators: oneOf(corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist,
									corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt),
							},
							"values": schema.ListAttribute{Optional: true, ElementType: types.StringType, MarkdownDescription: "Values of the label."},
						}},
					},
				}},
			},
			"timeout": timeoutAttribute(offloadTimeout),
		},
	}
}

// ValidateConfig checks the attributes that depend on each other.
func (r *offloadResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var strategy, name types.String
	var terms types.List
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("cluster_selector_terms"), &terms)...)
	if empty := emptyList(terms); empty != "" {
		resp.Diagnostics.AddAttributeError(path.Root("cluster_selector_terms"), "Invalid cluster_selector_terms",
			empty+" is empty, which would select all clusters: leave cluster_selector_terms out for that")
	}
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("namespace_mapping_strategy"), &strategy)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("remote_namespace_name"), &name)...)
	if resp.Diagnostics.HasError() || strategy.IsUnknown() || name.IsUnknown() {
		return
	}
	if selected := strategy.ValueString() == string(offloadingv1beta1.SelectedName); selected != (name.ValueString() != "") {
		resp.Diagnostics.AddAttributeError(path.Root("remote_namespace_name"), "Invalid remote_namespace_name",
			fmt.Sprintf("remote_namespace_name is %q and namespace_mapping_strategy is %q: a name goes with strategy %s, and only with it",
				name.ValueString(), cmp.Or(strategy.ValueString(), string(offloadingv1beta1.DefaultName)), offloadingv1beta1.SelectedName))
	}
}

// emptyList returns the name of the first list in cluster_selector_terms that is known and empty. It returns "" if there is none.
func emptyList(terms types.List) string {
	if terms.IsNull() || terms.IsUnknown() {
		return ""
	}
	for i, term := range terms.Elements() {
		object, _ := term.(types.Object)
		expressions, known := object.Attributes()["match_expressions"].(types.List)
		if known && !expressions.IsUnknown() && len(expressions.Elements()) == 0 {
			return fmt.Sprintf("cluster_selector_terms[%d].match_expressions", i)
		}
	}
	if len(terms.Elements()) == 0 {
		return "cluster_selector_terms"
	}
	return ""
}

// Create offloads the namespace, and waits until its remote namespaces are ready.
func (r *offloadResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m offloadModel
	if resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...); resp.Diagnostics.HasError() || !r.ready(&resp.Diagnostics) {
		return
	}
	object := m.object()
	object.Spec = m.spec()
	err := r.c.Create(context.WithoutCancel(ctx), object) // Ctrl-C must not leave an object that is not in the state
	switch name := m.Namespace.ValueString(); {
	case apierrors.IsAlreadyExists(err):
		resp.Diagnostics.AddAttributeError(path.Root("namespace"), "Namespace "+name+" is offloaded already",
			fmt.Sprintf("NamespaceOffloading %s/%s exists: import it, with terraform import liqo_offload.NAME %s", name, object.Name, name))
		return
	case apierrors.IsNotFound(err):
		resp.Diagnostics.AddAttributeError(path.Root("namespace"), "There is no namespace "+name,
			fmt.Sprintf("creating NamespaceOffloading %s/%s: %v: create the namespace first, for example by a kubernetes_namespace that this resource depends on", name, object.Name, err))
		return
	case err != nil:
		resp.Diagnostics.AddError("Offloading namespace "+name+" failed", fmt.Sprintf("creating NamespaceOffloading %s/%s: %v", name, object.Name, err))
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
	r.settle(ctx, &m, &resp.Diagnostics)
}

// settle waits until the remote namespaces are ready.
func (r *offloadResource) settle(ctx context.Context, m *offloadModel, d *diag.Diagnostics) {
	object, none := m.object(), false
	err := r.c.wait(ctx, within(m.Timeout, offloadTimeout), func(ctx context.Context) (string, error) {
		if err := r.c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return "", fmt.Errorf("reading NamespaceOffloading %s/%s: %w", object.Namespace, object.Name, err)
		}
		phase := object.Status.OffloadingPhase
		switch {
		case object.Status.ObservedGeneration < object.Generation || phase == "":
			return fmt.Sprintf("the controller manager has not reconciled NamespaceOffloading %s/%s yet: check that it runs", object.Namespace, object.Name), nil
		case phase == offloadingv1beta1.PhaseReady || phase == offloadingv1beta1.PhaseNoClusterSelected:
			none = phase == offloadingv1beta1.PhaseNoClusterSelected
			return "", nil
		}
		return fmt.Sprintf("NamespaceOffloading %s/%s is in phase %s%s", object.Namespace, object.Name, phase, offload.NotReady(object)), nil
	})
	switch {
	case unfinished(err): // an error would taint a new resource, and the next apply would delete its remote namespaces
		d.AddWarning("Offloading namespace "+object.Namespace+" is not finished", err.Error()+"\nThe controllers go on")
	case err != nil:
		d.AddError("Offloading namespace "+object.Namespace+" is not finished", err.Error())
	case none:
		d.AddAttributeWarning(path.Root("cluster_selector_terms"), "Namespace "+object.Namespace+" is offloaded to no cluster",
			"No virtual node matches, or the cluster has no peer yet. A liqo_peer that this resource depends on comes first")
	}
}

// Read reads the NamespaceOffloading. One that was deleted leaves the state, so that Terraform creates it again.
func (r *offloadResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var m offloadModel
	if resp.Diagnostics.Append(req.State.Get(ctx, &m)...); resp.Diagnostics.HasError() || !r.ready(&resp.Diagnostics) {
		return
	}
	object := m.object()
	err := r.c.Get(ctx, client.ObjectKeyFromObject(object), object)
	switch {
	case kube.Absent(err):
		resp.State.RemoveResource(ctx)
		return
	case err != nil:
		resp.Diagnostics.AddError("Reading the offloading of namespace "+object.Namespace+" failed", fmt.Sprintf("reading NamespaceOffloading %s/%s: %v", object.Namespace, object.Name, err))
		return
	}
	m.observe(&object.Spec)
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
	if err := deleting(object); err != nil {
		resp.Diagnostics.AddAttributeWarning(path.Root("namespace"), "The offloading of namespace "+object.Namespace+" is being ended", err.Error())
	}
}

// deleting returns an error if a NamespaceOffloading is being deleted: a change would have no effect.
func deleting(object *offloadingv1beta1.NamespaceOffloading) error {
	if object.DeletionTimestamp == nil {
		return nil
	}
	return fmt.Errorf("NamespaceOffloading %s/%s is being deleted since %s: apply again when it is gone", object.Namespace, object.Name, object.DeletionTimestamp.UTC().Format(time.RFC3339))
}

// Update changes the strategy and the selector. It changes nothing if the new selector leaves out a cluster with data of claims.
func (r *offloadResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var m offloadModel
	if resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...); resp.Diagnostics.HasError() || !r.ready(&resp.Diagnostics) {
		return
	}
	object, spec := m.object(), m.spec()
	err := r.c.Get(ctx, client.ObjectKeyFromObject(object), object)
	if client.IgnoreNotFound(err) != nil {
		resp.Diagnostics.AddError("Changing the offloading of namespace "+object.Namespace+" failed", fmt.Sprintf("reading NamespaceOffloading %s/%s: %v", object.Namespace, object.Name, err))
		return
	}
	if err := deleting(object); err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("namespace"), "Changing the offloading of namespace "+object.Namespace+" failed", err.Error())
		return
	}
	// Another user may have changed the selector since the plan was made, so it is compared with that of the object.
	if err == nil && !apiequality.Semantic.DeepEqual(object.Spec.ClusterSelector, spec.ClusterSelector) {
		if err := r.keepsData(ctx, object.Namespace, spec.ClusterSelector); err != nil {
			resp.Diagnostics.AddAttributeError(path.Root("cluster_selector_terms"), "The offloading of namespace "+object.Namespace+" stays as it is", err.Error())
			return
		}
	}
	_, err = kube.Ensure(ctx, r.c, object, func() error {
		object.Spec = spec
		return nil
	})
	if err != nil {
		resp.Diagnostics.AddError("Changing the offloading of namespace "+object.Namespace+" failed", err.Error())
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
	r.settle(ctx, &m, &resp.Diagnostics)
}

// keepsData fails if the selector leaves out clusters where claims of the namespace have data.
func (r *offloadResource) keepsData(ctx context.Context, namespace string, selector *corev1.NodeSelector) error {
	left, _, err := loss.LeftOut(ctx, r.c, []string{namespace}, selector)
	if err != nil {
		return err
	}
	lines, err := loss.Volumes(ctx, r.c, func(of, provider string) bool { return slices.Contains(left[of], provider) }, true)
	if err != nil && !apierrors.IsForbidden(err) { // then the controller manager keeps the remote namespaces with data
		return err
	}
	return loss.Error(lines)
}

// Delete stops the offloading, and waits until the remote namespaces are deleted. It changes nothing while claims of the namespace have data in other clusters.
func (r *offloadResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var m offloadModel
	if resp.Diagnostics.Append(req.State.Get(ctx, &m)...); resp.Diagnostics.HasError() || !r.ready(&resp.Diagnostics) {
		return
	}
	object := m.object()
	lines, err := loss.OfNamespaces(ctx, r.c, []string{object.Namespace})
	if err == nil {
		err = loss.Error(lines)
	}
	if err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("namespace"), "Namespace "+object.Namespace+" stays offloaded", err.Error())
		return
	}
	if err := kube.Delete(ctx, r.c, object); err != nil {
		resp.Diagnostics.AddError("Stopping the offloading of namespace "+object.Namespace+" failed", err.Error())
		return
	}
	err = r.c.wait(ctx, within(m.Timeout, offloadTimeout), func(ctx context.Context) (string, error) {
		err := r.c.Get(ctx, client.ObjectKeyFromObject(object), object)
		switch {
		case kube.Absent(err):
			return "", nil
		case err != nil:
			return "", fmt.Errorf("reading NamespaceOffloading %s/%s: %w", object.Namespace, object.Name, err)
		}
		return fmt.Sprintf("NamespaceOffloading %s/%s is being deleted%s", object.Namespace, object.Name, offload.NotReady(object)), nil
	})
	if err != nil {
		resp.Diagnostics.AddError("Stopping the offloading of namespace "+object.Namespace+" is not finished", err.Error()+"\nTo wait on, run terraform destroy again")
	}
}

// ImportState takes over the NamespaceOffloading of the namespace with the given name.
func (r *offloadResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	resource.ImportStatePassthroughID(ctx, path.Root("namespace"), req, resp)
}
