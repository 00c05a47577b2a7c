package tunnel

import (
	"fmt"
	"net/netip"
	"strings"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/network"
)

// ViewOf maps an address in a peer to the address at which this cluster reaches it, according to the Configuration.
func ViewOf(configuration *networkingv1beta1.Configuration, text string) (netip.Addr, error) {
	address, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("reading an address of the peer: %w", err)
	}
	peer := configuration.Labels[api.LabelRemoteClusterID]
	translation, problems, ok := network.GatherTranslation(&network.Objects{Configurations: []networkingv1beta1.Configuration{*configuration}}, peer)
	if !ok {
		texts := make([]string, len(problems))
		for i, problem := range problems {
			texts[i] = problem.String()
		}
		return netip.Addr{}, fmt.Errorf("the ranges of cluster %s are not mapped in this cluster yet: %s", peer, strings.Join(texts, "; "))
	}
	return translation.ToView(address)
}
