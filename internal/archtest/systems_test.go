package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// listed is a package as go list describes it.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string
	Module          *struct{ GoVersion string }
	Error           *struct{ Err string }
}

// TestLiqoctlCompilesForEverySystem: a release contains liqoctl for Linux, macOS and Windows, but developers compile it only for their own system. The test
// checks the types of its packages as the compiler does. For packages of other modules it reads only the declarations, which takes seconds instead of minutes.
func TestLiqoctlCompilesForEverySystem(t *testing.T) {
	for _, system := range []string{"darwin/arm64", "windows/amd64"} {
		t.Run(system, func(t *testing.T) {
			list := listFor(t, system, "./cmd/liqoctl")
			problems, ours := checkTypes(list)
			for _, problem := range problems {
				t.Error(problem)
			}
			if ours < 20 {
				t.Errorf("only %d packages of liqoctl were checked", ours)
			}
		})
	}
}

// listFor returns the packages of a program for a system, each after those that it imports.
func listFor(t *testing.T, system, program string) []listed {
	t.Helper()
	name, architecture, _ := strings.Cut(system, "/")
	command := exec.CommandContext(t.Context(), "go", "list", "-e", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap,Module,Error", program)
	command.Dir = root(t)
	command.Env = append(os.Environ(), "GOOS="+name, "GOARCH="+architecture, "CGO_ENABLED=0")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("listing the packages of %s: %v: %s", program, err, &stderr)
	}
	var all []listed
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		switch err := decoder.Decode(&p); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// checkTypes returns what does not compile, and the number of packages of this module.
func checkTypes(list []listed) (problems []error, ours int) {
	files, checked := token.NewFileSet(), map[string]*types.Package{"unsafe": types.Unsafe}
	for _, p := range list {
		if p.Error != nil {
			problems = append(problems, fmt.Errorf("%s: %s", p.ImportPath, p.Error.Err))
		}
		if p.ImportPath == "unsafe" {
			continue
		}
		ofOurs := strings.HasPrefix(p.ImportPath, module+"/")
		var sources []*ast.File
		for _, file := range p.GoFiles {
			source, err := parser.ParseFile(files, filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
			if err != nil {
				problems = append(problems, err)
				continue
			}
			sources = append(sources, source)
		}
		config := types.Config{
			IgnoreFuncBodies: !ofOurs, Sizes: types.SizesFor("gc", "amd64"),
			Importer: importer(func(path string) (*types.Package, error) {
				if renamed, is := p.ImportMap[path]; is { // packages that the standard library vendors
					path = renamed
				}
				if found := checked[path]; found != nil {
					return found, nil
				}
				return nil, fmt.Errorf("package %s is not listed", path)
			}),
			Error: func(err error) { problems = append(problems, fmt.Errorf("%s: %w", p.ImportPath, err)) },
		}
		if p.Module != nil && p.Module.GoVersion != "" {
			config.GoVersion = "go" + p.Module.GoVersion
		}
		checked[p.ImportPath], _ = config.Check(p.ImportPath, files, sources, nil) // Error has all errors
		if ofOurs {
			ours++
		}
	}
	return problems, ours
}

// importer finds a package that was checked before.
type importer func(path string) (*types.Package, error)

func (i importer) Import(path string) (*types.Package, error) { return i(path) }
