package cli

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"liqo.io/liqo/internal/cli/tunnel"
)

// TestAPeerCommandNamesTheGateway: flags for another path to the gateway of this cluster are flags of the command that the other administrator runs.
func TestAPeerCommandNamesTheGateway(t *testing.T) {
	for want, d := range map[string]tunnel.Dialed{
		"":                                {},
		" --gw-client-address 100.64.0.7": {ClientAddress: "100.64.0.7"},
		" --gw-client-port 4000":          {ClientPort: 4000},
		" --gw-client-address vpn.example.org --gw-client-port 4000": {ClientAddress: "vpn.example.org", ClientPort: 4000},
	} {
		if got := d.Arguments(); got != want {
			t.Errorf("%+v: %q, want %q", d, got, want)
		}
		parsed := peerOptions{}
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		parsed.network.AddDialed(flags, "", "")
		if err := flags.Parse(strings.Fields(want)); err != nil || parsed.network.Arguments() != want {
			t.Errorf("%q is read as %q, %v", want, parsed.network.Arguments(), err)
		}
	}
}
