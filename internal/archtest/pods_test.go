package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// podMakers are the functions that make containers. The value is the test that checks the rights of their pods by podtest.Check, in the same folder, or the reason why they
// make no pod.
var podMakers = map[string]string{
	"internal/storage/move/objects.go pod":              "TestPodsMeetPodSecurityExceptForRoot",
	"internal/cli/nettest/workload.go testContainer":    "TestServersOfTheTestHaveFewRights",
	"internal/offload/kubelet/deployment.go kubeletPod": "TestKubeletsHaveFewRights",
	"internal/cli/inspect/doctoraccess.go probes":       "a pod for dry runs",
	"internal/offload/quota.go defaulted":               "a copy that is counted",
	"internal/offload/reflection/pod.go stripLocalPod":  "a copy for the cache",
	"internal/dashboard/watch/informers.go stripPod":    "a copy for the cache",
}

var testName = regexp.MustCompile(`^Test\w+$`)

// TestRightsOfAllPodsAreChecked: every function of the product that makes a container is in podMakers, and the test that is named there checks the rights of its pods. The
// pods of the chart are found by rendering it (internal/install/installer TestPodsOfTheChartHaveFewRights).
func TestRightsOfAllPodsAreChecked(t *testing.T) {
	found := map[string]bool{}
	for _, path := range productFiles(t) {
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, filepath.Join(root(t), path), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if ast.IsGenerated(file) {
			continue
		}
		for _, declaration := range file.Decls {
			function, is := declaration.(*ast.FuncDecl)
			if !is || !makesContainer(function) {
				continue
			}
			name := filepath.ToSlash(path) + " " + function.Name.Name
			found[name] = true
			check, listed := podMakers[name]
			switch {
			case !listed:
				t.Errorf("%s: %s makes a container: check the rights of its pod by podtest.Check, and add the test to podMakers", files.Position(function.Pos()), function.Name.Name)
			case testName.MatchString(check) && !checksRights(t, filepath.Dir(path), check):
				t.Errorf("%s: no %s in %s calls podtest.Check", name, check, filepath.Dir(path))
			}
		}
	}
	for name := range podMakers {
		if !found[name] {
			t.Errorf("%s makes no container any more: remove it from podMakers", name)
		}
	}
}

// makesContainer reports whether a function has a literal of a container, or of a list with containers.
func makesContainer(function *ast.FuncDecl) (makes bool) {
	ast.Inspect(function, func(node ast.Node) bool {
		literal, is := node.(*ast.CompositeLit)
		if !is {
			return true
		}
		list, isList := literal.Type.(*ast.ArrayType)
		for _, kind := range []string{"Container", "EphemeralContainer"} {
			if isSelector(literal.Type, "corev1", kind) || isList && isSelector(list.Elt, "corev1", kind) && len(literal.Elts) > 0 && !isVariable(literal.Elts) {
				makes = true
			}
		}
		return true
	})
	return makes
}

// isVariable reports whether all elements of a list are variables: what makes them is elsewhere.
func isVariable(elements []ast.Expr) bool {
	for _, element := range elements {
		if _, is := element.(*ast.Ident); !is {
			return false
		}
	}
	return true
}

// checksRights reports whether a test in a folder calls podtest.Check.
func checksRights(t *testing.T, folder, name string) bool {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root(t), folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, body, is := strings.Cut(string(text), "\nfunc "+name+"("); is {
			body, _, _ = strings.Cut(body, "\n}\n")
			return strings.Contains(body, "podtest.Check(")
		}
	}
	return false
}
