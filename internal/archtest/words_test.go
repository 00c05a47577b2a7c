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

// TestTextsSayRemoteNamespace: the text that programs print or write into objects uses the term of the glossary, remote namespace, and no other word
// for it.
func TestTextsSayRemoteNamespace(t *testing.T) {
	other := regexp.MustCompile(`(?i)\btwins?\b`)
	texts := 0
	for _, folder := range []string{"cmd", "internal", "api"} {
		err := filepath.WalkDir(filepath.Join(root(t), folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			return eachText(path, func(at token.Position, text string) {
				texts++
				if other.MatchString(text) {
					t.Errorf("%s: write remote namespace in %s", at, text)
				}
			})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if texts < 1000 {
		t.Errorf("only %d texts were found: the test looks at the wrong place", texts)
	}
}

// eachText calls do with each string literal of a file.
func eachText(path string, do func(at token.Position, text string)) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	ast.Inspect(file, func(node ast.Node) bool {
		if text, is := node.(*ast.BasicLit); is && text.Kind == token.STRING {
			do(files.Position(text.Pos()), text.Value)
		}
		return true
	})
	return nil
}

// TestMessagesForPeersNameTheCluster: messages of a provider that users of a consumer read, in Events of their pods and in copied conditions, name
// the cluster by its ID. "This cluster" would be wrong there.
func TestMessagesForPeersNameTheCluster(t *testing.T) {
	for _, pattern := range []string{
		"internal/network/gatewayexposure.go", "internal/network/gatewayendpoint.go", "internal/offload/controllers/shadow*.go", "internal/offload/shadow*.go",
		"internal/offload/webhook/quota.go", "internal/offload/webhook/handlers.go", "internal/peering/sharing*.go", "internal/peering/slice.go",
	} {
		paths, err := filepath.Glob(filepath.Join(root(t), pattern))
		if err != nil || len(paths) == 0 {
			t.Errorf("there is no %s: %v", pattern, err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			err := eachText(path, func(at token.Position, text string) {
				if strings.Contains(text, "this cluster") {
					t.Errorf("%s: a consumer reads %s: name the cluster", at, text)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}
