// Package console writes the messages and the data of liqoctl. Messages go to the error stream, each with a level and the name of its
// cluster. Data goes to the output stream.
//
// On a terminal, a running step shows a spinner, unless TERM is "dumb". Levels have colors there, unless NO_COLOR is set. Elsewhere a step
// is one plain line when it ends. A long step prints another line while it runs.
package console

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// reportAfter is the time after which a line reports a running step, if there is no spinner. reportEvery is the interval of further lines.
const (
	reportAfter = 3 * time.Second
	reportEvery = 30 * time.Second
)

// Level is the severity of a message. Its text is the prefix of the line.
type Level string

// The levels of messages.
const (
	Info    Level = "INFO"
	Warning Level = "WARN"
	Failure Level = "ERRO"
)

var colors = map[Level]string{Info: "36", Warning: "33", Failure: "31"}

// Console writes to the two streams of one command. The scopes of a Console may be used concurrently.
type Console struct {
	*screen
	scope     string
	rehearsal bool
}

// screen is the state that all scopes of a Console share.
type screen struct {
	out, err io.Writer
	// terminal means that a line can be overwritten. color means that lines may be colored.
	terminal, color bool
	// width returns the current number of columns of the terminal, or 0 if it is unknown.
	width   func() int
	verbose bool
	// now is the clock. began is when the console was created. Verbose lines show the time since then.
	now   func() time.Time
	began time.Time

	mu   sync.Mutex
	line string // the spinner's line; empty if no spinner is shown
}

// New returns a console that writes data to out and everything else to err.
func New(out, err io.Writer, verbose bool) *Console {
	s := &screen{out: out, err: err, verbose: verbose, width: func() int { return 0 }, now: time.Now, began: time.Now()}
	if file, ok := err.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		s.terminal, s.color = abilities(os.Getenv)
		s.width = func() int {
			columns, _, _ := term.GetSize(int(file.Fd()))
			return columns
		}
	}
	return &Console{screen: s}
}

// abilities reports whether a terminal supports control sequences, and whether colors are wanted. See no-color.org.
func abilities(environment func(string) string) (control, color bool) {
	control = environment("TERM") != "dumb"
	return control, control && environment("NO_COLOR") == ""
}

// Scope returns a console whose lines start with the name in parentheses.
func (c *Console) Scope(name string) *Console { return &Console{screen: c.screen, scope: name} }

// DryRun returns a Console for a dry run: its Did prints nothing, because nothing was changed.
func (c *Console) DryRun() *Console {
	out := *c
	out.rehearsal = true
	return &out
}

// Out returns the stream for data, which is text. Control characters in it are escaped.
func (c *Console) Out() io.Writer { return textWriter{c.out} }

// Info reports progress.
func (c *Console) Info(format string, args ...any) { c.print(Info, format, args...) }

// Did reports a completed change. It prints nothing in a dry run.
func (c *Console) Did(format string, args ...any) {
	if !c.rehearsal {
		c.print(Info, format, args...)
	}
}

// Warn reports a problem that does not stop the command.
func (c *Console) Warn(format string, args ...any) { c.print(Warning, format, args...) }

// Fail reports the error that ends the command.
func (c *Console) Fail(err error) { c.print(Failure, "%v", err) }

// Verbose reports details, if verbose output is on. With verbose output, every line starts with the seconds since the console was created.
// Each change of the text of a step is then a line too, so that no second passes without output.
func (c *Console) Verbose(format string, args ...any) {
	if c.verbose {
		c.print(Info, format, args...)
	}
}

func (c *Console) print(level Level, format string, args ...any) {
	text := printable(fmt.Sprintf(format, args...))
	prefix := " " + string(level) + "  "
	if c.color {
		prefix = " \x1b[" + colors[level] + "m" + string(level) + "\x1b[0m  "
	}
	if c.verbose {
		prefix += fmt.Sprintf("%6.2f s  ", c.now().Sub(c.began).Seconds())
	}
	if c.scope != "" {
		prefix += "(" + c.scope + ") "
	}
	// Further lines belong to the same message, so they are indented.
	text = strings.ReplaceAll(text, "\n", "\n       ")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
	fmt.Fprintf(c.err, "%s%s\n", prefix, text)
	c.draw()
}

// clear and draw require that the caller holds the lock.
func (s *screen) clear() {
	if s.terminal && s.line != "" {
		fmt.Fprint(s.err, "\r\x1b[K")
	}
}

func (s *screen) draw() {
	if s.terminal && s.line != "" {
		fmt.Fprint(s.err, "\r\x1b[K"+s.line)
	}
}

// Step is an operation that takes time. The steps of a Console run one after another.
type Step struct {
	console *Console
	stop    chan struct{}
	stopped sync.WaitGroup

	mu   sync.Mutex
	text string
}

// Start begins a step. The text names the operation, or the condition for which it waits.
func (c *Console) Start(format string, args ...any) *Step {
	s := &Step{console: c, stop: make(chan struct{}), text: fmt.Sprintf(format, args...)}
	s.stopped.Go(s.turn)
	return s
}

// Update replaces the text of the step. With verbose output, a changed text is also printed as a line.
func (s *Step) Update(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if s.replace(text) {
		s.console.Verbose("%s", text)
	}
}

// replace sets the text and reports whether it changed.
func (s *Step) replace(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := s.text != text
	s.text = text
	return changed
}

func (s *Step) current() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return printable(s.text)
}

// Done ends the step and reports its success.
func (s *Step) Done(format string, args ...any) {
	s.End()
	s.console.Did(format, args...)
}

// End ends the step without printing a line. It is for callers that return an error or have nothing to report.
func (s *Step) End() {
	select {
	case <-s.stop:
		return
	default:
		close(s.stop)
	}
	s.stopped.Wait()
}

// report prints the text of a long step where the output is no terminal, for example in the log of a pipeline.
func (s *Step) report() {
	began := time.Now()
	for wait := reportAfter; ; wait = reportEvery {
		select {
		case <-s.stop:
			return
		case <-time.After(wait):
		}
		if elapsed := time.Since(began).Round(time.Second); elapsed < reportEvery {
			s.console.Info("%s ...", s.current())
		} else {
			s.console.Info("%s ... (for %s)", s.current(), elapsed)
		}
	}
}

func (s *Step) turn() {
	c := s.console
	if !c.terminal {
		s.report()
		return
	}
	frames := []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for frame := 0; ; frame++ {
		scope := ""
		if c.scope != "" {
			scope = "(" + c.scope + ") "
		}
		c.mu.Lock()
		c.line = cut(fmt.Sprintf(" %c  %s%s", frames[frame%len(frames)], scope, s.current()), c.width())
		c.draw()
		c.mu.Unlock()
		select {
		case <-s.stop:
			c.mu.Lock()
			c.clear()
			c.line = ""
			c.mu.Unlock()
			return
		case <-ticker.C:
		}
	}
}

// cut shortens a line to fewer than the given number of columns. A line that wraps could not be erased.
func cut(line string, columns int) string {
	runes := []rune(line)
	if columns < 2 || len(runes) < columns {
		return line
	}
	return string(runes[:columns-2]) + "…"
}
