package archtest

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// ratchetsFile is the table of the recorded numbers. Each row is a number and what it counts.
const ratchetsFile = "ratchets.txt"

// lower makes TestRatchets write the lower numbers into the table. It raises none.
var lower = flag.Bool("lower", false, "lower the recorded numbers of "+ratchetsFile)

const (
	// mostFiles is the number of files that a folder may have without a row in the table.
	mostFiles = 25
	// mostLines is the number of lines that a function may have.
	mostLines = 60
)

// steps are the steps in which numbers of lines are recorded, so that small changes need no new record. A number is rounded up.
var steps = map[string]int{"lines of internal/app": 50, "lines of product code": 500, "lines over 160 columns": 10}

// TestRatchets: the numbers of the table may only fall. Whoever reduces one records the lower number, so that it stays reduced.
func TestRatchets(t *testing.T) {
	measured, places := measure(t)
	recorded, order := readRatchets(t)
	for what, number := range measured {
		limit, known := recorded[what]
		switch {
		case !known:
			t.Errorf("%s: %d, and %s has no row for it: reduce it (a folder has at most %d files)%s", what, number, ratchetsFile, mostFiles, places.of(what))
		case number > limit:
			t.Errorf("%s: %d, at most %d: reduce it%s", what, number, limit, places.of(what))
		case number < limit && !*lower:
			t.Errorf("%s: %d, which is less than the recorded %d: lower the recorded number in internal/archtest/%s (go test ./internal/archtest -run TestRatchets -lower)",
				what, number, limit, ratchetsFile)
		}
	}
	for _, what := range order {
		if _, is := measured[what]; !is && !*lower {
			t.Errorf("%s: nothing is left to count: remove the row from internal/archtest/%s (go test ./internal/archtest -run TestRatchets -lower)", what, ratchetsFile)
		}
	}
	if *lower {
		lowerRatchets(t, measured)
	}
}

// places are the positions of what a number counts.
type places map[string][]string

// of returns the positions for a message.
func (p places) of(what string) string {
	if len(p[what]) == 0 {
		return ""
	}
	return ". Places:\n  " + strings.Join(p[what], "\n  ")
}

// measure returns today's numbers, and for some of them the places that were counted. Numbers of lines are rounded up to their step.
func measure(t *testing.T) (map[string]int, places) {
	t.Helper()
	where := places{}
	out := map[string]int{"functions over 60 lines": 0, "lines of the longest function": 0, "reconcilers that do not say why they are no kube.Reconciler": 0}
	for _, word := range outdatedWords {
		out[word.row()] = 0
	}
	for _, path := range productFiles(t) {
		text, err := os.ReadFile(filepath.Join(root(t), path))
		if err != nil {
			t.Fatal(err)
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if ast.IsGenerated(file) {
			continue
		}
		folder, lines := filepath.Dir(path), bytes.Count(text, []byte("\n"))
		out["lines of product code"] += lines
		for line := range bytes.Lines(text) {
			if width := utf8.RuneCount(bytes.ReplaceAll(bytes.TrimSuffix(line, []byte("\n")), []byte("\t"), []byte("    "))); width > 160 {
				out["lines over 160 columns"]++
			}
		}
		if folder == "internal/app" {
			out["lines of internal/app"] += lines
		}
		if under(folder, "internal") {
			out["files of "+folder]++
		}
		for _, declaration := range file.Decls {
			if function, is := declaration.(*ast.FuncDecl); is {
				measureFunction(out, where, folder, function, files)
			}
		}
		eachOutdatedWord(file, func(at token.Pos, word outdatedWord) {
			out[word.row()]++
			where[word.row()] = append(where[word.row()], files.Position(at).String()+": write "+word.instead)
		})
	}
	for what, number := range out {
		if step, is := steps[what]; is {
			out[what] = (number + step - 1) / step * step
		}
		if strings.HasPrefix(what, "files of ") && number <= mostFiles {
			delete(out, what)
		}
	}
	if out["lines of product code"] < 10000 {
		t.Fatalf("only %d lines were found: the test looks at the wrong place", out["lines of product code"])
	}
	return out, where
}

func measureFunction(out map[string]int, where places, folder string, function *ast.FuncDecl, files *token.FileSet) {
	at := files.Position(function.Pos())
	lines := files.Position(function.End()).Line - at.Line + 1
	if lines > mostLines {
		out["functions over 60 lines"]++
		where["functions over 60 lines"] = append(where["functions over 60 lines"], fmt.Sprintf("%s: %s has %d", at, function.Name.Name, lines))
	}
	out["lines of the longest function"] = max(out["lines of the longest function"], lines)
	receiver := receiverOf(function)
	if folder == "internal/cli/session" && (receiver == "Cluster" || receiver == "Session") {
		out["methods of "+receiver+" in internal/cli/session"]++
	}
	if receiver != "" && folder != "internal/kube" && function.Name.Name == "Reconcile" && function.Type.Params.NumFields() == 2 {
		if request, is := function.Type.Params.List[len(function.Type.Params.List)-1].Type.(*ast.SelectorExpr); is && request.Sel.Name == "Request" && !strings.Contains(function.Doc.Text(), "kube.Reconciler") {
			out["reconcilers that do not say why they are no kube.Reconciler"]++
			where["reconcilers that do not say why they are no kube.Reconciler"] = append(where["reconcilers that do not say why they are no kube.Reconciler"], at.String())
		}
	}
}

// receiverOf returns the name of the type of a method, empty for a function.
func receiverOf(function *ast.FuncDecl) string {
	if function.Recv == nil || len(function.Recv.List) == 0 {
		return ""
	}
	of := function.Recv.List[0].Type
	if pointer, is := of.(*ast.StarExpr); is {
		of = pointer.X
	}
	switch generic := of.(type) {
	case *ast.IndexExpr:
		of = generic.X
	case *ast.IndexListExpr:
		of = generic.X
	}
	if name, is := of.(*ast.Ident); is {
		return name.Name
	}
	return ""
}

// productFiles returns the Go files of the product without tests, as paths from the root of the repository.
func productFiles(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, folder := range []string{"api", "charts", "cmd", "internal"} {
		err := filepath.WalkDir(filepath.Join(root(t), folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == "testdata") {
				return filepath.SkipDir
			}
			if entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			relative, err := filepath.Rel(root(t), path)
			out = append(out, relative)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// readRatchets returns the recorded numbers, and what they count in the order of the table.
func readRatchets(t *testing.T) (map[string]int, []string) {
	t.Helper()
	text, err := os.ReadFile(ratchetsFile)
	if err != nil {
		t.Fatal(err)
	}
	numbers, order := map[string]int{}, []string{}
	for row := range strings.Lines(string(text)) {
		if row = strings.TrimSpace(row); row == "" || strings.HasPrefix(row, "#") {
			continue
		}
		first, what, _ := strings.Cut(row, " ")
		number, err := strconv.Atoi(first)
		if what = strings.TrimSpace(what); err != nil || what == "" || slices.Contains(order, what) {
			t.Fatalf("%s: row %q is not a number and what it counts, once: %v", ratchetsFile, row, err)
		}
		numbers[what], order = number, append(order, what)
	}
	return numbers, order
}

// lowerRatchets writes the measured numbers that are lower than the recorded ones, and removes rows without anything to count.
func lowerRatchets(t *testing.T, measured map[string]int) {
	t.Helper()
	text, err := os.ReadFile(ratchetsFile)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for row := range strings.Lines(string(text)) {
		first, what, _ := strings.Cut(strings.TrimSpace(row), " ")
		what = strings.TrimSpace(what)
		recorded, err := strconv.Atoi(first)
		number, is := measured[what]
		switch {
		case err != nil:
			out.WriteString(row)
		case is:
			fmt.Fprintf(&out, "%6d %s\n", min(number, recorded), what)
		}
	}
	if err := os.WriteFile(ratchetsFile, []byte(out.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}
