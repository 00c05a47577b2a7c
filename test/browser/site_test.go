package browser

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSite opens the built documentation from files: pages, search, a narrow screen, dark colors and the keyboard work.
func TestSite(t *testing.T) {
	folder := filepath.Join(root(t), "bin", "site")
	if _, err := os.Stat(filepath.Join(folder, "index.html")); err != nil {
		t.Fatalf("%v: run make docs", err)
	}
	site := "file://" + folder + "/"
	p := Open(t, site+"index.html")
	p.Go(site + "docs/guide/storage.html")
	p.Press("\t")
	if skips := Evaluate[string](p, "document.activeElement.textContent"); skips != "Skip to the text" {
		t.Errorf("the first key leads to %q", skips)
	}
	p.Press("\t\t")
	p.Press("loadBalancerTimeout\r")
	p.Until(5*time.Second, "results", Shows("#site-found", "sections found")+" && "+Shows("#site-results li", "loadBalancerTimeout"))
	Evaluate[struct{}](p, "document.querySelector('#site-results a').click(), {}")
	p.Until(5*time.Second, "the page that was found", "!location.pathname.endsWith('search.html') && document.getElementById(decodeURIComponent(location.hash.slice(1)))")

	p.Go(site + "search.html?q=nosuchwordanywhere")
	p.Until(5*time.Second, "no results", "document.getElementById('site-found').textContent === '0 sections found'")
	p.Go(site + "search.html?q=" + "%3Cimg+src%3Dx%3E")
	if n := Evaluate[int](p, "document.querySelectorAll('main img').length"); n != 0 {
		t.Error("the query became a part of the page")
	}
	if messages := p.Console(); len(messages) > 0 {
		t.Errorf("messages of the pages:\n%s", strings.Join(messages, "\n"))
	}

	colours := map[string]bool{}
	for _, scheme := range []string{"light", "dark"} {
		p.Scheme(scheme)
		colours[Evaluate[string](p, "getComputedStyle(document.body).backgroundColor")] = true
	}
	if len(colours) != 2 {
		t.Errorf("light and dark are %v", colours)
	}
	for _, page := range []string{"index.html", "docs/guide/installation.html", "search.html?q=node+port"} {
		p.Go(site + page)
		for scheme, width := range map[string]int64{"dark": Width, "light": 390} {
			p.Scheme(scheme)
			p.Resize(width, Height)
			if wide := Evaluate[int64](p, "document.documentElement.scrollWidth"); wide > width {
				t.Errorf("%s is %d wide in a window of %d", page, wide, width)
			}
			p.Accessible(page + ", " + scheme) // it also writes to the console
		}
	}
}
