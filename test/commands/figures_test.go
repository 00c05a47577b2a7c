package commands

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestFiguresAreMadeOfTheirSources: each figure of the documents was made from its present source, and a document shows it.
func TestFiguresAreMadeOfTheirSources(t *testing.T) {
	docs := filepath.Join("..", "..", "docs")
	sources, err := filepath.Glob(filepath.Join(docs, "figures", "*.d2"))
	if err != nil || len(sources) < 2 {
		t.Fatalf("no figures in %s (%v)", docs, err)
	}
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	pages, err := filepath.Glob(filepath.Join(docs, "guide", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	var shown strings.Builder
	for _, page := range append(pages, filepath.Join(docs, "..", "ARCHITECTURE.md")) {
		shown.WriteString(read(page))
	}
	style := filepath.Join(docs, "figures", "style.d2")
	for _, source := range slices.DeleteFunc(sources, func(path string) bool { return path == style }) {
		name := strings.TrimSuffix(filepath.Base(source), ".d2") + ".svg"
		sum := sha256.Sum256([]byte(read(style) + read(source)))
		if !strings.Contains(read(filepath.Join(docs, "images", name)), hex.EncodeToString(sum[:])) {
			t.Errorf("docs/images/%s was not made from docs/figures/%s as it is now: run make figures", name, filepath.Base(source))
		}
		if !strings.Contains(shown.String(), "images/"+name+")") {
			t.Errorf("no guide shows docs/images/%s: link it, or delete it with its source", name)
		}
	}
}
