package cli

import (
	"context"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// planNetwork tells what connectNetwork would find and make.
func (p *pair) planNetwork(ctx context.Context, o *networkOptions) error {
	if err := both(func() error { return p.local.canConnect(ctx) }, func() error { return p.remote.canConnect(ctx) }); err != nil {
		return err
	}
	t, err := p.ends(ctx, o, false)
	if err != nil {
		return err
	}
	show := func(e *end, kind, name string) {
		if name != "" {
			e.Info("%s %s exists", kind, name)
			return
		}
		e.Info("%s %s would be created", kind, e.peer)
	}
	for _, e := range []*end{t.server, t.client} {
		if show(e, "Tenant namespace", e.namespace); e.namespace == "" {
			show(e, "Configuration", "")
		} else if object, err := e.configuration(ctx); err != nil {
			return err
		} else if object != nil {
			show(e, "Configuration", object.Name)
		} else {
			show(e, "Configuration", "")
		}
		if e == t.server {
			show(e, "GatewayServer", e.gateways.name())
		} else {
			show(e, "GatewayClient", e.gateways.name())
		}
		var keys networkingv1beta1.PublicKeyList
		if e.namespace != "" {
			if err := e.listOfPeer(ctx, &keys, e.namespace, e.peer); err != nil {
				return err
			}
		}
		if len(keys.Items) > 0 {
			show(e, "PublicKey", keys.Items[0].Name)
		} else if !o.keysNotShared {
			show(e, "PublicKey", "")
		}
	}
	return nil
}
