package storage

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/api"
)

// moved returns a volume with the record of a move to milan, or from there.
func moved(from, record string) *corev1.PersistentVolume {
	out := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{
		Name: "pvc-u0", Annotations: map[string]string{annotationProvisionedBy: Provisioner, AnnotationMove: record},
	}}
	place(out, from)
	return out
}

// backingFor returns a claim in milan that was created for uid, or by somebody else if uid is empty.
func backingFor(uid types.UID, volume, mark string) *corev1.PersistentVolumeClaim {
	out := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: claimName, Namespace: "shop-rome", UID: "b1"}}
	if out.Spec.VolumeName = volume; uid == "" {
		return out
	}
	out.Labels = map[string]string{api.LabelOrigin: "rome", api.LabelDestination: "milan"}
	out.Annotations = map[string]string{AnnotationClaimUID: string(uid), AnnotationRetained: mark}
	return out
}

// TestOnlyClaimsOfAMoveAreVouchedFor: a virtual kubelet says which claim in its provider a move may write to, or read from, and what is wrong with another one. It says
// that only while a record asks for it, writes nothing twice, and leaves the conditions of others alone.
func TestOnlyClaimsOfAMoveAreVouchedFor(t *testing.T) {
	const to, live = `{"provider":"milan"}`, `{"provider":"milan","live":{"uid":"u2"}}`
	gone := func(b *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
		b.DeletionTimestamp = &metav1.Time{}
		return b
	}
	foreign := backingFor("u1", "", retainedCopy)
	foreign.Labels[api.LabelOrigin] = "turin"
	known := moved("milan", "")
	known.Name = "pvc-u1"
	old := moved("", to)
	old.Name = "pvc-old"
	for name, row := range map[string]struct {
		backing *corev1.PersistentVolumeClaim
		volumes []*corev1.PersistentVolume
		uid     types.UID // that the backing claim is vouched for
		problem string
	}{
		"no move":                        {backingFor("u1", "d", retainedCopy), []*corev1.PersistentVolume{moved("", "")}, "", ""},
		"a move elsewhere":               {backingFor("u1", "d", retainedCopy), []*corev1.PersistentVolume{moved("", `{"provider":"turin"}`)}, "", ""},
		"a broken record":                {backingFor("u1", "d", retainedCopy), []*corev1.PersistentVolume{moved("", "x")}, "", ""},
		"target, not there yet":          {nil, []*corev1.PersistentVolume{moved("", to)}, "", ""},
		"target, a name that is free":    {nil, []*corev1.PersistentVolume{old}, "", free},
		"target, a copy that ends":       {gone(backingFor("u1", "d", retainedCopy)), []*corev1.PersistentVolume{moved("", to)}, "", ""},
		"target, without a volume":       {backingFor("u1", "", retainedCopy), []*corev1.PersistentVolume{moved("", to)}, "u1", ""},
		"target, with a volume":          {backingFor("u1", "d", retainedCopy), []*corev1.PersistentVolume{moved("", to)}, "u1", ""},
		"target, of a live move":         {backingFor("u2", "d", retainedCopy), []*corev1.PersistentVolume{moved("", live)}, "u2", ""},
		"target, of the claim":           {backingFor("u1", "d", retainedCopy), []*corev1.PersistentVolume{moved("", live)}, "", "was not created by this move"},
		"target, its volume is bound":    {backingFor("u1", "d", ""), []*corev1.PersistentVolume{moved("", to), known}, "u1", ""},
		"target, forgotten":              {backingFor("u1", "d", ""), []*corev1.PersistentVolume{moved("", to)}, "", "does not know its virtual volume"},
		"target, of another peering":     {backingFor("u1", "d", ""), []*corev1.PersistentVolume{moved("", to), func() *corev1.PersistentVolume { v := known.DeepCopy(); v.Labels[LabelTenant] = "x"; return v }()}, "", "does not know its virtual volume"},
		"target, retained":               {backingFor("u1", "d", api.True), []*corev1.PersistentVolume{moved("", to)}, "", "is retained, and may have the data of an earlier claim"},
		"target, retained before":        {backingFor("earlier", "d", api.True), []*corev1.PersistentVolume{moved("", to)}, "", "is retained"},
		"target, of a user":              {backingFor("", "d", ""), []*corev1.PersistentVolume{moved("", to)}, "", "was not created by this move"},
		"target, of another consumer":    {foreign, []*corev1.PersistentVolume{moved("", to)}, "", "was not created by this move"},
		"source":                         {backingFor("u0", "d", ""), []*corev1.PersistentVolume{moved("milan", `{}`)}, "u0", ""},
		"source, gone":                   {nil, []*corev1.PersistentVolume{moved("milan", `{}`)}, "", "does not exist any more"},
		"source, of a user":              {backingFor("", "d", ""), []*corev1.PersistentVolume{moved("milan", `{}`)}, "", "is not the one with the data of PersistentVolume pvc-u0"},
		"source, of another claim":       {backingFor("u1", "d", ""), []*corev1.PersistentVolume{moved("milan", `{}`)}, "", "is not the one with the data"},
		"source, of an earlier peering":  {backingFor("u0", "d", ""), []*corev1.PersistentVolume{func() *corev1.PersistentVolume { v := moved("milan", `{}`); v.Labels[LabelTenant] = "x"; return v }()}, "", "another peering"},
		"a volume that is not of Liqo":   {backingFor("u1", "d", retainedCopy), []*corev1.PersistentVolume{{ObjectMeta: metav1.ObjectMeta{Name: "pvc-u0", Annotations: map[string]string{AnnotationMove: to}}}}, "", ""},
		"a volume without any relevance": {backingFor("u1", "d", retainedCopy), nil, "", ""},
	} {
		s := State{UID: "u1", Claim: claim("milan"), Place: there(), Backing: row.backing}
		if row.problem == free {
			s.Claim.Spec.VolumeName = old.Name
		}
		resizing := corev1.PersistentVolumeClaimCondition{Type: corev1.PersistentVolumeClaimResizing, Status: corev1.ConditionTrue}
		s.Claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{resizing}
		step := Vouch(s, row.volumes)
		if said := row.uid != "" || row.problem != ""; said != (step.Action == PatchClaimStatus) || step.Action != Nothing && !step.Confirm {
			t.Errorf("%s: %s, %s", name, step.Action, step.Why)
			continue
		}
		if step.Action == Nothing {
			continue
		}
		said, ok := step.Object.(*corev1.PersistentVolumeClaim)
		if !ok || len(said.Status.Conditions) != 2 || said.Status.Conditions[0] != resizing || len(s.Claim.Status.Conditions) != 1 {
			t.Errorf("%s: %+v", name, step)
			continue
		}
		uid, problem := Vouched(said, "milan", row.uid)
		if row.uid != "" && (uid != "b1" || problem != "") {
			t.Errorf("%s: %q, %q", name, uid, problem)
		}
		if Rejected(said, "milan") != (row.uid == "" && row.problem != free) || Rejected(said, "turin") {
			t.Errorf("%s: %+v", name, said.Status.Conditions)
		}
		if Free(said, "milan") != (row.problem == free) || Free(said, "turin") {
			t.Errorf("%s: %+v", name, said.Status.Conditions)
		}
		if row.problem != "" && row.problem != free && (uid != "" || !strings.HasPrefix(problem, "PersistentVolumeClaim data in namespace shop-rome of cluster milan ") || !strings.Contains(problem, row.problem)) {
			t.Errorf("%s: %q, %q", name, uid, problem)
		}
		for _, other := range [][2]string{{"milan", "u9"}, {"turin", string(row.uid)}} {
			if uid, _ := Vouched(said, other[0], types.UID(other[1])); uid != "" {
				t.Errorf("%s: vouched for %v", name, other)
			}
		}
		if s.Claim = said; Vouch(s, row.volumes).Action != Nothing {
			t.Errorf("%s: it is said twice", name)
		}
		step = Vouch(s, nil)
		if ended, ok := step.Object.(*corev1.PersistentVolumeClaim); !ok || len(ended.Status.Conditions) != 1 || ended.Status.Conditions[0] != resizing {
			t.Errorf("%s, after the move: %+v", name, step)
		}
		s.Place.Waiting = "the provider is unreachable"
		if step := Vouch(s, nil); step.Action != Nothing {
			t.Errorf("%s, while nothing is known: %+v", name, step)
		}
	}
	if uid, problem := Vouched(nil, "milan", "u1"); uid != "" || problem != "" {
		t.Errorf("no claim: %q, %q", uid, problem)
	}
}

// TestAProviderMayDenyTheClaimOfAMove: while the claim has its old volume, the claim that a move needs in the provider is tried there, with the size of the old
// volume. The virtual kubelet reports that the provider denies it, and that it does so no longer.
func TestAProviderMayDenyTheClaimOfAMove(t *testing.T) {
	const record = `{"provider":"milan","node":"milan","capacity":"9Gi"}`
	state := func(volume string) State {
		s := State{UID: "u1", Claim: claim("milan"), Place: there()}
		s.Claim.Spec.VolumeName = volume
		return s
	}
	volumes := []*corev1.PersistentVolume{moved("", record)}
	trial := Trial(state("pvc-u0"), volumes)
	if trial == nil {
		t.Fatal("no trial")
	}
	if size := trial.Spec.Resources.Requests[corev1.ResourceStorage]; trial.Name != claimName || trial.Namespace != "shop-rome" || size.String() != "9Gi" || *trial.Spec.StorageClassName != "disk" {
		t.Errorf("%+v", trial)
	}
	replaced, existing, unreachable := state(""), state("pvc-u0"), state("pvc-u0")
	existing.Backing, unreachable.Place.Waiting = backingFor("", "", ""), "the provider is unreachable"
	for name, row := range map[string]struct {
		state   State
		volumes []*corev1.PersistentVolume
	}{
		"no move":                {state("pvc-u0"), []*corev1.PersistentVolume{moved("", "")}},
		"a move elsewhere":       {state("pvc-u0"), []*corev1.PersistentVolume{moved("", `{"provider":"turin"}`)}},
		"a move from there":      {state("pvc-u0"), []*corev1.PersistentVolume{moved("milan", record)}},
		"another volume":         {state("pvc-u9"), volumes},
		"a claim that waits":     {replaced, volumes},
		"a claim there":          {existing, volumes},
		"an unreachable cluster": {unreachable, volumes},
		"no claim":               {State{Place: there()}, volumes},
	} {
		if got := Trial(row.state, row.volumes); got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	s := state("pvc-u0")
	s.Denied = "exceeded quota: full"
	said, ok := Vouch(s, volumes).Object.(*corev1.PersistentVolumeClaim)
	if !ok || Denied(said, "milan") != s.Denied || Denied(said, "turin") != "" || Free(said, "milan") || !Rejected(said, "milan") {
		t.Fatalf("%+v", said)
	}
	if s.Claim = said; Vouch(s, volumes).Action != Nothing {
		t.Error("it is said twice")
	}
	if !Asked(said, "milan") || Asked(said, "turin") {
		t.Error("the provider may permit it at any time")
	}
	s.Denied = ""
	if said, ok := Vouch(s, volumes).Object.(*corev1.PersistentVolumeClaim); !ok || Denied(said, "milan") != "" || !Free(said, "milan") || !Asked(said, "milan") {
		t.Errorf("%+v", said)
	}
}

// TestADenialIsNotWrittenForItsNumbers: a provider that is asked again answers with what is used just now, or with the name of the request. The condition is written
// again only if it denies for another reason.
func TestADenialIsNotWrittenForItsNumbers(t *testing.T) {
	const first = `exceeded quota: full, requested: requests.storage=9Gi, used: requests.storage=2Gi, limited: requests.storage=10Gi (request 7f3a-b2)`
	s := State{UID: "u1", Claim: claim("milan"), Place: there(), Denied: first}
	s.Claim.Spec.VolumeName = "pvc-u0"
	volumes := []*corev1.PersistentVolume{moved("", `{"provider":"milan","node":"milan","capacity":"9Gi"}`)}
	said, ok := Vouch(s, volumes).Object.(*corev1.PersistentVolumeClaim)
	if !ok {
		t.Fatal("nothing is reported")
	}
	s.Claim = said
	for answer, written := range map[string]bool{
		first: false,
		`exceeded quota: full, requested: requests.storage=9Gi, used: requests.storage=500Mi, limited: requests.storage=10Gi (request 1-c0)`:   false,
		`exceeded quota: other, requested: requests.storage=9Gi, used: requests.storage=2Gi, limited: requests.storage=10Gi (request 7f3a-b2)`: true,
		`admission webhook "x" denied the request`: true,
		``: true,
	} {
		if s.Denied = answer; (Vouch(s, volumes).Action == PatchClaimStatus) != written {
			t.Errorf("%q is written: %t", answer, !written)
		}
	}
}
