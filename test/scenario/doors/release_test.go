package doors

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/peering/invite"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

const (
	// releaseBudget is the limit for the story about a release, including the builds and the creation of the clusters.
	releaseBudget = 6 * time.Minute
	// released is the version of the release; without the v it is the version of its chart.
	released = "v0.0.1-story.1"
	// registry is the registry from which the nodes pull the images. containerd uses HTTP for registries on the node itself.
	registry = "localhost:5000/liqo"
)

// TestRelease runs its story on clusters whose nodes have no image of the release.
func TestRelease(t *testing.T) {
	r := &release{dist: filepath.Join(t.TempDir(), "dist")}
	w := story.New(t, story.Plan{
		Budget: releaseBudget, Prefix: "release-", Pair: true, Strangers: true,
		Install:   map[string][]string{"rome": {"--set", "registry=" + registry}},
		Otherwise: map[string]func(context.Context, *playground.Cluster) error{"milan": r.installByHelm},
	})
	r.world = w
	w.TellBefore(t, "make", func(s *story.Story) { r.make(t, s) })
	w.Tell(t, "release", r.use)
}

// release is a release, installed only from its own files.
type release struct {
	world *story.World
	// dist is the folder of the release.
	dist string
	// proxy is the digest of the image proxy.
	proxy string
}

// make builds the release for this machine and pushes it to a registry in each node. After that, liqoctl is the one of the release.
func (r *release) make(t *testing.T, s *story.Story) {
	checkout := s.Root
	program := filepath.Join(checkout, "bin", "release", "release")
	s.Step("build it for this machine", func() {
		build := exec.CommandContext(s.Context(), program, "build", "--repository", checkout, "--dist", r.dist, "--work", filepath.Join(checkout, "bin", "release"),
			"--version", released, "--snapshot", "--platforms", "linux/amd64", "--registry", registry, "--downloads", "https://example.org/"+released)
		s.Must(output(build, nil))
	})
	s.Step("another copy of the sources, elsewhere, gives the same bytes", func() { r.again(t, s) })
	s.Step("push it to a registry in each node", func() {
		for _, c := range s.Clusters() {
			node, err := playground.InNode(c.Node())
			s.Must(err)
			server := node.Command(t.Context(), filepath.Join(checkout, "bin", "registry"), "-port", "5000")
			s.Must(server.Start())
			t.Cleanup(func() { _ = server.Wait() }) // the process is killed when the context of the test ends
			s.Eventually(soon, "the registry of "+c.ID, func(ctx context.Context) error {
				connection, err := node.Dial(ctx, "tcp4", "127.0.0.1:5000")
				if err != nil {
					return err
				}
				return connection.Close()
			})
			var digests string
			s.Must(output(node.Command(s.Context(), program, "push", "--dist", r.dist, "--registry", registry), &digests))
			if found := regexp.MustCompile(registry + `/proxy:\S+@(sha256:[0-9a-f]{64})`).FindStringSubmatch(digests); found != nil {
				r.proxy = found[1]
			}
		}
	})
	s.Step("unpack liqoctl, and forget the checkout", func() {
		bin := filepath.Join(r.dist, "bin")
		s.Must(os.Mkdir(bin, 0o755)) //nolint:gosec // as an administrator would
		s.Must(output(exec.CommandContext(s.Context(), "tar", "-xzf", filepath.Join(r.dist, "liqoctl-linux-amd64.tar.gz"), "-C", bin, "liqoctl"), nil))
		for _, tool := range []string{"kubectl", "playground", "helm"} {
			s.Must(os.Symlink(filepath.Join(checkout, "bin", tool), filepath.Join(bin, tool)))
		}
		r.world.Root = r.dist
		t.Chdir(r.dist)
	})
	s.Step("the chart server has the chart of the registry", func() {
		server := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(r.dist, "chart"))))
		t.Cleanup(server.Close)
		for _, folder := range []string{"from-server", "from-registry"} {
			s.Must(os.Mkdir(folder, 0o755)) //nolint:gosec // as an administrator would
		}
		charts := shell(s, s.Rome, r.helm("repo add liqo "+server.URL+" >&2")+" && "+r.helm("pull liqo/liqo --version "+released[1:]+" --destination from-server >&2")+" && cat from-server/liqo-*.tgz | sha256sum")
		node, err := playground.InNode(s.Milan.Node())
		s.Must(err)
		s.Must(output(node.Command(s.Context(), "sh", "-c", r.helm("pull oci://"+registry+"/charts/liqo --plain-http --version "+released[1:]+" --destination from-registry")), nil))
		if pulled := shell(s, s.Rome, "cat from-registry/liqo-*.tgz | sha256sum"); pulled != charts {
			s.Errorf("the chart of the registry is %s, that of the chart server %s", pulled, charts)
		}
	})
}

// again runs make release in a copy of the sources, to check that the build is reproducible. It uses another home, time zone and umask. Only the caches of Go
// are shared, so that nothing is downloaded and compiled packages are reused.
func (r *release) again(t *testing.T, s *story.Story) {
	copied := filepath.Join(t.TempDir(), "some", "where", "else")
	s.Must(os.MkdirAll(copied, 0o700))
	typed := exec.CommandContext(s.Context(), "bash", "-euo", "pipefail", "-c", `
		unset MAKEFLAGS MFLAGS MAKELEVEL
		export GOCACHE=$(go env GOCACHE) GOMODCACHE=$(go env GOMODCACHE) GIT_OPTIONAL_LOCKS=0
		git ls-files -coz --exclude-standard | tar -c --null --ignore-failed-read -T - | tar -x -C "$1"
		echo "gitdir: $(git rev-parse --absolute-git-dir)" >"$1/.git"
		cd "$1" && mkdir home && umask 077 && export HOME=$1/home TZ=Asia/Kathmandu LC_ALL=C
		make release VERSION="$2" SNAPSHOT=1 PLATFORMS=linux/amd64 REGISTRY="$3" DOWNLOADS=https://example.org/"$2"`, "bash", copied, released, registry)
	typed.Dir = s.Root
	s.Must(output(typed, nil))
	first, err := os.ReadFile(filepath.Join(r.dist, "SHA256SUMS"))
	s.Must(err)
	second, err := os.ReadFile(filepath.Join(copied, "dist", "SHA256SUMS"))
	s.Must(err)
	if diff := cmp.Diff(strings.Split(string(first), "\n"), strings.Split(string(second), "\n")); diff != "" {
		s.Errorf("the two releases differ (-first +second):\n%s", diff)
	}
}

// helm returns a command line of Helm that stores its files in the folder of the release.
func (r *release) helm(line string) string {
	at := filepath.Join(r.dist, "helm")
	return fmt.Sprintf("HELM_CACHE_HOME=%[1]s HELM_CONFIG_HOME=%[1]s HELM_DATA_HOME=%[1]s %[2]s %[3]s", at, filepath.Join(r.dist, "bin", "helm"), line)
}

// installByHelm installs milan with the chart of the registry. The nodes pull one of the images by its digest.
func (r *release) installByHelm(ctx context.Context, milan *playground.Cluster) error {
	if _, err := r.world.Liqoctl(ctx, "install", "--kubeconfig", milan.Kubeconfig, "--cluster-id", milan.ID, "--set", "registry="+registry,
		"--only-output-values", "--dump-values-path", "values.yaml"); err != nil {
		return err
	}
	node, err := playground.InNode(milan.Node())
	if err != nil {
		return err
	}
	// Only the node reaches its registry. On the node, the API server has another port than on this machine.
	return output(node.Command(ctx, "sh", "-c", r.helm("install liqo oci://"+registry+"/charts/liqo --plain-http --version "+released[1:]+
		" --kubeconfig "+milan.Kubeconfig+" --kube-apiserver https://127.0.0.1:6443 --namespace liqo --create-namespace"+
		" --set registry="+registry+" --values values.yaml --set proxy.image.version="+r.proxy+" --wait --timeout 2m")), nil)
}

// use: rome was installed by liqoctl of the release, milan by Helm. Both run the images of the registry, and can be peered.
func (r *release) use(s *story.Story) {
	rome, milan := s.Rome, s.Milan
	s.Step("all pods run images that the nodes pulled", func() {
		for _, c := range s.Clusters() {
			for _, pod := range s.Pods(c, api.Namespace) {
				r.pulled(s, c, pod)
			}
			if said := shell(s, c, "liqoctl version"); strings.Count(said, released) != 2 {
				s.Errorf("liqoctl version in %s does not say twice that it is %s: %s", c.ID, released, said)
			}
		}
	})
	s.Step("rome uses milan", func() { shell(s, rome, shell(s, milan, "liqoctl generate peer-command --only-command")) })
	g := inviteGuests(s, rome, milan)
	g.talk()
	g.leave()
	s.Step("the network test pulls its servers from the registry", func() {
		shell(s, rome, "liqoctl test network --remote-kubeconfigs "+milan.Kubeconfig+" --outside= --rm")
	})
	s.Step("rome leaves", func() {
		shell(s, rome, "liqoctl unpeer milan --delete-namespaces --skip-confirm")
		strangers(s, rome, milan)
	})
	s.Others("secrets " + api.Namespace + "/" + invite.KeySecret)
}

// pulled checks that the containers of a pod run images of the release, and that milan's pod refers to the image proxy by its digest.
func (r *release) pulled(s *story.Story, c *playground.Cluster, pod corev1.Pod) {
	s.Helper()
	for _, container := range pod.Spec.Containers {
		name, version, _ := strings.Cut(strings.TrimPrefix(container.Image, registry+"/"), ":")
		byDigest := c == s.Milan && strings.HasPrefix(name, "proxy")
		if !strings.HasPrefix(container.Image, registry+"/") || !byDigest && version != released || byDigest && !strings.HasSuffix(container.Image, "@"+r.proxy) {
			s.Errorf("%s: container %s of pod %s has image %s", c.ID, container.Name, pod.Name, container.Image)
		}
	}
	if key := client.ObjectKeyFromObject(&pod); !story.Ready(pod) {
		s.Errorf("%s: pod %s isn't ready", c.ID, key)
	}
}

// output runs a command and stores its stdout. The error contains all of its output.
func output(cmd *exec.Cmd, out *string) error {
	var all, stdout strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &all
	err := cmd.Run()
	if out != nil {
		*out = stdout.String()
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s%s", strings.Join(cmd.Args, " "), err, stdout.String(), all.String())
	}
	return nil
}
