// Package console is how liqoctl speaks: lines with a level and the cluster they are about go to the error stream, data to the output
// stream. On a terminal that is not dumb a step that takes its time turns a spinner, and levels have colors unless NO_COLOR is set; elsewhere it is one plain line when it ends, and another before
// when it lasts.
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

// patience is how long a step may last before it is mentioned where there is no spinner.
const patience = 3 * time.Second

// Level is the importance of a line; its text is the prefix.
type Level string

// Levels.
const (
	Info    Level = "INFO"
	Warning Level = "WARN"
	Failure Level = "ERRO"
)

var colors = map[Level]string{Info: "36", Warning: "33", Failure: "31"}

// Console writes to the two streams of one command. Scopes of it may be used at the same time.
type Console struct {
	*screen
	scope     string
	rehearsal bool
}

// screen is what all scopes share.
type screen struct {
	out, err io.Writer
	// terminal tells that a line can be overwritten, color that lines may be colored.
	terminal, color bool
	// width tells how many columns the terminal has now; 0 when it does not say.
	width   func() int
	verbose bool
	// now is the clock, began what it showed at first: who wants to know more sees at every line when it was.
	now   func() time.Time
	began time.Time

	mu   sync.Mutex
	line string // the spinner's line, empty when it does not turn
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

// abilities tells whether a terminal takes control sequences, and whether its user wants colors: see no-color.org.
func abilities(environment func(string) string) (control, color bool) {
	control = environment("TERM") != "dumb"
	return control, control && environment("NO_COLOR") == ""
}

// Scope returns a console whose lines start with the name in parentheses.
func (c *Console) Scope(name string) *Console { return &Console{screen: c.screen, scope: name} }

// Rehearsal returns the console of a command that does nothing: it does not say that something was done.
func (c *Console) Rehearsal() *Console {
	out := *c
	out.rehearsal = true
	return &out
}

// Out is where data goes.
func (c *Console) Out() io.Writer { return c.out }

// Info reports progress.
func (c *Console) Info(format string, args ...any) { c.print(Info, format, args...) }

// Did reports what was done: nothing, in a rehearsal.
func (c *Console) Did(format string, args ...any) {
	if !c.rehearsal {
		c.print(Info, format, args...)
	}
}

// Warn reports what the user should know but what does not stop the command.
func (c *Console) Warn(format string, args ...any) { c.print(Warning, format, args...) }

// Fail reports why the command ends.
func (c *Console) Fail(err error) { c.print(Failure, "%v", err) }

// Verbose reports what only the curious want to know. With it every line, of whatever level, begins with the seconds since the console was made, and
// every change of what is waited for is a line: no second passes without a word.
func (c *Console) Verbose(format string, args ...any) {
	if c.verbose {
		c.print(Info, format, args...)
	}
}

func (c *Console) print(level Level, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
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
	// The lines after the first are part of the same message.
	text = strings.ReplaceAll(text, "\n", "\n       ")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
	fmt.Fprintf(c.err, "%s%s\n", prefix, text)
	c.draw()
}

// clear and draw want the lock.
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

// Step is something that takes its time. Steps of one console follow one another.
type Step struct {
	console *Console
	stop    chan struct{}
	stopped sync.WaitGroup

	mu   sync.Mutex
	text string
}

// Start begins a step; text says what is being done or waited for.
func (c *Console) Start(format string, args ...any) *Step {
	s := &Step{console: c, stop: make(chan struct{}), text: fmt.Sprintf(format, args...)}
	s.stopped.Go(s.turn)
	return s
}

// Update changes what is shown as being waited for.
func (s *Step) Update(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if s.replace(text) {
		s.console.Verbose("%s", text)
	}
}

// replace tells whether the text is another one.
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
	return s.text
}

// Done ends the step with a line of success.
func (s *Step) Done(format string, args ...any) {
	s.End()
	s.console.Did(format, args...)
}

// End ends the step without a line; the caller returns an error, or has nothing to say.
func (s *Step) End() {
	select {
	case <-s.stop:
		return
	default:
		close(s.stop)
	}
	s.stopped.Wait()
}

func (s *Step) turn() {
	c := s.console
	if !c.terminal {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-s.stop:
		case <-timer.C:
			c.Info("%s ...", s.current())
			<-s.stop
		}
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

// cut shortens a line to the columns there are: one that wraps could not be erased.
func cut(line string, columns int) string {
	runes := []rune(line)
	if columns < 2 || len(runes) < columns {
		return line
	}
	return string(runes[:columns-2]) + "…"
}
