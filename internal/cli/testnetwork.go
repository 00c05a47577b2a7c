package cli

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// testImage is the name of the image with the test server. Its registry and tag are those of the installation.
const testImage = "testserver"

type testNetworkOptions struct {
	testOptions
	remotes       []string
	image         string
	timeout       time.Duration
	ip            bool
	failFast, all bool
	remove        bool
	// outsideAddress is the address of the outside host, for the IP objects.
	outsideAddress netip.Addr
}

func testCommand(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:   "test",
		Short: "Run end-to-end checks",
		Long:  "Run pods that check whether the peered clusters work as intended.",
		Example: example(`
			# Do pods of all clusters reach each other?
			%[1]s test network --remote-kubeconfigs milan.yaml`),
	}, testNetworkCommand(a))
}

func testNetworkCommand(a *app) *cobra.Command {
	var o testNetworkOptions
	command := &cobra.Command{
		Use:   "network",
		Short: "Check that pods, services and nodes of peered clusters reach each other",
		Long: "Run a server on every node of the local cluster, the consumer, and of its providers, and let each of them send requests to all others: by\n" +
			"address, by the name of their Service, from the host network, and the outside. Further checks are chosen by flags. What\n" +
			"fails is tried again a few times; then every failing pair is named and the exit code is 1.\n\n" +
			"The servers run in namespace " + testNamespacePrefix + "-CLUSTER-ID, with the ID of the consumer. They stay there for the next run unless you set --rm.",
		Example: example(`
			# A consumer and two providers
			%[1]s test network --remote-kubeconfigs milan.yaml,naples.yaml
			# Only pod to pod; delete the servers afterwards
			%[1]s test network -p milan.yaml --basic --rm
			# Node ports of the workers too, asked by pods and by this machine, with every result
			%[1]s test network -p milan.yaml --pod-np --np-ext --np-nodes workers --info`),
		Args: cobra.NoArgs,
	}
	flags := command.Flags()
	flags.StringSliceVarP(&o.remotes, "remote-kubeconfigs", "p", nil, "Kubeconfigs of the providers, separated by commas")
	flags.DurationVar(&o.timeout, "timeout", 5*time.Minute, "Maximum time for all checks. With --rm, deleting the servers may take 2m more")
	flags.BoolVar(&o.failFast, "fail-fast", false, "Stop at the first failure")
	flags.BoolVar(&o.all, "info", false, "Print every result")
	flags.StringVar(&o.nodes, "np-nodes", nodesAll, "Nodes whose node ports this machine connects to: "+nodesAll+", "+nodesWorkers+" or "+nodesControlPlanes)
	flags.BoolVar(&o.externalToNodePort, "np-ext", false, "Also check that this machine reaches the node ports")
	flags.BoolVar(&o.podToNodePort, "pod-np", false, "Also check that pods reach the node ports")
	flags.BoolVar(&o.balancer, "lb", false, "Also check that pods reach the load balancers")
	flags.BoolVar(&o.ip, "ip", false, "Also check that pods reach the outside through IP objects of the other clusters")
	flags.BoolVar(&o.basic, "basic", false, "Check only connections between pods, and those that other flags select")
	flags.BoolVar(&o.remove, "rm", false, "Remove all test pods at the end")
	flags.StringVar(&o.image, "image", "", "Image of the test server (default: "+testImage+" of the registry that Liqo was installed from, with the same tag; required if that installation is pinned by digest)")
	flags.StringVar(&o.outside, "outside", "http://example.com", "URL of a server outside the clusters, for the checks that need one; empty for none")
	a.addDryRun(flags)
	required(command, "remote-kubeconfigs")
	oneOf(command, "np-nodes", nodesAll, nodesWorkers, nodesControlPlanes)
	command.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.validate(); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
		defer cancel()
		return testNetwork(ctx, a, &o)
	}
	return command
}

func (o *testNetworkOptions) validate() error {
	if err := oneOfThese("np-nodes", o.nodes, nodesAll, nodesWorkers, nodesControlPlanes); err != nil {
		return err
	}
	if o.outside == "" {
		if o.ip {
			return errors.New("--ip needs a server outside the clusters: name it with --outside http://address")
		}
		return nil
	}
	target, err := url.Parse(o.outside)
	if err != nil || target.Scheme != "http" || target.Hostname() == "" {
		return fmt.Errorf("--outside %s: want http://host or http://host:port", o.outside)
	}
	return nil
}

// locateOutside resolves the IPv4 address of the outside host, for the IP objects of --ip. It picks the lowest of several addresses, so
// that the next run needs no change of the objects.
func (o *testNetworkOptions) locateOutside(ctx context.Context, resolve func(ctx context.Context, network, host string) ([]netip.Addr, error)) error {
	target, err := url.Parse(o.outside)
	if err != nil {
		return fmt.Errorf("--outside %s: %w", o.outside, err)
	}
	addresses, err := resolve(ctx, "ip4", target.Hostname())
	if err != nil {
		return fmt.Errorf("--outside %s: the IP objects of --ip need the address of its host, which is not found: give an IPv4 address, --outside http://ADDRESS: %w", o.outside, err)
	}
	addresses = slices.DeleteFunc(addresses, func(a netip.Addr) bool { return !a.Unmap().Is4() })
	if len(addresses) == 0 {
		return fmt.Errorf("--outside %s: the IP objects of --ip need an IPv4 address, and %s has no IPv4 address: name another host with --outside http://ADDRESS", o.outside, target.Hostname())
	}
	o.outsideAddress = slices.MinFunc(addresses, netip.Addr.Compare).Unmap()
	return nil
}

// testNetwork connects to the clusters, deploys the test servers, runs the checks and reports the failures.
func testNetwork(ctx context.Context, a *app, o *testNetworkOptions) (err error) {
	t := &networkTest{options: o}
	if t.consumer, err = a.installed(ctx); err != nil {
		return err
	}
	if o.ip {
		if err := o.locateOutside(ctx, a.resolve); err != nil {
			return err
		}
	}
	for _, path := range o.remotes {
		provider, err := connectProvider(ctx, a, "--remote-kubeconfigs", path)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(t.clusters(), func(c *cluster) bool { return c.id == provider.id }) {
			return fmt.Errorf("--remote-kubeconfigs %s: cluster %s is named twice, or is the local one", path, provider.id)
		}
		t.providers = append(t.providers, provider)
	}
	if o.image == "" {
		if o.image, err = imageBeside(ctx, t.consumer, testImage); err != nil {
			return err
		}
	}
	if o.remove && !a.dryRun {
		defer func() {
			// The removal has its own timeout. It also runs after the checks have timed out or the user has interrupted them.
			removing, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
			defer cancel()
			removal := t.remove(removing)
			if removal == nil {
				a.journal.RollsBack()
			}
			err = errors.Join(err, removal)
		}()
	}
	if err := t.deploy(ctx); err != nil {
		return err
	}
	if a.dryRun {
		t.consumer.Info("Then each test server would connect to all others")
		return nil
	}
	world, err := t.settled(ctx)
	if err != nil {
		return err
	}
	return t.check(ctx, planChecks(world, &o.testOptions))
}

// networkTest is one run of test network.
type networkTest struct {
	options   *testNetworkOptions
	consumer  *cluster
	providers []*cluster
}

// clusters returns all clusters, the consumer first.
func (t *networkTest) clusters() []*cluster { return append([]*cluster{t.consumer}, t.providers...) }

// cluster returns the cluster with the given ID.
func (t *networkTest) cluster(id string) *cluster {
	all := t.clusters()
	return all[slices.IndexFunc(all, func(c *cluster) bool { return c.id == id })]
}

// connectProvider connects to the cluster of a kubeconfig from the given flag. It fails if Liqo is not installed there.
func connectProvider(ctx context.Context, a *app, flag, kubeconfig string) (*cluster, error) {
	flags := connectionFlags()
	*flags.KubeConfig = kubeconfig
	*flags.Namespace = *a.kubeconfig.Namespace
	c, err := a.connect(flags, "remote")
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", flag, kubeconfig, err)
	}
	if err := c.requireInstallation(ctx); err != nil {
		return nil, fmt.Errorf("%s %s: %w", flag, kubeconfig, err)
	}
	c.Console = a.scoped(c.id)
	if c.isDryRun() {
		c.plan.PrintTo(c.Console)
	}
	return c, nil
}

// imageBeside returns the image with the given name from the registry, path and tag of the controller manager's image.
func imageBeside(ctx context.Context, c *cluster, name string) (string, error) {
	var deployment appsv1.Deployment
	if err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: deploymentName}, &deployment); err != nil {
		return "", fmt.Errorf("reading Deployment %s in namespace %s: %w", deploymentName, c.namespace, err)
	}
	return siblingImage(deployment.Spec.Template.Spec.Containers[0].Image, name, c.version)
}

// siblingImage replaces the last part of an image's path and keeps its tag. If the image has no tag, it uses the version as the tag. An image with a digest has no
// sibling: a tag can be changed in the registry, and the administrator chose an installation that does not change with it.
func siblingImage(image, name, version string) (string, error) {
	path, last := "", image
	if i := strings.LastIndex(image, "/"); i >= 0 {
		path, last = image[:i+1], image[i+1:]
	}
	if strings.Contains(last, "@") {
		return "", fmt.Errorf("image %s of Deployment %s is pinned by digest, and the digest of image %s is not known: name it with --image %s%s@sha256:DIGEST. "+
			"File oci/images/index.json of the release and make push list the digests", image, deploymentName, name, path, name)
	}
	if _, tag, tagged := strings.Cut(last, ":"); tagged {
		version = tag
	}
	if version == "" {
		return path + name, nil
	}
	return path + name + ":" + version, nil
}

// remove deletes everything that the test created, and waits until it is gone.
func (t *networkTest) remove(ctx context.Context) error {
	within := t.namespace()
	step := t.consumer.Start("Removing namespace %s", within)
	defer step.End()
	// The offloading is removed first, so that the remote namespaces are deleted while the local namespace still exists for the controller
	// manager.
	if err := unoffloadQuietly(ctx, t.consumer, within); err != nil {
		return err
	}
	for _, c := range t.clusters() {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: within}}
		if c == t.consumer {
			if err := client.IgnoreNotFound(c.Delete(ctx, namespace)); err != nil {
				return fmt.Errorf("deleting namespace %s: %w", within, err)
			}
		}
		if err := c.gone(ctx, step, namespace); err != nil {
			return err
		}
	}
	step.Done("Namespace %s is gone from all clusters", within)
	return nil
}

func unoffloadQuietly(ctx context.Context, c *cluster, namespace string) error {
	object := &offloadingv1beta1.NamespaceOffloading{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: offloadingv1beta1.NamespaceOffloadingName},
	}
	if err := client.IgnoreNotFound(c.Delete(ctx, object)); err != nil {
		return fmt.Errorf("unoffloading namespace %s: %w", namespace, err)
	}
	return c.gone(ctx, nil, object)
}
