package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// authFlags holds the flags for the authentication between the clusters.
type authFlags struct {
	inBand   bool
	proxyURL string
	// invite lets the provider also use the consumer, through the same tunnel.
	invite bool
	// force replaces the stored key or CA of another cluster with the same ID.
	force bool
	// given reports whether the user set a flag. Without flags, a peering keeps its current connection to the API server.
	given func(name string) bool
}

func (f *authFlags) add(flags *pflag.FlagSet) {
	f.given = flags.Changed
	flags.BoolVar(&f.inBand, "in-band", false, "Reach the provider's API server through the tunnel (--in-band=false: no longer)")
	flags.StringVar(&f.proxyURL, "proxy-url", "", "HTTP CONNECT proxy on the way to the provider's API server")
	f.addForce(flags)
}

func (f *authFlags) addInvite(flags *pflag.FlagSet) {
	flags.BoolVar(&f.invite, "invite", false, fmt.Sprintf("With in-band: also let the provider use resources of the local cluster, for %d days, when its administrator runs peer NAME there", maxTokenLifetime/(24*time.Hour)))
}

func (f *authFlags) addForce(flags *pflag.FlagSet) {
	flags.BoolVar(&f.force, "force", false, "Replace the key or the CA of a cluster with the same ID that was peered before")
}

func (f *authFlags) validate() error {
	if f.inBand && f.proxyURL != "" {
		return errors.New("--in-band goes through the proxy of the provider, --proxy-url through another one: use one of them")
	}
	if f.invite && !f.inBand {
		return errors.New("--invite needs --in-band: without it, the provider peers with this cluster by the command that liqoctl generate peer-command prints here")
	}
	if f.proxyURL != "" && !strings.HasPrefix(f.proxyURL, "http://") && !strings.HasPrefix(f.proxyURL, "https://") {
		return fmt.Errorf("--proxy-url %s: want http://host:port", f.proxyURL)
	}
	return nil
}

type peerOptions struct {
	auth               authFlags
	network            networkOptions
	resources          resourceFlags
	timeout            time.Duration
	networkingDisabled bool
	// bidirectional means that the provider is to become a consumer too.
	bidirectional                   bool
	createResourceSlice, createNode bool
	class                           string
	// location is the value of the flag for where the gateway server runs.
	location string
}

func (a *app) peerCommand() *cobra.Command {
	var o peerOptions
	command := &cobra.Command{
		Use:   "peer [NAME]",
		Short: "Peer with a provider: its resources become a node of the local cluster",
		Long: "Peer the local cluster, the consumer, with the remote one, the provider: connect their networks, authenticate, ask for\n" +
			"resources, and wait until they are a Ready node of the local cluster and the peering is healthy. Running it again goes on\n" +
			"where it stopped.\n\n" +
			"With NAME and no remote kubeconfig, the provider is a cluster that uses this one, and left an invitation here to use its resources\n" +
			"too: by peer out-of-band --invite, or by peer --in-band --invite, which leads through the same tunnel.\n\n" +
			"With --networking-disabled, or where a cluster was installed without networking, offloaded pods run, but reach the pods and\n" +
			"services of the local cluster only where the infrastructure routes them.",
		Example: example(`
			# Pods of this cluster may run in the one of milan.yaml
			%[1]s peer --remote-kubeconfig milan.yaml
			# The provider has no load balancers, and only its tunnel can be reached from here, its API server can not
			%[1]s peer --remote-kubeconfig milan.yaml --gw-server-service-type NodePort --in-band
			# Two contexts of one kubeconfig, and amounts of one's own
			%[1]s peer --context rome --remote-context milan --cpu 8 --memory 32Gi
			# The other way round: on milan, which rome uses and has invited (peer out-of-band --invite, or peer --in-band --invite)
			%[1]s peer rome
			# Only authenticate, the resources are asked for later
			%[1]s peer --remote-kubeconfig milan.yaml --create-resource-slice=false`),
		Args:              atMostOne("the name of a cluster that has invited this one"),
		ValidArgsFunction: a.firstOf(peersOf),
	}
	remote := remoteFlags(command.Flags())
	o.auth.add(command.Flags())
	o.auth.addInvite(command.Flags())
	o.addBoth(command)
	a.addDryRun(command.Flags())
	command.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
		defer cancel()
		if len(args) == 1 {
			if err := aloneWith(cmd, args[0]); err != nil {
				return err
			}
			return a.peerInvited(ctx, args[0], &o)
		}
		_, err := a.peer(ctx, remote, &o)
		return err
	}
	command.AddCommand(a.peerOutOfBandCommand(), a.peerInBandCommand())
	return command
}

// add registers the flags of all commands that peer.
func (o *peerOptions) add(flags *pflag.FlagSet) {
	flags.DurationVar(&o.timeout, "timeout", 10*time.Minute, "Maximum time for the whole command")
	flags.BoolVar(&o.networkingDisabled, "networking-disabled", false, "Do not connect the networks of the clusters")
	flags.BoolVar(&o.createResourceSlice, "create-resource-slice", true, "Request resources from the provider by a ResourceSlice")
	flags.StringVar(&o.class, "resource-slice-class", defaultClass, "Class of the ResourceSlice")
	flags.BoolVar(&o.createNode, "create-virtual-node", true, "Create a virtual node with the granted resources")
	o.resources.add(flags)
}

// addBoth registers these flags and those of commands with access to both clusters.
func (o *peerOptions) addBoth(command *cobra.Command) {
	flags := command.Flags()
	o.add(flags)
	flags.BoolVar(&o.network.skipValidation, "skip-validation", false, "Skip the check whether the networks of both clusters can be connected")
	flags.StringVar(&o.location, "gw-server-service-location", locationProvider, "Where the gateway server runs: Provider or Consumer")
	oneOf(command, "gw-server-service-location", locationProvider, locationConsumer)
	o.network.add(command)
}

func (a *app) peer(ctx context.Context, remote *remoteConfig, o *peerOptions) (*pair, error) {
	resources, err := o.resources.list()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(o.network.locate(o.location), o.auth.validate(), o.network.validate()); err != nil {
		return nil, err
	}
	if o.auth.inBand && o.networkingDisabled {
		return nil, errors.New("--in-band goes through the tunnel that --networking-disabled does not make: leave one of them out")
	}
	p, err := a.pair(ctx, remote)
	if err != nil {
		return nil, err
	}
	return p, p.explained(p.peer(ctx, o, resources))
}

// peer runs the steps of a peering between two connected clusters: connect the networks, authenticate, request resources, and wait for the
// node.
func (p *pair) peer(ctx context.Context, o *peerOptions, resources corev1.ResourceList) error {
	if err := p.checkRights(o); err != nil {
		return err
	}
	if err := p.checkPeer(ctx, o); err != nil {
		return err
	}
	// A user without permissions on the remote network lets the control planes connect the networks, with the identity from the peering.
	asks := p.mustAskForNetwork(o)
	var t *tunnel
	var err error
	if asks {
		except := []string{"gw-server-service-location"}
		if o.location == locationConsumer {
			except = append(except, connectServerFlags.serviceType)
		}
		p.withoutEffect(&o.network, except...)
	} else if t, err = p.peerNetwork(ctx, o); err != nil {
		return err
	}
	proxy, err := p.proxyURL(ctx, &o.auth)
	if err != nil {
		return err
	}
	if err := p.authenticate(ctx, proxy); err != nil {
		return err
	}
	if o.auth.invite {
		if err := p.inviteBack(ctx); err != nil {
			return err
		}
	}
	connected := t != nil
	if asks {
		if connected, err = p.askForNetwork(ctx, o); err != nil {
			return err
		}
	}
	node := false
	if o.createResourceSlice {
		if node, err = p.local.askForResources(ctx, p.remote.id, p.remote.id, o, resources); err != nil {
			return err
		}
	}
	return p.local.healthy(ctx, p.remote.id, connected, node)
}

// askForResources creates the ResourceSlice and waits for the outcome: a Ready node, unless the user wants no node.
func (c *cluster) askForResources(ctx context.Context, provider, name string, o *peerOptions, resources corev1.ResourceList) (node bool, err error) {
	namespace, err := c.requireTenantNamespace(ctx, provider)
	if err != nil {
		return false, err
	}
	slice, err := c.ensureSlice(ctx, &sliceRequest{
		name: name, class: o.class, provider: provider, namespace: namespace, virtualNode: o.createNode, resources: resources,
	})
	if err != nil {
		return false, err
	}
	accepted, err := c.verdictOnResources(ctx, slice)
	if err != nil {
		return false, err
	}
	if !accepted {
		return false, fmt.Errorf("cluster %s does not grant the resources of ResourceSlice %s in namespace %s: ask for less, or ask its administrator", provider, slice.Name, slice.Namespace)
	}
	if !o.createNode {
		return false, nil
	}
	return true, c.nodeReady(ctx, namespace, slice.Name)
}

// nodeReady waits for a VirtualNode, and then until the Node with the same name is Ready.
func (c *cluster) nodeReady(ctx context.Context, namespace, name string) error {
	step := c.Start("Waiting for the virtual node %s", name)
	defer step.End()
	virtual := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := c.wait(ctx, step, virtual, yes); err != nil {
		return err
	}
	c.Did("VirtualNode %s is created", name)
	if virtual.Spec.CreateNode != nil && !*virtual.Spec.CreateNode {
		c.Info("No Node is made of it (spec.createNode is false)")
		return nil
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	err := c.wait(ctx, step, node, func() verdict {
		for _, condition := range node.Status.Conditions {
			if condition.Type != corev1.NodeReady {
				continue
			}
			if condition.Status == corev1.ConditionTrue {
				return yes()
			}
			return notYet("condition Ready is %s, %s: %s", condition.Status, condition.Reason, condition.Message)
		}
		return notYet("it has no condition Ready")
	})
	if err != nil {
		if hint := c.kubeletState(namespace, name); hint != "" {
			return fmt.Errorf("%w; %s", err, hint)
		}
		return err
	}
	step.Done("Node %s is Ready", name)
	return nil
}

// kubeletState says why the pods of a virtual kubelet are not running, to explain a failed wait. It has its own timeout, because the
// timeout of the wait has expired.
func (c *cluster) kubeletState(namespace, virtualNode string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{api.LabelVirtualNode: virtualNode}); err != nil {
		return ""
	}
	if len(pods.Items) == 0 {
		return fmt.Sprintf("there is no pod of its virtual kubelet in namespace %s: see the VirtualNode's conditions and the log of Deployment %s in namespace %s",
			namespace, deploymentName, c.namespace)
	}
	for _, pod := range pods.Items {
		if why := podTrouble(&pod); why != "" {
			return why
		}
	}
	return ""
}

// podTrouble says in one sentence why a pod is not ready. It is empty if the pod shows no problem.
func podTrouble(pod *corev1.Pod) string {
	for _, container := range pod.Status.ContainerStatuses {
		if waiting := container.State.Waiting; waiting != nil {
			why := strings.TrimSuffix(waiting.Reason+": "+waiting.Message, ": ")
			return fmt.Sprintf("container %s of pod %s in namespace %s is waiting, %s", container.Name, pod.Name, pod.Namespace, why)
		}
		if ended := container.State.Terminated; ended != nil {
			return fmt.Sprintf("container %s of pod %s in namespace %s ended with code %d, %s: %s", container.Name, pod.Name, pod.Namespace, ended.ExitCode, ended.Reason, ended.Message)
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Status == corev1.ConditionFalse && condition.Message != "" {
			return fmt.Sprintf("pod %s in namespace %s: %s, %s: %s", pod.Name, pod.Namespace, condition.Type, condition.Reason, condition.Message)
		}
	}
	return ""
}
