package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"liqo.io/liqo/internal/cli/session"
)

// TestKubeconfigsOfOthersHoldDataOnly: a kubeconfig of a remote cluster runs no program and has no file read or sent, in every command that takes one,
// unless the user allows it. The user's own kubeconfigs may name programs and files.
func TestKubeconfigsOfOthersHoldDataOnly(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("KUBECONFIG", filepath.Join(dir, "own"))
	var sent atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if authorization := r.Header.Get("Authorization"); authorization != "" {
			sent.Store(authorization)
		}
		http.NotFound(w, r)
	}))
	defer server.Close()
	ran, secret := filepath.Join(dir, "ran"), filepath.Join(dir, "secret")
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("secret", "content of a file")
	config := func(cluster, user string) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}, {name: plain, context: {cluster: plain, user: plain}}],
clusters: [{name: a, cluster: {server: "%[1]s"%[2]s}}, {name: plain, cluster: {server: "%[1]s"}}], users: [{name: a, user: {%[3]s}}, {name: plain, user: {}}]}`, server.URL, cluster, user)
	}
	program := fmt.Sprintf(`exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, args: [-c, "touch %s"], interactiveMode: Never}`, ran)
	own := write("own", config("", program))
	rows := map[string]struct{ cluster, user, within string }{
		"exec":      {"", program, `exec.command "sh"`},
		"plugin":    {"", "auth-provider: {name: oidc}", `auth-provider "oidc"`},
		"tokenFile": {"", "tokenFile: " + secret, "tokenFile"},
		"cert":      {"", "client-certificate: " + secret + ", client-key: " + secret, "client-key"},
		"ca":        {", certificate-authority: " + secret, "", "certificate-authority"},
	}
	commands := map[string]string{
		"peer": "peer --remote-kubeconfig FILE", "unpeer": "unpeer --remote-kubeconfig FILE", "doctor": "doctor --remote-kubeconfig FILE",
		"network connect": "network connect --remote-kubeconfig FILE", "authenticate": "authenticate --remote-kubeconfig FILE", "peer in-band": "peer in-band --remote-kubeconfig FILE",
	}
	run := func(command, path string) (string, error) {
		t.Helper()
		local := write("local", config("", ""))
		streams, _, out, errOut := genericiooptions.NewTestIOStreams()
		code := Main(context.Background(), append(strings.Fields(strings.ReplaceAll(command, "FILE", path)), "--kubeconfig", local), streams)
		if code == 0 {
			return out.String() + errOut.String(), nil
		}
		return out.String() + errOut.String(), fmt.Errorf("exit code %d", code)
	}
	for name, row := range rows {
		path := write("milan-"+name, config(row.cluster, row.user))
		for command, line := range commands {
			out, err := run(line, path)
			if err == nil || !strings.Contains(out, row.within) || !strings.Contains(out, "--"+session.AllowExecFlag) {
				t.Errorf("%s with %s: %v, %s\nwant a refusal that names %s and the flag", command, name, err, out, row.within)
			}
		}
		if out, _ := run("peer --remote-kubeconfig FILE --remote-context plain", path); strings.Contains(out, "--"+session.AllowExecFlag) {
			t.Errorf("%s: a user that the command does not use is refused: %s", name, out)
		}
	}
	if _, err := os.Stat(ran); err == nil || sent.Load() != nil {
		t.Errorf("the program ran: %t, and the server received %v", err == nil, sent.Load())
	}
	if out, _ := run("peer --remote-kubeconfig FILE --"+session.AllowExecFlag, filepath.Join(dir, "milan-exec")); strings.Contains(out, "names exec.command") {
		t.Errorf("with the flag: %s", out)
	}
	for _, path := range []string{own, filepath.Join(dir, ".", "own")} {
		if out, _ := run("peer --remote-kubeconfig FILE --remote-context a", path); strings.Contains(out, "--"+session.AllowExecFlag) {
			t.Errorf("the own kubeconfig is refused: %s", out)
		}
	}
	if out, _ := run("peer --remote-context a", ""); strings.Contains(out, "--"+session.AllowExecFlag) {
		t.Errorf("a context of the own kubeconfig is refused: %s", out)
	}
}
