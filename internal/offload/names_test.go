package offload

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

func TestRemoteNamespace(t *testing.T) {
	long := strings.Repeat("a", 50)
	for name, c := range map[string]struct {
		spec            offloadingv1beta1.NamespaceOffloadingSpec
		local, consumer string
		want            string
	}{
		"default":            {offloadingv1beta1.NamespaceOffloadingSpec{NamespaceMappingStrategy: offloadingv1beta1.DefaultName}, "demo", "rome", "demo-rome"},
		"unset is default":   {offloadingv1beta1.NamespaceOffloadingSpec{}, "demo", "rome", "demo-rome"},
		"same":               {offloadingv1beta1.NamespaceOffloadingSpec{NamespaceMappingStrategy: offloadingv1beta1.EnforceSameName}, "demo", "rome", "demo"},
		"selected":           {offloadingv1beta1.NamespaceOffloadingSpec{NamespaceMappingStrategy: offloadingv1beta1.SelectedName, RemoteNamespaceName: "other"}, "demo", "rome", "other"},
		"63 is not too long": {offloadingv1beta1.NamespaceOffloadingSpec{}, long, strings.Repeat("b", 12), long + "-" + strings.Repeat("b", 12)},
		"64 is":              {offloadingv1beta1.NamespaceOffloadingSpec{}, long, strings.Repeat("b", 13), long + "-bbb-e86cfa48"},
		"no double hyphen":   {offloadingv1beta1.NamespaceOffloadingSpec{}, long + "xyz", strings.Repeat("b", 13), long + "xyz-d290294c"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := RemoteNamespace(&c.spec, c.local, c.consumer); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestLongNamesAreUniqueAndValid(t *testing.T) {
	seen := map[string]string{}
	for _, local := range []string{"a", strings.Repeat("a", 62), strings.Repeat("a", 63), strings.Repeat("a-", 31) + "a", strings.Repeat("a", 61) + "-b"} {
		for _, consumer := range []string{"rome", "rome-2", strings.Repeat("r", 63), strings.Repeat("r", 62) + "s"} {
			whole := local + "-" + consumer
			got := RemoteNamespace(&offloadingv1beta1.NamespaceOffloadingSpec{}, local, consumer)
			if errs := validation.IsDNS1123Label(got); len(errs) > 0 {
				t.Errorf("%s of %s is no namespace name: %v", got, whole, errs)
			}
			if other, taken := seen[got]; taken && other != whole {
				t.Errorf("%s and %s both become %s", other, whole, got)
			}
			seen[got] = whole
		}
	}
}

// TestChosenNames: a provider decides which names consumers may choose. Names that end in the cluster ID of their consumer do not count as chosen.
func TestChosenNames(t *testing.T) {
	long := strings.Repeat("a", 60)
	cut := RemoteNamespace(&offloadingv1beta1.NamespaceOffloadingSpec{}, long, "rome")
	for name, row := range map[string]struct {
		chosen, refused []string
		pair            NamespacePair
		refuses         bool
	}{
		"the default name":                {nil, nil, NamespacePair{Local: "web", Remote: "web-rome"}, false},
		"the default name, too long":      {nil, nil, NamespacePair{Local: long, Remote: cut}, false},
		"the default name of another":     {nil, nil, NamespacePair{Local: "web", Remote: "web-naples"}, true},
		"that of another namespace":       {nil, nil, NamespacePair{Local: "web", Remote: "db-rome"}, true},
		"the same name":                   {nil, nil, NamespacePair{Local: "web", Remote: "web"}, true},
		"any name":                        {[]string{"*"}, nil, NamespacePair{Local: "web", Remote: "web"}, false},
		"a prefix":                        {[]string{"peer-*"}, nil, NamespacePair{Local: "web", Remote: "peer-web"}, false},
		"another prefix":                  {[]string{"peer-*"}, nil, NamespacePair{Local: "web", Remote: "web"}, true},
		"one of several":                  {[]string{"peer-*", "web"}, nil, NamespacePair{Local: "web", Remote: "web"}, false},
		"what is refused nevertheless":    {[]string{"*"}, []string{"web"}, NamespacePair{Local: "web", Remote: "web"}, true},
		"a default name that is refused":  {[]string{"*"}, []string{"*-rome"}, NamespacePair{Local: "web", Remote: "web-rome"}, true},
		"a reserved name":                 {[]string{"*"}, nil, NamespacePair{Local: "web", Remote: "kube-system"}, true},
		"a pattern that can't be matched": {[]string{"["}, nil, NamespacePair{Local: "web", Remote: "["}, true},
	} {
		p := NamespacePolicy{LiqoNamespace: "liqo", Chosen: row.chosen, Refused: row.refused}
		if got := p.Refuses(row.pair, "rome"); got != row.refuses {
			t.Errorf("%s: %s is refused: %t", name, row.pair.Remote, got)
		}
	}
}

func TestReservedNamespace(t *testing.T) {
	for name, want := range map[string]bool{
		"liqo": true, "default": true, "kube-system": true, "kube-anything": true, "liqo-tenant-rome": true, "liqo-storage": true,
		"demo": false, "liqo-demo": false, "kubernetes": false,
	} {
		if got := ReservedNamespace(name, "liqo"); got != want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
