package apitest

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// envProgram is set in the process that TestProgramsEndWithAKilledTest kills.
const envProgram = "LIQO_TEST_PROGRAM"

// TestProgramsEndWithAKilledTest: a process of tests that is killed leaves no program behind, although it can't clean up.
func TestProgramsEndWithAKilledTest(t *testing.T) {
	if os.Getenv(envProgram) != "" {
		p := begin(t, "sleep", []string{"sleep", "600"})
		_, _ = os.Stdout.WriteString("program " + strconv.Itoa(p.cmd.Process.Pid) + "\n")
		<-p.gone
		return
	}
	other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProgramsEndWithAKilledTest$") //nolint:gosec // this very program
	other.Env = append(os.Environ(), envProgram+"=1")
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	program := 0
	for lines := bufio.NewScanner(out); program == 0 && lines.Scan(); {
		if text, found := strings.CutPrefix(lines.Text(), "program "); found {
			program, _ = strconv.Atoi(text)
		}
	}
	if program == 0 {
		t.Fatal("the other process started no program")
	}
	if err := syscall.Kill(program, 0); err != nil {
		t.Fatalf("the program does not run: %v", err)
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait() // it was killed
	for end := time.Now().Add(10 * time.Second); runs(program); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			_ = syscall.Kill(program, syscall.SIGKILL)
			t.Fatal("the program outlives the test that started it")
		}
	}
}

// runs reports whether a process runs. A zombie, which nobody has waited for yet, does not.
func runs(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}
