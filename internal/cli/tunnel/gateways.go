package tunnel

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
	"liqo.io/liqo/internal/network/gatewaypod"
)

// DefaultMTU leaves room for the headers of the tunnel, and of a VPN below it, on a path with an MTU of 1500 bytes.
const DefaultMTU = 1340

// Resources of the default gateway templates.
const (
	ServerTemplates = "networking.liqo.io/v1beta1/wggatewayservertemplates"
	ClientTemplates = "networking.liqo.io/v1beta1/wggatewayclienttemplates"
)

// TemplateFlags selects the template of a gateway.
type TemplateFlags struct {
	resource, name, namespace string
}

// Add registers the three flags with a prefix. With prefix "gw-server-", for example, template-name becomes --gw-server-template-name.
func (f *TemplateFlags) Add(flags *pflag.FlagSet, prefix, resource, name string) {
	flags.StringVar(&f.resource, prefix+"type", resource, "API resource of the template, in the form group/version/resource")
	flags.StringVar(&f.name, prefix+"template-name", name, "Name of the template")
	flags.StringVar(&f.namespace, prefix+"template-namespace", "", "Namespace of the template (default: that of the installation)")
}

// Reference returns an object reference to the template. It looks up the kind of the template in the cluster.
func (f *TemplateFlags) Reference(c *session.Cluster) (corev1.ObjectReference, error) {
	parts := strings.Split(f.resource, "/")
	if len(parts) != 3 || slices.Contains(parts, "") {
		return corev1.ObjectReference{}, fmt.Errorf("resource %q of the template: want group/version/resource, for example %s", f.resource, ServerTemplates)
	}
	kind, err := c.RESTMapper().KindFor(schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]})
	if kube.Absent(err) {
		return corev1.ObjectReference{}, c.Err(fmt.Errorf("the cluster has no resource %s: install its CustomResourceDefinition, or leave the flag out for %s", f.resource, ServerTemplates))
	}
	if err != nil {
		return corev1.ObjectReference{}, c.Err(fmt.Errorf("looking for resource %s: %w", f.resource, err))
	}
	return corev1.ObjectReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: f.name,
		Namespace: cmp.Or(f.namespace, c.Namespace)}, nil
}

// serviceTypeUsage is the help text of the flags for the type of a gateway's Service.
const serviceTypeUsage = "Type of the gateway server's Service: LoadBalancer, NodePort or ClusterIP (default: that of the installation, see liqoctl install --service-type)"

// ServerFlags holds the flags for a GatewayServer.
type ServerFlags struct {
	Template       TemplateFlags
	ServiceType    string
	port, NodePort int32
	LoadBalancerIP string
}

// ServerFlagNames holds the names of these flags: they differ between network connect and create gatewayserver.
type ServerFlagNames struct {
	ServiceType, Port, NodePort, LoadBalancerIP string
}

// Add registers the flags.
func (f *ServerFlags) Add(flags *pflag.FlagSet, names ServerFlagNames) {
	flags.StringVar(&f.ServiceType, names.ServiceType, "", serviceTypeUsage)
	flags.Int32Var(&f.port, names.Port, networkingv1beta1.GatewayPort, "Port of the gateway server's Service")
	flags.Int32Var(&f.NodePort, names.NodePort, 0, "Node port of the gateway server's Service (0: chosen by Kubernetes)")
	flags.StringVar(&f.LoadBalancerIP, names.LoadBalancerIP, "", "Load-balancer address of the gateway server's Service")
}

// Validate returns an error that names the first flag with a wrong value.
func (f *ServerFlags) Validate(names ServerFlagNames) error {
	if f.ServiceType != "" {
		if err := cmdline.OneOf(names.ServiceType, f.ServiceType, cmdline.ServiceTypes...); err != nil {
			return err
		}
	}
	switch {
	case f.NodePort != 0 && f.ServiceType == string(corev1.ServiceTypeClusterIP):
		return fmt.Errorf("--%s %d goes with a Service of type NodePort or LoadBalancer, not with ClusterIP", names.NodePort, f.NodePort)
	case f.LoadBalancerIP != "" && f.ServiceType != "" && f.ServiceType != string(corev1.ServiceTypeLoadBalancer):
		return fmt.Errorf("--%s goes with a Service of type LoadBalancer, not with %s", names.LoadBalancerIP, f.ServiceType)
	}
	if err := ValidatePort(names.Port, f.port); err != nil {
		return err
	}
	if f.NodePort != 0 {
		if err := ValidatePort(names.NodePort, f.NodePort); err != nil {
			return err
		}
	}
	if f.LoadBalancerIP != "" {
		if _, err := netip.ParseAddr(f.LoadBalancerIP); err != nil {
			return fmt.Errorf("--%s %s: want an IP address", names.LoadBalancerIP, f.LoadBalancerIP)
		}
	}
	return nil
}

// ValidatePort returns an error that names the flag, unless the value is a port.
func ValidatePort(flag string, port int32) error {
	if len(validation.IsValidPortNum(int(port))) > 0 {
		return fmt.Errorf("--%s %d: want a port, 1 to 65535", flag, port)
	}
	return nil
}

// ValidateMTU returns an error unless the value of --mtu is possible.
func ValidateMTU(mtu int) error {
	// 576 bytes is the smallest packet that every IPv4 host must accept (RFC 791). 65535 bytes is the largest IPv4 packet.
	if mtu != 0 && (mtu < 576 || mtu > 65535) {
		return fmt.Errorf("--mtu %d: want 576 to 65535 bytes, or 0 for the MTU of the path", mtu)
	}
	return nil
}

// TypeOf returns the type of the Service of a new GatewayServer. The flag for the type decides, and without it the template. A flag that applies only to some
// types also rules out the other types of the template.
func (f *ServerFlags) TypeOf(template *networkingv1beta1.WgGatewayServerTemplate) corev1.ServiceType {
	usual := gatewaypod.NewServiceType(template)
	switch {
	case f.ServiceType != "":
		return corev1.ServiceType(f.ServiceType)
	case f.LoadBalancerIP != "":
		return corev1.ServiceTypeLoadBalancer
	case f.NodePort != 0 && usual == corev1.ServiceTypeClusterIP:
		return corev1.ServiceTypeNodePort
	}
	return usual
}

// Choose returns the type of the Service of a new GatewayServer. It reads the template only if no flag names a type.
func (f *ServerFlags) Choose(ctx context.Context, c *session.Cluster, reference corev1.ObjectReference) (corev1.ServiceType, error) {
	template := &networkingv1beta1.WgGatewayServerTemplate{}
	if f.ServiceType == "" && ownTemplate(reference) {
		key := client.ObjectKey{Namespace: reference.Namespace, Name: reference.Name}
		if err := c.Get(ctx, key, template); err != nil && !kube.Absent(err) {
			return "", c.Err(fmt.Errorf("reading %s %s: %w", reference.Kind, key, err))
		}
	}
	return f.TypeOf(template), nil
}

// ownTemplate reports whether a template is of one of Liqo's own kinds, and not of a custom kind.
func ownTemplate(reference corev1.ObjectReference) bool {
	return reference.APIVersion == networkingv1beta1.GroupVersion.String() && strings.HasPrefix(reference.Kind, "WgGateway")
}

// Fill sets the fields of a new GatewayServer for the peer.
func (f *ServerFlags) Fill(server *networkingv1beta1.GatewayServer, template corev1.ObjectReference, kind corev1.ServiceType, peer string, mtu int) {
	kube.AddLabels(server, map[string]string{api.LabelRemoteClusterID: peer})
	server.Spec.MTU = mtu
	server.Spec.ServerTemplateRef = template
	server.Spec.Endpoint = networkingv1beta1.ServerEndpoint{
		Port: f.port, NodePort: f.NodePort, ServiceType: kind, LoadBalancerIP: f.LoadBalancerIP,
	}
}

// ClientFlags holds the flags of a GatewayClient about its connection to the server.
type ClientFlags struct {
	Template  TemplateFlags
	Addresses []string
	Port      int32
	Protocol  string
}

// ValidateAddresses returns an error that names the flag and the first value that is neither an address nor a host name.
func ValidateAddresses(flag string, addresses []string) error {
	for _, address := range addresses {
		if _, err := netip.ParseAddr(address); err != nil && len(validation.IsDNS1123Subdomain(address)) > 0 {
			return fmt.Errorf("--%s %s: want an IP address or a host name", flag, address)
		}
	}
	return nil
}

// ValidateProtocol returns an error unless the value of --protocol is UDP.
func ValidateProtocol(protocol string) error {
	if protocol != string(corev1.ProtocolUDP) {
		return cmdline.DidYouMean(fmt.Errorf("--protocol %s: want UDP, the only protocol of WireGuard: firewalls must let it pass to the peer's gateway", protocol),
			protocol, []string{string(corev1.ProtocolUDP)})
	}
	return nil
}

// FillClient sets the fields of a new GatewayClient for the peer.
func FillClient(client *networkingv1beta1.GatewayClient, template corev1.ObjectReference, peer string, endpoint networkingv1beta1.Endpoint, mtu int) {
	kube.AddLabels(client, map[string]string{api.LabelRemoteClusterID: peer})
	client.Spec.MTU = mtu
	client.Spec.ClientTemplateRef = template
	client.Spec.Endpoint = endpoint
}

// EndpointText formats an endpoint for messages: 203.0.113.7:51840/UDP.
func EndpointText(endpoint *networkingv1beta1.Endpoint) string {
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

// Gateways holds the gateway of a cluster for one peer: the server or the client of the tunnel.
type Gateways struct {
	Server *networkingv1beta1.GatewayServer
	Client *networkingv1beta1.GatewayClient
}

// Name returns the name of the gateway. It is empty if there is none.
func (g *Gateways) Name() string {
	switch {
	case g.Server != nil:
		return g.Server.Name
	case g.Client != nil:
		return g.Client.Name
	}
	return ""
}

// describe returns the kind and name of the gateway for messages.
func (g *Gateways) describe() string {
	if g.Server != nil {
		return "GatewayServer " + g.Server.Name
	}
	return "GatewayClient " + g.Name()
}

// Keys returns the Secret with the keys of the gateway, with its name only.
func (g *Gateways) Keys(namespace string) *corev1.Secret {
	var status *corev1.ObjectReference
	var spec *corev1.LocalObjectReference
	switch {
	case g.Server != nil:
		status, spec = g.Server.Status.SecretRef, g.Server.Spec.SecretRef
	case g.Client != nil:
		status, spec = g.Client.Status.SecretRef, g.Client.Spec.SecretRef
	}
	name := networkingv1beta1.GatewayChild(g.Name())
	switch {
	case status != nil && status.Name != "":
		name = status.Name
	case spec != nil && spec.Name != "":
		name = spec.Name
	}
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// FindGateways returns the gateway for a peer in a tenant namespace. It fails if there are several, because no command can choose between
// them.
func FindGateways(ctx context.Context, c *session.Cluster, namespace, peer string) (*Gateways, error) {
	servers, clients, err := ListGateways(ctx, c, namespace, peer)
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
		return &Gateways{Server: &servers[0]}, nil
	case len(clients) == 1:
		return &Gateways{Client: &clients[0]}, nil
	}
	return &Gateways{}, nil
}

// ListGateways returns all gateways for a peer. The result is empty if the cluster does not have the kinds.
func ListGateways(
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
