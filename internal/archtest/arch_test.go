// Package archtest checks the architecture rules of the repository: which folders may import which others, which names are banned, and that the pure
// packages perform no I/O. It uses the go command, so it also finds indirect imports.
package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "liqo.io/liqo"

// pkg is the go command's description of a package.
type pkg struct {
	ImportPath, Dir, Name, Doc string
	GoFiles                    []string
	Imports                    []string
}

// pure are the packages with decisions and without I/O. They may import the standard library, our API, Kubernetes' API types, and each other.
var pure = []string{
	"internal/peering", "internal/peering/invite", "internal/peering/sharing",
	"internal/eks",
	"internal/offload",
	"internal/offload/kinds", "internal/offload/kinds/podrules", "internal/offload/kubelet",
	"internal/ipam",
	"internal/reasons",
	"internal/excerpt",
	"internal/address",
	"internal/pki",
	"internal/dataplane",
	"internal/network", "internal/network/gatewaypod",
	"internal/storage",
	"internal/discovery",
	"internal/storage/move",
	"internal/install",
	"internal/doctor",
	"internal/dashboard",
}

// pureMayImport are the packages outside the standard library that a pure package may use.
var pureMayImport = []string{
	module + "/api",
	"k8s.io/api/",
	"k8s.io/apimachinery/",
	"k8s.io/component-helpers/resource",
	"k8s.io/component-helpers/scheduling/corev1",
	"k8s.io/utils/ptr",
	"golang.org/x/net/dns/dnsmessage",           // the format of DNS messages, without any input or output
	"filippo.io/age", "golang.org/x/crypto/ssh", // formats of encrypted files and of keys; package age is used for decryption only, since encryption needs randomness
	"sigs.k8s.io/yaml",
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath", // the format of metadata.managedFields
}

// pureMustNot are packages with I/O in the standard library, or in the packages that are allowed above.
var pureMustNot = map[string]string{
	"math/rand":                         "randomness is an argument",
	"math/rand/v2":                      "randomness is an argument",
	"os":                                "files and environment belong to the caller",
	"os/exec":                           "processes belong to the caller",
	"net/http":                          "a pure package does not talk",
	"log":                               "log at the edge",
	"log/slog":                          "log at the edge",
	"sync":                              "no goroutines, no locks",
	"k8s.io/apimachinery/pkg/util/wait": "waiting belongs to the caller",
	"k8s.io/apimachinery/pkg/watch":     "watching belongs to the caller",
}

// layers, lowest first: a folder may import those of its own layer and below. The longest prefix counts.
var layers = []struct {
	prefix string
	level  int
}{
	{"api", 0},
	{"internal/version", 0}, {"internal/keep", 0}, {"internal/metrics", 0}, {"internal/reasons", 0}, {"internal/excerpt", 0}, {"internal/trigger", 0}, {"internal/address", 0}, {"internal/pki", 0},
	{"internal/peering", 1}, {"internal/peering/invite", 1}, {"internal/peering/sharing", 1}, {"internal/eks", 1}, {"internal/offload", 1}, {"internal/offload/kinds", 1}, {"internal/offload/kinds/podrules", 1}, {"internal/offload/kubelet", 1},
	{"internal/ipam", 1}, {"internal/dataplane", 1}, {"internal/network", 1}, {"internal/network/gatewaypod", 1}, {"internal/storage", 1}, {"internal/discovery", 1},
	{"internal/kube", 2}, {"internal/remote", 2},
	{"internal/dataplane/kernel", 2},
	{"internal/ipam/controllers", 3}, {"internal/network/controllers", 3}, {"internal/network/facts", 3}, {"internal/dataplane/agent", 3}, {"internal/gateway", 3}, {"internal/proxy", 3},
	{"internal/peering/accounts", 3}, {"internal/peering/controllers", 3}, {"internal/peering/enrollment", 3},
	{"internal/storage/controllers", 3}, {"internal/discovery/query", 3}, {"internal/discovery/multicast", 3}, {"internal/discovery/agent", 3},
	{"internal/storage/move", 1}, {"internal/storage/mover", 3},
	{"internal/offload/controllers", 3}, {"internal/offload/webhook", 3}, {"internal/offload/reflection", 3}, {"internal/offload/provider", 3}, {"internal/offload/node", 3}, {"internal/volumes", 3},
	{"charts", 0}, {"internal/install", 3}, {"internal/doctor", 3},
	{"internal/cli/cmdline", 3}, {"internal/cli/console", 3}, {"internal/cli/deletevolumes", 3}, {"internal/cli/explain", 3}, {"internal/cli/handshake", 3}, {"internal/cli/inspect", 3}, {"internal/cli/loss", 3}, {"internal/cli/preview", 3}, {"internal/cli/session", 3}, {"internal/cli/tunnel", 3}, {"internal/cli/undo", 3}, {"internal/cli/workload", 3}, {"internal/cli", 4}, {"internal/dashboard", 4},
	{"internal/app", 4},
	{"cmd", 5},
	{"internal/archtest", 6}, {"test", 6}, {"generate", 6}, {"examples", 6},
}

// concerns must not import one another, apart from concernImports: they meet through API objects only.
var concerns = []string{
	"internal/peering", "internal/offload", "internal/install", "internal/network", "internal/storage", "internal/discovery", "internal/ipam", "internal/gateway",
}

// concernImports are the exceptions: what a concern may import of another one.
var concernImports = map[string]string{
	"internal/network": "internal/ipam",    // arithmetic with prefixes
	"internal/offload": "internal/ipam",    // arithmetic with prefixes
	"internal/gateway": "internal/network", // a gateway applies the network's plan for its own host
}

// bannedNames are folder names that do not describe the content.
var bannedNames = []string{"utils", "util", "common", "helpers", "helper", "types", "consts", "constants", "getters", "misc", "base", "shared"}

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Dir,Name,Doc,GoFiles,Imports", "./...")
	cmd.Dir = root(t)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("listing packages: %v\n%s", err, stderr.String())
	}
	var all []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 10 {
		t.Fatalf("only %d packages found: the test looks at the wrong place", len(all))
	}
	return all
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// local returns the path inside the module, and whether it is one of ours.
func local(importPath string) (string, bool) { return strings.CutPrefix(importPath, module+"/") }

func under(path, prefix string) bool { return path == prefix || strings.HasPrefix(path, prefix+"/") }

func TestPurePackagesExistAndArePure(t *testing.T) {
	all := packages(t)
	for _, want := range pure {
		i := slices.IndexFunc(all, func(p pkg) bool { return p.ImportPath == module+"/"+want })
		if i < 0 {
			t.Errorf("%s is on the list of pure packages but does not exist: was it renamed?", want)
			continue
		}
		for _, imported := range all[i].Imports {
			if why, bad := pureMustNot[imported]; bad {
				t.Errorf("%s imports %s: %s", want, imported, why)
			}
			if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
				continue // the standard library
			}
			if path, ours := local(imported); ours && slices.Contains(pure, path) {
				continue
			}
			if !slices.ContainsFunc(pureMayImport, func(ok string) bool { return strings.HasPrefix(imported, ok) }) {
				t.Errorf("%s imports %s: a pure package knows only the standard library and API types", want, imported)
			}
		}
		for _, file := range all[i].GoFiles {
			checkPureFile(t, filepath.Join(all[i].Dir, file))
		}
	}
}

// checkPureFile refuses goroutines and the clock.
func checkPureFile(t *testing.T, file string) {
	t.Helper()
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			t.Errorf("%s: a goroutine in a pure package", fset.Position(n.Pos()))
		case *ast.SelectorExpr:
			name, ok := n.X.(*ast.Ident)
			if !ok {
				break
			}
			switch name.Name + "." + n.Sel.Name {
			case "time.Now", "time.Since", "time.Sleep", "time.After", "metav1.Now", "rand.Reader":
				t.Errorf("%s: %s.%s in a pure package: time and randomness are arguments", fset.Position(n.Pos()), name.Name, n.Sel.Name)
			}
		}
		return true
	})
}

func TestDirectionOfImports(t *testing.T) {
	level := func(path string) int {
		best, found := -1, ""
		for _, l := range layers {
			if under(path, l.prefix) && len(l.prefix) >= len(found) {
				best, found = l.level, l.prefix
			}
		}
		return best
	}
	for _, p := range packages(t) {
		path, _ := local(p.ImportPath)
		own := level(path)
		if own < 0 {
			t.Errorf("%s has no place in the list of layers: add it where it belongs", path)
			continue
		}
		for _, imported := range p.Imports {
			other, ours := local(imported)
			if !ours {
				continue
			}
			if level(other) > own {
				t.Errorf("%s (layer %d) imports %s (layer %d): imports go down", path, own, other, level(other))
			}
			if path != "internal/cli" && under(path, "internal/cli") && own == level("internal/cli") && under(other, "internal/cli") && level(other) == own {
				t.Errorf("%s imports %s: commands share packages of the layer below only", path, other)
			}
			from, to := concernOf(path), concernOf(other)
			if from != "" && to != "" && from != to && concernImports[from] != to {
				t.Errorf("%s imports %s: concerns meet only through API objects", path, other)
			}
		}
	}
}

// concernOf returns the concern of a folder, empty if it has none.
func concernOf(path string) string {
	for _, concern := range concerns {
		if under(path, concern) {
			return concern
		}
	}
	return ""
}

// TestEveryLayerExists: each listed folder exists, because an outdated entry could allow unintended imports.
func TestEveryLayerExists(t *testing.T) {
	for _, l := range layers {
		if _, err := os.Stat(filepath.Join(root(t), l.prefix)); err != nil {
			t.Errorf("the list of layers names %s: %v", l.prefix, err)
		}
	}
}

// TestFoldersHaveNoCycles: no two folders of internal import each other, directly or through others. The go command detects only cycles between packages, not
// between folders.
func TestFoldersHaveNoCycles(t *testing.T) {
	folder := func(path string) string { return strings.Join(strings.SplitN(path, "/", 3)[:2], "/") }
	imports := map[string]map[string]bool{}
	for _, p := range packages(t) {
		from, _ := local(p.ImportPath)
		if !under(from, "internal") {
			continue
		}
		for _, imported := range p.Imports {
			to, ours := local(imported)
			if !ours || !under(to, "internal") || folder(from) == folder(to) {
				continue
			}
			if imports[folder(from)] == nil {
				imports[folder(from)] = map[string]bool{}
			}
			imports[folder(from)][folder(to)] = true
		}
	}
	for start := range imports {
		seen := map[string]bool{}
		var visit func(string)
		visit = func(at string) {
			for next := range imports[at] {
				if next == start {
					t.Errorf("%s imports itself through %s", start, at)
				}
				if !seen[next] {
					seen[next] = true
					visit(next)
				}
			}
		}
		visit(start)
	}
}

func TestNamesAndDocs(t *testing.T) {
	for _, p := range packages(t) {
		path, _ := local(p.ImportPath)
		for _, part := range strings.Split(path, "/") {
			if slices.Contains(bannedNames, part) {
				t.Errorf("%s: the name %q says nothing about what is inside", path, part)
			}
			if under(path, "cmd") || under(path, "examples") {
				continue // programs and tutorials are called what users type
			}
			if strings.ContainsAny(part, "-_") || strings.ToLower(part) != part {
				t.Errorf("%s: folders are one lower-case word", path)
			}
		}
		if len(p.GoFiles) > 0 && len(strings.Fields(p.Doc)) < 4 {
			t.Errorf("%s: the package comment should say what the package promises", path)
		}
	}
}

func TestMainsAreShort(t *testing.T) {
	mains, err := filepath.Glob(filepath.Join(root(t), "cmd", "*", "main.go"))
	if err != nil || len(mains) == 0 {
		t.Fatalf("no cmd/*/main.go: %v", err)
	}
	for _, file := range mains {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if lines := bytes.Count(text, []byte("\n")); lines > 60 {
			t.Errorf("%s has %d lines, at most 60: composition belongs to internal/app", file, lines)
		}
	}
}

func TestUpstreamIsNotImportedAndPlaygroundStandsAlone(t *testing.T) {
	forbidden := "github.com/" + "liqotech/" // in two parts, so that this file does not match itself
	err := filepath.WalkDir(root(t), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "bin") {
			return filepath.SkipDir
		}
		if d.IsDir() || (!strings.HasSuffix(path, ".go") && d.Name() != "go.mod") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if bytes.Contains(text, []byte(forbidden)) {
			t.Errorf("%s names upstream's module", path)
		}
		if rel, _ := filepath.Rel(root(t), path); under(rel, "playground") && bytes.Contains(text, []byte(`"`+module+"/")) {
			t.Errorf("%s imports the main module: the playground stands alone", rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestInvariantsNameRealTests: every test that docs/invariants.md names exists in the folder named last before it, or below that folder.
func TestInvariantsNameRealTests(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root(t), "docs", "invariants.md"))
	if err != nil {
		t.Fatal(err)
	}
	folder, tests := "", 0
	for _, found := range regexp.MustCompile("`([a-z][a-z/]*)`|\\b(Test[A-Za-z]+)").FindAllStringSubmatch(string(text), -1) {
		if found[1] != "" {
			folder = found[1]
			continue
		}
		tests++
		if name := found[2]; folder == "" || !strings.Contains(testsBelow(t, folder), "func "+name+"(") {
			t.Errorf("docs/invariants.md names %s in folder %q, which has no such test", name, folder)
		}
	}
	if tests == 0 {
		t.Fatal("docs/invariants.md names no test")
	}
}

// TestInvariantsNameRealStories checks the same for stories: each exists in test/scenario.
func TestInvariantsNameRealStories(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root(t), "docs", "invariants.md"))
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?:\.Tell(?:Before)?\(t, |story\.Named\{Name: )"([a-z]+)"`).FindAllStringSubmatch(testsBelow(t, "test/scenario"), -1) {
		told[found[1]] = true
	}
	stories := 0
	for _, found := range regexp.MustCompile(`\bstor(?:y|ies) ([a-z]+(?:, [a-z]+)*)`).FindAllStringSubmatch(string(text), -1) {
		for name := range strings.SplitSeq(found[1], ", ") {
			stories++
			if !told[name] {
				t.Errorf("docs/invariants.md names story %s, which test/scenario does not tell", name)
			}
		}
	}
	if stories == 0 {
		t.Fatal("docs/invariants.md names no story")
	}
}

// testsBelow returns the text of all tests in a folder and its subfolders.
func testsBelow(t *testing.T, folder string) string {
	t.Helper()
	var sources strings.Builder
	err := filepath.WalkDir(filepath.Join(root(t), folder), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		sources.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sources.String()
}
