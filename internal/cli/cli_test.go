package cli

import (
	"bytes"
	"context"
	"flag"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"liqo.io/liqo/internal/cli/session"
)

var update = flag.Bool("update", false, "write the golden files")

// run calls liqoctl with the arguments and returns its exit code and output.
func run(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = Main(t.Context(), args, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &stdout, ErrOut: &stderr})
	return code, stdout.String(), stderr.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s changed (go test ./internal/cli -update writes it anew):\n%s", path, diff)
	}
}

func commands(root *cobra.Command) []*cobra.Command {
	out := []*cobra.Command{root}
	for _, child := range root.Commands() {
		out = append(out, commands(child)...)
	}
	return out
}

// TestReference: the reference page has what every command says of itself, and the help of each command has it too.
func TestReference(t *testing.T) {
	root := newRoot(session.New(genericiooptions.NewTestIOStreamsDiscard()))
	dir := filepath.Join("..", "..", "docs", "reference", "liqoctl")
	pages := reference(root)
	for name, want := range pages {
		if have, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(have) != want {
			t.Errorf("%s is not what the commands say of themselves: run make generate (%v)\n%s", name, err, cmp.Diff(string(have), want))
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if _, made := pages[file.Name()]; !made {
			t.Errorf("%s is about no command: remove it", file.Name())
		}
	}
	for _, command := range commands(root) {
		path := strings.Fields(command.CommandPath())[1:]
		code, out, errOut := run(t, append(path, "--help")...)
		if code != 0 || errOut != "" || !strings.Contains(out, strings.TrimSpace(command.Long)) || !strings.Contains(out, command.Example) {
			t.Errorf("%v --help: code %d, errors %q, says %q", path, code, errOut, out)
		}
	}
}

// TestUpgradeIsListed: whoever looks for the command that upgrades finds it in the list of commands and in the reference, and upgrade --help explains it.
func TestUpgradeIsListed(t *testing.T) {
	_, help, _ := run(t, "--help")
	if _, group, _ := strings.Cut(help, "Installation:\n"); !strings.Contains(strings.Split(group, "\n\n")[0], "\n  upgrade ") {
		t.Errorf("no line about upgrade in\n%s", help)
	}
	index := reference(newRoot(session.New(genericiooptions.NewTestIOStreamsDiscard())))["README.md"]
	if !strings.Contains(index, "| [upgrade](install.md) | ") {
		t.Errorf("no line about upgrade in\n%s", index)
	}
	if code, out, _ := run(t, "upgrade", "--help"); code != 0 || !strings.Contains(out, "upgrade") {
		t.Errorf("upgrade --help: code %d\n%s", code, out)
	}
}

// TestManualPagesHaveAllCommands: each command that help lists has a manual page. The date of the pages is the given one, so that releases are
// reproducible.
func TestManualPagesHaveAllCommands(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	dir := t.TempDir()
	if code, _, errOut := run(t, "docs", "--man", dir); code != 0 {
		t.Fatal(errOut)
	}
	for _, command := range commands(newRoot(session.New(genericiooptions.NewTestIOStreamsDiscard()))) {
		if !command.IsAvailableCommand() || strings.Contains(command.CommandPath(), " help") {
			continue
		}
		page, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(command.CommandPath(), " ", "-")+".1"))
		if err != nil || !strings.Contains(string(page), "Nov 2023") {
			t.Errorf("%s: no page of the given date: %v", command.CommandPath(), err)
		}
	}
}

// TestOptions: the flags of every command are listed once, and not in the help of each.
func TestOptions(t *testing.T) {
	_, options, _ := run(t, "options")
	root := newRoot(session.New(genericiooptions.NewTestIOStreamsDiscard()))
	for _, command := range commands(root) {
		path := strings.Fields(command.CommandPath())[1:]
		_, help, _ := run(t, append(path, "--help")...)
		if !strings.Contains(help, `Use "liqoctl options" for the flags of every command.`) {
			t.Errorf("%v --help does not say where the global flags are:\n%s", path, help)
		}
		root.PersistentFlags().VisitAll(func(flag *pflag.Flag) {
			if line := "--" + flag.Name + " "; strings.Contains(help, line+flag.Value.Type()) || !strings.Contains(options, line) {
				t.Errorf("--%s: in the help of %v, or not in the options:\n%s", flag.Name, path, help)
			}
		})
	}
}

// TestEveryCommandIsExplained: a line, a paragraph and an example for each.
func TestEveryCommandIsExplained(t *testing.T) {
	for _, command := range commands(newRoot(session.New(genericiooptions.NewTestIOStreamsDiscard()))) {
		if command.Short == "" || command.Long == "" || command.Example == "" {
			t.Errorf("%s: short %q, long %q, example %q", command.CommandPath(), command.Short, command.Long, command.Example)
		}
		if strings.Contains(command.Example, "\t") || strings.Contains(command.Example, "%!") {
			t.Errorf("%s: the example is not formatted: %q", command.CommandPath(), command.Example)
		}
	}
}

// TestHelpSaysWhatToLookAt: the help of each command that shows a state names the others, and what they are for.
func TestHelpSaysWhatToLookAt(t *testing.T) {
	views := []string{"info", "status", "doctor", "kubectl get foreignclusters"}
	for _, name := range views[:3] {
		code, out, _ := run(t, name, "--help")
		for _, other := range views {
			if code != 0 || !strings.Contains(strings.ReplaceAll(out, "\n", " "), other) {
				t.Errorf("%s --help does not name %s: %s", name, other, out)
			}
		}
	}
}

// TestInterruptedCode: a command that the user interrupts ends with the exit code that shells use for that, and says so.
func TestInterruptedCode(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	w := installedWorld(t)
	w.begin(w.snapshot())
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	if code, _, said := w.run(ctx, "peer"+lawBoth); code != 130 || !strings.Contains(said, "interrupted: ") {
		t.Errorf("code %d: %s", code, said)
	}
}

// TestRefusals: an invalid command line is reported in one line, before any cluster is called, with exit code 1 and without the usage.
func TestRefusals(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	for command, want := range map[string]string{
		"frobnicate":                            `unknown command "frobnicate"`,
		"unper":                                 "Did you mean unpeer?",
		"pear":                                  "unknown command \"pear\" for \"liqoctl\" (liqoctl --help lists the commands)\n       Did you mean peer?",
		"pear --remote-kubeconfig milan":        "Did you mean peer?",
		"move volumes data":                     "unknown command \"volumes\" for \"liqoctl move\" (liqoctl move --help lists the commands)\n       Did you mean volume?",
		"move volumes data --target-node milan": "unknown command \"volumes\" for \"liqoctl move\" (liqoctl move --help lists the commands)\n       Did you mean volume?",
		"delete peer":                           "Did you mean liqoctl unpeer?",
		"create resourceslce":                   "Did you mean resourceslice?",
		"install --cluster-di rome":             "Did you mean --cluster-id?",
		"peer --gw-server-service-type nodeprt": "Did you mean NodePort?",
		"dashboard --port 99999":                "--port 99999: want a whole number, 0 to 65535",
		"dashboard --port http":                 "--port http: want a whole number, 0 to 65535",
		"peer --mtu many":                       "--mtu many: want a whole number",
		"peer --gw-client-port 99999999999":     "--gw-client-port 99999999999: want a whole number with fewer digits",
		"test network -p a --timeout 5":         "--timeout 5: want a duration, for example 30s or 5m",
		"test network -p a --rm=maybe":          "--rm maybe: want true or false",
		"version -o jsno":                       "want json or yaml\n       Did you mean json?",
		"info":                                  "/none, which does not exist: correct it, or give the path of a kubeconfig with --kubeconfig",
		"offload":                               "needs a subcommand",
		"offload namespace":                     "no namespace is named",
		"offload namespace a --ns-selector b=c": "use one of them",
		"offload namespace a --pod-offloading-strategy Nowhere":         "want one of Local, Remote, LocalAndRemote",
		"offload namespace a --remote-namespace-name b":                 "goes with --namespace-mapping-strategy SelectedName",
		"offload namespace a --namespace-mapping-strategy SelectedName": "--remote-namespace-name goes with",
		"offload namespace a -l ???":                                    `--selector "???"`,
		"offload namespace a -o xml":                                    "want json or yaml",
		"unoffload namespace":                                           "no namespace is named",
		"move":                                                          "needs a subcommand",
		"move volume":                                                   "the name of the PersistentVolumeClaim",
		"move volume a":                                                 "required flag",
		"move volume a --node b -o yaml":                                "want json",
		"move volume a --node b --containers-cpu-limits lots":           `--containers-cpu-limits: "lots" is not a quantity`,
		"move volume a --target-node b --containers-ram-limits -1":      "of at least 0",
		"move volume a --target-node b --containers-ram-limits 1Gi --containers-ram-requests 2Gi": "raise the limit",
		"create resourceslice":   "the name of the ResourceSlice",
		"create resourceslice a": "required flag",
		"create resourceslice a --remote-cluster-id milan --cpu lots":                                       `--cpu: "lots" is not a quantity`,
		"create resourceslice a --remote-cluster-id milan --cpu -1":                                         "is negative",
		"create resourceslice a --remote-cluster-id milan --cpu 1 --resource cpu=2":                         "given twice",
		"peer --in-band --networking-disabled":                                                              "leave one of them out",
		"peer --in-band --proxy-url http://x:1":                                                             "use one of them",
		"peer --gw-server-service-location Rome":                                                            "want Provider or Consumer",
		"peer --mtu 100":                                                                                    "--mtu 100: want 576 to 65535",
		"network":                                                                                           "needs a subcommand",
		"network connect --gw-server-service-type Ingress":                                                  "want one of LoadBalancer, NodePort, ClusterIP",
		"network connect --gw-server-service-port 0":                                                        "--gw-server-service-port 0: want a port",
		"network connect --gw-server-service-type ClusterIP --gw-server-service-nodeport 30000":             "not with ClusterIP",
		"network connect --gw-server-service-type NodePort --gw-server-service-loadbalancerip 1.2.3.4":      "goes with a Service of type LoadBalancer",
		"network connect --gw-server-service-loadbalancerip x":                                              "want an IP address",
		"network connect --gw-client-address a_b":                                                           "--gw-client-address a_b: want an IP address or a host name",
		"network connect --gw-client-port 70000":                                                            "--gw-client-port 70000: want a port",
		"create gatewayserver":                                                                              "required flag",
		"create gatewayserver --remote-cluster-id milan --node-port 99999":                                  "--node-port 99999: want a port",
		"create gatewayclient --remote-cluster-id milan --addresses 1.2.3.4 --port 1 --protocol TCP":        "--protocol TCP: want UDP",
		"create configuration --remote-cluster-id milan --pod-cidr 10.1.0.0 --external-cidr 10.2.0.0/16":    "--pod-cidr 10.1.0.0: want a range",
		"create configuration --remote-cluster-id milan --pod-cidr 10.1.0.0/16 --external-cidr 10.2.0.1/16": "did you mean 10.2.0.0/16",
		"create configuration --remote-cluster-id milan --pod-cidr fd00::/64 --external-cidr 10.2.0.0/16":   "want an IPv4 range",
		"create publickey --remote-cluster-id milan --public-key AAAA":                                      "32 bytes",
		"generate publickey --gateway-type both --gateway-name a":                                           "want server or client",
		"delete gatewayclient":                                                                              "the name of the gatewayclient",
		"peer --remote-kubecnfig x":                                                                         "unknown flag: --remote-kubecnfig (liqoctl peer --help lists the flags)\n       Did you mean --remote-kubeconfig?",
		"offload namespce a":                                                                                "Did you mean namespace?",
		"peer --proxy-url ftp://x":                                                                          "want http://host:port",
		"install --version v9":                                                                              "--local-chart-path",
		"install --repo-url x":                                                                              "--local-chart-path",
		"install nowhere":                                                                                   `unknown command "nowhere"`,
		"network explain a":                                                                                 "want two arguments",
		"network explain a b -o xml":                                                                        "want json or yaml",
		"network explain a b -f x --remote-kubeconfig y":                                                    "use one of them",
		"network explain a b -f /no/where":                                                                  "/no/where",
		"test network":                                                                                      "required flag",
		"test network -p a --np-nodes some":                                                                 "want one of all, workers, control-planes",
		"test network -p a --outside ftp://x":                                                               "want http://host",
		"test network -p a --ip --outside=":                                                                 "--ip needs a server",
		"info -o json -g clusterid":                                                                         "use one",
		"info --kubeconfig /no/where":                                                                       "/no/where",
	} {
		code, out, errOut := run(t, strings.Fields(command)...)
		if code != 1 || out != "" || !strings.HasPrefix(errOut, " ERRO  ") || !strings.Contains(errOut, want) {
			t.Errorf("%s: code %d, output %q, errors %q, want %q in them", command, code, out, errOut, want)
		}
		if strings.Contains(errOut, "Usage") {
			t.Errorf("%s prints its usage", command)
		}
	}
}

// TestConnections: an error of a kubeconfig that does not work names the kubeconfig and the cure.
func TestConnections(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	empty := file("empty", "apiVersion: v1\nkind: Config\n")
	// The port of a closed listener: connections are refused.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	dead := file("dead", `{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: a, cluster: {server: "https://`+address+`"}}],
		users: [{name: u, user: {}}], contexts: [{name: c, context: {cluster: a, user: u}}]}`)
	t.Setenv("KUBECONFIG", empty)
	for command, want := range map[string][]string{
		"info":                                  {"no kubeconfig of the local cluster", "--kubeconfig"},
		"peer --kubeconfig " + dead:             {"no kubeconfig of the remote cluster", "--remote-kubeconfig"},
		"info --kubeconfig " + dead:             {address, "Check that the cluster runs"},
		"install --kubeconfig " + dead:          {address, "Check that the cluster runs"},
		"version --kubeconfig " + dead:          {address, "Check that the cluster runs"},
		"info --context x --kubeconfig " + dead: {`context "x" does not exist`},
	} {
		code, _, errOut := run(t, strings.Fields(command)...)
		for _, part := range want {
			if code != 1 || !strings.Contains(errOut, part) {
				t.Errorf("%s: code %d, errors %q, want %q in them", command, code, errOut, part)
			}
		}
	}
}

// TestProgramName: as a plugin of kubectl, help shows what the user typed.
func TestProgramName(t *testing.T) {
	args := os.Args
	t.Cleanup(func() { os.Args = args })
	for path, want := range map[string]string{"/usr/bin/liqoctl": "liqoctl install", "/usr/bin/kubectl-liqo": "kubectl liqo install"} {
		os.Args = []string{path}
		if _, out, _ := run(t, "install", "--help"); !strings.Contains(out, "  "+want+" --cluster-id rome") || !strings.Contains(out, "Usage:\n  "+want+" ") {
			t.Errorf("%s: no %q in %s", path, want, out)
		}
	}
}

func TestVersionOfClient(t *testing.T) {
	code, out, errOut := run(t, "version", "--client")
	if code != 0 || out != "Client version: v0.0.0-dev\n" || errOut != "" {
		t.Errorf("code %d, output %q, errors %q", code, out, errOut)
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if code, out, _ := run(t, "completion", shell); code != 0 || len(out) < 1000 {
			t.Errorf("completion %s: code %d, %d bytes", shell, code, len(out))
		}
	}
}
