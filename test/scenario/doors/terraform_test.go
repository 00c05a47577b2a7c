package doors

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/peering/invite"
	"liqo.io/liqo/test/scenario/story"
)

// terraform: the administrator of both clusters runs OpenTofu with the provider of Liqo. Apply, plan, a change, import and destroy do what they say, and each command can be
// ended at any time, by Ctrl-C or SIGKILL, and run again.
func terraform(s *story.Story) {
	rome, milan := s.Rome, s.Milan
	const namespace = "terraform"
	s.Namespace(namespace, nil)
	tofu := newTofu(s)
	offloading := &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: offloadingv1beta1.NamespaceOffloadingName}}
	foreign := &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: milan.ID}}
	wishes := func(wish corev1beta1.PeeringWish) func(context.Context) error {
		return func(ctx context.Context) error {
			if err := rome.Get(ctx, client.ObjectKeyFromObject(foreign), foreign); err != nil {
				return err
			}
			if foreign.Spec.OutgoingPeeringEnabled != wish || foreign.Status.ObservedGeneration < foreign.Generation {
				return fmt.Errorf("it is %q, and generation %d of %d was observed", foreign.Spec.OutgoingPeeringEnabled, foreign.Status.ObservedGeneration, foreign.Generation)
			}
			return nil
		}
	}
	applied := func() {
		s.Helper()
		s.NodeReady(milan.ID, true, start)
		s.Must(rome.Get(s.Context(), client.ObjectKeyFromObject(offloading), offloading))
		s.Must(milan.Get(s.Context(), client.ObjectKey{Name: story.Twin(namespace)}, &corev1.Namespace{}))
		tofu.unchanged()
	}
	destroyed := func() {
		s.Helper()
		s.Gone(rome, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: milan.ID}}, start)
		s.Gone(rome, offloading.DeepCopy(), start)
		s.Gone(rome, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: corev1beta1.TokenSecretPrefix + milan.ID}}, soon)
		s.Gone(milan, &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: api.TenantNamespace(rome.ID), Name: rome.ID}}, soon)
	}

	s.Step("init, and apply peers and offloads", func() {
		tofu.run("init")
		tofu.run("apply", "-auto-approve")
		applied()
	})
	s.Step("an attribute is changed in place", func() {
		before := offloading.UID
		tofu.run("apply", "-auto-approve", "-var", "strategy=Remote")
		s.Must(rome.Get(s.Context(), client.ObjectKeyFromObject(offloading), offloading))
		if offloading.UID != before || offloading.Spec.PodOffloadingStrategy != offloadingv1beta1.PodsRemote {
			s.Errorf("NamespaceOffloading %s, formerly %s, has strategy %s", offloading.UID, before, offloading.Spec.PodOffloadingStrategy)
		}
		tofu.run("apply", "-auto-approve")
		tofu.unchanged()
	})
	s.Step("destroy is killed while the peering ends, and run again", func() {
		tofu.ended(syscall.SIGKILL, wishes(corev1beta1.PeeringNo), "destroy", "-auto-approve")
		tofu.run("destroy", "-auto-approve")
		destroyed()
	})
	s.Step("apply is killed while it peers: the next one takes over nothing, and says which import does", func() {
		tofu.ended(syscall.SIGKILL, wishes(corev1beta1.PeeringYes), "apply", "-auto-approve")
		tofu.refused("terraform import liqo_peer.NAME "+milan.ID, "apply", "-auto-approve")
		tofu.run("import", "liqo_peer.peer", milan.ID)
		tofu.run("apply", "-auto-approve")
		applied()
	})
	s.Step("destroy", func() {
		tofu.run("destroy", "-auto-approve")
		s.Gone(rome, foreign.DeepCopy(), soon)
		destroyed()
	})
	s.Step("Ctrl-C while it peers: the next apply goes on with the same peering", func() {
		tofu.ended(syscall.SIGINT, wishes(corev1beta1.PeeringYes), "apply", "-auto-approve")
		s.Must(rome.Get(s.Context(), client.ObjectKeyFromObject(foreign), foreign))
		before := foreign.UID
		tofu.run("apply", "-auto-approve")
		applied()
		s.Must(rome.Get(s.Context(), client.ObjectKeyFromObject(foreign), foreign))
		if foreign.UID != before {
			s.Error("the peering was ended and requested again")
		}
	})
	s.Step("destroy", func() {
		tofu.run("destroy", "-auto-approve")
		s.Gone(rome, foreign.DeepCopy(), soon)
		destroyed()
		if len(tofu.tokens) == 0 {
			s.Error("no state had a token, so no output was searched for one")
		}
		strangers(s, rome, milan)
	})
	s.Others("secrets " + api.Namespace + "/" + invite.KeySecret)
}

// tofu runs OpenTofu in a folder with a configuration.
type tofu struct {
	*story.Story
	dir string
	// tokens are those of all states so far.
	tokens map[string]bool
}

// newTofu makes the folder: the configuration, and the settings that let OpenTofu use the provider that was built.
func newTofu(s *story.Story) *tofu {
	s.Helper()
	t := &tofu{Story: s, dir: s.TempDir(), tokens: map[string]bool{}}
	configuration, err := os.ReadFile(filepath.Join("testdata", "main.tf"))
	s.Must(err)
	s.Must(os.WriteFile(filepath.Join(t.dir, "main.tf"), configuration, 0o600))
	s.Must(os.WriteFile(filepath.Join(t.dir, "settings"), fmt.Appendf(nil, "provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", filepath.Join(s.Root, "bin", "terraform")), 0o600))
	return t
}

// command prepares a command of OpenTofu. Its processes have a group of their own.
func (t *tofu) command(args ...string) (cmd *exec.Cmd, said *bytes.Buffer) {
	cmd, said = exec.Command(filepath.Join(t.Root, "bin", "tofu"), args...), &bytes.Buffer{}
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.dir, said, said
	cmd.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+filepath.Join(t.dir, "settings"), "TF_IN_AUTOMATION=1", "NO_COLOR=1",
		"TF_VAR_rome_config="+t.Rome.Kubeconfig, "TF_VAR_milan_config="+t.Milan.Kubeconfig)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return cmd, said
}

// finish checks what a command printed: it must contain no token.
func (t *tofu) finish(said *bytes.Buffer, args []string) {
	t.Helper()
	state, err := os.ReadFile(filepath.Join(t.dir, "terraform.tfstate"))
	if !os.IsNotExist(err) {
		t.Must(err)
	}
	for field := range strings.SplitSeq(string(state), `"`) {
		if _, err := invite.ParseToken(field); err == nil {
			t.tokens[field] = true
		}
	}
	for token := range t.tokens {
		if strings.Contains(said.String(), token) {
			t.Errorf("tofu %s prints a token", strings.Join(args, " "))
		}
	}
}

// run runs a command, which must succeed.
func (t *tofu) run(args ...string) {
	t.Helper()
	cmd, said := t.command(args...)
	if err := cmd.Run(); err != nil {
		t.Fatalf("tofu %s: %v\n%s", strings.Join(args, " "), err, said)
	}
	t.finish(said, args)
}

// refused runs a command, which must fail with this text.
func (t *tofu) refused(why string, args ...string) {
	t.Helper()
	cmd, said := t.command(args...)
	// OpenTofu wraps long lines.
	if err := cmd.Run(); err == nil || !strings.Contains(strings.Join(strings.Fields(strings.ReplaceAll(said.String(), "│", " ")), " "), why) {
		t.Fatalf("tofu %s: %v, want %q\n%s", strings.Join(args, " "), err, why, said)
	}
	t.finish(said, args)
}

// unchanged checks that a plan changes nothing.
func (t *tofu) unchanged() {
	t.Helper()
	t.run("plan", "-detailed-exitcode")
}

// ended starts a command, and ends its processes by a signal as soon as begun returns no error. The command must not have ended before.
func (t *tofu) ended(signal syscall.Signal, begun func(context.Context) error, args ...string) {
	t.Helper()
	cmd, said := t.command(args...)
	t.Must(cmd.Start())
	t.Cleanup(func() {
		if cmd.ProcessState == nil { // the story has ended before the command
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
	})
	t.Eventually(time.Minute, "tofu "+args[0]+" to begin", begun)
	t.Must(syscall.Kill(-cmd.Process.Pid, signal))
	err := cmd.Wait()
	status, known := cmd.ProcessState.Sys().(syscall.WaitStatus)
	killed, interrupted := known && status.Signaled(), strings.Contains(strings.ToLower(said.String()), "interrupt")
	if err == nil || signal == syscall.SIGKILL && !killed || signal == syscall.SIGINT && !interrupted {
		t.Fatalf("tofu %s was not ended by signal %v: %v\n%s", strings.Join(args, " "), signal, err, said)
	}
	t.finish(said, args)
}
