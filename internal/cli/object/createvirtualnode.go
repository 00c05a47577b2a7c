package object

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/handshake"
	"liqo.io/liqo/internal/cli/inspect"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
)

// virtualNodeOptions holds the flags of create virtualnode.
type virtualNodeOptions struct {
	provider                        string
	slice, secret                   string
	createNode, disableNetworkCheck bool
	template                        string
	resources                       cmdline.Resources
	storage, ingress, loadBalancers []string
	labels, nodeSelector            map[string]string
	runtimeClass                    string
	timeout                         time.Duration
	output                          cmdline.Output
}

func createVirtualNodeCommand(a *session.Session) *cobra.Command {
	var o virtualNodeOptions
	var command *cobra.Command
	command = &cobra.Command{
		Use:     "virtualnode NAME",
		Aliases: session.KindVirtualNode.Aliases,
		Short:   "Create a virtual node for a provider",
		Long: "Create a VirtualNode, for which Liqo creates a Node of the same name. The resources and classes come from a granted ResourceSlice,\n" +
			"or from flags. With flags, a Secret in the tenant namespace provides the kubeconfig for the provider.",
		Example: cmdline.Example(`
			# For a ResourceSlice that was created with --no-virtual-node
			%[1]s create virtualnode milan-gpu --remote-cluster-id milan --resource-slice-name milan-gpu
			# With a Secret that has the kubeconfig, and with explicit amounts
			%[1]s create virtualnode milan-2 --remote-cluster-id milan --kubeconfig-secret-name kubeconfig-resourceslice-milan --cpu 4 --memory 8Gi`),
		Args:              cmdline.ExactlyOne("the name of the virtual node"),
		ValidArgsFunction: cobra.NoFileCompletions, // a new name
		RunE: session.WithTimeout(&o.timeout, func(ctx context.Context, args []string) error {
			if err := errors.Join(o.validate(), o.output.Validate()); err != nil {
				return err
			}
			if ignored := o.ignored(command.Flags()); len(ignored) > 0 {
				a.Console().Warn("No effect: %s. With --resource-slice-name, the node has the granted resources and classes: change the ResourceSlice (liqoctl create resourceslice), or give "+
					"--kubeconfig-secret-name instead", strings.Join(ignored, ", "))
			}
			amounts, err := o.resources.List()
			if err != nil {
				return err
			}
			local, err := a.Installed(ctx)
			if err != nil {
				return err
			}
			return createVirtualNode(ctx, local, args[0], &o, amounts)
		}),
	}
	flags := command.Flags()
	session.AddClusterFlag(command, &o.provider, "provider")
	flags.StringVar(&o.slice, "resource-slice-name", "", "Granted ResourceSlice from which the node takes its resources")
	flags.StringVar(&o.secret, "kubeconfig-secret-name", "", "Secret in the tenant namespace with the kubeconfig to use")
	flags.BoolVar(&o.createNode, "create-node", true, "Create a Node; without a Node, Liqo only reflects resources and offloads no pods")
	flags.BoolVar(&o.disableNetworkCheck, "disable-network-check", false, "Keep the Node Ready while the network to the provider is down")
	flags.StringVar(&o.template, "vk-options-template", "", "VkOptionsTemplate of the virtual kubelet, namespace/name (default: that of the installation)")
	o.resources = cmdline.Resources{CPU: "2", Memory: "4Gi", Pods: "110"}
	flags.StringVar(&o.resources.CPU, "cpu", o.resources.CPU, "CPU of the node"+notWithSlice)
	flags.StringVar(&o.resources.Memory, "memory", o.resources.Memory, "Memory of the node"+notWithSlice)
	flags.StringVar(&o.resources.Pods, "pods", o.resources.Pods, "Maximum number of pods on the node"+notWithSlice)
	flags.StringToStringVar(&o.resources.Others, "resource", nil, "Any other resource of the node (name=quantity,...)"+notWithSlice)
	flags.StringSliceVar(&o.storage, "storage-classes", nil, "Storage classes of the provider that may be used, the first is the default"+notWithSlice)
	flags.StringSliceVar(&o.ingress, "ingress-classes", nil, "Ingress classes of the provider that may be used, the first is the default"+notWithSlice)
	flags.StringSliceVar(&o.loadBalancers, "load-balancer-classes", nil,
		"Load-balancer classes of the provider that may be used, the first is the default"+notWithSlice)
	flags.StringToStringVar(&o.labels, "labels", nil, "Labels of the node (key=value,...)")
	flags.StringToStringVar(&o.nodeSelector, "node-selector", nil, "Labels of the provider's nodes that its pods may run on (key=value,...)")
	flags.StringVar(&o.runtimeClass, "runtime-class-name", "", "RuntimeClass of the offloaded pods in the provider")
	flags.DurationVar(&o.timeout, "timeout", 2*time.Minute, "Maximum time to wait until the node is Ready")
	o.output.Add(flags, "Only print the object, do not create it")
	a.AddDryRun(flags)
	session.CompleteFlag(command, "resource-slice-name", a.Complete(func(ctx context.Context, c *session.Cluster) ([]string, error) {
		var list authv1beta1.ResourceSliceList
		err := c.List(ctx, &list, client.MatchingLabels{api.LabelReplication: api.True})
		return session.NamesOf(list.Items, func(s authv1beta1.ResourceSlice) string { return s.Name }), err
	}))
	return command
}

// notWithSlice ends the help of the flags that have no effect with a ResourceSlice.
const notWithSlice = "; no effect with --resource-slice-name"

// ignored returns the flags that the user set although they have no effect with a ResourceSlice.
func (o *virtualNodeOptions) ignored(flags *pflag.FlagSet) (names []string) {
	if o.slice == "" {
		return nil
	}
	for _, name := range []string{"cpu", "memory", "pods", "resource", "storage-classes", "ingress-classes", "load-balancer-classes"} {
		if flags.Changed(name) {
			names = append(names, "--"+name)
		}
	}
	return names
}

func (o *virtualNodeOptions) validate() error {
	if (o.slice == "") == (o.secret == "") {
		return errors.New("want exactly one of --resource-slice-name and --kubeconfig-secret-name: they choose the identity of the virtual node")
	}
	if o.template != "" && strings.Count(o.template, "/") != 1 {
		return fmt.Errorf("--vk-options-template %s: want namespace/name", o.template)
	}
	return nil
}

func createVirtualNode(ctx context.Context, c *session.Cluster, name string, o *virtualNodeOptions, amounts corev1.ResourceList) error {
	namespace, err := session.RequireTenantNamespace(ctx, c, o.provider)
	if err != nil {
		return err
	}
	fill := func(node *offloadingv1beta1.VirtualNode) { o.fill(node, amounts) }
	if o.slice != "" {
		slice, secret, err := grantedSlice(ctx, c, namespace, o.slice)
		if err != nil {
			return err
		}
		fill = func(node *offloadingv1beta1.VirtualNode) {
			o.fill(node, nil)
			offload.Fill(node, slice, secret)
		}
	} else if err := checkKubeconfigSecret(ctx, c, namespace, o.secret); err != nil {
		return fmt.Errorf("--kubeconfig-secret-name %s: %w", o.secret, err)
	}
	node := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if o.output.Format != "" {
		fill(node)
		return session.PrintObject(c, node, o.output.Format)
	}
	if o.createNode {
		if err := handshake.CheckNodeName(ctx, c, name, o.provider, "give the VirtualNode another name, or --create-node=false"); err != nil {
			return err
		}
	}
	if err := createOrUpdate(ctx, c, node, func() { fill(node) }); err != nil {
		return err
	}
	return handshake.NodeReady(ctx, c, namespace, name)
}

// checkKubeconfigSecret fails if a virtual kubelet cannot work with the kubeconfig in a Secret. It reads only the Secret, and does not contact the provider.
func checkKubeconfigSecret(ctx context.Context, c *session.Cluster, namespace, name string) error {
	secret := &corev1.Secret{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret); apierrors.IsNotFound(err) {
		return fmt.Errorf("there is no Secret %s in namespace %s: give one with the kubeconfig of a ResourceSlice, %s%sNAME "+
			"(liqoctl create resourceslice requests a ResourceSlice)", name, namespace, authv1beta1.KubeconfigSecretPrefix, authv1beta1.IdentityResourceSlicePrefix)
	} else if err != nil {
		return fmt.Errorf("reading Secret %s in namespace %s: %w", name, namespace, err)
	}
	if secret.Labels[authv1beta1.LabelIdentityType] == string(authv1beta1.IdentityControlPlane) {
		// With this identity the node would become Ready, but its pods could not run.
		return fmt.Errorf("the Secret in namespace %s holds the identity of the controller manager, which may not run pods in the provider: "+
			"give the Secret of a ResourceSlice, %s%sNAME, or the ResourceSlice itself with --resource-slice-name (liqoctl create resourceslice requests a ResourceSlice)",
			namespace, authv1beta1.KubeconfigSecretPrefix, authv1beta1.IdentityResourceSlicePrefix)
	}
	return nil
}

// grantedSlice returns a ResourceSlice that the provider accepted, and the name of the Secret with the kubeconfig for it.
func grantedSlice(ctx context.Context, c *session.Cluster, namespace, name string) (*authv1beta1.ResourceSlice, string, error) {
	slice := &authv1beta1.ResourceSlice{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, slice); apierrors.IsNotFound(err) {
		return nil, "", fmt.Errorf("there is no ResourceSlice %s in namespace %s: create it with liqoctl create resourceslice", name, namespace)
	} else if err != nil {
		return nil, "", fmt.Errorf("reading ResourceSlice %s in namespace %s: %w", name, namespace, err)
	}
	if described := inspect.DescribeSlice(slice); !described.Accepted {
		return nil, "", fmt.Errorf("ResourceSlice %s in namespace %s is not granted: %s", name, namespace, strings.Join(described.Alerts, "; "))
	}
	identity := &authv1beta1.Identity{}
	key := client.ObjectKey{Namespace: namespace, Name: authv1beta1.IdentityResourceSlicePrefix + name}
	if err := c.Get(ctx, key, identity); client.IgnoreNotFound(err) != nil {
		return nil, "", fmt.Errorf("reading Identity %s: %w", key, err)
	}
	if identity.Status.KubeconfigSecretRef == nil {
		return nil, "", fmt.Errorf("identity %s has no kubeconfig yet%s: run the command again when it has", key, session.Unmet(identity.Status.Conditions))
	}
	return slice, identity.Status.KubeconfigSecretRef.Name, nil
}

// fill sets the fields of a VirtualNode from the flags.
func (o *virtualNodeOptions) fill(node *offloadingv1beta1.VirtualNode, amounts corev1.ResourceList) {
	kube.AddLabels(node, map[string]string{api.LabelRemoteClusterID: o.provider})
	spec := &node.Spec
	spec.ClusterID = o.provider
	spec.CreateNode, spec.DisableNetworkCheck = &o.createNode, &o.disableNetworkCheck
	spec.Labels = o.labels
	if namespace, name, given := strings.Cut(o.template, "/"); given {
		spec.VkOptionsTemplateRef = &corev1.ObjectReference{Namespace: namespace, Name: name}
	}
	if len(o.nodeSelector) > 0 || o.runtimeClass != "" {
		spec.OffloadingPatch = &offloadingv1beta1.OffloadingPatch{NodeSelector: o.nodeSelector}
		if o.runtimeClass != "" {
			spec.OffloadingPatch.RuntimeClassName = &o.runtimeClass
		}
	}
	if o.slice != "" {
		return // the other fields come from the ResourceSlice
	}
	spec.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: o.secret}
	spec.ResourceQuota.Hard = amounts
	spec.StorageClasses, spec.IngressClasses, spec.LoadBalancerClasses = nil, nil, nil
	for i, name := range o.storage {
		spec.StorageClasses = append(spec.StorageClasses, authv1beta1.StorageType{StorageClassName: name, Default: i == 0})
	}
	for i, name := range o.ingress {
		spec.IngressClasses = append(spec.IngressClasses, authv1beta1.IngressType{IngressClassName: name, Default: i == 0})
	}
	for i, name := range o.loadBalancers {
		spec.LoadBalancerClasses = append(spec.LoadBalancerClasses, authv1beta1.LoadBalancerType{LoadBalancerClassName: name, Default: i == 0})
	}
}
