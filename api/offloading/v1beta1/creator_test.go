package v1beta1

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestCreatorLabel(t *testing.T) {
	names := []string{
		"rome-a1b2c3d4e5f6", "system:serviceaccount:liqo:x", "system-serviceaccount-liqo-x", "", ":", "-rome", "rome-",
		strings.Repeat("u", 63), strings.Repeat("u", 64), strings.Repeat("u", 65), "utente@città.it",
	}
	seen := map[string]string{}
	for _, user := range names {
		got := CreatorLabel(user)
		if errs := validation.IsValidLabelValue(got); len(errs) > 0 {
			t.Errorf("%q becomes %q: %v", user, got, errs)
		}
		if other, taken := seen[got]; taken {
			t.Errorf("%q and %q both become %q", other, user, got)
		}
		seen[got] = user
		if valid := user != "" && len(validation.IsValidLabelValue(user)) == 0; valid && got != user {
			t.Errorf("%q is a label value and becomes %q", user, got)
		}
	}
}
