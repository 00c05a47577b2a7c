package playground

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
)

// Cluster is a running cluster.
type Cluster struct {
	// Name is the playground's name of it; ID is the one Liqo is installed with. They differ so that runs don't meet.
	Name, ID string
	// Kubeconfig is a file, for programs of this machine.
	Kubeconfig string
	Config     *rest.Config
	// Client reads and writes the API server directly, without a cache.
	client.Client
	// Set is for what Client has no verb for: logs, exec, discovery.
	Set kubernetes.Interface
}

// Create makes a cluster called prefix+id with the addresses that all clusters have, and loads our images into it.
func (m Machine) Create(ctx context.Context, prefix, id string, flags ...string) (*Cluster, error) {
	if _, err := m.Playground(ctx, append([]string{"create", "cluster", "--name", prefix + id}, flags...)...); err != nil {
		return nil, err
	}
	if err := m.Load(ctx, prefix+id, m); err != nil {
		return nil, err
	}
	return m.Connect(ctx, prefix, id)
}

// Load puts the images of a build into the cluster of that name.
func (m Machine) Load(ctx context.Context, name string, built Machine) error {
	_, err := m.Playground(ctx, append([]string{"load", "image-archive", "--name", name}, built.images()...)...)
	return err
}

// Connect returns a cluster that is there.
func (m Machine) Connect(ctx context.Context, prefix, id string) (*Cluster, error) {
	c := &Cluster{Name: prefix + id, ID: id, Kubeconfig: filepath.Join(m.Dir, id+".kubeconfig")}
	kubeconfig, err := m.Playground(ctx, "get", "kubeconfig", "--name", c.Name)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(c.Kubeconfig, []byte(kubeconfig), 0o600); err != nil {
		return nil, fmt.Errorf("writing kubeconfig of %s: %w", c.Name, err)
	}
	if c.Config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig); err != nil {
		return nil, fmt.Errorf("reading kubeconfig of %s: %w", c.Name, err)
	}
	c.Config.QPS = -1
	c.Config.WarningHandler = rest.NoWarnings{} // whoever lists every resource lists deprecated ones too
	if c.Client, err = client.New(c.Config, client.Options{Scheme: kube.NewScheme()}); err != nil {
		return nil, fmt.Errorf("making a client of %s: %w", c.Name, err)
	}
	if c.Set, err = kubernetes.NewForConfig(c.Config); err != nil {
		return nil, fmt.Errorf("making a client of %s: %w", c.Name, err)
	}
	return c, nil
}

// Delete removes the cluster with everything it has.
func (m Machine) Delete(ctx context.Context, c *Cluster) error {
	_, err := m.Playground(ctx, "delete", "cluster", "--if-exists", "--name", c.Name)
	return err
}

// Node is the name of the cluster's first node, where its control plane is.
func (c *Cluster) Node() string { return c.Worker(1) }

// Worker is the name of one of its nodes, counted from 1.
func (c *Cluster) Worker(number int) string { return fmt.Sprintf("%s-%d", c.Name, number) }

// Install installs what was built.
func (m Machine) Install(ctx context.Context, c *Cluster, flags ...string) error {
	_, err := m.Liqoctl(ctx, append([]string{"install", "--kubeconfig", c.Kubeconfig, "--cluster-id", c.ID}, flags...)...)
	return err
}

// WithoutNetwork is the flag of peer for clusters that nothing joins.
const WithoutNetwork = "--networking-disabled"

// Peer makes the provider a node of the consumer, called by the provider's ID.
func (m Machine) Peer(ctx context.Context, consumer, provider *Cluster, flags ...string) error {
	_, err := m.Liqoctl(ctx, append(append([]string{"peer"}, between(consumer, provider)...), flags...)...)
	return err
}

// Exec runs a command inside a node and returns what it printed.
func (m Machine) Exec(ctx context.Context, node string, command ...string) (string, error) {
	return m.Playground(ctx, append([]string{"exec", "--node", node, "--"}, command...)...)
}

// Unpeer takes a peering back, with the namespaces that held it.
func (m Machine) Unpeer(ctx context.Context, consumer, provider *Cluster) error {
	_, err := m.Liqoctl(ctx, append([]string{"unpeer", "--delete-namespaces"}, between(consumer, provider)...)...)
	return err
}

// Uninstall removes the installation; purge removes the custom resources and namespaces too.
func (m Machine) Uninstall(ctx context.Context, c *Cluster, purge bool) error {
	args := []string{"uninstall", "--kubeconfig", c.Kubeconfig}
	if purge {
		args = append(args, "--purge")
	}
	_, err := m.Liqoctl(ctx, args...)
	return err
}

func between(consumer, provider *Cluster) []string {
	return []string{"--kubeconfig", consumer.Kubeconfig, "--remote-kubeconfig", provider.Kubeconfig}
}
