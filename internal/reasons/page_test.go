package reasons

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the reference page")

// TestReferenceOfReasons: the page lists every reason as it is defined.
func TestReferenceOfReasons(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "reference", "events.md")
	if *update {
		if err := os.WriteFile(path, []byte(page()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(page(), string(have)); diff != "" {
		t.Errorf("%s is not what the definitions say (go test ./internal/reasons -update writes it) (-want +have):\n%s", path, diff)
	}
}

// TestReasons: each reason is listed once, has a name that Kubernetes accepts, and has a description. Each constant is in the list.
func TestReasons(t *testing.T) {
	name := regexp.MustCompile(`^[A-Z][A-Za-z]+$`)
	listed := map[string]bool{}
	for _, area := range Areas() {
		for _, r := range area.Reasons {
			for one := range strings.SplitSeq(r.Name, ", ") {
				if listed[one] || !name.MatchString(one) {
					t.Errorf("%s is listed twice or is no CamelCase name", one)
				}
				listed[one] = true
			}
			if r.Objects == "" || r.Shown == "" || !strings.HasSuffix(r.Meaning, ".") || strings.Contains(r.Meaning, "|") {
				t.Errorf("%s lacks its objects, its place or a sentence that says what it means", r.Name)
			}
		}
	}
	source, err := os.ReadFile("reasons.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, constant := range regexp.MustCompile(`(?m)^\t(\w+) += "(\w+)"$`).FindAllStringSubmatch(string(source), -1) {
		value := constant[2]
		counted := strings.HasPrefix(constant[1], "Counted") && listed[value+"NotReady"]
		if !listed[value] && !counted {
			t.Errorf("%s is not in the list", value)
		}
	}
}

// intro is the beginning of the reference page; ' stands for a backquote.
const intro = `# Events and conditions

This page is generated from the definitions in 'internal/reasons'. It lists the reasons of the Events that Liqo emits and of the conditions that it sets.

- 'kubectl events --for KIND/NAME -n NAMESPACE' shows the Events of an object, 'kubectl describe' its conditions too.
- Reasons are stable names for scripts and alerts. Messages are for people, and change between versions.
- The column "shown in" says where a reason or its message is found. 'log' is the log of the controller manager, which shows what objects wait for with
  '--verbose' ([operations](../guide/operations.md#logs-and-what-to-send-for-support)).
- A reason that ends in 'NotFound' or begins with 'WaitingFor' is no error: the object goes on when the thing in the message exists.
`

// page returns the reference page of all reasons, in Markdown.
func page() string {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(intro, "'", "`"))
	for _, area := range Areas() {
		fmt.Fprintf(&b, "\n## %s\n\n| reason | objects | shown in | meaning |\n|---|---|---|---|\n", area.Title)
		for _, r := range area.Reasons {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", strings.ReplaceAll(r.Name, ", ", "`, `"), r.Objects, r.Shown, r.Meaning)
		}
	}
	return b.String()
}
