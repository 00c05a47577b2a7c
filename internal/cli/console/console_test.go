package console

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPlainLines(t *testing.T) {
	var out, errOut bytes.Buffer
	c := New(&out, &errOut, false)
	c.Info("%d objects", 2)
	c.Scope("remote").Warn("first\nsecond")
	c.Verbose("not said")
	step := c.Scope("local").Start("doing")
	step.Update("still doing")
	step.Done("did it")
	step.End()
	want := " INFO  2 objects\n WARN  (remote) first\n       second\n INFO  (local) did it\n"
	if diff := cmp.Diff(want, errOut.String()); diff != "" {
		t.Error(diff)
	}
	if out.Len() > 0 {
		t.Errorf("data %q", out.String())
	}
}

// TestVerbose: the output accounts for every second: what the command waited for, and how long.
func TestVerbose(t *testing.T) {
	var errOut bytes.Buffer
	c := New(nil, &errOut, true)
	c.now = func() time.Time { return c.began.Add(1234 * time.Millisecond) }
	c.Verbose("said")
	step := c.Scope("remote").Start("doing")
	step.Update("waiting")
	step.Update("waiting")
	step.Done("did it")
	want := " INFO    1.23 s  said\n INFO    1.23 s  (remote) waiting\n INFO    1.23 s  (remote) did it\n"
	if diff := cmp.Diff(want, errOut.String()); diff != "" {
		t.Error(diff)
	}
}

// TestTerminal: the spinner disappears with its step, and other lines do not mix with it.
func TestTerminal(t *testing.T) {
	var errOut bytes.Buffer
	c := New(nil, &errOut, false)
	c.terminal, c.color = true, true
	step := c.Start("working")
	c.Info("meanwhile")
	step.Done("worked")
	const erase = "\r\x1b[K"
	lines := strings.Split(strings.ReplaceAll(errOut.String(), erase, ""), "\n")
	if last := lines[len(lines)-2]; !strings.HasSuffix(last, "worked") || strings.Contains(last, "working") && !strings.Contains(errOut.String(), erase+" \x1b[36mINFO") {
		t.Errorf("%q", errOut.String())
	}
	if c.line != "" {
		t.Errorf("the spinner still turns: %q", c.line)
	}
}

func TestBox(t *testing.T) {
	var out bytes.Buffer
	box := Box{Title: "A long title here"}
	box.Line(0, "✔ well", "")
	box.Line(1, "key", "value")
	if err := box.Write(&out); err != nil {
		t.Fatal(err)
	}
	want := `┌─ A long title here ─┐
│ ✔ well              │
│     key: value      │
└─────────────────────┘
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestCut(t *testing.T) {
	for _, test := range []struct {
		columns int
		want    string
	}{{0, "⠋ waiting"}, {80, "⠋ waiting"}, {10, "⠋ waiting"}, {9, "⠋ waiti…"}, {2, "…"}} {
		if got := cut("⠋ waiting", test.columns); got != test.want {
			t.Errorf("%d columns: %q, want %q", test.columns, got, test.want)
		}
	}
}

// TestAbilities: NO_COLOR and TERM=dumb are honoured.
func TestAbilities(t *testing.T) {
	for _, row := range []struct {
		term, noColor  string
		control, color bool
	}{{"xterm", "", true, true}, {"xterm", "1", true, false}, {"dumb", "", false, false}, {"", "", true, true}} {
		control, color := abilities(func(name string) string { return map[string]string{"TERM": row.term, "NO_COLOR": row.noColor}[name] })
		if control != row.control || color != row.color {
			t.Errorf("TERM=%q NO_COLOR=%q: control %v, color %v", row.term, row.noColor, control, color)
		}
	}
	var errOut bytes.Buffer
	c := New(nil, &errOut, false)
	c.terminal = true // without color
	c.Info("said")
	if want := " INFO  said\n"; errOut.String() != want {
		t.Errorf("%q, want %q", errOut.String(), want)
	}
}

// TestBoxIsWrapped: no line is wider than the terminal, no word is lost, and wrapped lines are indented.
func TestBoxIsWrapped(t *testing.T) {
	if diff := cmp.Diff([]string{"    ab cd", "      ef", "      gh"}, wrap("    ab cd ef gh", 9)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"abcdefghijkl", "  b"}, wrap("abcdefghijkl b", 5)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"  abcdefghijkl"}, wrap("  abcdefghijkl", 5)); diff != "" {
		t.Error(diff)
	}
	var out bytes.Buffer
	box := Box{Title: "T"}
	box.Line(1, "key", strings.Repeat("some words ", 60))
	if err := box.Write(&out); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > someColumns {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if n := strings.Count(out.String(), "words"); n != 60 {
		t.Errorf("%d words of 60 are left", n)
	}
}

// TestControlCharactersAreEscaped: a text of another cluster, such as the message of a condition, moves no cursor, hides no line and draws no other
// one, wherever it is shown.
func TestControlCharactersAreEscaped(t *testing.T) {
	const hostile = "drained\x1b[2K\r all is \u009b1m well\x07\u202e\x7f"
	const shown = `drained\x1b[2K\x0d all is \x9b1m well\x07\u202e\x7f`
	var out, errOut bytes.Buffer
	c := New(&out, &errOut, true)
	c.now = func() time.Time { return c.began }
	c.Warn("%s\nand\tmore", hostile)
	c.Fail(errors.New(hostile))
	step := c.Start("%s", hostile)
	step.Update("%s!", hostile)
	step.Done("%s", hostile)
	want := " WARN    0.00 s  " + shown + "\n       and\tmore\n ERRO    0.00 s  " + shown + "\n INFO    0.00 s  " + shown + "!\n INFO    0.00 s  " + shown + "\n"
	if diff := cmp.Diff(want, errOut.String()); diff != "" {
		t.Errorf("messages:\n%s", diff)
	}
	if n, err := fmt.Fprint(c.Out(), hostile+"\n"); err != nil || n != len(hostile)+1 || out.String() != shown+"\n" {
		t.Errorf("data: %d, %v, %q", n, err, out.String())
	}
	out.Reset()
	box := Box{Title: hostile}
	box.Line(0, "state", hostile+"\n│ state: fine")
	if err := box.Write(c.Out()); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) != 3 || !strings.Contains(lines[1], shown) || strings.ContainsAny(out.String(), "\x1b\r\x07") {
		t.Errorf("box %q", out.String())
	}

	errOut.Reset()
	synctest.Test(t, func(*testing.T) {
		terminal := New(nil, &errOut, false)
		terminal.terminal = true
		step := terminal.Start("%s", hostile)
		time.Sleep(time.Second)
		step.End()
	})
	if spinner := strings.ReplaceAll(errOut.String(), "\r\x1b[K", ""); !strings.Contains(spinner, shown) || strings.ContainsAny(spinner, "\x1b\r\x07") {
		t.Errorf("spinner %q", spinner)
	}
}

// TestNoSpinnerWithoutATerminal: where the output is no terminal, a long step says what it does once, and then every half minute what it waits for. It moves no cursor.
func TestNoSpinnerWithoutATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errOut bytes.Buffer
		step := New(nil, &errOut, false).Start("working")
		time.Sleep(10 * time.Second)
		step.Update("waiting for pod demo")
		time.Sleep(time.Minute)
		step.Done("worked")
		want := " INFO  working ...\n INFO  waiting for pod demo ... (for 33s)\n INFO  waiting for pod demo ... (for 1m3s)\n INFO  worked\n"
		if got := errOut.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}
