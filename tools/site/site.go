package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
)

// sections order the documents. A document belongs to the first section with a pattern that matches its path.
var sections = []struct {
	title    string
	patterns []string
}{
	{"Start", []string{"README.md"}},
	{"Guides", []string{"docs/guide/installation.md", "docs/guide/peering.md", "docs/guide/offloading.md", "docs/guide/*.md"}},
	{"Runbooks", []string{"docs/guide/runbooks/*.md"}},
	{"Examples", []string{"examples/README.md", "examples/quick-start/README.md", "examples/*/README.md"}},
	{"Reference", []string{"docs/glossary.md", "docs/reference/*.md"}},
	{"Commands", []string{"docs/reference/liqoctl/README.md", "docs/reference/liqoctl/*.md"}},
	{"Design", []string{"ARCHITECTURE.md", "docs/design/*.md"}},
	{"Project", []string{"CHANGELOG.md", "CONTRIBUTING.md", "*.md", "docs/*.md", "playground/README.md"}},
}

var (
	//go:embed page.html
	pageHTML string
	//go:embed search.html
	searchHTML string
	//go:embed search.js
	searchJS []byte
	//go:embed style.css
	styleCSS []byte

	pageTemplate = template.Must(template.New("page").Parse(pageHTML))
	renderer     = goldmark.New(goldmark.WithExtensions(extension.GFM))
	// accessible changes what goldmark writes, which never is text of a document: that has no angle brackets.
	accessible = strings.NewReplacer(
		"<table>", `<div class="scroll" tabindex="0" role="group" aria-label="Table"><table>`, "</table>", "</table></div>",
		"<pre>", `<pre tabindex="0">`, "<th></th>", "<td></td>", "<!-- raw HTML omitted -->", "")
)

// site is what is known while it is built.
type site struct {
	repository fs.FS
	pages      map[string]*page // by the path of the document
	contents   []section
	files      map[string][]byte // the result, by path
}

// section is a part of the contents.
type section struct {
	Title string
	Pages []*page
}

// build returns the files of the site by their paths. The error names all problems, each with its file and line.
func build(repository fs.FS) (map[string][]byte, error) {
	s := &site{repository: repository, pages: map[string]*page{}, files: map[string][]byte{"search.js": searchJS, "style.css": styleCSS}}
	for _, one := range sections {
		own := section{Title: one.title}
		for _, pattern := range one.patterns {
			names, err := fs.Glob(repository, pattern)
			if err != nil {
				return nil, err
			}
			for _, name := range names {
				if s.pages[name] != nil {
					continue
				}
				markdown, err := fs.ReadFile(repository, name)
				if err != nil {
					return nil, err
				}
				s.pages[name] = parse(name, markdown)
				own.Pages = append(own.Pages, s.pages[name])
			}
		}
		s.contents = append(s.contents, own)
	}
	if s.pages["README.md"] == nil {
		return nil, errors.New("no README.md: this is no checkout of Liqo")
	}
	s.addFolders()
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(s.pages)) {
		p := s.pages[name]
		s.follow(p)
		for _, problem := range p.problems {
			problems = append(problems, errors.New(problem))
		}
		var body bytes.Buffer
		if err := renderer.Renderer().Render(&body, p.markdown, p.document); err != nil {
			return nil, err
		}
		if err := s.write(p, accessible.Replace(body.String())); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return s.files, s.addSearch()
}

// addFolders adds a page for each folder without a README, because documents link to folders.
func (s *site) addFolders() {
	lists := map[string]string{}
	for _, section := range s.contents {
		for _, p := range section.Pages {
			folder := path.Dir(p.source)
			if name := path.Join(folder, "README.md"); s.pages[name] == nil {
				if lists[name] == "" {
					lists[name] = "# Documents in " + folder + "\n\n"
				}
				lists[name] += fmt.Sprintf("- [%s](%s)\n", p.Title(), path.Base(p.source))
			}
		}
	}
	for name, list := range lists {
		s.pages[name] = parse(name, []byte(list))
		s.pages[name].list = true
	}
}

// follow makes the links of a page those of the site, and records the broken ones.
func (s *site) follow(p *page) {
	_ = ast.Walk(p.document, func(node ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no error
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := node.(type) {
		case *ast.Link:
			n.Destination = s.resolve(p, node, string(n.Destination))
		case *ast.Image:
			n.Destination = s.resolve(p, node, string(n.Destination))
			if bytes.Contains(n.Destination, []byte(":")) {
				p.problem(node, "image %s: the site has no parts from elsewhere", n.Destination)
			}
		case *ast.RawHTML:
			p.problem(node, "HTML %s: write Markdown, or put it into backticks", n.Segments.Value(p.markdown))
		case *ast.HTMLBlock:
			if first, _, _ := bytes.Cut(n.Lines().Value(p.markdown), []byte("\n")); !bytes.HasPrefix(bytes.TrimSpace(first), []byte("<!--")) {
				p.problem(node, "HTML %s: write Markdown, or put it into backticks", first)
			}
		}
		return ast.WalkContinue, nil
	})
}

// resolve returns the link of the site for a link of a document.
func (s *site) resolve(p *page, node ast.Node, link string) []byte {
	broken := func(reason string) []byte {
		p.problem(node, "link %s: %s", link, reason)
		return []byte(link)
	}
	u, err := url.Parse(link)
	switch {
	case err != nil:
		return broken(err.Error())
	case u.Scheme == "https", u.Scheme == "http", u.Scheme == "mailto":
		return []byte(link)
	case u.Scheme != "", u.Host != "", u.RawQuery != "", strings.HasPrefix(u.Path, "/"):
		return broken("it is neither relative nor of the web")
	}
	name := p.source
	if u.Path != "" {
		name = path.Join(path.Dir(p.source), u.Path)
	}
	to := s.pages[name]
	if to == nil {
		to = s.pages[path.Join(name, "README.md")]
	}
	if to == nil {
		content, err := fs.ReadFile(s.repository, name)
		switch {
		case err != nil:
			return broken("there is no such file, and no folder with documents")
		case u.Fragment != "":
			return broken("only documents have anchors")
		}
		s.files[name] = content
		return []byte(p.root() + name)
	}
	if u.Fragment == "" {
		return []byte(p.root() + to.target)
	}
	if !to.has(u.Fragment) {
		return broken("no heading of " + to.source + " has this anchor")
	}
	return []byte(p.root() + to.target + "#" + u.Fragment)
}

// write adds a page with its frame to the files.
func (s *site) write(p *page, body string) error {
	var file bytes.Buffer
	err := pageTemplate.Execute(&file, map[string]any{
		"Page": p, "Root": p.root(), "Contents": s.contents, "Body": template.HTML(body), // rendered without HTML of documents
	})
	s.files[p.target] = file.Bytes()
	return err
}

// addSearch adds the page that searches, and its index: a script, because browsers don't let pages of a disk read other files.
func (s *site) addSearch() error {
	index := [][4]string{} // address, title of the page, heading, text
	for _, section := range s.contents {
		for _, p := range section.Pages {
			for _, h := range p.headings {
				index = append(index, [4]string{p.target + "#" + h.ID, p.Title(), h.Title, strings.Join(strings.Fields(h.below), " ")})
			}
		}
	}
	data, err := json.Marshal(index)
	if err != nil {
		return err
	}
	s.files["search-index.js"] = append(append([]byte("const searchIndex = "), data...), '\n')
	return s.write(&page{target: "search.html", headings: []heading{{Title: "Search"}}, list: true}, searchHTML)
}
