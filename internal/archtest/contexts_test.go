package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"testing"
)

// TestGoroutinesOfStoriesTakeTheContextBefore: no goroutine of a story takes the context of the story, by itself or by a function of its package that
// does so. During a check of Eventually, that context is the one of the check and ends with it, and it may be replaced while the goroutine reads it.
func TestGoroutinesOfStoriesTakeTheContextBefore(t *testing.T) {
	goroutines := 0
	for _, folder := range foldersBelow(t, filepath.Join(root(t), "test", "scenario")) {
		paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		files := token.NewFileSet()
		var parsed []*ast.File
		for _, path := range paths {
			file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, file)
		}
		for _, call := range goroutinesTakingContexts(parsed, &goroutines) {
			t.Errorf("%s: the goroutine takes the context of the story: take it before the goroutine starts", files.Position(call.Pos()))
		}
	}
	if goroutines < 10 {
		t.Errorf("only %d goroutines were found: the test reads the wrong files", goroutines)
	}
}

func TestGoroutinesThatTakeAContextAreFound(t *testing.T) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", `package p
func direct() { s.Context() }
func indirect() { direct() }
func command() { s.Context() }
func before() {
	ctx := s.Context()
	go func() { use(ctx) }()
}
func within() {
	go func() { use(s.Context()) }()
}
func local() {
	ours := func() { indirect() }
	go func() { ours() }()
	command := func() {}
	go func() { command() }()
}
func global() {
	go func() { command() }()
}
`, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	goroutines := 0
	found := goroutinesTakingContexts([]*ast.File{file}, &goroutines)
	var lines []int
	for _, call := range found {
		lines = append(lines, files.Position(call.Pos()).Line)
	}
	if want := []int{10, 14, 19}; goroutines != 5 || !slices.Equal(lines, want) {
		t.Errorf("%d goroutines, those in lines %v take the context, want %v", goroutines, lines, want)
	}
}

// goroutinesTakingContexts returns the calls by which goroutines of a package take a context, and counts all goroutines.
func goroutinesTakingContexts(files []*ast.File, goroutines *int) (found []*ast.CallExpr) {
	functions := map[string]ast.Node{}
	for _, file := range files {
		for _, declaration := range file.Decls {
			if function, is := declaration.(*ast.FuncDecl); is && function.Recv == nil && function.Body != nil {
				functions[function.Name.Name] = function.Body
			}
		}
	}
	known := takersOfContexts(functions, nil)
	for _, file := range files {
		for _, declaration := range file.Decls {
			literals := map[string]ast.Node{} // function literals of this declaration, by their variables
			ast.Inspect(declaration, func(node ast.Node) bool {
				if assign, is := node.(*ast.AssignStmt); is && len(assign.Lhs) == len(assign.Rhs) {
					for i, value := range assign.Rhs {
						name, named := assign.Lhs[i].(*ast.Ident)
						if literal, is := value.(*ast.FuncLit); is && named {
							literals[name.Name] = literal.Body
						}
					}
				}
				return true
			})
			takers := takersOfContexts(literals, known)
			ast.Inspect(declaration, func(node ast.Node) bool {
				statement, is := node.(*ast.GoStmt)
				if !is {
					return true
				}
				*goroutines++
				if literal, is := statement.Call.Fun.(*ast.FuncLit); is {
					if call := takesContext(literal.Body, takers); call != nil {
						found = append(found, call)
					}
				}
				return true
			})
		}
	}
	return found
}

// takersOfContexts returns the names of the functions that take a context, together with the known ones.
func takersOfContexts(functions map[string]ast.Node, known map[string]bool) map[string]bool {
	takers := map[string]bool{}
	maps.Copy(takers, known)
	for name := range functions {
		takers[name] = false // it hides a known one of the same name
	}
	for more := true; more; {
		more = false
		for name, body := range functions {
			if !takers[name] && takesContext(body, takers) != nil {
				takers[name], more = true, true
			}
		}
	}
	return takers
}

// takesContext returns the first call of Context without arguments, or of one of the takers.
func takesContext(body ast.Node, takers map[string]bool) (taken *ast.CallExpr) {
	ast.Inspect(body, func(node ast.Node) bool {
		call, is := node.(*ast.CallExpr)
		if !is || taken != nil {
			return taken == nil
		}
		switch function := call.Fun.(type) {
		case *ast.Ident:
			if takers[function.Name] {
				taken = call
			}
		case *ast.SelectorExpr:
			if function.Sel.Name == "Context" && len(call.Args) == 0 {
				taken = call
			}
		}
		return taken == nil
	})
	return taken
}
