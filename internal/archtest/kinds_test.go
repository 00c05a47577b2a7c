package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// ambiguous matches kubectl commands with names of Liqo's kinds that kubectl resolves to a kind of Kubernetes: resourceslices of resource.k8s.io, quota of
// ResourceQuotas, and ip of IPAddresses. Liqo's kinds can't be renamed, so commands must use the name with the API group, or Liqo's short name.
var ambiguous = regexp.MustCompile(`\bkubectl\b[^` + "`" + `\n|;&]*?\s(?:get|describe|delete|edit|patch|label|annotate|wait|explain)\s+(?:-\S+\s+(?:\S+\s+)?)*(?:\S+,)?(resourceslices?|quota|ip)(?:[\s,/` + "`" + `"']|$)`)

// TestCommandsNameOurKinds: a kubectl command in the documentation, in a script or in a message works as typed on each release of Kubernetes.
func TestCommandsNameOurKinds(t *testing.T) {
	for command, is := range map[string]bool{
		"kubectl get resourceslices -A": true, "kubectl -n x describe resourceslice/a": true, "kubectl get quota": true, "kubectl get pods,ip": true,
		"kubectl delete -n x ip db": true, "kubectl get resourceslices.authentication.liqo.io": false, "kubectl get ips.ipam.liqo.io": false,
		"kubectl get qt; a quota": false, "`kubectl get pods` shows the quota": false,
	} {
		if ambiguous.MatchString(command) != is {
			t.Errorf("%q: ambiguous is %v", command, !is)
		}
	}
	top, commands := root(t), 0
	for _, folder := range []string{"README.md", "docs", "examples", "demo", "charts", "internal", "cmd", "test"} {
		err := filepath.WalkDir(filepath.Join(top, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || strings.Contains(path, "node_modules") || strings.HasSuffix(path, "archtest/kinds_test.go") {
				return err
			}
			switch filepath.Ext(path) {
			case ".md", ".go", ".sh", ".txt", ".yaml", ".tpl":
			default:
				return nil
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			commands += strings.Count(string(text), "kubectl ")
			for _, found := range ambiguous.FindAllString(string(text), -1) {
				t.Errorf("%s: %q finds a kind of Kubernetes: write the name with the group", strings.TrimPrefix(path, top+"/"), found)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if commands < 100 {
		t.Errorf("only %d commands were found: the test looks at the wrong place", commands)
	}
}
