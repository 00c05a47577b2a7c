package tutorial

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Shell is a terminal in which the steps of a tutorial are run: variables and the current folder stay from one step to the next.
type Shell struct {
	t *testing.T
	// dir holds the files with the input and output of commands.
	dir   string
	cmd   *exec.Cmd
	input io.WriteCloser
	codes *bufio.Reader
}

// patience is how long a step that changes nothing is repeated until its output is as expected.
const patience = time.Minute

// prompt matches the prompt of an interactive shell, and the control sequences that it sends to its terminal.
var prompt = regexp.MustCompile(`(?m)^(\x1b\[6n|\x1b\[J|(/ )?[#$] )+`)

// NewShell starts a shell in a folder; environment is added to the environment of the test. The shell ends with the test.
func NewShell(t *testing.T, folder string, environment ...string) *Shell {
	t.Helper()
	s := &Shell{t: t, dir: t.TempDir(), cmd: exec.Command("bash", "--norc", "--noprofile")}
	s.cmd.Dir = folder
	s.cmd.Env = append(os.Environ(), environment...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that all processes it has started can be ended with it
	codes, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s.codes, s.cmd.ExtraFiles = bufio.NewReader(codes), []*os.File{theirs}
	if s.input, err = s.cmd.StdinPipe(); err == nil {
		err = s.cmd.Start()
	}
	if err = errors.Join(err, theirs.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
		_ = s.cmd.Wait()
		_ = codes.Close()
	})
	// Do repeats commands with watch until their output is as expected, so each attempt runs the command once.
	if _, _, err := s.run(t.Context(), `watch() { "$@"; }`, ""); err != nil {
		t.Fatal(err)
	}
	return s
}

// run runs commands and returns their output, and the exit code of the last one. It answers questions with yes, and exits from a shell that a command opened.
func (s *Shell) run(ctx context.Context, commands, typed string) (string, int, error) {
	in, out := filepath.Join(s.dir, "in"), filepath.Join(s.dir, "out")
	if typed == "" {
		typed = strings.Repeat("y\n", 5)
	} else { // an interactive shell has a terminal, where the end of the input does not end it
		file := filepath.Join(s.dir, "commands")
		if err := os.WriteFile(file, []byte(commands), 0o600); err != nil {
			return "", 0, err
		}
		commands, typed = fmt.Sprintf("script --quiet --return --command 'bash %s' /dev/null", file), typed+"exit\n"
	}
	if err := os.WriteFile(in, []byte(typed), 0o600); err != nil {
		return "", 0, err
	}
	if _, err := fmt.Fprintf(s.input, "{ %s\n} <%s >%s 2>&1; echo $? >&3\n", commands, in, out); err != nil {
		return "", 0, fmt.Errorf("typing: %w", err)
	}
	code := make(chan string, 1)
	go func() {
		line, err := s.codes.ReadString('\n')
		if err != nil {
			line = "the shell has ended: " + err.Error()
		}
		code <- strings.TrimSpace(line)
	}()
	select {
	case <-ctx.Done():
		said, _ := os.ReadFile(out)
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
		return string(said), 0, fmt.Errorf("it does not end: %w", ctx.Err())
	case line := <-code:
		said, err := os.ReadFile(out)
		if err != nil {
			return "", 0, err
		}
		number, err := strconv.Atoi(line)
		return string(said), number, err
	}
}

// Do runs a step, prints the step and its duration, and ends the test if the result is not the one in the README.
func (s *Shell) Do(step Step) {
	s.t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Minute)
	defer cancel()
	commands := step.Commands
	if step.Background {
		commands = fmt.Sprintf("{ %s } <&- >%s 2>&1 &", step.Commands, filepath.Join(s.dir, "background"))
	}
	var first error // the first error often says more than the last one
	title := "$ " + strings.ReplaceAll(strings.TrimSpace(step.Commands), "\n", "\n               ")
	for {
		said, code, err := s.run(ctx, commands, step.Typed)
		if err != nil {
			s.t.Fatalf("%s\nline %d: %v\n%s", title, step.Line, err, said)
		}
		var differs error
		if failed := code != 0; failed != step.fails() {
			differs = fmt.Errorf("the exit code is %d", code)
		} else if step.Shows != "" {
			if step.Typed != "" {
				said = prompt.ReplaceAllString(said, "")
			}
			differs = Match(step.Shows, said)
		}
		if differs == nil {
			fmt.Printf("   %6.1f s  %s: %s\n", time.Since(began).Seconds(), s.t.Name(), title)
			return
		}
		if first == nil {
			first = fmt.Errorf("%w\n%s", differs, said)
		}
		if !step.again() || time.Since(began) > patience {
			s.t.Fatalf("%s\nline %d: %v\n%s\nat first: %v", title, step.Line, differs, said, first)
		}
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
}
