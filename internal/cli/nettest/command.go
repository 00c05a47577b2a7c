package nettest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/workload"
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

// Command returns the command test, whose only subcommand is network.
func Command(a *session.Session) *cobra.Command {
	return cmdline.Group(&cobra.Command{
		Use:   "test",
		Short: "Run end-to-end checks",
		Long:  "Run pods that check whether the peered clusters work as intended.",
		Example: cmdline.Example(`
			# Do pods of all clusters reach each other?
			%[1]s test network --remote-kubeconfigs milan.yaml`),
	}, testNetworkCommand(a))
}

func testNetworkCommand(a *session.Session) *cobra.Command {
	var o testNetworkOptions
	command := &cobra.Command{
		Use:   "network",
		Short: "Check that pods, services and nodes of peered clusters reach each other",
		Long: "Run a server on every node of the local cluster, the consumer, and of its providers, and let each of them send requests to all others: by\n" +
			"address, by the name of their Service, from the host network, and the outside. Further checks are chosen by flags. What\n" +
			"fails is tried again a few times; then every failing pair is named and the exit code is 1.\n\n" +
			"The servers run in namespace " + testNamespacePrefix + "-CLUSTER-ID, with the ID of the consumer. The pods in the host network run in namespace\n" +
			testHostsPrefix + "-CLUSTER-ID, in which the consumer has no rights. All stay there for the next run unless you set --rm. Neither unpeer nor uninstall removes\n" +
			"namespace " + testHostsPrefix + "-CLUSTER-ID: without --rm, delete it in each cluster (kubectl delete namespace).",
		Example: cmdline.Example(`
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
	a.AddDryRun(flags)
	cmdline.Required(command, "remote-kubeconfigs")
	session.CompleteOneOf(command, "np-nodes", nodesAll, nodesWorkers, nodesControlPlanes)
	command.RunE = session.WithTimeout(&o.timeout, func(ctx context.Context, _ []string) error {
		if err := o.validate(); err != nil {
			return err
		}
		return testNetwork(ctx, a, &o)
	})
	return command
}

func (o *testNetworkOptions) validate() error {
	if err := cmdline.OneOf("np-nodes", o.nodes, nodesAll, nodesWorkers, nodesControlPlanes); err != nil {
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
func testNetwork(ctx context.Context, a *session.Session, o *testNetworkOptions) (err error) {
	t := &networkTest{options: o}
	if t.consumer, err = a.Installed(ctx); err != nil {
		return err
	}
	if o.ip {
		if err := o.locateOutside(ctx, a.Resolve); err != nil {
			return err
		}
	}
	for _, path := range o.remotes {
		provider, err := session.ConnectProvider(ctx, a, "--remote-kubeconfigs", path)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(t.clusters(), func(c *session.Cluster) bool { return c.ID == provider.ID }) {
			return fmt.Errorf("--remote-kubeconfigs %s: cluster %s is named twice, or is the local one", path, provider.ID)
		}
		t.providers = append(t.providers, provider)
	}
	if o.image == "" {
		if o.image, err = workload.ImageBeside(ctx, t.consumer, testImage); err != nil {
			return err
		}
	}
	if o.remove && !a.DryRun {
		defer func() {
			// The removal has its own timeout. It also runs after the checks have timed out or the user has interrupted them.
			removing, cancel := context.WithTimeout(context.WithoutCancel(ctx), removalTimeout)
			defer cancel()
			removal := t.remove(removing)
			if removal == nil {
				a.Journal.RollsBack()
			}
			err = errors.Join(err, removal)
		}()
	}
	if err := t.deploy(ctx); err != nil {
		return err
	}
	if a.DryRun {
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
	consumer  *session.Cluster
	providers []*session.Cluster
}

// clusters returns all clusters, the consumer first.
func (t *networkTest) clusters() []*session.Cluster {
	return append([]*session.Cluster{t.consumer}, t.providers...)
}

// cluster returns the cluster with the given ID.
func (t *networkTest) cluster(id string) *session.Cluster {
	all := t.clusters()
	return all[slices.IndexFunc(all, func(c *session.Cluster) bool { return c.ID == id })]
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
		hosts, err := t.removeHosts(ctx, c)
		if err != nil {
			return err
		}
		if err := c.WaitGone(ctx, step, namespace); err != nil {
			return err
		}
		if hosts != nil {
			if err := c.WaitGone(ctx, step, hosts); err != nil {
				return err
			}
		}
	}
	step.Done("Namespace %s is gone from all clusters, and so is %s where this command created it", within, t.hostsNamespace())
	return nil
}

func unoffloadQuietly(ctx context.Context, c *session.Cluster, namespace string) error {
	object := &offloadingv1beta1.NamespaceOffloading{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: offloadingv1beta1.NamespaceOffloadingName},
	}
	if err := client.IgnoreNotFound(c.Delete(ctx, object)); err != nil {
		return fmt.Errorf("unoffloading namespace %s: %w", namespace, err)
	}
	return c.WaitGone(ctx, nil, object)
}

// removalTimeout limits how long the objects of a test are removed. It is separate from the timeout of the test, which may have expired.
const removalTimeout = 2 * time.Minute
