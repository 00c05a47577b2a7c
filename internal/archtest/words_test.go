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

// outdatedWord is a word that comments and texts should no longer use.
type outdatedWord struct {
	name    string
	pattern *regexp.Regexp
	instead string
}

// row returns the row of the word in the table of TestRatchets, which counts the words.
func (w outdatedWord) row() string { return "word " + w.name }

var outdatedWords = []outdatedWord{
	{"tell", regexp.MustCompile(`(?i)\b(?:tell|tells|telling|told)\b`), "report, show, state"},
	{"nobody", regexp.MustCompile(`(?i)\bnobody\b`), "what is missing: no client, no controller"},
	{"somebody", regexp.MustCompile(`(?i)\bsomebody\b`), "who it is: another user, another controller"},
	{"anew", regexp.MustCompile(`(?i)\banew\b`), "again, re-read, recreate"},
	{"twin", regexp.MustCompile(`(?i)\btwins?\b`), "remote namespace, remote object"},
	{"looked at", regexp.MustCompile(`(?i)\blooked\s+at\b`), "reconciled, read, checked"},
	{"comes to", regexp.MustCompile(`(?i)\bcomes?\s+to\b`), "evaluates to, results in, becomes"},
}

// eachOutdatedWord calls do with each outdated word in the comments and string literals of a file, and the position of its comment or literal.
func eachOutdatedWord(file *ast.File, do func(at token.Pos, word outdatedWord)) {
	search := func(at token.Pos, text string) {
		for _, word := range outdatedWords {
			for range word.pattern.FindAllString(text, -1) {
				do(at, word)
			}
		}
	}
	for _, comment := range file.Comments {
		search(comment.Pos(), comment.Text())
	}
	ast.Inspect(file, func(node ast.Node) bool {
		if text, is := node.(*ast.BasicLit); is && text.Kind == token.STRING {
			search(text.Pos(), text.Value)
		}
		return true
	})
}

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
		"internal/offload/webhook/quota.go", "internal/offload/webhook/handlers.go", "internal/peering/sharing/*.go",
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
