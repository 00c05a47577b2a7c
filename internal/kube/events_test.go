package kube

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
)

// notes records the notes of Events.
type notes struct {
	events.EventRecorder
	all []string
}

func (n *notes) Eventf(_, _ runtime.Object, _, _, _, note string, args ...any) {
	n.all = append(n.all, fmt.Sprintf(note, args...))
}

func TestNotesFitTheLimitOfTheAPIServer(t *testing.T) {
	taken := &notes{}
	for _, refusal := range []string{"short, 100 % of it", strings.Repeat("ä", noteLimit)} {
		recorder{taken}.Eventf(nil, nil, "", "", "", "changing the pod: %s", refusal)
	}
	if taken.all[0] != "changing the pod: short, 100 % of it" {
		t.Errorf("%q", taken.all[0])
	}
	if long := taken.all[1]; len(long) > noteLimit || len(long) < noteLimit-5 || !utf8.ValidString(long) || !strings.HasSuffix(long, "ä...") {
		t.Errorf("%d bytes: %q", len(long), long)
	}
}
