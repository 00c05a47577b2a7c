package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// shortestLimit is the shortest limit of a wait in a story: another process has to act, on a machine that may be half as fast as usual and busy.
const shortestLimit = 10 * time.Second

// waits are the functions of stories whose argument at this index is a limit; -1 is the last one.
var waits = map[string]int{"Eventually": 0, "Gone": -1, "NodeReady": -1, "PodReady": -1, "PodsReady": -1, "Connected": -1, "deleted": -1}

// TestStoriesWaitLongEnough: no story waits less than shortestLimit for another process.
func TestStoriesWaitLongEnough(t *testing.T) {
	calls := 0
	for _, folder := range foldersBelow(t, filepath.Join(root(t), "test", "scenario")) {
		files := token.NewFileSet()
		var parsed []*ast.File
		paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, file)
		}
		constants := durations(parsed)
		for _, file := range parsed {
			ast.Inspect(file, func(node ast.Node) bool {
				call, is := node.(*ast.CallExpr)
				if !is || len(call.Args) == 0 {
					return true
				}
				at, is := waits[called(call)]
				if !is {
					return true
				}
				calls++
				if at < 0 {
					at = len(call.Args) - 1
				}
				if limit, known := duration(call.Args[at], constants); known && limit < shortestLimit {
					t.Errorf("%s: %s waits at most %v; write a limit of %v or more", files.Position(call.Pos()), called(call), limit, shortestLimit)
				}
				return true
			})
		}
	}
	if calls < 200 {
		t.Errorf("only %d waits were found: the test reads the wrong files", calls)
	}
}

func TestDurationsAreEvaluated(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "", `package p
const (
	short = time.Second
	long  = 3 * short * 10
)`, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	got := durations([]*ast.File{file})
	if want := map[string]time.Duration{"short": time.Second, "long": 30 * time.Second}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// foldersBelow returns a folder and all folders in it.
func foldersBelow(t *testing.T, top string) (folders []string) {
	t.Helper()
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			folders = append(folders, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return folders
}

// called returns the name of the function or method that is called.
func called(call *ast.CallExpr) string {
	switch function := call.Fun.(type) {
	case *ast.Ident:
		return function.Name
	case *ast.SelectorExpr:
		return function.Sel.Name
	}
	return ""
}

// durations returns the constants of a package whose values are durations.
func durations(files []*ast.File) map[string]time.Duration {
	found := map[string]time.Duration{}
	for range 2 { // a constant may be declared after one that uses it
		for _, file := range files {
			for _, declared := range file.Decls {
				constants, is := declared.(*ast.GenDecl)
				if !is || constants.Tok != token.CONST {
					continue
				}
				for _, spec := range constants.Specs {
					value, is := spec.(*ast.ValueSpec)
					if !is || len(value.Values) != len(value.Names) {
						continue
					}
					for i, name := range value.Names {
						if d, known := duration(value.Values[i], found); known {
							found[name.Name] = d
						}
					}
				}
			}
		}
	}
	return found
}

// duration evaluates a product of numbers, units of time and constants. A number alone is no duration.
func duration(expression ast.Expr, constants map[string]time.Duration) (time.Duration, bool) {
	factor, unit, known := product(expression, constants)
	return time.Duration(factor) * unit, known && unit != 0
}

// product returns the number and the unit whose product the expression is. The unit of a number alone is 0.
func product(expression ast.Expr, constants map[string]time.Duration) (factor int64, unit time.Duration, known bool) {
	switch e := expression.(type) {
	case *ast.BasicLit:
		n, err := strconv.ParseInt(e.Value, 10, 64)
		return n, 0, err == nil
	case *ast.Ident:
		d, is := constants[e.Name]
		return 1, d, is
	case *ast.SelectorExpr:
		units := map[string]time.Duration{"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}
		d, is := units[e.Sel.Name]
		return 1, d, is
	case *ast.BinaryExpr:
		if e.Op != token.MUL {
			return 0, 0, false
		}
		x, xUnit, xKnown := product(e.X, constants)
		y, yUnit, yKnown := product(e.Y, constants)
		return x * y, max(xUnit, yUnit), xKnown && yKnown && (xUnit == 0 || yUnit == 0)
	}
	return 0, 0, false
}
