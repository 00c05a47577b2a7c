package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/network"
)

// defaultMTU leaves room for the headers of the tunnel, and of a VPN below it, on a path with an MTU of 1500 bytes.
const defaultMTU = 1340

// Resources of the default gateway templates.
const (
	serverTemplates = "networking.liqo.io/v1beta1/wggatewayservertemplates"
	clientTemplates = "networking.liqo.io/v1beta1/wggatewayclienttemplates"
)

// templateFlags selects the template of a gateway.
type templateFlags struct {
	resource, name, namespace string
}

// add registers the three flags with a prefix. With prefix "gw-server-", for example, template-name becomes --gw-server-template-name.
func (f *templateFlags) add(flags *pflag.FlagSet, prefix, resource, name string) {
	flags.StringVar(&f.resource, prefix+"type", resource, "Resource of the template, group/version/resource")
	flags.StringVar(&f.name, prefix+"template-name", name, "Name of the template")
	flags.StringVar(&f.namespace, prefix+"template-namespace", "", "Namespace of the template (default: that of the installation)")
}

// reference returns an object reference to the template. It looks up the kind of the template in the cluster.
func (f *templateFlags) reference(c *session.Cluster) (corev1.ObjectReference, error) {
	parts := strings.Split(f.resource, "/")
	if len(parts) != 3 || slices.Contains(parts, "") {
		return corev1.ObjectReference{}, fmt.Errorf("resource %q of the template: want group/version/resource, for example %s", f.resource, serverTemplates)
	}
	kind, err := c.RESTMapper().KindFor(schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]})
	if kube.Absent(err) {
		return corev1.ObjectReference{}, c.Err(fmt.Errorf("the cluster has no resource %s: install its CustomResourceDefinition, or leave the flag out for %s", f.resource, serverTemplates))
	}
	if err != nil {
		return corev1.ObjectReference{}, c.Err(fmt.Errorf("looking for resource %s: %w", f.resource, err))
	}
	return corev1.ObjectReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: f.name,
		Namespace: cmp.Or(f.namespace, c.Namespace)}, nil
}

// serviceTypeUsage is the help text of the flags for the type of a gateway's Service.
const serviceTypeUsage = "Type of the gateway server's Service: LoadBalancer, NodePort or ClusterIP (default: that of the installation, see liqoctl install --service-type)"

// serverFlags holds the flags for a GatewayServer.
type serverFlags struct {
	template       templateFlags
	serviceType    string
	port, nodePort int32
	loadBalancerIP string
}

// serverFlagNames holds the names of these flags: they differ between network connect and create gatewayserver.
type serverFlagNames struct {
	serviceType, port, nodePort, loadBalancerIP string
}

func (f *serverFlags) add(flags *pflag.FlagSet, names serverFlagNames) {
	flags.StringVar(&f.serviceType, names.serviceType, "", serviceTypeUsage)
	flags.Int32Var(&f.port, names.port, networkingv1beta1.GatewayPort, "Port of the gateway server's Service")
	flags.Int32Var(&f.nodePort, names.nodePort, 0, "Node port of the gateway server's Service (0: chosen by Kubernetes)")
	flags.StringVar(&f.loadBalancerIP, names.loadBalancerIP, "", "Load-balancer address of the gateway server's Service")
}

func (f *serverFlags) validate(names serverFlagNames) error {
	if f.serviceType != "" {
		if err := cmdline.OneOf(names.serviceType, f.serviceType, cmdline.ServiceTypes...); err != nil {
			return err
		}
	}
	switch {
	case f.nodePort != 0 && f.serviceType == string(corev1.ServiceTypeClusterIP):
		return fmt.Errorf("--%s %d goes with a Service of type NodePort or LoadBalancer, not with ClusterIP", names.nodePort, f.nodePort)
	case f.loadBalancerIP != "" && f.serviceType != "" && f.serviceType != string(corev1.ServiceTypeLoadBalancer):
		return fmt.Errorf("--%s goes with a Service of type LoadBalancer, not with %s", names.loadBalancerIP, f.serviceType)
	}
	if err := validatePort(names.port, f.port); err != nil {
		return err
	}
	if f.nodePort != 0 {
		if err := validatePort(names.nodePort, f.nodePort); err != nil {
			return err
		}
	}
	if f.loadBalancerIP != "" {
		if _, err := netip.ParseAddr(f.loadBalancerIP); err != nil {
			return fmt.Errorf("--%s %s: want an IP address", names.loadBalancerIP, f.loadBalancerIP)
		}
	}
	return nil
}

func validatePort(flag string, port int32) error {
	if len(validation.IsValidPortNum(int(port))) > 0 {
		return fmt.Errorf("--%s %d: want a port, 1 to 65535", flag, port)
	}
	return nil
}

func validateMTU(mtu int) error {
	// 576 bytes is the smallest packet that every IPv4 host must accept (RFC 791). 65535 bytes is the largest IPv4 packet.
	if mtu != 0 && (mtu < 576 || mtu > 65535) {
		return fmt.Errorf("--mtu %d: want 576 to 65535 bytes, or 0 for the MTU of the path", mtu)
	}
	return nil
}

// typeOf returns the type of the Service of a new GatewayServer: that of the flags, or else that of the template. A flag that only applies to some
// types selects one of these.
func (f *serverFlags) typeOf(template *networkingv1beta1.WgGatewayServerTemplate) corev1.ServiceType {
	usual := network.NewServiceType(template)
	switch {
	case f.serviceType != "":
		return corev1.ServiceType(f.serviceType)
	case f.loadBalancerIP != "":
		return corev1.ServiceTypeLoadBalancer
	case f.nodePort != 0 && usual == corev1.ServiceTypeClusterIP:
		return corev1.ServiceTypeNodePort
	}
	return usual
}

// choose returns the type of the Service of a new GatewayServer. It reads the template only if no flag names a type.
func (f *serverFlags) choose(ctx context.Context, c *session.Cluster, reference corev1.ObjectReference) (corev1.ServiceType, error) {
	template := &networkingv1beta1.WgGatewayServerTemplate{}
	if f.serviceType == "" && ownTemplate(reference) {
		key := client.ObjectKey{Namespace: reference.Namespace, Name: reference.Name}
		if err := c.Get(ctx, key, template); err != nil && !kube.Absent(err) {
			return "", c.Err(fmt.Errorf("reading %s %s: %w", reference.Kind, key, err))
		}
	}
	return f.typeOf(template), nil
}

// ownTemplate reports whether a template is of one of Liqo's own kinds, not of a custom one.
func ownTemplate(reference corev1.ObjectReference) bool {
	return reference.APIVersion == networkingv1beta1.GroupVersion.String() && strings.HasPrefix(reference.Kind, "WgGateway")
}

// fill sets the fields of a new GatewayServer for the peer.
func (f *serverFlags) fill(server *networkingv1beta1.GatewayServer, template corev1.ObjectReference, kind corev1.ServiceType, peer string, mtu int) {
	kube.AddLabels(server, map[string]string{api.LabelRemoteClusterID: peer})
	server.Spec.MTU = mtu
	server.Spec.ServerTemplateRef = template
	server.Spec.Endpoint = networkingv1beta1.ServerEndpoint{
		Port: f.port, NodePort: f.nodePort, ServiceType: kind, LoadBalancerIP: f.loadBalancerIP,
	}
}

// clientFlags holds the flags of a GatewayClient about its connection to the server.
type clientFlags struct {
	template  templateFlags
	addresses []string
	port      int32
	protocol  string
}

func validateAddresses(flag string, addresses []string) error {
	for _, address := range addresses {
		if _, err := netip.ParseAddr(address); err != nil && len(validation.IsDNS1123Subdomain(address)) > 0 {
			return fmt.Errorf("--%s %s: want an IP address or a host name", flag, address)
		}
	}
	return nil
}

func validateProtocol(protocol string) error {
	if protocol != string(corev1.ProtocolUDP) {
		return cmdline.DidYouMean(fmt.Errorf("--protocol %s: want UDP, the only protocol of WireGuard: firewalls must let it pass to the peer's gateway", protocol),
			protocol, []string{string(corev1.ProtocolUDP)})
	}
	return nil
}

// fillClient sets the fields of a new GatewayClient for the peer.
func fillClient(client *networkingv1beta1.GatewayClient, template corev1.ObjectReference, peer string, endpoint networkingv1beta1.Endpoint, mtu int) {
	kube.AddLabels(client, map[string]string{api.LabelRemoteClusterID: peer})
	client.Spec.MTU = mtu
	client.Spec.ClientTemplateRef = template
	client.Spec.Endpoint = endpoint
}

// endpointText formats an endpoint for messages: 203.0.113.7:51840/UDP.
func endpointText(endpoint *networkingv1beta1.Endpoint) string {
	if endpoint == nil {
		return "nowhere"
	}
	ports := endpoint.Ports
	if endpoint.Port != 0 {
		ports = []int32{endpoint.Port}
	}
	var out []string
	for _, address := range endpoint.Addresses {
		if parsed, err := netip.ParseAddr(address); err == nil && parsed.Is6() {
			address = "[" + address + "]"
		}
		for _, port := range ports {
			out = append(out, fmt.Sprintf("%s:%d/%s", address, port, cmp.Or(string(endpoint.Protocol), string(corev1.ProtocolUDP))))
		}
	}
	return strings.Join(out, " or ")
}

// gateways holds the gateway of a cluster for one peer: the server or the client of the tunnel.
type gateways struct {
	server *networkingv1beta1.GatewayServer
	client *networkingv1beta1.GatewayClient
}

// name returns the name of the gateway. It is empty if there is none.
func (g *gateways) name() string {
	switch {
	case g.server != nil:
		return g.server.Name
	case g.client != nil:
		return g.client.Name
	}
	return ""
}

// describe returns the kind and name of the gateway for messages.
func (g *gateways) describe() string {
	if g.server != nil {
		return "GatewayServer " + g.server.Name
	}
	return "GatewayClient " + g.name()
}

// keys returns the Secret with the keys of the gateway, with its name only.
func (g *gateways) keys(namespace string) *corev1.Secret {
	var status *corev1.ObjectReference
	var spec *corev1.LocalObjectReference
	switch {
	case g.server != nil:
		status, spec = g.server.Status.SecretRef, g.server.Spec.SecretRef
	case g.client != nil:
		status, spec = g.client.Status.SecretRef, g.client.Spec.SecretRef
	}
	name := networkingv1beta1.GatewayChild(g.name())
	switch {
	case status != nil && status.Name != "":
		name = status.Name
	case spec != nil && spec.Name != "":
		name = spec.Name
	}
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// findGateways returns the gateway for a peer in a tenant namespace. It fails if there are several, because no command can choose between
// them.
func findGateways(ctx context.Context, c *session.Cluster, namespace, peer string) (*gateways, error) {
	servers, clients, err := listGateways(ctx, c, namespace, peer)
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range servers {
		names = append(names, "GatewayServer "+servers[i].Name)
	}
	for i := range clients {
		names = append(names, "GatewayClient "+clients[i].Name)
	}
	switch {
	case len(names) > 1:
		return nil, c.Err(fmt.Errorf("namespace %s has several gateways for cluster %s (%s): delete all but one",
			namespace, peer, strings.Join(names, ", ")))
	case len(servers) == 1:
		return &gateways{server: &servers[0]}, nil
	case len(clients) == 1:
		return &gateways{client: &clients[0]}, nil
	}
	return &gateways{}, nil
}

// listGateways returns all gateways for a peer. The result is empty if the cluster does not have the kinds.
func listGateways(
	ctx context.Context, c *session.Cluster, namespace, peer string,
) ([]networkingv1beta1.GatewayServer, []networkingv1beta1.GatewayClient, error) {
	if namespace == "" {
		return nil, nil, nil
	}
	var servers networkingv1beta1.GatewayServerList
	var clients networkingv1beta1.GatewayClientList
	if err := errors.Join(session.ListOfPeer(ctx, c, &servers, namespace, peer), session.ListOfPeer(ctx, c, &clients, namespace, peer)); err != nil {
		return nil, nil, err
	}
	return servers.Items, clients.Items, nil
}
