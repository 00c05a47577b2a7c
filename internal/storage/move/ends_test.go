package move

import (
	"testing"

	"liqo.io/liqo/internal/offload/kinds"
)

// TestKeysGoToTheEndsOnly: the keys and the address of a move are reflected to the providers with the old or the new data, and to no other provider of the
// namespace.
func TestKeysGoToTheEndsOnly(t *testing.T) {
	for _, test := range []struct {
		name, source, target string
		reflected            bool // to milan
	}{
		{name: "between two nodes of this cluster"},
		{name: "to another provider", target: "naples"},
		{name: "between two other providers", source: "naples", target: "turin"},
		{name: "from the provider", source: "milan", reflected: true},
		{name: "to the provider", target: "milan", reflected: true},
		{name: "from the provider to another", source: "milan", target: "naples", reflected: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := bound()
			volume := virtual("pvc-u1", test.source)
			s.Credentials = map[string][]byte{KeyPassword: []byte("secret")}
			m := &move{State: &s, source: &volume, record: newRecord(s.Claim, &s.Volumes[0], s.node(s.Node), &s.Request)}
			m.record.Provider = test.target
			to := kinds.CopyOptions{Origin: "rome", Destination: "milan"}
			if got, why := kinds.Secret(m.secret(shop), "shop-rome", to); (got != nil) != test.reflected {
				t.Errorf("the Secret is reflected: %v, %s", got != nil, why)
			}
			if got, why := kinds.Service(m.service(), "shop-rome", kinds.ServiceOptions{CopyOptions: to}); (got != nil) != test.reflected {
				t.Errorf("the Service is reflected: %v, %s", got != nil, why)
			}
		})
	}
}
