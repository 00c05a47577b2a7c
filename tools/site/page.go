package main

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// page is a document of the repository, and a page of the site.
type page struct {
	source   string // path of the document
	target   string // path in the site
	markdown []byte
	document ast.Node
	headings []heading
	problems []string
	list     bool // made here, from no document
}

// heading is a heading with the text below it.
type heading struct {
	Level            int
	ID, Title, below string
}

// parse returns the page of a document. Its headings have the anchors that forges give them.
func parse(source string, markdown []byte) *page {
	p := &page{source: source, target: strings.TrimSuffix(source, ".md") + ".html", markdown: markdown}
	if path.Base(source) == "README.md" {
		p.target = path.Join(path.Dir(source), "index.html")
	}
	p.document = renderer.Parser().Parse(text.NewReader(markdown))
	taken := map[string]int{}
	for node := p.document.FirstChild(); node != nil; node = node.NextSibling() {
		title, is := node.(*ast.Heading)
		if !is {
			if last := len(p.headings) - 1; last >= 0 {
				p.headings[last].below += plain(node, markdown)
			}
			continue
		}
		h := heading{Level: title.Level, Title: strings.TrimSpace(plain(node, markdown))}
		h.ID = anchor(h.Title)
		if taken[h.ID]++; taken[h.ID] > 1 {
			h.ID = fmt.Sprintf("%s-%d", h.ID, taken[h.ID]-1)
		}
		node.SetAttributeString("id", []byte(h.ID))
		if first := len(p.headings) == 0; first != (h.Level == 1) {
			p.problem(node, "the first heading, and no other one, has level 1")
		}
		p.headings = append(p.headings, h)
	}
	if len(p.headings) == 0 {
		p.problem(p.document, "no heading of level 1")
		p.headings = []heading{{Title: source}}
	}
	return p
}

// Title is the first heading.
func (p *page) Title() string { return p.headings[0].Title }

// Target is the path in the site.
func (p *page) Target() string { return p.target }

// Source is the path of the document, if there is one.
func (p *page) Source() string {
	if p.list {
		return ""
	}
	return p.source
}

// Parts are the headings that the contents show below the current page.
func (p *page) Parts() []heading {
	return slices.DeleteFunc(slices.Clone(p.headings), func(h heading) bool { return h.Level != 2 })
}

// root leads from the page to the root of the site.
func (p *page) root() string { return strings.Repeat("../", strings.Count(p.target, "/")) }

func (p *page) has(anchor string) bool {
	return slices.ContainsFunc(p.headings, func(h heading) bool { return h.ID == anchor })
}

func (p *page) problem(node ast.Node, format string, args ...any) {
	line := 1 + bytes.Count(p.markdown[:max(0, node.Pos())], []byte("\n"))
	p.problems = append(p.problems, fmt.Sprintf("%s:%d: %s", p.source, line, fmt.Sprintf(format, args...)))
}

// anchor is the anchor of a heading on forges.
func anchor(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r), unicode.IsMark(r):
			return unicode.ToLower(r)
		}
		return -1
	}, title)
}

// plain returns the text of a node without its markup.
func plain(node ast.Node, markdown []byte) string {
	var b strings.Builder
	_ = ast.Walk(node, func(node ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no error
		switch n := node.(type) {
		case *ast.Text:
			if entering {
				b.Write(n.Segment.Value(markdown))
				if n.SoftLineBreak() || n.HardLineBreak() {
					b.WriteByte(' ')
				}
			}
		case *ast.AutoLink:
			if entering {
				b.Write(n.Label(markdown))
			}
		case *ast.CodeBlock, *ast.FencedCodeBlock:
			if entering {
				b.Write(node.Lines().Value(markdown))
			}
		}
		if !entering && node.Type() == ast.TypeBlock {
			b.WriteByte(' ')
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}
