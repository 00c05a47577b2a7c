package gatewaypod

import (
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"text/template"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// TemplateData holds the values that the template of a gateway may use.
type TemplateData struct {
	// Name, Namespace and GatewayUID identify the GatewayServer or GatewayClient.
	Name, Namespace, GatewayUID string
	// ClusterID is the ID of the peer.
	ClusterID string
	// SecretName is the name of the Secret with the gateway's keys.
	SecretName string
	// Spec is the spec of the GatewayServer or GatewayClient, with JSON field names.
	Spec map[string]any
}

// TemplateMeta is the part of an object's metadata that a template may set; name and namespace are fixed.
type TemplateMeta struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Rendered is the result of rendering a template.
type Rendered struct {
	Deployment struct {
		Metadata TemplateMeta          `json:"metadata,omitempty"`
		Spec     appsv1.DeploymentSpec `json:"spec,omitempty"`
	} `json:"deployment,omitempty"`
	// Service is used for servers only.
	Service struct {
		Metadata TemplateMeta       `json:"metadata,omitempty"`
		Spec     corev1.ServiceSpec `json:"spec,omitempty"`
	} `json:"service,omitempty"`
}

// NewServiceType returns the type of the Service of a new GatewayServer of a template if the user names none.
func NewServiceType(template *networkingv1beta1.WgGatewayServerTemplate) corev1.ServiceType {
	return cmp.Or(template.Spec.ServiceType, corev1.ServiceTypeLoadBalancer)
}

// renderedParts returns the keys of the template's spec that Render uses. It ignores others.
func renderedParts() []string { return []string{"deployment", "service"} }

// Render executes the Go templates in the strings of raw, the JSON of spec.template of a gateway template. Where Kubernetes expects a number or a
// boolean, Render converts the result of the template to that type. It leaves out fields whose template has an empty result. Errors name the
// position.
func Render(raw []byte, data TemplateData) (*Rendered, error) {
	var whole struct {
		Spec map[string]any `json:"spec"`
	}
	if err := json.Unmarshal(raw, &whole); err != nil {
		return nil, fmt.Errorf("reading spec.template: %w", err)
	}
	if whole.Spec["deployment"] == nil {
		return nil, errors.New("spec.template.spec.deployment is missing: it is the Deployment of the gateway")
	}
	parts := map[string]any{}
	for _, name := range renderedParts() {
		if part, ok := whole.Spec[name]; ok {
			parts[name] = part
		}
	}
	filled, _, err := fillTemplate(parts, reflect.TypeFor[Rendered](), "spec.template.spec", data)
	if err != nil {
		return nil, err
	}
	// Drop names and other identity from the metadata of the template: the gateway determines them.
	for _, name := range renderedParts() {
		if part, ok := filled.(map[string]any)[name].(map[string]any); ok {
			dropIdentity(part)
		}
	}
	text, err := json.Marshal(filled)
	if err != nil {
		return nil, fmt.Errorf("marshalling the rendered spec.template: %w", err)
	}
	rendered := &Rendered{}
	if err := yaml.UnmarshalStrict(text, rendered); err != nil {
		return nil, fmt.Errorf("reading the rendered spec.template.spec: %w", err)
	}
	return rendered, nil
}

func dropIdentity(part map[string]any) {
	if metadata, ok := part["metadata"].(map[string]any); ok {
		delete(metadata, "name")
		delete(metadata, "namespace")
		delete(metadata, "finalizers")
	}
}

// fillTemplate returns a value with its templates executed, and whether to keep it. kind is the Go type of the value's place; nil: unknown.
func fillTemplate(value any, kind reflect.Type, path string, data TemplateData) (any, bool, error) {
	switch value := value.(type) {
	case map[string]any:
		filled := make(map[string]any, len(value))
		for key, inner := range value {
			got, keep, err := fillTemplate(inner, fieldType(kind, key), path+"."+key, data)
			if err != nil {
				return nil, false, err
			}
			if keep {
				filled[key] = got
			}
		}
		return filled, true, nil
	case []any:
		filled := make([]any, 0, len(value))
		for i, inner := range value {
			got, keep, err := fillTemplate(inner, elementType(kind), fmt.Sprintf("%s[%d]", path, i), data)
			if err != nil {
				return nil, false, err
			}
			if keep {
				filled = append(filled, got)
			}
		}
		return filled, true, nil
	case string:
		return fillTemplateText(value, kind, path, data)
	default:
		return value, true, nil
	}
}

func fillTemplateText(text string, kind reflect.Type, path string, data TemplateData) (any, bool, error) {
	if !strings.Contains(text, "{{") {
		return text, true, nil
	}
	parsed, err := template.New(path).Parse(text)
	if err != nil {
		return nil, false, fmt.Errorf("parsing %s: %w", path, err)
	}
	var out strings.Builder
	if err := parsed.Execute(&out, data); err != nil {
		return nil, false, fmt.Errorf("executing %s: %w", path, err)
	}
	result := strings.ReplaceAll(out.String(), "<no value>", "") // a template prints this for a spec field that is not set
	if result == "" {
		return nil, false, nil
	}
	scalar, err := templateScalar(result, kind)
	if err != nil {
		return nil, false, fmt.Errorf("%s renders to %q: %w", path, result, err)
	}
	return scalar, true, nil
}

// templateScalar converts text to the type of its place.
func templateScalar(text string, kind reflect.Type) (any, error) {
	kind = pointedType(kind)
	if kind == nil {
		return text, nil
	}
	if kind == reflect.TypeFor[intstr.IntOrString]() {
		if n, err := strconv.ParseInt(text, 10, 32); err == nil {
			return n, nil
		}
		return text, nil
	}
	switch kind.Kind() {
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return nil, errors.New("want true or false")
		}
		return b, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, kind.Bits())
		if err != nil {
			return nil, errors.New("want a number")
		}
		return n, nil
	default:
		return text, nil
	}
}

func pointedType(kind reflect.Type) reflect.Type {
	for kind != nil && kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	return kind
}

// elementType returns the type of the elements of a list; nil if kind is not a list.
func elementType(kind reflect.Type) reflect.Type {
	if kind = pointedType(kind); kind != nil && kind.Kind() == reflect.Slice {
		return kind.Elem()
	}
	return nil
}

// fieldType returns the type of an object's field with a JSON name; nil: unknown.
func fieldType(kind reflect.Type, key string) reflect.Type {
	kind = pointedType(kind)
	if kind == nil || reflect.PointerTo(kind).Implements(reflect.TypeFor[json.Unmarshaler]()) ||
		reflect.PointerTo(kind).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return nil
	}
	switch kind.Kind() {
	case reflect.Map:
		return kind.Elem()
	case reflect.Struct:
		for i := range kind.NumField() {
			field := kind.Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if field.Anonymous && name == "" {
				if found := fieldType(field.Type, key); found != nil {
					return found
				}
			} else if name == key {
				return field.Type
			}
		}
	}
	return nil
}
