package cli

import (
	"slices"
	"strings"
	"testing"
)

// TestCreateVirtualNodeNamesIgnoredFlags: amounts and classes have no effect together with a ResourceSlice. The command warns about each of them
// that the user gave, and about no default.
func TestCreateVirtualNodeNamesIgnoredFlags(t *testing.T) {
	command := []string{"create", "virtualnode", "v", "--remote-cluster-id", "milan", "--kubeconfig", t.TempDir() + "/missing"}
	for name, test := range map[string]struct {
		flags []string
		want  string
	}{
		"amounts":               {[]string{"--resource-slice-name", "s", "--cpu", "2", "--pods", "9"}, "WARN  No effect: --cpu, --pods. With --resource-slice-name, the node has the granted"},
		"classes":               {[]string{"--resource-slice-name", "s", "--resource", "a=1", "--ingress-classes", "b"}, "WARN  No effect: --resource, --ingress-classes. "},
		"a ResourceSlice alone": {[]string{"--resource-slice-name", "s"}, ""},
		"amounts of a Secret":   {[]string{"--kubeconfig-secret-name", "s", "--cpu", "2"}, ""},
	} {
		_, _, errOut := run(t, append(slices.Clone(command), test.flags...)...)
		if !strings.Contains(errOut, test.want) || test.want == "" && strings.Contains(errOut, "No effect") {
			t.Errorf("%s: stderr %q, want %q", name, errOut, test.want)
		}
	}
}
