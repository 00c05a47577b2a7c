package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/tunnel"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
)

// answerWithin is how long a provider may take for its first response to a NetworkRequest. A provider with a network responds within
// seconds.
const answerWithin = 45 * time.Second

// requestNetwork lets the two control planes connect the networks, if both clusters have a network.
func (u *use) requestNetwork(ctx context.Context) error {
	if u.options.networkingDisabled {
		u.Info("The networks are not connected (--networking-disabled): offloaded pods reach the pods of this cluster only if the infrastructure routes the traffic")
		return nil
	}
	why, err := tunnel.WhyNone(ctx, u.Cluster)
	if err != nil {
		return err
	}
	if why != "" {
		u.Warn("The networks are not connected because of cluster %s: %s. Until then offloaded pods reach the pods of the consumer only if the infrastructure routes the traffic", u.ID, why)
		return nil
	}
	if u.connected, err = tunnel.MadeByAdministrator(ctx, u.Cluster, u.namespace, u.provider); err != nil || u.connected {
		return err
	}
	u.connected, err = u.negotiate(ctx)
	return err
}

// negotiate creates a NetworkRequest and waits for the answer of the provider. It reports whether there is one.
func (u *use) negotiate(ctx context.Context) (answered bool, err error) {
	step := u.Start("Asking cluster %s for a network", u.provider)
	defer step.End()
	request := &networkingv1beta1.NetworkRequest{ObjectMeta: metav1.ObjectMeta{Namespace: u.namespace, Name: u.provider}}
	wanted, serviceType := networkingv1beta1.ServerLocation(u.options.location), corev1.ServiceType(u.options.network.Server.ServiceType)
	existed := false
	var notes []string
	changed, err := u.Ensure(ctx, request, func() error {
		kube.AddLabels(request, map[string]string{api.LabelReplication: api.True, api.LabelRemoteID: u.provider, api.LabelRemoteClusterID: u.provider})
		if existed = request.ResourceVersion != ""; !existed {
			request.Spec.Server = wanted
		}
		notes = nil
		if serviceType != "" && request.Spec.Server == networkingv1beta1.ServerAtConsumer {
			tunnel.Change(&notes, "spec.serviceType", &request.Spec.ServiceType, serviceType)
		}
		if dial := u.options.network.Apply(request.Spec.Dial); !equality.Semantic.DeepEqual(request.Spec.Dial, dial) {
			notes = append(notes, fmt.Sprintf("spec.dial is %s, was %s", tunnel.DialText(dial), tunnel.DialText(request.Spec.Dial)))
			request.Spec.Dial = dial
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	switch {
	case changed && !existed:
		u.Did("NetworkRequest %s correctly ensured", request.Name)
	case changed:
		tunnel.ReportGateway(u.Cluster, request, existed, notes)
	}
	if existed {
		if err := changeNegotiated(ctx, u.Cluster, request, u.options); err != nil {
			return false, err
		}
	}
	bounded, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	err = u.WaitFor(bounded, step, request, func() session.Verdict {
		if len(request.Status.Conditions) == 0 {
			return session.NotYet("cluster %s has not answered", u.provider)
		}
		return session.Yes()
	})
	if waiting := (*session.WaitError)(nil); errors.As(err, &waiting) && ctx.Err() == nil {
		step.End()
		u.Warn("The networks are not connected: cluster %s has not answered %s within %s. Is it installed with networking.enabled=true and networking.internal=true?",
			u.provider, u.Name(request), answerWithin)
		return false, u.DeleteAll(ctx, []client.Object{request}, true)
	}
	return err == nil, err
}

// changeNegotiated applies the user's flags to the gateway of an earlier NetworkRequest. The controller manager sets the type of the Service only
// when it creates the GatewayServer, because an administrator may change it later.
func changeNegotiated(ctx context.Context, c *session.Cluster, request *networkingv1beta1.NetworkRequest, o *peerOptions) error {
	serviceType := corev1.ServiceType(o.network.Server.ServiceType)
	located := o.location == tunnel.LocationConsumer || o.network.Located
	if serviceType == "" && !located {
		return nil
	}
	provider := request.Name
	found, err := tunnel.FindGateways(ctx, c, request.Namespace, provider)
	if err != nil {
		return err
	}
	atConsumer := found.Server != nil || (found.Client == nil && request.Spec.Server == networkingv1beta1.ServerAtConsumer)
	here := map[bool]string{true: c.ID, false: provider}
	if located && atConsumer != (o.location == tunnel.LocationConsumer) {
		c.Warn("The existing NetworkRequest asks for a gateway server in %s and is not changed: to change it, unpeer and peer again", here[atConsumer])
	}
	server := found.Server
	if serviceType == "" || server == nil {
		return nil
	}
	var notes []string
	if _, err := c.Ensure(ctx, server, func() error {
		notes = nil
		tunnel.Change(&notes, "spec.endpoint.serviceType", &server.Spec.Endpoint.ServiceType, serviceType)
		return nil
	}); err != nil {
		return err
	}
	if len(notes) > 0 {
		tunnel.ReportGateway(c, server, true, notes)
	}
	return nil
}

// networkStays reports whether the network with a provider has to stay, because the provider uses the local cluster through it and did not request it. It
// then says so.
func networkStays(ctx context.Context, c *session.Cluster, namespace, provider string) (bool, error) {
	used, err := isConsumer(ctx, c, provider)
	if err != nil || namespace == "" {
		return false, err
	}
	requests, err := tunnel.Requests(ctx, c, namespace)
	if err != nil || !peering.NetworkStays(used, requests) {
		return false, err
	}
	c.Warn("The network and the identity in cluster %[1]s stay: %[1]s uses resources of %[2]s through the network, which only %[2]s requested. "+
		"To delete them, run the command again when cluster %[1]s has ended that peering", provider, c.ID)
	return true, nil
}
