package installer

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// validations returns the expressions of a ValidatingAdmissionPolicy that the chart renders.
func validations(t *testing.T, values, policy string) []string {
	t.Helper()
	list, _, err := unstructured.NestedSlice(find(t, render(t, values), "ValidatingAdmissionPolicy", policy).Object, "spec", "validations")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, validation := range list {
		expression, _, err := unstructured.NestedString(validation.(map[string]any), "expression")
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, expression)
	}
	return out
}

// TestUnlistedAccountsGiveNoToken: a pod without a service account name uses service account default. If default is not accepted, such a pod must disable its
// token.
func TestUnlistedAccountsGiveNoToken(t *testing.T) {
	for accounts, want := range map[string]bool{"[default]": false, "[operator, default]": false, `["*"]`: false, "[operator]": true, "[]": true} {
		expressions := validations(t, minimal+"\noffloading: {podPolicy: {serviceAccounts: "+accounts+"}}", "liqo-shadowpod")
		found := slices.ContainsFunc(expressions, func(e string) bool {
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
		others := slices.Contains(validations(t, values, "liqo-copies"), "!variables.token || variables.others")
		if others != want {
			t.Errorf("%s: others than the consumer may create tokens of accounts: %v", values, others)
		}
	}
}
