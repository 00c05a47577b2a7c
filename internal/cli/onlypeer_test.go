package cli

import (
	"bytes"
	"cmp"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/peering/invite"
)

// TestOnlyPeer: a command that needs the name of a peer uses the only one that exists and says so. Of several it lists the names and changes
// nothing. Commands that cannot be undone, or start a peering, require the name.
func TestOnlyPeer(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	w := installedWorld(t)
	peered := w.in(t, w.snapshot(), "peer"+lawBoth, nil).left
	w.begin(peered)
	other := &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "turin"}, Spec: corev1beta1.ForeignClusterSpec{ClusterID: "turin"}}
	for _, id := range []string{"rome", "milan"} {
		foreign := other.DeepCopy()
		if err := w.clusters[id].client.Create(t.Context(), foreign); err != nil {
			t.Fatal(err)
		}
		foreign.Status.Role, foreign.Status.Peering.Outgoing = corev1beta1.RoleConsumerAndProvider, corev1beta1.PhaseEstablished
		if err := w.clusters[id].client.Status().Update(t.Context(), foreign); err != nil {
			t.Fatal(err)
		}
	}
	two := w.snapshot()

	const there = " --kubeconfig %milan"
	for command, says := range map[string]string{
		"unpeer" + lawOne:                                   "using milan, the only one of the providers of cluster rome",
		"unpeer out-of-band" + lawOne:                       "using milan, the only one of the providers of cluster rome",
		"get kubeconfig controlplane-milan" + lawOne:        "using milan, the only one of the peers of cluster rome",
		"cordon tenant --skip-confirm" + there:              "using rome, the only one of the tenants in any namespace",
		"unpeer --remote-namespace liqo --dry-run" + lawOne: "using milan, the only one of the providers of cluster rome",
	} {
		if ran := w.in(t, peered, command, nil); ran.code != 0 || !strings.Contains(ran.said, says) {
			t.Errorf("%s: code %d, %s", command, ran.code, ran.said)
		}
	}
	for command, says := range map[string]string{
		"unpeer" + lawOne:                         "no peer is named, and there are several providers of cluster rome: milan, turin: name it (liqoctl unpeer NAME)",
		"unpeer out-of-band" + lawOne:             "there are several providers of cluster rome: milan, turin",
		"get kubeconfig x" + lawOne:               "there are several peers of cluster rome: milan, turin: name one with --remote-cluster-id",
		"create nonce" + there:                    "no peer is named: name one with --remote-cluster-id (this cluster has as peers: rome, turin)",
		"force unpeer" + lawOne:                   "name the cluster that is gone for good (known: milan, turin)",
		"unpeer mlan" + lawOne:                    "Did you mean milan?",
		"force unpeer turn" + lawOne:              "Did you mean turin?",
		"info peer Milan" + lawOne:                "Did you mean milan?",
		"cordon tenant romee" + there:             "Did you mean rome?",
		"unpeer --remote-context milano" + lawOne: "milano", // who names a remote cluster means it
	} {
		ran := w.in(t, two, command, nil)
		if diff := gocmp.Diff(essence(two), essence(ran.left)); ran.code != 1 || ran.wrote != 0 || diff != "" || !strings.Contains(ran.said, says) {
			t.Errorf("%s: code %d, %s%s", command, ran.code, ran.said, diff)
		}
	}
	if ran := w.in(t, peered, "force unpeer"+lawOne, nil); ran.code != 1 || ran.wrote != 0 || !strings.Contains(ran.said, "(known: milan)") {
		t.Errorf("force unpeer: code %d, %s", ran.code, ran.said)
	}
}

func TestSimilar(t *testing.T) {
	known := []string{"json", "yaml", "LoadBalancer", "NodePort", "ClusterIP", "Local", "Remote", "LocalAndRemote", "--timeout", "milan", "rome"}
	for typed, want := range map[string]string{
		"jsno": "json", "yml": "yaml", "JSON": "json", "loadbalancer": "LoadBalancer", "NodePrt": "NodePort", "local": "Local LocalAndRemote", "timeuot": "--timeout",
		"--time": "--timeout", "mialn": "milan", "": "", "x": "", "xy": "", "turin": "", "wide": "",
	} {
		if got := strings.Join(cmdline.Similar(typed, known), " "); got != want {
			t.Errorf("%q is like %q, want %q", typed, got, want)
		}
	}
}

// TestMisspeltValuesAreRefused: each flag that takes one of a few words refuses a misspelt one, with the right one, before any cluster is contacted.
func TestMisspeltValuesAreRefused(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	token := (&invite.Token{ID: "AAECAwQFBgcI", Expires: time.Now().Add(time.Hour), Pin: bytes.Repeat([]byte{7}, 32)}).Text([]byte("secret"))
	given := map[string]string{
		"move volume": "move volume a --target-node b", "test network": "test network -p a", "discover": "discover example.org",
		"install aks":      "install aks --resource-group-name a --resource-name b --subscription-id c",
		"install eks":      "install eks --eks-cluster-name a --eks-cluster-region b",
		"install gke":      "install gke --cluster-id a --project-id b --zone c",
		"peer out-of-band": "peer out-of-band milan --auth-url https://192.0.2.2 --cluster-id milan --auth-token " + token,
	}
	seen := map[string]bool{}
	for _, command := range commands(newRoot(session.New(genericiooptions.NewTestIOStreamsDiscard()))) {
		command.SetContext(t.Context())
		path := strings.TrimPrefix(command.CommandPath(), "liqoctl ")
		words := strings.Fields(cmp.Or(given[path], lawTable[path].command, path))
		words = slices.DeleteFunc(words, func(word string) bool { return strings.HasSuffix(word, "kubeconfig") || strings.HasPrefix(word, "%") })
		command.Flags().VisitAll(func(flag *pflag.Flag) {
			complete, has := command.GetFlagCompletionFunc(flag.Name)
			if !has || flag.Value.Type() == "bool" {
				return
			}
			choices, _ := complete(command, nil, "")
			for _, choice := range choices {
				misspelt := choice[:len(choice)-1]
				if slices.Contains(choices, misspelt) || len(misspelt) < 2 {
					continue
				}
				seen["--"+flag.Name] = true
				args := append(slices.Clone(words), "--"+flag.Name, misspelt)
				code, _, errOut := run(t, args...)
				if code != 1 || !strings.Contains(errOut, "--"+flag.Name+" "+misspelt) || !strings.Contains(errOut, "Did you mean") || !strings.Contains(errOut, choice) {
					t.Errorf("%s: code %d, %s", strings.Join(args, " "), code, errOut)
				}
			}
		})
	}
	for _, want := range []string{"--service-type", "--gw-server-service-type", "--gw-server-service-location", "--output", "--pod-offloading-strategy", "--protocol", "--np-nodes"} {
		if !seen[want] {
			t.Errorf("no command offers values of %s: %v", want, seen)
		}
	}
}
