// Package browser opens pages in headless Chromium. It is for tests of the page of liqoctl dashboard, and of the site with the documentation.
package browser

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
)

// program is Debian's Chromium.
const program = "/usr/bin/chromium"

// Width and Height are the size of the window in pixels.
const (
	Width  = 1280
	Height = 900
)

// Page is a page in its own browser.
type Page struct {
	testing.TB
	ctx context.Context

	// delays are how long the page took to show changes.
	delays []time.Duration

	mu sync.Mutex // guards console
	// console has the warnings and errors of the page.
	console []string
}

// Open opens a URL. The browser ends with the test.
func Open(t testing.TB, url string) *Page {
	t.Helper()
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("%v: run test/prerequisites.sh", err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.WindowSize(Width, Height))
	allocated, release := chromedp.NewExecAllocator(t.Context(), options...)
	ctx, end := chromedp.NewContext(allocated)
	t.Cleanup(func() { end(); release() })
	p := &Page{TB: t, ctx: ctx}
	messages := chromedp.Console(ctx)
	go func() {
		for message, err := range messages {
			if err != nil {
				return // the browser has ended
			}
			switch message.Type {
			case chromedp.ConsoleWarning, chromedp.ConsoleError, chromedp.ConsoleException:
				p.mu.Lock()
				p.console = append(p.console, fmt.Sprintf("%s: %s (%s)", message.Type, message.Text, message.URL))
				p.mu.Unlock()
			}
		}
	}()
	p.Go(url)
	return p
}

// Go opens another URL in the same page.
func (p *Page) Go(url string) {
	p.Helper()
	if err := chromedp.Do(p.ctx, chromedp.Navigate(url)); err != nil {
		p.Fatalf("opening %s: %v", url, err)
	}
}

// Resize changes the size of the window.
func (p *Page) Resize(width, height int64) {
	p.Helper()
	if err := chromedp.Do(p.ctx, chromedp.EmulateViewport(width, height)); err != nil {
		p.Fatal(err)
	}
}

// Scheme selects the colors of the page: "light" or "dark", as in the settings of a user.
func (p *Page) Scheme(scheme string) {
	p.Helper()
	params := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	if err := chromedp.Do(p.ctx, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, params)
		return err
	})); err != nil {
		p.Fatal(err)
	}
}

// MainThread returns how much processor time the main thread of the page has used for its tasks. Unlike the time that passed, it does not count other work of
// the machine.
func (p *Page) MainThread() time.Duration {
	p.Helper()
	var used time.Duration
	if err := chromedp.Do(p.ctx, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		if _, err := cdp.Call(ctx, t, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks}); err != nil {
			return err
		}
		result, err := cdp.Call(ctx, t, performance.GetMetrics, cdp.Empty{})
		for _, metric := range result.Metrics {
			if metric.Name == "TaskDuration" {
				used = time.Duration(metric.Value * float64(time.Second))
			}
		}
		return err
	})); err != nil {
		p.Fatal(err)
	}
	return used
}

// Press types keys.
func (p *Page) Press(keys string) {
	p.Helper()
	if err := chromedp.Do(p.ctx, chromedp.KeyEvent(keys)); err != nil {
		p.Fatal(err)
	}
}

// Evaluate returns the value of a JavaScript expression in the page. For a promise, it returns the value of the promise.
func Evaluate[T any](p *Page, expression string) T {
	p.Helper()
	value, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.Fatalf("evaluating %s: %v", shorten(expression), err)
	}
	return value
}

func shorten(text string) string { return text[:min(len(text), 200)] }

// Until waits until a JavaScript condition holds, and returns how long that took. The test fails if the condition does not hold at the last check
// before the limit.
func (p *Page) Until(within time.Duration, what, condition string) time.Duration {
	p.Helper()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		took := time.Since(began)
		if took > within {
			p.Fatalf("waited %v for %s. The page shows:\n%s", within, what, p.Text())
		}
		is, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool]("!!("+condition+")", chromedp.EvalAwaitPromise))
		switch {
		case err != nil && strings.Contains(err.Error(), "target navigated"): // the page is being replaced by the one that the condition is about
		case err != nil:
			p.Fatalf("evaluating %s: %v", shorten(condition), err)
		case is:
			return took
		}
	}
}

// standstill is how long the page may take to show a single change, because the machine may do other things meanwhile.
const standstill = 10 * time.Second

// Follows waits until the page shows a change of the state that has just been made, and returns how long that took. Prompt checks how long changes took.
func (p *Page) Follows(what, condition string) time.Duration {
	p.Helper()
	took := p.Until(standstill, what, condition)
	p.delays = append(p.delays, took)
	return took
}

// Prompt checks that the page showed changes within a limit since the last call. The median counts: the machine does other things, too.
func (p *Page) Prompt(limit time.Duration) {
	p.Helper()
	delays := slices.Sorted(slices.Values(p.delays))
	p.delays = nil
	if len(delays) < 3 {
		p.Fatalf("the page followed only %d changes: too few for a median", len(delays))
	}
	if median := delays[len(delays)/2]; median > limit {
		p.Errorf("the page took %v to show a change, at the median, and may take %v: %v", median, limit, delays)
	}
}

// Picture returns a PNG image of the window.
func (p *Page) Picture() []byte {
	p.Helper()
	picture, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.Fatal(err)
	}
	return picture
}

// Text returns the visible text of the page.
func (p *Page) Text() string {
	p.Helper()
	return Evaluate[string](p, "document.body.innerText")
}

// Shows returns the condition that the text of an element contains all of these parts.
func Shows(selector string, parts ...string) string {
	conditions := []string{fmt.Sprintf("document.querySelector(%q)", selector)}
	for _, part := range parts {
		conditions = append(conditions, fmt.Sprintf("document.querySelector(%q).textContent.includes(%q)", selector, part))
	}
	return strings.Join(conditions, " && ")
}

// Explain requests the path between two ends from the dashboard.
func (p *Page) Explain(from, to string) {
	p.Helper()
	Evaluate[struct{}](p, fmt.Sprintf(`(async () => {
		const form = document.querySelector('#path form')
		for (const [name, value] of [['from', %q], ['to', %q]]) {
			form.elements[name].value = value
			form.elements[name].dispatchEvent(new Event('input', {bubbles: true}))
			await new Promise((rendered) => setTimeout(rendered, 50))
		}
		form.requestSubmit()
		return {}
	})()`, from, to))
}

// Console returns the warnings and errors that the page has caused so far.
func (p *Page) Console() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.console...)
}

// Accessible reports an error for each axe-core rule that the page violates.
func (p *Page) Accessible(state string) {
	p.Helper()
	const file = "internal/dashboard/page/axe/axe.min.js"
	source, err := os.ReadFile(filepath.Join(root(p), file))
	if err != nil {
		p.Fatal(err)
	}
	type violation struct {
		ID, Help string
		Nodes    []struct {
			Target         []string
			FailureSummary string
		}
	}
	result := Evaluate[struct {
		Violations []violation
		Passes     int
	}](p, string(source)+"\n;axe.run().then((r) => ({Violations: r.violations, Passes: r.passes.length}))")
	for _, v := range result.Violations {
		for _, node := range v.Nodes {
			p.Errorf("%s: axe-core finds %s (%s) at %v: %s", state, v.ID, v.Help, node.Target, node.FailureSummary)
		}
	}
	if result.Passes < 20 {
		p.Errorf("%s: only %d rules of axe-core apply", state, result.Passes)
	}
}

// root returns the folder of the checkout.
func root(t testing.TB) string {
	t.Helper()
	folder, err := os.Getwd()
	for err == nil && folder != filepath.Dir(folder) {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return folder
		}
		folder = filepath.Dir(folder)
	}
	t.Fatalf("finding the checkout: %v", err)
	return ""
}
