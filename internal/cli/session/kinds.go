package session

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/kube"
)

// Kind is a kind whose objects commands create, delete or show individually.
type Kind struct {
	// Name is the name in its commands. Aliases are alternative names.
	Name    string
	Aliases []string
	// Short is the help text for deleting an object of the kind.
	Short  string
	List   func() client.ObjectList
	Object func(namespace, name string) client.Object
}

// The kinds that commands create, delete or show.
var (
	KindConfiguration = Kind{
		"configuration", []string{"config", "conf"}, "Delete the Configuration of a peer, with its address ranges",
		func() client.ObjectList { return &networkingv1beta1.ConfigurationList{} },
		func(namespace, name string) client.Object {
			return &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		},
	}
	KindServer = Kind{
		"gatewayserver", []string{"server", "gws"}, "Delete the server side of a tunnel",
		func() client.ObjectList { return &networkingv1beta1.GatewayServerList{} },
		func(namespace, name string) client.Object {
			return &networkingv1beta1.GatewayServer{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		},
	}
	KindClient = Kind{
		"gatewayclient", []string{"client", "gwc"}, "Delete the client side of a tunnel",
		func() client.ObjectList { return &networkingv1beta1.GatewayClientList{} },
		func(namespace, name string) client.Object {
			return &networkingv1beta1.GatewayClient{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		},
	}
	KindPublicKey = Kind{
		"publickey", []string{"pk", "pkey"}, "Delete the PublicKey of a peer's gateway",
		func() client.ObjectList { return &networkingv1beta1.PublicKeyList{} },
		func(namespace, name string) client.Object {
			return &networkingv1beta1.PublicKey{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		},
	}
	KindVirtualNode = Kind{
		"virtualnode", []string{"vn", "vnode"}, "Delete a virtual node, after draining it",
		func() client.ObjectList { return &offloadingv1beta1.VirtualNodeList{} },
		func(namespace, name string) client.Object {
			return &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		},
	}
	KindTenant = Kind{
		"tenant", []string{"tenants", "tn"}, "",
		func() client.ObjectList { return &authv1beta1.TenantList{} },
		func(namespace, name string) client.Object {
			return &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		},
	}
	KindSlice = Kind{
		"resourceslice", []string{"resourceslices", "rs", "rslice"}, "Delete a ResourceSlice, after draining and deleting its virtual node",
		func() client.ObjectList { return &authv1beta1.ResourceSliceList{} },
		func(namespace, name string) client.Object {
			return &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		},
	}
)

// InstalledWithin connects to the cluster like Installed. It is for commands whose flag -n selects the namespace of the object and not that of the
// installation. within is that namespace, or "" for any.
func (s *Session) InstalledWithin(ctx context.Context) (c *Cluster, within string, err error) {
	c, err = s.Local()
	if err != nil {
		return nil, "", err
	}
	if within = *s.Kubeconfig.Namespace; within != "" {
		c.Namespace, c.NamespaceGiven = api.Namespace, false
	}
	return c, within, c.RequireInstallation(ctx)
}

// ListKind returns the objects of a kind in a namespace, or in all namespaces if within is empty.
func ListKind(ctx context.Context, c *Cluster, kind Kind, within string) ([]client.Object, error) {
	list := kind.List()
	if err := c.List(ctx, list, client.InNamespace(within)); err != nil {
		return nil, fmt.Errorf("listing %s in %s: %w", kube.KindsOf(list), NamespaceText(within), err)
	}
	return kube.Items(list)
}

// FindObject returns the object with the given name, in any namespace if within is empty. It fails if several objects have the name.
func FindObject(ctx context.Context, c *Cluster, kind Kind, within, name string) (client.Object, error) {
	all, err := ListKind(ctx, c, kind, within)
	if err != nil {
		return nil, err
	}
	var found []client.Object
	var names, namespaces []string
	for _, object := range all {
		names = append(names, object.GetName())
		if object.GetName() == name {
			found, namespaces = append(found, object), append(namespaces, object.GetNamespace())
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, fmt.Errorf("there is a %s %s in the namespaces %s: name one with --namespace", kind.Name, name, strings.Join(namespaces, ", "))
	}
	slices.Sort(names)
	return nil, &NoneError{cmdline.DidYouMean(fmt.Errorf("there is no %s %s in %s (known: %s)",
		kind.Name, name, NamespaceText(within), cmp.Or(strings.Join(slices.Compact(names), ", "), "none")), name, names).Error()}
}

// NamespaceText returns a namespace for messages. An empty name means all namespaces.
func NamespaceText(name string) string {
	if name == "" {
		return "any namespace"
	}
	return "namespace " + name
}

// NoneError reports that no object has the name that the user gave.
type NoneError struct{ Text string }

func (e *NoneError) Error() string { return e.Text }
