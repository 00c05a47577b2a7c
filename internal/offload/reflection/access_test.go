package reflection

import (
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"liqo.io/liqo/internal/remote"
)

// TestARefusedNamespaceThatIsNoLongerMapped: at the end of a drain, the refused namespace may disappear from the NamespaceMap first. Then the engine
// calls AccessChanged, and RefusedSince returns the zero time.
func TestARefusedNamespaceThatIsNoLongerMapped(t *testing.T) {
	health := &fixed{remote.State{Known: true, Up: true}}
	e, m := newListing(health)
	list(t, e.kinds[0].local)
	list(t, e.nsmap, m)
	at := e.newWatchedNamespace("shop", "shop-rome")
	at.copied, at.cancel = true, func() {}
	e.namespaces["shop"] = at
	var refused []bool // the result of RefusedSince at each call
	e.opts.AccessChanged = func() { refused = append(refused, !e.RefusedSince().IsZero()) }

	e.settle(t.Context()) // all namespaces stay watched
	if len(refused) != 0 {
		t.Errorf("access changed without a reason: %v", refused)
	}
	_ = at.stores[e.kinds[0]][0].heed(apierrors.NewForbidden(schema.GroupResource{Resource: "shadowpods"}, "", nil))
	m.Status.CurrentMapping, m.ResourceVersion = nil, "2"
	list(t, e.nsmap, m)
	e.settle(t.Context())
	if !slices.Equal(refused, []bool{true, false}) {
		t.Errorf("access is refused: %v, want it to be, and then not to be any more", refused)
	}
}
