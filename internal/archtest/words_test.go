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
)

// TestTextsSayRemoteNamespace: the text that programs print or write into objects uses the term of the glossary, remote namespace, and no other word for it.
func TestTextsSayRemoteNamespace(t *testing.T) {
	other := regexp.MustCompile(`(?i)\btwins?\b`)
	texts := 0
	for _, folder := range []string{"cmd", "internal", "api"} {
		err := filepath.WalkDir(filepath.Join(root(t), folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(node ast.Node) bool {
				text, is := node.(*ast.BasicLit)
				if !is || text.Kind != token.STRING {
					return true
				}
				texts++
				if other.MatchString(text.Value) {
					t.Errorf("%s: write remote namespace in %s", files.Position(text.Pos()), text.Value)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if texts < 1000 {
		t.Errorf("only %d texts were found: the test looks at the wrong place", texts)
	}
}
