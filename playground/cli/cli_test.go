package cli

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"liqo.io/playground/cluster"
)

// TestEnd: a command inside a node returns its exit code and nothing else. Every other failure has a message.
func TestEnd(t *testing.T) {
	failed := exec.Command("sh", "-c", "exit 3").Run()
	for _, test := range []struct {
		err  error
		code int
		said string
	}{
		{nil, 0, ""},
		{exited{7}, 7, ""},
		{fmt.Errorf("building containerd: %w: no space left", failed), 1, "no space left"},
	} {
		var log bytes.Buffer
		if code := (&env{log: &log}).end(test.err); code != test.code || !strings.Contains(log.String(), test.said) || (test.said == "" && log.Len() > 0) {
			t.Errorf("%v: code %d, said %q", test.err, code, log.String())
		}
	}
}

// TestDeletable: a missing cluster is an error that lists the existing ones.
func TestDeletable(t *testing.T) {
	known := []string{"milan", "rome"}
	if err := deletable("rome", known); err != nil {
		t.Error(err)
	}
	if err := deletable("nope", known); err == nil || !strings.Contains(err.Error(), `there is no cluster "nope", there are: milan, rome`) {
		t.Errorf("says %v", err)
	}
	if err := deletable("nope", nil); err == nil || !strings.Contains(err.Error(), "nor any other") {
		t.Errorf("says %v", err)
	}
}

// TestJSON: a list without items is an empty list for programs, not null; other values stay as they are.
func TestJSON(t *testing.T) {
	for _, test := range []struct {
		value any
		want  string
	}{
		{[]cluster.State(nil), "[]\n"},
		{[][2]string{}, "[]\n"},
		{[]string{"a"}, "[\n  \"a\"\n]\n"},
		{map[string]string{}, "{}\n"},
	} {
		var out bytes.Buffer
		if err := (&env{out: &out}).json(test.value); err != nil || out.String() != test.want {
			t.Errorf("%#v: %q, want %q: %v", test.value, out.String(), test.want, err)
		}
	}
}
