package cli

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cli/cmdline"
)

// partition has a cluster report that the API server of its peer can't be reached, or can again.
func (w *world) partition(t *testing.T, of, from string, down bool) {
	t.Helper()
	ctx := context.Background() // it is called while commands run, too: a context of the test is of another bubble
	c := w.clusters[of].client
	foreign := &corev1beta1.ForeignCluster{}
	if err := c.Get(ctx, client.ObjectKey{Name: from}, foreign); err != nil {
		t.Fatal(err)
	}
	condition := corev1beta1.Condition{
		Type: corev1beta1.APIServerStatus, Status: corev1beta1.StatusEstablished, Reason: "Answers", LastTransitionTime: metav1.NewTime(time.Unix(1_800_000_000, 0)),
	}
	if down {
		condition.Status, condition.Reason, condition.Message = corev1beta1.StatusError, "NoAnswer", "dial tcp 192.0.2.2:6443: i/o timeout"
	}
	foreign.Status.APIServerURL, foreign.Status.Conditions = "https://"+from, []corev1beta1.Condition{condition}
	if err := c.Status().Update(ctx, foreign); err != nil {
		t.Fatal(err)
	}
}

// TestUnpeerAcrossAPartition: while the consumer does not reach the provider, no command that removes the peering changes anything, nor does its
// dry run. Each says why and how to end the peering anyway. A half-done removal is resumed.
func TestUnpeerAcrossAPartition(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	w := installedWorld(t)
	peered := w.in(t, w.snapshot(), "peer"+lawBoth, nil).left
	change := func(at worldSnapshot, do func()) worldSnapshot {
		w.begin(at)
		do()
		return w.snapshot()
	}
	apart := change(peered, func() { w.partition(t, "rome", "milan", true) })
	bothWays := w.in(t, peered, "peer --kubeconfig %milan --remote-kubeconfig %rome", nil)
	if bothWays.code != 0 {
		t.Fatal(bothWays.said)
	}
	apartThere := change(bothWays.left, func() { w.partition(t, "milan", "rome", true) })
	held := []string{"example.com/held"}
	half := change(apart, func() {
		node := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: api.TenantNamespace("milan"), Name: "milan"}}
		rome := w.clusters["rome"].client
		edit(t, rome, node, func() { node.Finalizers = held })
		if err := rome.Delete(t.Context(), node); err != nil {
			t.Fatal(err)
		}
	})
	whole := []string{"cluster rome does not reach the API server of milan, https://milan, since 2027-01-15", "dial tcp 192.0.2.2:6443", "Nothing was changed", "liqoctl force unpeer milan"}
	for _, test := range []struct {
		command string
		at      worldSnapshot
		says    []string
	}{
		{"unpeer" + lawBoth, apart, whole},
		{"unpeer --delete-namespaces" + lawBoth, apart, whole},
		{"unpeer milan" + lawOne, apart, whole},
		{"unpeer out-of-band milan" + lawOne, apart, whole},
		{"unpeer in-band" + lawBoth, apart, whole},
		{"unpeer in-band" + lawBoth, apartThere, []string{"cluster milan does not reach the API server of rome", "liqoctl force unpeer rome"}},
		{"unauthenticate" + lawBoth, apart, whole},
		{"delete virtualnode milan" + lawOne, apart, whole},
		{"unpeer" + lawBoth, half, []string{"An earlier unpeer is half done: VirtualNode milan in namespace liqo-tenant-milan is being deleted since", "liqoctl force unpeer milan"}},
	} {
		w.refuses(t, test.at, test.command, test.says)
	}
	// The link is back and the finalizer is removed: the same command completes the removal.
	back := change(half, func() {
		w.partition(t, "rome", "milan", false)
		node := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: api.TenantNamespace("milan"), Name: "milan"}}
		edit(t, w.clusters["rome"].client, node, func() { node.Finalizers = nil })
		w.clusters["rome"].touched["virtualnodes"] = w.clusters["rome"].version
		w.settle()
	})
	want := w.in(t, change(peered, func() { w.partition(t, "rome", "milan", false) }), "unpeer"+lawBoth, nil)
	got := w.in(t, back, "unpeer"+lawBoth, nil)
	if diff := cmp.Diff(essence(want.left), essence(got.left)); want.code != 0 || got.code != 0 || diff != "" {
		t.Errorf("resumed: codes %d and %d: %s%s", want.code, got.code, got.said, diff)
	}
	// After force unpeer, the command does not check whether the provider is reachable.
	if ran := w.in(t, apart, "force unpeer milan --skip-confirm"+lawOne, nil); ran.code != 0 {
		t.Errorf("force unpeer: code %d: %s", ran.code, ran.said)
	}
	// A wait that is over names the way out.
	stuck := change(half, func() { w.partition(t, "rome", "milan", false) })
	ran := w.in(t, stuck, "unpeer"+lawBoth, nil)
	if ran.code != 1 || !strings.Contains(ran.said, "timed out (--timeout)") || !strings.Contains(ran.said, "liqoctl force unpeer milan") {
		t.Errorf("held: code %d: %s", ran.code, ran.said)
	}
}

// TestUnpeerWithAnExpiredCertificate: an API server that responds and rejects the certificate is not gone for good: the cure is another certificate.
func TestUnpeerWithAnExpiredCertificate(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	w := installedWorld(t)
	w.begin(w.in(t, w.snapshot(), "peer"+lawBoth, nil).left)
	w.partition(t, "rome", "milan", true)
	c, foreign := w.clusters["rome"].client, &corev1beta1.ForeignCluster{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "milan"}, foreign); err != nil {
		t.Fatal(err)
	}
	foreign.Status.Conditions[0].Message = "the API server at https://milan does not answer: asking https://milan/readyz: 401 Unauthorized"
	if err := c.Status().Update(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	ran := w.in(t, w.snapshot(), "unpeer"+lawBoth, nil)
	for _, want := range []string{
		"the API server of milan, https://milan, does not accept the certificate of cluster rome since 2027-01-15", "Nothing was changed", "liqoctl authenticate --remote-kubeconfig",
		"Without one: run liqoctl generate peer-command --consumer-cluster-id rome on milan, and on this cluster the command that it prints",
	} {
		if ran.code != 1 || ran.wrote != 0 || !strings.Contains(ran.said, want) {
			t.Errorf("code %d, no %q in %s", ran.code, want, ran.said)
		}
	}
	if strings.Contains(ran.said, "force unpeer") {
		t.Errorf("the wrong cure in %s", ran.said)
	}
}

// TestUnpeerNamesWhatItLeaves: each command that ends a peering names the objects that it leaves, and the command that removes them does so.
func TestUnpeerNamesWhatItLeaves(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	w := installedWorld(t)
	apart := w.snapshot()
	peered := w.in(t, apart, "peer"+lawBoth, nil).left
	leftovers := func(at worldSnapshot, id string) (out []string) {
		for key := range at[id].objects {
			if strings.Contains(key, "liqo-tenant-") {
				out = append(out, key)
			}
		}
		return out
	}
	cure := func(said string) string {
		_, after, found := strings.Cut(said, "To delete it, run: liqoctl ")
		if !found {
			t.Fatalf("no cure in %s", said)
		}
		command, _, _ := strings.Cut(after, "\n")
		return command
	}
	const here, there = "namespace liqo-tenant-milan", "namespace liqo-tenant-rome"
	for _, test := range []struct {
		command string
		says    []string
		// gone are the clusters in which the named command leaves nothing.
		gone []string
	}{
		{"unpeer" + lawBoth, []string{here + " (cluster rome)", there + " (cluster milan)"}, []string{"rome", "milan"}},
		{"unpeer in-band" + lawBoth, []string{here + " (cluster rome)", there + " (cluster milan)"}, []string{"rome", "milan"}},
		{"unpeer milan" + lawOne, []string{here + " with GatewayClient milan", "The other side of that network stays in cluster milan", "liqoctl unpeer --delete-namespaces --remote-kubeconfig"}, []string{"rome"}},
	} {
		ran := w.in(t, peered, test.command, nil)
		if ran.code != 0 {
			t.Fatalf("%s: code %d: %s", test.command, ran.code, ran.said)
		}
		for _, want := range test.says {
			if !strings.Contains(ran.said, want) {
				t.Errorf("%s: no %q in %s", test.command, want, ran.said)
			}
		}
		after := w.in(t, ran.left, cure(ran.said), nil)
		if after.code != 0 || strings.Contains(after.said, "Kept: ") {
			t.Errorf("%s: code %d: %s", cure(ran.said), after.code, after.said)
		}
		for _, id := range test.gone {
			if left := leftovers(after.left, id); len(left) > 0 {
				t.Errorf("%s, then %s: cluster %s has %v", test.command, cure(ran.said), id, left)
			}
		}
	}
	// The complete command leaves nothing, so it names nothing.
	if ran := w.in(t, peered, "unpeer --delete-namespaces"+lawBoth, nil); ran.code != 0 || strings.Contains(ran.said, "Kept: ") {
		t.Errorf("code %d: %s", ran.code, ran.said)
	}
	ran := w.in(t, peered, "unpeer milan --delete-namespaces"+lawOne, nil)
	if want := "The other side of the network stays in cluster milan. To remove it, run there: liqoctl force unpeer rome"; ran.code != 0 || !strings.Contains(ran.said, want) {
		t.Errorf("code %d, no %q: %s", ran.code, want, ran.said)
	}
}

// TestInvitationsNeedAFlag: an in-band peering invites the provider to use this cluster only if a flag requests it.
func TestInvitationsNeedAFlag(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	w := installedWorld(t)
	at := w.snapshot()
	for _, command := range []string{"peer in-band", "peer --in-band"} {
		for flag, want := range map[string]bool{"": false, " --invite": true} {
			ran := w.in(t, at, command+flag+lawBoth, nil)
			tried := strings.Contains(strings.Join(ran.seen, "\n"), "liqo-invitation") || strings.Contains(ran.said, "is not invited")
			if ran.code != 0 || tried != want {
				t.Errorf("%s%s: code %d, invited: %t: %s", command, flag, ran.code, tried, ran.said)
			}
		}
	}
	if ran := w.in(t, at, "peer --invite"+lawBoth, nil); ran.code != 1 || ran.wrote != 0 || !strings.Contains(ran.said, "--invite needs --in-band: without it") {
		t.Errorf("code %d: %s", ran.code, ran.said)
	}
}

// TestNetworkCommandsNameWhatTheyLeave: network disconnect lists the Configurations that it leaves in both clusters, and the command that removes
// them. force unpeer says that the other cluster keeps its side, and what removes it there.
func TestNetworkCommandsNameWhatTheyLeave(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	w := installedWorld(t)
	connected := w.in(t, w.snapshot(), "network connect --wait"+lawBoth, nil)
	if connected.code != 0 {
		t.Fatal(connected.said)
	}
	configurations := func(at worldSnapshot) (n int) {
		for _, id := range []string{"rome", "milan"} {
			for key := range at[id].objects {
				if strings.Contains(key, "/configurations ") {
					n++
				}
			}
		}
		return n
	}
	ran := w.in(t, connected.left, "network disconnect --wait --skip-confirm"+lawBoth, nil)
	want := "Kept: Configuration milan in namespace liqo-tenant-milan (cluster rome), Configuration rome in namespace liqo-tenant-rome (cluster milan)"
	if ran.code != 0 || !strings.Contains(ran.said, want) || configurations(ran.left) != 2 {
		t.Fatalf("code %d, no %q: %s", ran.code, want, ran.said)
	}
	_, reset, _ := strings.Cut(ran.said, "To delete it, run: liqoctl ")
	reset, _, _ = strings.Cut(reset, "\n")
	if ran = w.in(t, ran.left, reset+" --skip-confirm", nil); ran.code != 0 || configurations(ran.left) != 0 || strings.Contains(ran.said, "Kept: ") {
		t.Errorf("%s: code %d, %d Configurations: %s", reset, ran.code, configurations(ran.left), ran.said)
	}
	ran = w.in(t, connected.left, "force unpeer milan --skip-confirm"+lawOne, nil)
	if want = "its administrator deletes them there: liqoctl force unpeer rome"; ran.code != 0 || !strings.Contains(ran.said, want) {
		t.Errorf("force unpeer: code %d, no %q: %s", ran.code, want, ran.said)
	}
}

// TestPrintedCommandsCanBePasted: a shell splits the command line that liqoctl prints into the words that the user typed.
func TestPrintedCommandsCanBePasted(t *testing.T) {
	command := &cobra.Command{Use: "liqoctl"}
	command.Flags().String("kubeconfig", "", "")
	command.Flags().String("remote-kubeconfig", "", "")
	command.Flags().StringSlice("set", nil, "")
	command.Flags().Bool("wait", false, "")
	command.Flags().Duration("timeout", time.Minute, "")
	typed := []string{"--kubeconfig", "/home/my user/rome's.yaml", "--remote-kubeconfig", "$HOME/milan.yaml", "--set", "a=b", "--set", "c=d e", "--wait=true"}
	if err := command.ParseFlags(append(typed, "--timeout", "1m")); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		words []string
		want  []string
	}{
		"the clusters":         {cmdline.SameClusters(command, []string{"a b"}), []string{"liqoctl", "a b", "--kubeconfig", typed[1], "--remote-kubeconfig", typed[3]}},
		"all but the time out": {cmdline.SameCommand(command, nil, "timeout"), append([]string{"liqoctl"}, typed...)},
	} {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", `printf '%s\n' `+strings.Join(row.words, " ")).Output()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(row.want, strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
