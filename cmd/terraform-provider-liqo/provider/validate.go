package provider

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// checked validates the text of an attribute. It prints only the error of check, which must not contain a secret.
type checked struct {
	want  string
	check func(text string) error
}

// Description returns the valid values.
func (c checked) Description(context.Context) string { return c.want }

// MarkdownDescription returns the valid values.
func (c checked) MarkdownDescription(context.Context) string { return c.want }

// ValidateString checks a known value.
func (c checked) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if err := c.check(req.ConfigValue.ValueString()); err != nil {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid "+req.Path.String(), fmt.Sprintf("%s: %v", req.Path, err))
	}
}

// oneOf accepts the listed values.
func oneOf[T ~string](values ...T) []validator.String {
	want := make([]string, 0, len(values))
	for _, value := range values {
		want = append(want, string(value))
	}
	list := strings.Join(want, ", ")
	return []validator.String{checked{"one of " + list, func(text string) error {
		if !slices.Contains(want, text) {
			return fmt.Errorf("%q is not one of %s", text, list)
		}
		return nil
	}}}
}

// duration accepts positive durations of Go.
var duration = checked{"a duration such as 90s or 5m", func(text string) error {
	if d, err := time.ParseDuration(text); err != nil || d <= 0 {
		return fmt.Errorf("%q is not a positive duration such as 90s or 5m", text)
	}
	return nil
}}

// timeoutAttribute is the attribute timeout of a resource.
func timeoutAttribute(byDefault time.Duration) schema.StringAttribute {
	return schema.StringAttribute{
		Optional: true, Validators: []validator.String{duration},
		MarkdownDescription: fmt.Sprintf("How long to wait for the clusters, as a duration such as `90s`. By default `%s`.", byDefault),
	}
}

// within returns the timeout of a resource.
func within(text types.String, byDefault time.Duration) time.Duration {
	if d, err := time.ParseDuration(text.ValueString()); err == nil {
		return d
	}
	return byDefault
}
