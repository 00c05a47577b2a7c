package main

import (
	"bytes"
	"html"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

var checkout = os.DirFS("../..")

// TestDocumentsHaveNoBrokenLinks checks the documents, and the links of the site that is made from them, which it finds by itself.
func TestDocumentsHaveNoBrokenLinks(t *testing.T) {
	files, err := build(checkout)
	if err != nil {
		t.Fatalf("\n%v", err)
	}
	ids, links := map[string]bool{}, 0
	for name, content := range files {
		for _, id := range regexp.MustCompile(` id="([^"]+)"`).FindAllSubmatch(content, -1) {
			key := name + "#" + string(id[1])
			if ids[key] {
				t.Errorf("%s is there twice", key)
			}
			ids[key] = true
		}
	}
	for name, content := range files {
		if path.Ext(name) != ".html" {
			continue
		}
		for _, match := range regexp.MustCompile(`<(\w+)[^>]* (?:href|src|action)="([^"]*)"`).FindAllSubmatch(content, -1) {
			element, link := string(match[1]), html.UnescapeString(string(match[2]))
			if strings.Contains(link, ":") {
				if element != "a" && link != "data:," {
					t.Errorf("%s loads %s", name, link)
				}
				continue
			}
			file, anchor, _ := strings.Cut(link, "#")
			target := path.Join(path.Dir(name), file)
			if file == "" {
				target = name
			}
			if links++; files[target] == nil || anchor != "" && !ids[target+"#"+anchor] {
				t.Errorf("%s: %s leads nowhere", name, link)
			}
		}
		for _, once := range []string{"<h1", "<main", "<nav", "<header", "<footer", `role="search"`} {
			if n := bytes.Count(content, []byte(once)); n != 1 {
				t.Errorf("%s has %s %d times", name, once, n)
			}
		}
	}
	if links < 1000 {
		t.Errorf("only %d links", links)
	}
}

// TestAllDocumentsAreInTheContents: a document that no section names would be missing without a word.
func TestAllDocumentsAreInTheContents(t *testing.T) {
	files, err := build(checkout)
	if err != nil {
		t.Fatalf("\n%v", err)
	}
	documents := []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"}
	for _, folder := range []string{"docs", "examples"} {
		if err := fs.WalkDir(checkout, folder, func(name string, _ fs.DirEntry, err error) error {
			if path.Ext(name) == ".md" {
				documents = append(documents, name)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if len(documents) < 80 {
		t.Errorf("only %d documents", len(documents))
	}
	for _, name := range documents {
		target := parse(name, nil).target
		if !bytes.Contains(files["index.html"], []byte(`<li><a href="`+target+`"`)) {
			t.Errorf("%s is not in the contents", name)
		}
		if !bytes.Contains(files["search-index.js"], []byte(`["`+target+`#`)) {
			t.Errorf("the search does not find %s", name)
		}
	}
}

func TestTheSameDocumentsGiveTheSameSite(t *testing.T) {
	first, err := build(checkout)
	if err != nil {
		t.Fatalf("\n%v", err)
	}
	second, err := build(checkout)
	if err != nil || !maps.EqualFunc(first, second, bytes.Equal) {
		t.Errorf("two sites differ: %v", err)
	}
}

func TestProblemsAreNamedWithFileAndLine(t *testing.T) {
	for markdown, want := range map[string]string{
		"[a](docs/guide.md) [b](docs/guide.md#part-1) [c](#liqo) [d](docs) [e](LICENSE) [f](https://example.org/#x) ![g](LICENSE)": "",
		"Text,\nand [a](docs/none.md).":                    "README.md:4: link docs/none.md: there is no such file, and no folder with documents",
		"| a | b |\n|---|---|\n| c | [`d`](gone.yaml) |":   "README.md:5: link gone.yaml: there is no such file, and no folder with documents",
		"- a\n  ![picture](none.png)":                      "README.md:4: link none.png: there is no such file, and no folder with documents",
		"[a](docs/guide.md#part-2)":                        "README.md:3: link docs/guide.md#part-2: no heading of docs/guide.md has this anchor",
		"[a](#part)":                                       "README.md:3: link #part: no heading of README.md has this anchor",
		"[a][b]\n\n[b]: none.md":                           "README.md:3: link none.md: there is no such file, and no folder with documents",
		"[a](LICENSE#L1)":                                  "README.md:3: link LICENSE#L1: only documents have anchors",
		"[a](../liqo/LICENSE)":                             "README.md:3: link ../liqo/LICENSE: there is no such file, and no folder with documents",
		"[a](/LICENSE)":                                    "README.md:3: link /LICENSE: it is neither relative nor of the web",
		"[a](javascript:alert(1))":                         "README.md:3: link javascript:alert(1): it is neither relative nor of the web",
		"![a](https://example.org/a.png)":                  "README.md:3: image https://example.org/a.png: the site has no parts from elsewhere",
		"<!-- a comment -->":                               "",
		"a <b>":                                            "README.md:3: HTML <b>: write Markdown, or put it into backticks",
		"<div>\nb\n</div>":                                 "README.md:3: HTML <div>: write Markdown, or put it into backticks",
		"# Another":                                        "README.md:3: the first heading, and no other one, has level 1",
		"[a](one.md)\n\n[b](two.md)":                       "README.md:3: link one.md: there is no such file, and no folder with documents\nREADME.md:5: link two.md: there is no such file, and no folder with documents",
		"```\n[a](none.md) <b>\n```\n\n`[a](none.md) <b>`": "",
	} {
		_, err := build(fstest.MapFS{
			"README.md":     {Data: []byte("# Liqo\n\n" + markdown)},
			"docs/guide.md": {Data: []byte("# Guide\n\n## Part\n\n## Part\n")},
			"LICENSE":       {Data: []byte("text")},
		})
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s\ngives\n%s\nwant\n%s", markdown, got, want)
		}
	}
}

func TestAnchorsAreThoseOfForges(t *testing.T) {
	p := parse("a.md", []byte("# `liqoctl peer`: how, and *why*?\n## A\n## A\n### Ünïcode_x 1.2 - [link](b.md)\n"))
	var got []string
	for _, h := range p.headings {
		got = append(got, h.ID)
	}
	if want := "liqoctl-peer-how-and-why a a-1 ünïcode_x-12---link"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestNothingIsWrittenWithABrokenLink(t *testing.T) {
	repository, folder := t.TempDir(), filepath.Join(t.TempDir(), "site")
	for text, fails := range map[string]bool{"# Liqo\n\n[a](none.md)": true, "# Liqo": false} {
		if err := os.WriteFile(filepath.Join(repository, "README.md"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := run([]string{repository, folder}); (err != nil) != fails {
			t.Errorf("%s: %v", text, err)
		}
		if _, err := os.Stat(filepath.Join(folder, "index.html")); (err != nil) != fails {
			t.Errorf("%s: %v", text, err)
		}
		if err := os.RemoveAll(folder); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(nil); err == nil {
		t.Error("no arguments are enough")
	}
}
