package provider

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/liqo/api"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

type attributes = map[string]any

// terraform drives the provider as Terraform does, by its protocol, against an API in memory.
type terraform struct {
	*testing.T
	server  tfprotov6.ProviderServer
	schemas map[string]*tfprotov6.Schema
	client  client.Client
	// control does the work of the controllers before each read of an object; nil does nothing.
	control func(c client.Client, object client.Object)
	// writing is called before each object is created; nil does nothing.
	writing func()
	// config is the configuration of the connection.
	config *rest.Config
}

// installation is the ConfigMap with the ID of the cluster.
func installation(id string) client.Object {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: api.ClusterIDConfigMap, Labels: map[string]string{"app.kubernetes.io/name": "clusterid-configmap"}},
		Data:       map[string]string{api.ClusterIDKey: id},
	}
}

func newTerraform(t *testing.T, objects ...client.Object) *terraform {
	t.Helper()
	tf := &terraform{T: t}
	controlling := false
	tf.client = fake.NewClientBuilder().WithScheme(scheme()).WithObjects(objects...).
		WithStatusSubresource(&offloadingv1beta1.NamespaceOffloading{}, &corev1beta1.ForeignCluster{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
				if ctx.Err() != nil { // the client in memory ignores the end of a context
					return ctx.Err()
				}
				if tf.control != nil && !controlling {
					controlling = true
					tf.control(c, object)
					controlling = false
				}
				return c.Get(ctx, key, object, opts...)
			},
			Create: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
				if tf.writing != nil {
					tf.writing()
				}
				if ctx.Err() != nil {
					return ctx.Err()
				}
				return c.Create(ctx, object, opts...)
			},
		}).Build()
	tf.server = providerserver.NewProtocol6(&Provider{version: "test", interval: time.Millisecond, settle: 20 * time.Millisecond, connect: func(config *rest.Config) (client.Client, error) {
		tf.config = config
		return tf.client, nil
	}})()
	schemas, err := tf.server.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	if err != nil || len(schemas.Diagnostics) > 0 {
		t.Fatal(err, texts(schemas.Diagnostics))
	}
	tf.schemas = schemas.ResourceSchemas
	tf.schemas[""] = schemas.Provider
	return tf
}

// configured is newTerraform with a configured provider, of cluster rome.
func configured(t *testing.T, objects ...client.Object) *terraform {
	t.Helper()
	tf := newTerraform(t, append(objects, installation("rome"))...)
	if problems := tf.configure(attributes{"kubernetes": attributes{"host": "https://192.0.2.1", "token": "t"}}); problems != "" {
		t.Fatal(problems)
	}
	return tf
}

func (tf *terraform) configure(config attributes) (problems string) {
	tf.Helper()
	resp, err := tf.server.ConfigureProvider(tf.Context(), &tfprotov6.ConfigureProviderRequest{Config: tf.value("", config)})
	if err != nil {
		tf.Fatal(err)
	}
	return texts(resp.Diagnostics)
}

// texts returns the texts of all diagnostics, with their severities.
func texts(all []*tfprotov6.Diagnostic) string {
	var out []string
	for _, d := range all {
		out = append(out, d.Severity.String()+": "+d.Summary+": "+d.Detail)
	}
	return strings.Join(out, "\n")
}

func (tf *terraform) typeOf(kind string) tftypes.Type { return tf.schemas[kind].ValueType() }

// value encodes attributes; nil is no object.
func (tf *terraform) value(kind string, of attributes) *tfprotov6.DynamicValue {
	tf.Helper()
	if of == nil {
		none, err := tfprotov6.NewDynamicValue(tf.typeOf(kind), tftypes.NewValue(tf.typeOf(kind), nil))
		if err != nil {
			tf.Fatal(err)
		}
		return &none
	}
	text, err := json.Marshal(of)
	if err != nil {
		tf.Fatal(err)
	}
	return &tfprotov6.DynamicValue{JSON: text}
}

// decoded decodes a value; nil is no object. Unknown values are "(unknown)".
func (tf *terraform) decoded(kind string, value *tfprotov6.DynamicValue) attributes {
	tf.Helper()
	decoded, err := value.Unmarshal(tf.typeOf(kind))
	if err != nil {
		tf.Fatal(err)
	}
	out, _ := plain(tf.T, decoded).(attributes)
	return out
}

func plain(t *testing.T, value tftypes.Value) any {
	t.Helper()
	if !value.IsKnown() {
		return "(unknown)"
	}
	if value.IsNull() {
		return nil
	}
	var err error
	var out any
	switch {
	case value.Type().Is(tftypes.String):
		var text string
		err = value.As(&text)
		out = text
	case value.Type().Is(tftypes.Bool):
		var is bool
		err = value.As(&is)
		out = is
	case value.Type().Is(tftypes.Object{}):
		all := map[string]tftypes.Value{}
		err = value.As(&all)
		object := attributes{}
		for name, of := range all {
			if of := plain(t, of); of != nil {
				object[name] = of
			}
		}
		out = object
	default:
		var all []tftypes.Value
		err = value.As(&all)
		list := []any{}
		for _, of := range all {
			list = append(list, plain(t, of))
		}
		out = list
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// validate returns the problems of a configuration.
func (tf *terraform) validate(kind string, config attributes) string {
	tf.Helper()
	resp, err := tf.server.ValidateResourceConfig(tf.Context(), &tfprotov6.ValidateResourceConfigRequest{TypeName: kind, Config: tf.value(kind, config)})
	if err != nil {
		tf.Fatal(err)
	}
	return texts(resp.Diagnostics)
}

// planned is a plan: whether it changes anything, and whether it replaces the object.
type planned struct {
	value             *tfprotov6.DynamicValue
	private           []byte
	changes, replaces bool
	problems          string
}

// plan plans the change from a state to a configuration, nil to destroy. Computed attributes that the configuration leaves out keep their values.
func (tf *terraform) plan(kind string, state, config attributes) planned {
	tf.Helper()
	proposed := config
	if config != nil {
		proposed = maps.Clone(config)
		for _, attribute := range tf.schemas[kind].Block.Attributes {
			if before, is := state[attribute.Name]; is && attribute.Computed && config[attribute.Name] == nil {
				proposed[attribute.Name] = before
			}
		}
	}
	resp, err := tf.server.PlanResourceChange(tf.Context(), &tfprotov6.PlanResourceChangeRequest{
		TypeName: kind, PriorState: tf.value(kind, state), ProposedNewState: tf.value(kind, proposed), Config: tf.value(kind, config),
	})
	if err != nil {
		tf.Fatal(err)
	}
	return planned{
		value: resp.PlannedState, private: resp.PlannedPrivate, replaces: len(resp.RequiresReplace) > 0, problems: texts(resp.Diagnostics),
		changes: !cmp.Equal(tf.decoded(kind, resp.PlannedState), state),
	}
}

// apply plans and applies a change, nil to destroy. The state may be new in spite of problems.
func (tf *terraform) apply(kind string, state, config attributes) (next attributes, problems string) {
	tf.Helper()
	plan := tf.plan(kind, state, config)
	if plan.problems != "" {
		return state, plan.problems
	}
	if plan.replaces && state != nil {
		tf.Fatalf("%s: a change replaces the object", kind)
	}
	return tf.carryOut(kind, plan, state, config)
}

// carryOut applies a plan.
func (tf *terraform) carryOut(kind string, plan planned, state, config attributes) (next attributes, problems string) {
	tf.Helper()
	resp, err := tf.server.ApplyResourceChange(tf.Context(), &tfprotov6.ApplyResourceChangeRequest{
		TypeName: kind, PriorState: tf.value(kind, state), PlannedState: plan.value, Config: tf.value(kind, config), PlannedPrivate: plan.private,
	})
	if err != nil {
		tf.Fatal(err)
	}
	return tf.decoded(kind, resp.NewState), texts(resp.Diagnostics)
}

// applied is apply without problems.
func (tf *terraform) applied(kind string, state, config attributes) attributes {
	tf.Helper()
	next, problems := tf.apply(kind, state, config)
	if problems != "" {
		tf.Fatalf("%s: %s", kind, problems)
	}
	return next
}

// refresh reads the object; nil if it is gone.
func (tf *terraform) refresh(kind string, state attributes) attributes {
	tf.Helper()
	next, problems := tf.read(kind, state)
	if strings.Contains(problems, "ERROR") {
		tf.Fatal(problems)
	}
	return next
}

// read is refresh with the problems that it reports.
func (tf *terraform) read(kind string, state attributes) (next attributes, problems string) {
	tf.Helper()
	resp, err := tf.server.ReadResource(tf.Context(), &tfprotov6.ReadResourceRequest{TypeName: kind, CurrentState: tf.value(kind, state)})
	if err != nil {
		tf.Fatal(err)
	}
	return tf.decoded(kind, resp.NewState), texts(resp.Diagnostics)
}

// imported imports an object and reads it; nil if there is none.
func (tf *terraform) imported(kind, id string) (state attributes, problems string) {
	tf.Helper()
	resp, err := tf.server.ImportResourceState(tf.Context(), &tfprotov6.ImportResourceStateRequest{TypeName: kind, ID: id})
	if err != nil {
		tf.Fatal(err)
	}
	if len(resp.Diagnostics) > 0 {
		return nil, texts(resp.Diagnostics)
	}
	return tf.refresh(kind, tf.decoded(kind, resp.ImportedResources[0].State)), ""
}

// settled fails if the state differs from the real object, or if a plan for the configuration changes anything.
func (tf *terraform) settled(kind string, state, config attributes) {
	tf.Helper()
	if diff := cmp.Diff(state, tf.refresh(kind, state)); diff != "" {
		tf.Errorf("%s: the state is not that of the object: %s", kind, diff)
	}
	if plan := tf.plan(kind, state, config); plan.changes || plan.problems != "" {
		tf.Errorf("%s: a second plan changes something: %s%s", kind, plan.problems, cmp.Diff(state, tf.decoded(kind, plan.value)))
	}
}

// get reads an object, and reports whether it exists.
func (tf *terraform) get(object client.Object) bool {
	tf.Helper()
	err := tf.client.Get(tf.Context(), client.ObjectKeyFromObject(object), object)
	if client.IgnoreNotFound(err) != nil {
		tf.Fatal(err)
	}
	return err == nil
}

// contains fails for each text that is missing.
func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in: %s", part, text)
		}
	}
}
