package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/install/installer"
)

// networkKind is a kind of the objects that a network between two clusters is made of.
type networkKind struct {
	// name of its commands, and what else people call them.
	name    string
	aliases []string
	short   string
	list    func() client.ObjectList
	object  func(namespace, name string) client.Object
}

var (
	kindConfiguration = networkKind{
		"configuration", []string{"config", "conf"}, "Forget the address ranges of a peer",
		func() client.ObjectList { return &networkingv1beta1.ConfigurationList{} },
		func(namespace, name string) client.Object {
			return &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		},
	}
	kindServer = networkKind{
		"gatewayserver", []string{"server", "gws"}, "Remove the end of a tunnel that a peer dials",
		func() client.ObjectList { return &networkingv1beta1.GatewayServerList{} },
		func(namespace, name string) client.Object {
			return &networkingv1beta1.GatewayServer{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		},
	}
	kindClient = networkKind{
		"gatewayclient", []string{"client", "gwc"}, "Remove the end of a tunnel that dials a peer",
		func() client.ObjectList { return &networkingv1beta1.GatewayClientList{} },
		func(namespace, name string) client.Object {
			return &networkingv1beta1.GatewayClient{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		},
	}
	kindPublicKey = networkKind{
		"publickey", []string{"pk", "pkey"}, "Forget the key of a peer's gateway",
		func() client.ObjectList { return &networkingv1beta1.PublicKeyList{} },
		func(namespace, name string) client.Object {
			return &networkingv1beta1.PublicKey{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		},
	}
)

// gatewayKind is the kind of a gateway that people call server or client.
func gatewayKind(name string) (networkKind, error) {
	switch strings.ToLower(name) {
	case "server":
		return kindServer, nil
	case "client":
		return kindClient, nil
	}
	return networkKind{}, fmt.Errorf("--gateway-type %s: want server or client", name)
}

// installedWithin is installed for commands where -n names the namespace of the object they are about, "" for any.
func (a *app) installedWithin(ctx context.Context) (c *cluster, within string, err error) {
	c, err = a.local()
	if err != nil {
		return nil, "", err
	}
	if within = *a.kubeconfig.Namespace; within != "" {
		c.namespace = api.Namespace
		_, where, err := installer.InstalledCluster(ctx, c, c.namespace)
		if err != nil {
			return nil, "", err
		}
		c.namespace = orDefault(where, c.namespace)
	}
	return c, within, c.requireInstallation(ctx)
}

// all reads the objects of a kind in a namespace, or in all of them.
func (c *cluster) all(ctx context.Context, kind networkKind, within string) ([]client.Object, error) {
	list := kind.list()
	if err := c.List(ctx, list, client.InNamespace(within)); err != nil && !absent(err) {
		return nil, fmt.Errorf("reading %T: %w", list, err)
	}
	return objectsOf(list)
}

// find is the object of a name, wherever it is; it has to be the only one of its name.
func (c *cluster) find(ctx context.Context, kind networkKind, within, name string) (client.Object, error) {
	all, err := c.all(ctx, kind, within)
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
	return nil, fmt.Errorf("there is no %s %s in %s (known: %s)", kind.name, name, namespaceText(within), orDefault(strings.Join(slices.Compact(names), ", "), "none"))
}

func namespaceText(name string) string {
	if name == "" {
		return "any namespace"
	}
	return "namespace " + name
}

func (a *app) deleteCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "delete",
		Short: "Delete single objects",
		Long:  "Delete the objects that a network between clusters is made of, one by one.",
		Example: example(`
			# End the tunnel to milan
			%[1]s delete gatewayclient milan`),
	}, a.deleteNetworkCommand(kindConfiguration), a.deleteNetworkCommand(kindServer), a.deleteNetworkCommand(kindClient), a.deleteNetworkCommand(kindPublicKey))
}

func (a *app) deleteNetworkCommand(kind networkKind) *cobra.Command {
	var wait bool
	var timeout time.Duration
	command := &cobra.Command{
		Use:     kind.name + " NAME",
		Aliases: kind.aliases,
		Short:   kind.short,
		Long:    kind.short + ". The object is looked for in all namespaces, unless --namespace names one.",
		Example: example("%[1]s delete " + kind.name + " milan"),
		Args:    exactlyOne("the name of the " + kind.name),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			local, within, err := a.installedWithin(ctx)
			if err != nil {
				return err
			}
			object, err := local.find(ctx, kind, within, args[0])
			if err != nil {
				return err
			}
			if err := local.deleteAll(ctx, []client.Object{object}, wait); err != nil {
				return err
			}
			if !wait {
				local.Info("%s deleted", local.name(object))
			}
			return nil
		},
		ValidArgsFunction: a.names(kind),
	}
	command.Flags().BoolVar(&wait, "wait", true, "Wait until it is gone")
	command.Flags().DurationVar(&timeout, "timeout", 2*time.Minute, "How long to wait")
	return command
}

func (a *app) generateCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "generate",
		Short: "Print what a peer has to be told",
		Long:  "Print objects of this cluster that are to be applied in another one, for administrators who have access to one cluster each.",
		Example: example(`
			# Run in rome, to be applied in milan
			%[1]s generate configuration > rome.yaml`),
	}, a.generateConfigurationCommand(), a.generatePublicKeyCommand())
}

// addPeerFlag registers the cluster ID that an object is about.
func (a *app) addPeerFlag(command *cobra.Command, peer *string) {
	command.Flags().StringVar(peer, "remote-cluster-id", "", "Cluster ID of the peer (required)")
	required(command, "remote-cluster-id")
	completeFlag(command, "remote-cluster-id", a.completion(func(ctx context.Context, c *cluster) ([]string, error) {
		var foreign corev1beta1.ForeignClusterList
		if err := c.List(ctx, &foreign); err != nil {
			return nil, err
		}
		var out []string
		for i := range foreign.Items {
			out = append(out, foreign.Items[i].Spec.ClusterID)
		}
		return out, nil
	}))
}

// addGenerateFlags registers what all commands that print an object for a peer have.
func addGenerateFlags(flags *pflag.FlagSet, output *outputFlag, namespace *string) {
	flags.StringVarP(&output.format, "output", "o", "yaml", "How to print the object: json or yaml")
	flags.StringVar(namespace, "remote-tenant-namespace", "", "Namespace in the peer to put the object into (default: liqo-tenant- and the ID of this cluster)")
}

// completionFunc answers what a word that is being typed could become.
type completionFunc = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// completion makes one of a question to the cluster. A shell that waits is worse than one that completes nothing.
func (a *app) completion(ask func(context.Context, *cluster) ([]string, error)) completionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), 3*time.Second)
		defer cancel()
		c, err := a.local()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		all, err := ask(ctx, c)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		slices.Sort(all)
		all = slices.DeleteFunc(slices.Compact(all), func(word string) bool { return !strings.HasPrefix(word, typed) })
		return all, cobra.ShellCompDirectiveNoFileComp
	}
}

// names completes the names of objects.
func (a *app) names(kinds ...networkKind) completionFunc {
	ask := a.completion(func(ctx context.Context, c *cluster) ([]string, error) {
		var out []string
		for _, kind := range kinds {
			objects, err := c.all(ctx, kind, *a.kubeconfig.Namespace)
			if err != nil {
				return nil, err
			}
			for _, object := range objects {
				out = append(out, object.GetName())
			}
		}
		return out, nil
	})
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return ask(cmd, args, typed)
	}
}

// completeFlag has a flag completed.
func completeFlag(command *cobra.Command, flag string, complete completionFunc) {
	if err := command.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(fmt.Sprintf("command %s: %v", command.Name(), err)) // a programming error
	}
}

// oneOf completes a flag by the values that it takes.
func oneOf(command *cobra.Command, flag string, values ...string) {
	completeFlag(command, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}
