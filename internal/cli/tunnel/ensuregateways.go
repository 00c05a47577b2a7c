package tunnel

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
)

// Change sets a field to the value that the user passed, and adds a note if the value differs.
func Change[T comparable](notes *[]string, field string, at *T, want T) {
	if *at != want {
		*notes = append(*notes, fmt.Sprintf("%s is %v, was %v", field, want, *at))
		*at = want
	}
}

// ReportGateway prints whether a gateway was created, changed or left as it was.
func ReportGateway(c *session.Cluster, object client.Object, existed bool, notes []string) {
	switch {
	case !existed:
		c.Did("%s correctly ensured", c.Name(object))
	case len(notes) > 0:
		c.Did("%s exists already and was changed: %s", c.Name(object), strings.Join(notes, "; "))
	default:
		c.Info("%s exists already", c.Name(object))
	}
}

// ensureServer creates the GatewayServer, or changes what the user's flags name, and waits until it has an address.
func (t *Tunnel) ensureServer(ctx context.Context) error {
	e, o := t.Server, t.options
	object := e.Gateways.Server
	existed := object != nil
	if !existed {
		object = &networkingv1beta1.GatewayServer{ObjectMeta: metav1.ObjectMeta{Namespace: e.TenantNamespace, Name: e.Peer}}
	}
	template, err := e.templateOf(ctx, existed, "gw-server-", &o.Server.Template, o, &networkingv1beta1.WgGatewayServerTemplate{})
	if err != nil {
		return err
	}
	var kind corev1.ServiceType
	if !existed {
		if kind, err = o.Server.Choose(ctx, e.Cluster, template); err != nil {
			return err
		}
	}
	var notes []string
	_, err = e.Ensure(ctx, object, func() error {
		notes = nil
		if existed = object.ResourceVersion != ""; !existed {
			o.Server.Fill(object, template, kind, e.Peer, o.mtu)
			return nil
		}
		to := &object.Spec.Endpoint
		if o.Given("gw-server-service-type") {
			Change(&notes, "spec.endpoint.serviceType", &to.ServiceType, corev1.ServiceType(o.Server.ServiceType))
		}
		if o.Given("gw-server-service-port") {
			Change(&notes, "spec.endpoint.port", &to.Port, o.Server.port)
			to.Ports = nil
		}
		if o.Given("gw-server-service-nodeport") {
			Change(&notes, "spec.endpoint.nodePort", &to.NodePort, o.Server.NodePort)
			to.NodePorts = nil
		}
		if o.Given("gw-server-service-loadbalancerip") {
			Change(&notes, "spec.endpoint.loadBalancerIP", &to.LoadBalancerIP, o.Server.LoadBalancerIP)
		}
		if o.Given("mtu") {
			Change(&notes, "spec.mtu", &object.Spec.MTU, o.mtu)
		}
		if template.Name != "" {
			Change(&notes, "spec.serverTemplateRef", &object.Spec.ServerTemplateRef, template)
		}
		return nil
	})
	if err != nil {
		return err
	}
	e.Gateways.Server = object
	ReportGateway(e.Cluster, object, existed, notes)
	t.at, err = t.endpoint(ctx, o)
	return err
}

// templateOf returns the reference to the template of a gateway. It is empty for a gateway that exists, unless the user's flags name a template.
// The flags start with the prefix. It fails if a template of Liqo's own kinds does not exist, unless the user skips this check.
func (e *End) templateOf(
	ctx context.Context, existed bool, prefix string, flags *TemplateFlags, o *Options, template client.Object,
) (corev1.ObjectReference, error) {
	if existed && !o.Given(prefix+"template-name") && !o.Given(prefix+"template-namespace") && !o.Given(prefix+"type") {
		return corev1.ObjectReference{}, nil
	}
	reference, err := flags.Reference(e.Cluster)
	if err != nil || o.SkipValidation || !ownTemplate(reference) {
		return reference, err
	}
	err = e.Get(ctx, client.ObjectKey{Namespace: reference.Namespace, Name: reference.Name}, template)
	if kube.Absent(err) {
		return reference, e.Err(fmt.Errorf("there is no %s %s in namespace %s to create gateways from (%s): name another one, or run liqoctl install again",
			reference.Kind, reference.Name, reference.Namespace, flags.resource))
	}
	if err != nil {
		return reference, e.Err(fmt.Errorf("reading %s %s: %w", reference.Kind, reference.Name, err))
	}
	return reference, nil
}

// endpoint returns the endpoint that the client dials. The user's flags override the address and port that the server publishes.
func (t *Tunnel) endpoint(ctx context.Context, o *Options) (networkingv1beta1.Endpoint, error) {
	out := networkingv1beta1.Endpoint{Port: o.ClientPort, Protocol: corev1.ProtocolUDP}
	if o.ClientAddress != "" {
		out.Addresses = []string{o.ClientAddress}
	}
	if out.Port != 0 && len(out.Addresses) > 0 {
		return out, nil
	}
	published, err := ServerEndpoint(ctx, t.Server.Cluster, t.Server.Gateways.Server)
	if err != nil {
		return out, err
	}
	if len(out.Addresses) == 0 {
		out.Addresses = published.Addresses
	}
	if out.Port == 0 {
		out.Port, out.Ports = published.Port, published.Ports
	}
	out.Protocol = published.Protocol
	return out, nil
}

// ServerEndpoint waits until a GatewayServer has its endpoint in the status, and returns it.
func ServerEndpoint(ctx context.Context, c *session.Cluster, server *networkingv1beta1.GatewayServer) (*networkingv1beta1.Endpoint, error) {
	if err := c.Reach(ctx, endpointGoal(c, server)); err != nil {
		return nil, err
	}
	c.Did("GatewayServer %s is reached at %s", server.Name, EndpointText(server.Status.Endpoint))
	warnOfNodePort(c, server)
	return server.Status.Endpoint, nil
}

// endpointGoal waits until a GatewayServer has its endpoint in the status.
func endpointGoal(c *session.Cluster, server *networkingv1beta1.GatewayServer) *session.Goal {
	return &session.Goal{
		Object: server, Doing: "Waiting for the address of GatewayServer " + server.Name,
		Met: func() session.Verdict {
			endpoint := server.Status.Endpoint
			if endpoint == nil || len(endpoint.Addresses) == 0 || (endpoint.Port == 0 && len(endpoint.Ports) == 0) || stale(server) {
				return session.NotYet("it has no address to dial in status.endpoint%s%s", session.Unmet(readiness(server.Status.Conditions)), balancerHint(server))
			}
			return session.Yes()
		},
		Answer: func() {
			server.Status.Endpoint = &networkingv1beta1.Endpoint{Addresses: []string{session.PlannedAddress}, Port: server.Spec.Endpoint.Port,
				Protocol: corev1.ProtocolUDP}
		},
		Trouble: func() string { return GatewayTrouble(c, server.Namespace, &Gateways{Server: server}) },
	}
}

// warnOfNodePort warns if peers reach a GatewayServer at the node port of its Service because its load balancer has no address.
func warnOfNodePort(c *session.Cluster, server *networkingv1beta1.GatewayServer) {
	if server.Spec.Endpoint.ServiceType == corev1.ServiceTypeLoadBalancer && server.Status.Endpoint.Port != server.Spec.Endpoint.Port {
		c.Warn("Service %s/%s got no address from a load balancer, so its node port is used. To avoid the wait, choose type NodePort: --gw-server-service-type NodePort, or for all new gateways liqoctl install --service-type NodePort",
			server.Namespace, networkingv1beta1.GatewayChild(server.Name))
	}
}

// stale reports whether the status of a GatewayServer is from an older generation of its spec.
func stale(server *networkingv1beta1.GatewayServer) bool {
	for _, condition := range server.Status.Conditions {
		if condition.ObservedGeneration < server.Generation {
			return true
		}
	}
	return false
}

// readiness returns the conditions without Connected. The tunnel cannot be connected before the client knows the endpoint of the server.
func readiness(conditions []metav1.Condition) []metav1.Condition {
	return slices.DeleteFunc(slices.Clone(conditions), func(c metav1.Condition) bool { return c.Type == networkingv1beta1.Connected })
}

// balancerHint returns a hint for a Service of type LoadBalancer without an address.
func balancerHint(server *networkingv1beta1.GatewayServer) string {
	if server.Spec.Endpoint.ServiceType != corev1.ServiceTypeLoadBalancer {
		return ""
	}
	return "; its Service is of type LoadBalancer: if the cluster has no load balancers, use type NodePort (--gw-server-service-type NodePort)"
}

// ensureClient creates the GatewayClient, or changes what the user's flags name.
func (t *Tunnel) ensureClient(ctx context.Context) error {
	e, o, at := t.Client, t.options, t.at
	object := e.Gateways.Client
	existed := object != nil
	if !existed {
		object = &networkingv1beta1.GatewayClient{ObjectMeta: metav1.ObjectMeta{Namespace: e.TenantNamespace, Name: e.Peer}}
	}
	template, err := e.templateOf(ctx, existed, "gw-client-", &o.Client, o, &networkingv1beta1.WgGatewayClientTemplate{})
	if err != nil {
		return err
	}
	var notes []string
	_, err = e.Ensure(ctx, object, func() error {
		notes = nil
		if existed = object.ResourceVersion != ""; !existed {
			FillClient(object, template, e.Peer, at, o.mtu)
			return nil
		}
		to := &object.Spec.Endpoint
		if o.Given("gw-client-address") && !slices.Equal(to.Addresses, at.Addresses) {
			notes = append(notes, fmt.Sprintf("spec.endpoint.addresses is %v, was %v", at.Addresses, to.Addresses))
			to.Addresses = at.Addresses
		}
		if o.Given("gw-client-port") {
			Change(&notes, "spec.endpoint.port", &to.Port, at.Port)
			to.Ports = nil
		}
		if o.Given("mtu") {
			Change(&notes, "spec.mtu", &object.Spec.MTU, o.mtu)
		}
		if template.Name != "" {
			Change(&notes, "spec.clientTemplateRef", &object.Spec.ClientTemplateRef, template)
		}
		return nil
	})
	if err != nil {
		return err
	}
	e.Gateways.Client = object
	ReportGateway(e.Cluster, object, existed, notes)
	if dials := EndpointText(&object.Spec.Endpoint); dials != EndpointText(&at) {
		e.Warn("%s connects to %s, but the address of the server is %s. The client is not changed; --gw-client-address %s --gw-client-port %d changes it",
			e.Name(object), dials,
			EndpointText(&at), at.Addresses[0], at.Port)
	}
	return nil
}
