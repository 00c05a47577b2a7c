package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/offload/kinds/podrules"
	"liqo.io/liqo/internal/peering"
)

// TestGuidesUseExistingCommands: every call of liqoctl in the guides and in the README has an existing command and existing flags.
func TestGuidesUseExistingCommands(t *testing.T) {
	guides, err := filepath.Glob(filepath.Join("..", "..", "docs", "guide", "*.md"))
	runbooks, failed := filepath.Glob(filepath.Join("..", "..", "docs", "guide", "runbooks", "*.md"))
	if err != nil || failed != nil || len(guides) == 0 || len(runbooks) == 0 {
		t.Fatalf("there are %d guides and %d runbooks: %v", len(guides), len(runbooks), errors.Join(err, failed))
	}
	guides = append(guides, runbooks...)
	guides = append(guides, filepath.Join("..", "..", "README.md"))
	for _, guide := range guides {
		text, err := os.ReadFile(guide)
		if err != nil {
			t.Fatal(err)
		}
		shell := false
		for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
			if language, fence := strings.CutPrefix(line, "```"); fence {
				shell = strings.TrimSpace(language) == "bash"
			}
			line, _, _ = strings.Cut(line, " #")
			call, is := strings.CutPrefix(strings.TrimSpace(line), "liqoctl ")
			if remote, through := strings.CutPrefix(strings.TrimSpace(line), "ssh "); through {
				var options string
				if options, call, is = strings.Cut(remote, " liqoctl "); is && !slices.Contains(strings.Fields(options), "-t") {
					t.Errorf("%s: %s: without -t, Ctrl-C ends ssh only, and liqoctl goes on on the other machine", filepath.Base(guide), line)
				}
			}
			if !shell || !is {
				continue
			}
			call, _, _ = strings.Cut(call, " | ")
			// No registry has the images yet, so an installation as the README shows it names the user's own.
			if filepath.Base(guide) == "README.md" && strings.HasPrefix(call, "install ") && !strings.Contains(call, "--values") && !strings.Contains(call, "--set registry=") {
				t.Errorf("README.md: liqoctl %s: its images can't be pulled without --set registry=", call)
			}
			command, rest, err := newRoot(session.New(genericiooptions.NewTestIOStreamsDiscard())).Find(strings.Fields(call))
			if err == nil {
				err = command.ParseFlags(rest)
			}
			if err != nil {
				t.Errorf("%s: liqoctl %s: %v", filepath.Base(guide), call, err)
			}
		}
	}
}

// TestStatefulGuideHasValidManifests: the manifests of the page have fields that exist, the StorageClass of Liqo, and the toleration of virtual
// nodes.
func TestStatefulGuideHasValidManifests(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "guide", "stateful-applications.md"))
	if err != nil {
		t.Fatal(err)
	}
	var classes, tolerated []string
	found := map[string]int{}
	for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		for _, manifest := range bytes.Split([]byte(block), []byte("\n---\n")) {
			var kind metav1.TypeMeta
			if err := yaml.Unmarshal(manifest, &kind); err != nil {
				t.Fatalf("%v in %s", err, manifest)
			}
			found[kind.Kind]++
			service, set, pod := &corev1.Service{}, &appsv1.StatefulSet{}, &corev1.Pod{}
			object := map[string]any{"Service": service, "StatefulSet": set, "Pod": pod}[kind.Kind]
			if err := yaml.UnmarshalStrict(manifest, object); err != nil {
				t.Errorf("%s: %v", kind.Kind, err)
			}
			for i := range set.Spec.VolumeClaimTemplates {
				classes = append(classes, *set.Spec.VolumeClaimTemplates[i].Spec.StorageClassName)
			}
			for i := range pod.Spec.Tolerations {
				tolerated = append(tolerated, pod.Spec.Tolerations[i].Key)
			}
		}
	}
	if len(found) != 3 || strings.Join(classes, " ") != podrules.StorageClass || strings.Join(tolerated, " ") != api.TaintVirtualNode {
		t.Errorf("kinds %v, classes %v, tolerations %v", found, classes, tolerated)
	}
}

// manifests matches the blocks of a guide with manifests, and what a block of commands passes to kubectl apply.
var manifests = regexp.MustCompile("(?ms)^ *```yaml\n(.*?)^ *```$|<<'?EOF'?\n(.*?)^EOF$")

// TestGuidesHaveValidManifests: every object of a known kind in the guides has fields that exist, with values of their types.
func TestGuidesHaveValidManifests(t *testing.T) {
	guides, err := filepath.Glob(filepath.Join("..", "..", "docs", "guide", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	scheme, found := session.Scheme(), map[string]int{}
	for _, guide := range guides {
		text, err := os.ReadFile(guide)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range manifests.FindAllStringSubmatch(string(text), -1) {
			for _, manifest := range strings.Split(block[1]+block[2], "\n---\n") {
				manifest = strings.ReplaceAll(manifest, "LS0tLS1CRUdJTi...", "LS0tLS1CRUdJTg==") // an abbreviated certificate
				if !strings.Contains("\n"+manifest, "\napiVersion: ") {
					continue // values of the chart, or a part of another file
				}
				var kind metav1.TypeMeta
				if err := yaml.Unmarshal([]byte(manifest), &kind); err != nil {
					t.Errorf("%s: %v in\n%s", filepath.Base(guide), err, manifest)
					continue
				}
				object, err := scheme.New(kind.GroupVersionKind())
				if err != nil {
					if strings.HasSuffix(kind.GroupVersionKind().Group, "liqo.io") {
						t.Errorf("%s: %v", filepath.Base(guide), err)
					}
					continue // a kind of others
				}
				found[kind.Kind]++
				if err := yaml.UnmarshalStrict([]byte(manifest), object); err != nil {
					t.Errorf("%s: %s: %v", filepath.Base(guide), kind.Kind, err)
				}
			}
		}
	}
	for _, kind := range []string{"VirtualNode", "VkOptionsTemplate", "DaemonSet", "ResourceOffer", "Tenant"} {
		if found[kind] == 0 {
			t.Errorf("no %s was found, but %v", kind, found)
		}
	}
}

// TestGuideToVirtualNodesNamesAllFields: the page has each field of a VirtualNode, of its offloading patch and of a VkOptionsTemplate that a user can set, and no
// other one. Its patch of a VirtualNode has fields that exist.
func TestGuideToVirtualNodesNamesAllFields(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "guide", "virtual-nodes.md"))
	if err != nil {
		t.Fatal(err)
	}
	for header, fields := range map[string]struct {
		of      any
		reports []string // what controllers fill in for the virtual kubelet
	}{
		"| field of `spec` | what it does |":                    {offloadingv1beta1.VirtualNodeSpec{}, []string{"interruptedNodes"}},
		"| field of `spec.offloadingPatch` |":                   {offloadingv1beta1.OffloadingPatch{}, nil},
		"| field of `spec` | value of the chart | what it is |": {offloadingv1beta1.VkOptionsTemplateSpec{}, nil},
	} {
		_, table, has := strings.Cut(string(text), header)
		table, _, _ = strings.Cut(table, "\n\n")
		if !has {
			t.Fatalf("the page has no table %s", header)
		}
		var named, want []string
		for line := range strings.Lines(table) {
			if cells := strings.Split(line, "|"); len(cells) > 2 {
				for _, field := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1) {
					field, _, _ := strings.Cut(field[1], ".")
					named = append(named, field)
				}
			}
		}
		for _, field := range reflect.VisibleFields(reflect.TypeOf(fields.of)) {
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); !slices.Contains(fields.reports, name) {
				want = append(want, name)
			}
		}
		slices.Sort(named)
		slices.Sort(want)
		if diff := cmp.Diff(want, named); diff != "" {
			t.Errorf("%s: %s", header, diff)
		}
	}
	_, patch, has := strings.Cut(string(text), "```yaml\n# fast.yaml\n")
	patch, _, _ = strings.Cut(patch, "```")
	if node := (&offloadingv1beta1.VirtualNode{}); !has || yaml.UnmarshalStrict([]byte(patch), node) != nil || len(node.Spec.Taints) != 1 {
		t.Errorf("the patch of the page is %q", patch)
	}
}

// TestGuideToAccessKeysOfAWS: the Identity of the page is one that this version takes.
func TestGuideToAccessKeysOfAWS(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "guide", "installation.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(text), "```yaml\napiVersion: authentication.liqo.io/v1beta1\n")
	block, _, closed := strings.Cut(block, "```")
	if !found || !closed {
		t.Fatal("the page has no Identity")
	}
	identity := &authv1beta1.Identity{}
	block = strings.Replace(block, "LS0tLS1CRUdJTi...", "LS0tLS1CRUdJTg==", 1)
	if err := yaml.UnmarshalStrict([]byte("apiVersion: authentication.liqo.io/v1beta1\n"+block), identity); err != nil {
		t.Fatal(err)
	}
	if _, err := peering.Kubeconfig(identity, nil); err != nil || identity.Spec.AuthParams.AwsConfig == nil || identity.Name != peering.ControlPlaneIdentityName("milan") {
		t.Errorf("Identity %s: %v", identity.Name, err)
	}
}
