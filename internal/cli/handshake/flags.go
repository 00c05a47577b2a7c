package handshake

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/invite"
)

// Flags holds the flags for the authentication between the clusters.
type Flags struct {
	// InBand connects to the provider's API server through the tunnel, and ProxyURL through an HTTP CONNECT proxy.
	InBand   bool
	ProxyURL string
	// Invite lets the provider also use the consumer, through the same tunnel.
	Invite bool
	// Force replaces the stored key or CA of another cluster with the same ID.
	Force bool
	// Given reports whether the user set a flag. Without flags, a peering keeps its current connection to the API server.
	Given func(name string) bool
}

// Add registers the flags of a command that authenticates the local cluster with a provider.
func (f *Flags) Add(flags *pflag.FlagSet) {
	f.Given = flags.Changed
	flags.BoolVar(&f.InBand, "in-band", false, "Reach the provider's API server through the tunnel; --in-band=false switches back to a direct connection")
	flags.StringVar(&f.ProxyURL, "proxy-url", "", "URL of an HTTP CONNECT proxy for the connections to the provider's API server")
	f.AddForce(flags)
}

// AddInvite registers the flag that lets the provider use the consumer too.
func (f *Flags) AddInvite(flags *pflag.FlagSet) {
	flags.BoolVar(&f.Invite, "invite", false, fmt.Sprintf("With in-band: also let the provider use resources of the local cluster, for %d days, when its administrator runs peer NAME there", invite.MaxTokenLifetime/(24*time.Hour)))
}

// AddForce registers the flag that replaces the stored key or CA of a peer.
func (f *Flags) AddForce(flags *pflag.FlagSet) {
	flags.BoolVar(&f.Force, "force", false, "Replace the stored key or CA of a peer that was installed again. Never use it if two clusters have the same ID: change one of the IDs")
}

// Validate checks the values of the flags, before a cluster is contacted.
func (f *Flags) Validate() error {
	if f.InBand && f.ProxyURL != "" {
		return errors.New("--in-band goes through the proxy of the provider, --proxy-url through another one: use one of them")
	}
	if f.Invite && !f.InBand {
		return errors.New("--invite needs --in-band: without it, the provider peers with this cluster by the command that liqoctl generate peer-command prints here")
	}
	if f.ProxyURL != "" {
		if err := peering.CheckProxyURL(f.ProxyURL); err != nil {
			return fmt.Errorf("--proxy-url is %w", err)
		}
	}
	return nil
}
