package dashboard

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"liqo.io/liqo/internal/doctor"
)

// TestMergeFindings: each finding once, the worst first, consequences under their cause, and none is lost.
func TestMergeFindings(t *testing.T) {
	finding := func(evidence string, level doctor.Level, consequences ...doctor.Finding) doctor.Finding {
		return doctor.Finding{Cluster: "rome", Check: "x", Evidence: evidence, Level: level, Consequences: consequences}
	}
	fail, warn, ok := doctor.Fail, doctor.Warn, doctor.OK
	for name, row := range map[string]struct{ runs, want [][]doctor.Finding }{
		"each once": {
			runs: [][]doctor.Finding{{finding("a", fail), finding("b", ok)}, {finding("a", fail), finding("c", warn), finding("b", ok)}},
			want: [][]doctor.Finding{{finding("a", fail), finding("c", warn), finding("b", ok)}},
		},
		"a consequence in one diagnosis only": {
			runs: [][]doctor.Finding{{finding("a", fail)}, {finding("cause", fail, finding("a", fail))}},
			want: [][]doctor.Finding{{finding("cause", fail, finding("a", fail))}},
		},
		"a cause with consequences that is a consequence itself": {
			runs: [][]doctor.Finding{{finding("a", fail, finding("b", warn))}, {finding("cause", fail, finding("a", fail))}},
			want: [][]doctor.Finding{{finding("cause", fail, finding("b", warn), finding("a", fail))}},
		},
		"consequences of one cause in two diagnoses": {
			runs: [][]doctor.Finding{{finding("a", warn, finding("b", warn))}, {finding("a", fail, finding("c", fail), finding("b", warn))}},
			want: [][]doctor.Finding{{finding("a", fail, finding("b", warn), finding("c", fail))}},
		},
		"nothing": {want: [][]doctor.Finding{nil}},
	} {
		got := MergeFindings(row.runs...)
		if diff := cmp.Diff(describe(row.want[0]), describe(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// describe returns findings as text, with their consequences in brackets.
func describe(findings []doctor.Finding) string {
	var out []string
	for _, f := range findings {
		text := fmt.Sprintf("%s %s", f.Evidence, f.Level)
		if len(f.Consequences) > 0 {
			text += "[" + describe(f.Consequences) + "]"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}
