package installer

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// expressions returns the expressions of a ValidatingAdmissionPolicy that the chart renders: of its variables and of its validations.
func expressions(t *testing.T, values, policy string) []string {
	t.Helper()
	object := find(t, render(t, values), "ValidatingAdmissionPolicy", policy).Object
	var out []string
	for _, field := range []string{"variables", "validations"} {
		list, _, err := unstructured.NestedSlice(object, "spec", field)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range list {
			expression, _, err := unstructured.NestedString(item.(map[string]any), "expression")
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, expression)
		}
	}
	return out
}

// TestUnlistedAccountsGiveNoToken: a pod without a service account name uses service account default. If default is not accepted, such a pod must disable its
// token.
func TestUnlistedAccountsGiveNoToken(t *testing.T) {
	for accounts, want := range map[string]bool{"[default]": false, "[operator, default]": false, `["*"]`: false, "[operator]": true, "[]": true} {
		rules := expressions(t, minimal+"\noffloading: {podPolicy: {serviceAccounts: "+accounts+"}}", "liqo-shadowpod")
		found := slices.ContainsFunc(rules, func(e string) bool {
			return strings.Contains(e, "automountServiceAccountToken.orValue(true) == false") && strings.Contains(e, "!has(s.serviceAccountToken)")
		})
		if found != want {
			t.Errorf("accounts %s: tokens of account default are refused: %v, want %v", accounts, found, want)
		}
	}
}

// TestSecretsOfTheProviderInRemoteNamespaces: consumers read all Secrets of their remote namespaces. So a Secret with a service account token is refused for
// everybody.
func TestSecretsOfTheProviderInRemoteNamespaces(t *testing.T) {
	for values, want := range map[string]bool{minimal: false, minimal + "\nopenshiftConfig: {enabled: true}": true} {
		others := slices.Contains(expressions(t, values, "liqo-copies"), "!variables.token || variables.others")
		if others != want {
			t.Errorf("%s: others than the consumer may create tokens of accounts: %v", values, others)
		}
	}
}
