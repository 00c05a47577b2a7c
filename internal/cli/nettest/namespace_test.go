package nettest

import (
	"strings"
	"testing"
)

// TestNamespacesOfTests: consumers of one provider do not share the namespace of test network, even with long cluster IDs.
func TestNamespacesOfTests(t *testing.T) {
	long := strings.Repeat("a", 62)
	seen := map[string]string{}
	for _, id := range []string{"rome", "turin", long + "1", long + "2"} {
		name := namespaceOf(id)
		if other, taken := seen[name]; taken || len(name) > 63 {
			t.Errorf("the namespace of %s is %s, as that of %q", id, name, other)
		}
		seen[name] = id
	}
}
