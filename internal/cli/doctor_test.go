package cli

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/test/clitest"
)

// TestDoctorOnAPIServer asks as the identities that a provider granted: one that may do all, one that may do nothing, one that leads nowhere.
func TestDoctorOnAPIServer(t *testing.T) {
	t.Parallel()
	kubeconfig, c := server(t)
	clitest.Create(t, c, tenancy("turin")...)
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	identity := func(name string, of authv1beta1.IdentityType, change func()) {
		t.Helper()
		change()
		data, err := clientcmd.Write(*config)
		if err != nil {
			t.Fatal(err)
		}
		labels := map[string]string{api.LabelRemoteClusterID: "turin"}
		object := &authv1beta1.Identity{
			ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-of-turin", Name: name, Labels: labels},
			Spec:       authv1beta1.IdentitySpec{ClusterID: "turin", Type: of, Namespace: "there", AuthParams: authv1beta1.AuthParams{APIServer: "https://turin"}},
		}
		clitest.Create(t, c, object, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-of-turin", Name: "kubeconfig-" + name}, Data: map[string][]byte{authv1beta1.KubeconfigSecretKey: data},
		})
		object.Status.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: "kubeconfig-" + name}
		if err := c.Status().Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	mapping := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-of-turin", Name: "turin", Labels: map[string]string{api.LabelRemoteID: "turin"}}}
	clitest.Create(t, c, mapping)
	mapping.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": {RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingAccepted}}
	if err := c.Status().Update(t.Context(), mapping); err != nil {
		t.Fatal(err)
	}
	identity("mighty", authv1beta1.IdentityControlPlane, func() {})
	_, out, errOut := run(t, "doctor", "--verbose", "--kubeconfig", kubeconfig)
	if !strings.Contains(out, "access: turin answers mighty in ") {
		t.Errorf("says\n%s%s", out, errOut)
	}
	identity("weak", authv1beta1.IdentityControlPlane, func() {
		for _, user := range config.AuthInfos {
			user.Impersonate, user.ImpersonateGroups = "nobody", []string{"system:authenticated"}
		}
	})
	identity("weak-node", authv1beta1.IdentityResourceSlice, func() {})
	weak := config.DeepCopy()
	ran := filepath.Join(t.TempDir(), "ran")
	identity("program", authv1beta1.IdentityResourceSlice, func() {
		for name := range config.AuthInfos {
			config.AuthInfos[name] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
				APIVersion: "client.authentication.k8s.io/v1", Command: "touch", Args: []string{ran}, InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
			}}
		}
	})
	identity("lost", authv1beta1.IdentityResourceSlice, func() {
		config.AuthInfos = weak.AuthInfos
		for _, cluster := range config.Clusters {
			cluster.Server = "https://127.0.0.1:1"
		}
	})
	identity("broken", authv1beta1.IdentityResourceSlice, func() { config.CurrentContext = "none" })
	code, out, errOut := run(t, "doctor", "--verbose", "--kubeconfig", kubeconfig)
	for _, want := range []string{
		"access: weak may not do in cluster turin: create resourceslices in namespace there, create renews in namespace there, create namespacemaps in namespace there (asked from here)\n" +
			"          cure: in cluster turin: liqoctl activate tenant rome",
		"access: weak-node may not do in cluster turin: create shadowpods in namespace shop-rome",
		"access: the API server of turin does not answer as lost at https://turin, asked from here: ", "127.0.0.1:1: connect: connection refused",
		"access: the API server of turin was not asked as broken at https://turin: its kubeconfig, Secret tenant-of-turin/kubeconfig-broken, can not be used: ",
		"access: the API server of turin was not asked as program at https://turin: its kubeconfig, Secret tenant-of-turin/kubeconfig-program, can not be used: programs and plugins are not run for credentials",
		"identities: Identity weak in namespace tenant-of-turin: its certificate can not be read: ",
	} {
		if !strings.Contains(out, want) || code != 1 {
			t.Errorf("no %q in\n%s%s", want, out, errOut)
		}
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("doctor ran a program that a Secret names")
	}
	// What is not there any more when it is looked for keeps nothing else from being looked at.
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-of-turin", Name: "kubeconfig-mighty"}}
	if err := c.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if _, out, _ := run(t, "doctor", "--kubeconfig", kubeconfig); !strings.Contains(out, client.ObjectKeyFromObject(secret).String()+", can not be read") || !strings.Contains(out, "weak may not") {
		t.Errorf("says\n%s", out)
	}
}

// TestBrokenStatesOnAPIServer makes every broken state in the objects of a cluster. doctor prints the cause and its cure first. info and status say
// the same, in words that do not call the cluster healthy. Once the printed cure is executed, doctor prints what it printed before the fault.
func TestBrokenStatesOnAPIServer(t *testing.T) {
	t.Parallel()
	w := newDoctorWorld(t)
	code, healthy := w.liqoctl("doctor")
	if code != 0 || strings.ContainsAny(healthy, "✖!") {
		t.Fatalf("before the first fault, doctor exits with code %d:\n%s", code, healthy)
	}
	if _, out := w.liqoctl("info"); !strings.Contains(out, "✔ Liqo is healthy") || strings.Contains(out, "✖") {
		t.Fatalf("before the first fault, info says\n%s", out)
	}
	for _, state := range brokenStates(w) {
		passed := t.Run(state.name, func(t *testing.T) {
			w.t = t
			state.begin()
			commands := []string{"doctor", "info", "status"}
			codes, says := make([]int, len(commands)), make([]string, len(commands))
			var group sync.WaitGroup
			for i, command := range commands {
				group.Go(func() { codes[i], says[i] = w.liqoctl(command) })
			}
			group.Wait()
			problem := says[0][max(strings.IndexAny(says[0], "✖!"), 0):]
			first, rest, _ := strings.Cut(problem, "\n")
			cure, _, _ := strings.Cut(rest, "\n")
			if !strings.Contains(first, state.first) || !strings.Contains(cure, state.cure) {
				t.Fatalf("doctor prints first\n%s\n%s\nwant %q and %q in\n%s", first, cure, state.first, state.cure, says[0])
			}
			for i, command := range commands[1:] {
				code, out := codes[i+1], says[i+1]
				joined := strings.Join(strings.Fields(strings.ReplaceAll(out, "│", " ")), " ")
				if code != 0 || !state.asks && (!strings.Contains(joined, state.first) || !strings.Contains(joined, state.cure)) {
					t.Errorf("%s, code %d, does not say %q and %q:\n%s", command, code, state.first, state.cure, out)
				}
			}
			if state.cured != nil {
				state.cured()
			} else if state.changing != "" {
				w.execute(state.changing)
			} else {
				w.execute(state.cure)
			}
			if state.after != nil {
				state.after()
			}
			if _, out := w.liqoctl("doctor"); withoutProgress(out) != withoutProgress(healthy) {
				t.Errorf("after the cure doctor prints\n%s\nwant\n%s", out, healthy)
			}
		})
		w.t = t
		if !passed {
			w.back(slices.Collect(maps.Keys(w.healthy))...)() // the next state begins in a healthy cluster
		}
	}
	// The peering is undone on both sides.
	w.change(w.foreign, func() {
		w.foreign.Status = corev1beta1.ForeignClusterStatus{Role: corev1beta1.RoleUnknown, ObservedGeneration: 1, TenantNamespace: w.foreign.Status.TenantNamespace}
	})
	const former = "Former peer: the peering was undone"
	for command, want := range map[string]string{
		"doctor": "✔ former peer turin", "info": "Former peers: turin", "info peer turin": former, "status peer": former,
	} {
		if _, out := w.liqoctl(command); !strings.Contains(out, want) || strings.Contains(out, "Role: ") {
			t.Errorf("%s: no %q in\n%s", command, want, out)
		}
	}
}

// withoutProgress returns what a command printed, without the lines that it prints while something takes long.
func withoutProgress(out string) string {
	lines := slices.DeleteFunc(strings.Split(out, "\n"), func(line string) bool { return strings.HasSuffix(line, " ...") })
	return strings.Join(lines, "\n")
}

// TestBrokenStatesInGuide keeps the table of page troubleshooting.md as the states of TestBrokenStatesOnAPIServer are.
func TestBrokenStatesInGuide(t *testing.T) {
	const begin, end = "<!-- begin of the table: go test ./internal/cli -run TestBrokenStatesInGuide -update -->\n", "<!-- end of the table -->\n"
	page := filepath.Join("..", "..", "docs", "guide", "troubleshooting.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), begin)
	have, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		t.Fatalf("%s has no table between the lines %q and %q", page, begin, end)
	}
	elsewhere := map[string]map[string]bool{upgradeCures: {}, peerCures: {}}
	for _, state := range upgradeStates() {
		elsewhere[upgradeCures][state.name] = true
	}
	for _, state := range betweenStates() {
		elsewhere[peerCures][state.name] = true
	}
	var want strings.Builder
	want.WriteString("| state | how it is broken | doctor's line begins | the cure begins |\n|---|---|---|---|\n")
	executed, seen := 0, map[string]bool{}
	for _, state := range brokenStates(&doctorWorld{}) {
		if seen[state.name] || state.name == "" || state.how == "" || state.first == "" || state.cure == "" || state.begin == nil {
			t.Errorf("the state %q is there twice or is not complete", state.name)
		}
		if !strings.Contains(state.cure, state.changing) {
			t.Errorf("the cure of state %q does not contain its command %q", state.name, state.changing)
		}
		if state.executed != "" && !elsewhere[state.executed][state.name] {
			t.Errorf("%s has no state %q", state.executed, state.name)
		}
		seen[state.name] = true
		cure := state.cure
		if state.cured == nil {
			executed++
			cure = "`" + cure + "`" // the test executes it
		}
		fmt.Fprintf(&want, "| %s | %s | `%s` | %s |\n", state.name, state.how, state.first, cure)
	}
	if executed < 20 {
		t.Errorf("the cures of %d states are executed, want at least 20", executed)
	}
	want.WriteString("\nWith `--remote-kubeconfig`, between rome and its peer milan:\n\n| state | how it is broken | doctor's line begins | the cure begins |\n|---|---|---|---|\n")
	for _, state := range betweenStates() {
		if !seen[state.name] {
			fmt.Fprintf(&want, "| %s | %s | `%s` | %s |\n", state.name, state.how, state.first, state.cure)
		}
	}
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+want.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want.String(), have); diff != "" {
		t.Errorf("the table of %s is not what doctor prints (go test ./internal/cli -run TestBrokenStatesInGuide -update writes it):\n%s", page, diff)
	}
}
