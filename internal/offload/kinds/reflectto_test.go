package kinds

import (
	"testing"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// TestReflectTo: an object with the annotation reaches exactly the clusters that it lists.
func TestReflectTo(t *testing.T) {
	to := func(clusters string) map[string]string { return map[string]string{api.AnnotationReflectTo: clusters} }
	skipped := to("milan")
	skipped[AnnotationSkip] = ""
	allowed := to("naples")
	allowed[AnnotationAllow] = ""
	for name, test := range map[string]struct {
		annotations map[string]string
		of          offloadingv1beta1.ReflectionType
		reflected   bool
	}{
		"the cluster alone":             {to("milan"), offloadingv1beta1.DenyList, true},
		"the cluster among others":      {to("naples, milan"), "", true},
		"another cluster":               {to("naples"), offloadingv1beta1.DenyList, false},
		"a longer name":                 {to("milan2,north-milan"), offloadingv1beta1.DenyList, false},
		"no cluster":                    {to(""), offloadingv1beta1.DenyList, false},
		"only annotated objects":        {to("milan"), offloadingv1beta1.AllowList, true},
		"allowed, and another cluster":  {allowed, offloadingv1beta1.AllowList, false},
		"skipped, although it is named": {skipped, offloadingv1beta1.DenyList, false},
	} {
		if why := Kept(test.annotations, CopyOptions{Origin: "rome", Destination: "milan", Type: test.of}); (why == "") != test.reflected {
			t.Errorf("%s: %q", name, why)
		}
	}
}
