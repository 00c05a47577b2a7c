package cli

import (
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
	"liqo.io/liqo/internal/kube"
)

// objectKind is a kind whose objects commands create, delete or show individually.
type objectKind struct {
	// name is the name in its commands. aliases are alternative names.
	name    string
	aliases []string
	// short is the help text for deleting an object of the kind.
	short  string
	list   func() client.ObjectList
	object func(namespace, name string) client.Object
}

var (
	kindConfiguration = objectKind{
		"configuration", []string{"config", "conf"}, "Delete the Configuration of a peer, with its address ranges",
		func() client.ObjectList { return &networkingv1beta1.ConfigurationList{} },
		func(namespace, name string) client.Object {
			return &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		},
	}
	kindServer = objectKind{
		"gatewayserver", []string{"server", "gws"}, "Delete the server side of a tunnel",
		func() client.ObjectList { return &networkingv1beta1.GatewayServerList{} },
		func(namespace, name string) client.Object {
			return &networkingv1beta1.GatewayServer{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		},
	}
	kindClient = objectKind{
		"gatewayclient", []string{"client", "gwc"}, "Delete the client side of a tunnel",
		func() client.ObjectList { return &networkingv1beta1.GatewayClientList{} },
		func(namespace, name string) client.Object {
			return &networkingv1beta1.GatewayClient{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		},
	}
	kindPublicKey = objectKind{
		"publickey", []string{"pk", "pkey"}, "Delete the PublicKey of a peer's gateway",
		func() client.ObjectList { return &networkingv1beta1.PublicKeyList{} },
		func(namespace, name string) client.Object {
			return &networkingv1beta1.PublicKey{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		},
	}
	kindVirtualNode = objectKind{
		"virtualnode", []string{"vn", "vnode"}, "Delete a virtual node, after draining it",
		func() client.ObjectList { return &offloadingv1beta1.VirtualNodeList{} },
		func(namespace, name string) client.Object {
			return &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		},
	}
	kindTenant = objectKind{
		"tenant", []string{"tenants", "tn"}, "",
		func() client.ObjectList { return &authv1beta1.TenantList{} },
		func(namespace, name string) client.Object {
			return &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		},
	}
	kindSlice = objectKind{
		"resourceslice", []string{"resourceslices", "rs", "rslice"}, "Delete a ResourceSlice, after draining and deleting its virtual node",
		func() client.ObjectList { return &authv1beta1.ResourceSliceList{} },
		func(namespace, name string) client.Object {
			return &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		},
	}
)

// installedWithin connects to the cluster like installed. It is for commands whose flag -n selects the namespace of the object and not that of the
// installation. within is that namespace, or "" for any.
func (a *app) installedWithin(ctx context.Context) (c *cluster, within string, err error) {
	c, err = a.local()
	if err != nil {
		return nil, "", err
	}
	if within = *a.kubeconfig.Namespace; within != "" {
		c.namespace, c.named = api.Namespace, false
	}
	return c, within, c.requireInstallation(ctx)
}

// listKind returns the objects of a kind in a namespace, or in all namespaces if within is empty.
func listKind(ctx context.Context, c *cluster, kind objectKind, within string) ([]client.Object, error) {
	list := kind.list()
	if err := c.List(ctx, list, client.InNamespace(within)); err != nil {
		return nil, fmt.Errorf("listing %s in %s: %w", kube.KindsOf(list), namespaceText(within), err)
	}
	return objectsOf(list)
}

// findObject returns the object with the given name, in any namespace if within is empty. It fails if several objects have the name.
func findObject(ctx context.Context, c *cluster, kind objectKind, within, name string) (client.Object, error) {
	all, err := listKind(ctx, c, kind, within)
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
		return nil, fmt.Errorf("there is a %s %s in the namespaces %s: name one with --namespace", kind.name, name, strings.Join(namespaces, ", "))
	}
	slices.Sort(names)
	return nil, &noneError{didYouMean(fmt.Errorf("there is no %s %s in %s (known: %s)",
		kind.name, name, namespaceText(within), orDefault(strings.Join(slices.Compact(names), ", "), "none")), name, names).Error()}
}

func namespaceText(name string) string {
	if name == "" {
		return "any namespace"
	}
	return "namespace " + name
}
