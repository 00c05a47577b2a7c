package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"liqo.io/liqo/internal/reasons"
)

// TestReasonsAreDefinedOnce: reasons of Events and conditions are the constants of internal/reasons or of the API, so that the reference lists all of
// them.
func TestReasonsAreDefinedOnce(t *testing.T) {
	// Names of one word are ordinary words too, so literals are compared with the others only.
	words, listed := regexp.MustCompile(`[a-z][A-Z]`), map[string]bool{}
	for _, area := range reasons.Areas() {
		for _, r := range area.Reasons {
			for name := range strings.SplitSeq(r.Name, ", ") {
				listed[name] = words.MatchString(name)
			}
		}
	}
	calls := 0
	err := filepath.WalkDir(filepath.Join(root(t), "internal"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		if relative, _ := filepath.Rel(root(t), path); under(relative, "internal/reasons") || under(relative, "internal/cli") {
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.BasicLit:
				if listed[literal(node)] {
					t.Errorf("%s: write reasons.%s", files.Position(node.Pos()), literal(node))
				}
			case *ast.CallExpr:
				if given := givenReason(node); given != nil {
					if calls++; literal(given) != "" {
						t.Errorf("%s: define reason %s in internal/reasons", files.Position(node.Pos()), literal(given))
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if calls < 50 {
		t.Errorf("only %d reasons were found: the test looks at the wrong functions", calls)
	}
}

// givenReason returns the reason that a call of the functions for outcomes and Events is given, and nil for other calls.
func givenReason(call *ast.CallExpr) ast.Expr {
	function, is := call.Fun.(*ast.SelectorExpr)
	if !is {
		return nil
	}
	from, _ := function.X.(*ast.Ident)
	outcome := from != nil && from.Name == "kube"
	switch name := function.Sel.Name; {
	case outcome && (name == "Wait" || name == "Invalid"):
		return call.Args[0]
	case outcome && name == "WaitFor":
		return call.Args[1]
	case name == "Eventf" && len(call.Args) > 5:
		return call.Args[3]
	}
	return nil
}
