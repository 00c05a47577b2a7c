package browser

import (
	_ "embed"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"liqo.io/liqo/internal/dashboard"
)

var pictures = flag.String("pictures", "", "folder for pictures of the dashboard at all widths, in both themes")

// layoutFaults is a JavaScript expression that lists what is wrong with the layout of the page.
//
//go:embed layout.js
var layoutFaults string

// TestLayout: at each width and in both themes, of two clusters without a problem and of six with many, no text overlaps another one or a line of
// the graph, none leaves the box that it is in or is cut off, no word of a state, a button or a heading is broken, and nothing makes the page or a part of it scroll sideways. The details are closed
// first, and open then.
func TestLayout(t *testing.T) {
	for name, world := range map[string]struct {
		state *dashboard.State
		shows string
	}{"healthy": {healthy(), "2 clusters, 1 peering"}, "broken": {broken(), "6 clusters, 5 peerings"}} {
		t.Run(name, func(t *testing.T) {
			p := Open(t, serve(t, world.state).url)
			p.Until(patience, "all clusters", Shows("#topology", world.shows))
			for _, width := range []int64{390, 768, Width, 1920} {
				for _, theme := range []string{"light", "dark"} {
					for _, open := range []bool{false, true} {
						p.show(width, theme, open)
						for _, fault := range Evaluate[[]string](p, layoutFaults) {
							t.Errorf("%d pixels, %s, details open: %t: %s", width, theme, open, fault)
						}
						if *pictures != "" {
							p.Resize(width, Evaluate[int64](p, "document.documentElement.scrollHeight"))
							file := filepath.Join(*pictures, fmt.Sprintf("%s-%d-%s-%t.png", name, width, theme, open))
							if err := os.WriteFile(file, p.Picture(), 0o600); err != nil {
								t.Fatal(err)
							}
						}
					}
				}
			}
			p.Accessible("details open")
		})
	}
}

// TestGraphOfAMesh: in the graph of clusters that all use each other, no text overlaps another one or a line.
func TestGraphOfAMesh(t *testing.T) {
	p := Open(t, serve(t, mesh(5)).url)
	p.Until(patience, "all clusters", Shows("#topology", "5 clusters, 10 peerings"))
	for _, width := range []int64{390, Width} {
		p.show(width, "light", false)
		for _, fault := range Evaluate[[]string](p, layoutFaults) {
			t.Errorf("%d pixels: %s", width, fault)
		}
		if names := Evaluate[int](p, "document.querySelectorAll('.graph .name').length"); names != 5 {
			t.Errorf("%d pixels: %d of 5 clusters have a name", width, names)
		}
	}
}

// show gives the window a width and a theme, opens or closes all details, and waits until the page shows that.
func (p *Page) show(width int64, theme string, open bool) {
	p.Helper()
	p.Resize(width, Height)
	Evaluate[struct{}](p, fmt.Sprintf(`(async () => {
		document.documentElement.dataset.theme = %q
		scrollTo(0, 0)
		for (let depth = 0; depth < 3; depth++) { // details may contain details
			for (const details of document.querySelectorAll('details')) details.open = %t
			await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))
		}
		return {}
	})()`, theme, open))
}

// TestLayoutFaultsAreFound: each kind of fault that TestLayout excludes is reported if the page has it.
func TestLayoutFaultsAreFound(t *testing.T) {
	p := Open(t, serve(t, broken()).url)
	p.Until(patience, "all clusters", Shows("#topology", "6 clusters, 5 peerings"))
	p.show(Width, "light", false)
	for code, want := range map[string]string{
		`document.querySelector('#findings .list').style.marginTop = '-2rem'`:                                       "overlaps",
		`document.querySelector('#peerings .note').style.cssText = 'position: absolute; left: 1270px; width: 99px'`: "leaves",
		`document.querySelector('#nodes .badge').style.width = '3rem'`:                                              "is broken",
		`document.querySelector('#nodes').style.width = '1400px'`:                                                   "scrolls sideways",
		`document.querySelector('#findings .list').style.cssText = 'height: 60px; overflow: hidden'`:                "is cut off",
		`((t, l) => { t.setAttribute('x', (+l.x1.baseVal.value + l.x2.baseVal.value) / 2); t.setAttribute('y', (l.y1.baseVal.value + l.y2.baseVal.value) / 2) })(
			document.querySelector('.graph .labels text'), document.querySelector('.graph .line'))`: "is crossed by a line",
	} {
		Evaluate[struct{}](p, code+"; ({})")
		if faults := strings.Join(Evaluate[[]string](p, layoutFaults), "\n"); !strings.Contains(faults, want) {
			t.Errorf("after %s, no fault %q is reported, only:\n%s", code, want, faults)
		}
		Evaluate[struct{}](p, "document.querySelectorAll('[style]').forEach((e) => e.removeAttribute('style')); ({})")
	}
}
