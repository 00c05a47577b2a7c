package tutorial

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const readme = "# Title\n\nText.\n\n```bash\nexport A=1\n```\n\n## Look\n\n```bash\nkubectl get pods \\\n  -A\n```\nIt shows:\n```text\nNAME\n```\n" +
	"```bash\nkubectl run x --rm -i -- sh\n```\n```sh\nls\n```\n```json\n{}\n```\n```bash background\nsleep 1\n```\n```bash\nkubectl get x\n```\n```text\nError: no\n```\n"

func TestParse(t *testing.T) {
	got, err := Parse(readme)
	if err != nil {
		t.Fatal(err)
	}
	want := []Step{
		{Section: "Title", Line: 5, Commands: "export A=1\n"},
		{Section: "Look", Line: 11, Commands: "kubectl get pods \\\n  -A\n", Shows: "NAME\n"},
		{Section: "Look", Line: 19, Commands: "kubectl run x --rm -i -- sh\n", Typed: "ls\n", Shows: "{}\n"},
		{Section: "Look", Line: 28, Commands: "sleep 1\n", Background: true},
		{Section: "Look", Line: 31, Commands: "kubectl get x\n", Shows: "Error: no\n"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for i, again := range []bool{false, true, true, false, true} {
		if got[i].again() != again || got[i].fails() != (i == 4) {
			t.Errorf("step %d: again %t, fails %t", i, got[i].again(), got[i].fails())
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"```text\nx\n```", "```bash\nx", "```bash\nx\n```\n```go\nx\n```", "```bash\nx\n```\n```text\nx\n```\n```text\ny\n```"} {
		if steps, err := Parse(text); err == nil || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%q: %v, %v", text, steps, err)
		}
	}
}

func TestMatch(t *testing.T) {
	for _, test := range []struct {
		name, shown, got string
		same             bool
	}{
		{"the same", "a b\n", "a b\n", true},
		{"spaces", "NAME   READY\nx  1/1\n", "NAME READY\nx           1/1\n", true},
		{"another word", "x 1/1\n", "x 0/1\n", false},
		{"a line more", "x\n", "x\ny\n", false},
		{"a line less", "x\ny\n", "x\n", false},
		{"a pod", "web-58d8ff79c9-xf6pz 1/1 Running 0 10s 10.200.1.11 rome-2 <none>", "web-777fb9fc8-bbt4d 1/1 Running 0 2m3s 10.71.0.4 rome-2 <none>", true},
		{"on another node", "web 10s 10.200.1.11 rome-2", "web 10s 10.200.1.11 milan", false},
		{"without an address", "web 10.200.1.11 rome-2", "web <none> rome-2", false},
		{"addresses and ports", "10.200.1.11:80,10.202.1.10:80", "10.0.0.1:80,10.0.0.22:80", true},
		{"other ports", "10.200.1.11:80", "10.200.1.11:81", false},
		{"node ports", "80:30123/TCP", "80:31999/TCP", true},
		{"ages in an event", "51s (x2 over 51s)", "1m (x2 over 2m5s)", true},
		{"times", `"2023-01-30T09:50:05Z"`, `"2026-11-20T13:00:00Z"`, true},
		{"versions", "v1.25.0", "v1.35.4", true},
		{"left out", "a\n...\nd\n", "a\nb\nc\nd\n", true},
		{"nothing left out", "a\n...\nd\n", "a\nd\n", true},
		{"left out, but not the end", "...\nd\n", "a\nd\ne\n", false},
		{"left out of a word", "a ...,x=1,...", "a b=2,x=1,c=3", true},
		{"not in the word", "a ...,x=1,...", "a b=2,x=2,c=3", false},
		{"on another node of the cluster", "web rome-2", "web rome-1", true},
		{"pods of DaemonSets", "liqo-fabric-8x4jz 1/1", "liqo-fabric-j74fw 1/1", true},
		{"words are not made up", "nginx-local", "nginx-other", false},
		{"a short hash", "email-d9d5cc4-tl548", "email-6489687666-586bc", true},
		{"about terminals", "x\n", "Unable to use a TTY - input is not a terminal\nx\n", true},
		{"no expression", "(x+)\n", "(xx)\n", false},
	} {
		if err := Match(test.shown, test.got); (err == nil) != test.same {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

func TestShell(t *testing.T) {
	s := NewShell(t, t.TempDir(), "B=2")
	for _, step := range []Step{
		{Commands: "A=1\ncd /\nwatch true\n"},
		{Commands: "echo $A $B; pwd\n", Shows: "1 2\n/\n"},
		{Commands: "sh\n", Typed: "echo ty''ped\n", Shows: "...\ntyped\n...\n"},
		{Commands: "read answer\necho $answer\n", Shows: "y\n"},
		{Commands: "echo Error: no; false\n", Shows: "Error: no\n"},
		{Commands: "sleep 1000\n", Background: true},
		{Commands: "cat <<END\ntext\nEND\n", Shows: "text\n"},
	} {
		s.Do(step)
	}
}
