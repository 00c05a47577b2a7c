package cli

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// TestEnd: a command inside a node gives its exit code and nothing else; everything else that fails says why, also a program of ours.
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
