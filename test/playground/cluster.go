package playground

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
)

// Cluster is a running cluster.
type Cluster struct {
	// Name is the name in the playground; ID is the cluster ID that Liqo is installed with. They differ, so that clusters of concurrent runs do not
	// conflict.
	Name, ID string
	// Kubeconfig is the path of a kubeconfig for programs on this machine.
	Kubeconfig string
	Config     *rest.Config
	// Client reads and writes the API server directly, without a cache.
	client.Client
	// Set is for operations that Client does not support: logs, exec, discovery.
	Set kubernetes.Interface
}

// Create creates a cluster called prefix+id with the same addresses as all clusters, and loads the images of the components of this build into it. A creation that
// takes unusually long prints what it waits for, even if it succeeds.
func (m Machine) Create(ctx context.Context, prefix, id string, flags ...string) (*Cluster, error) {
	cmd := exec.CommandContext(ctx, m.bin("playground"), append([]string{"create", "cluster", "--name", prefix + id}, flags...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	err := cmd.Run()
	for line := range strings.Lines(said.String()) {
		if strings.Contains(line, "still waiting") {
			fmt.Print(line)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("playground create cluster %s: %w: %s", prefix+id, err, strings.TrimSpace(said.String()))
	}
	loading := time.Now()
	if err := m.Load(ctx, prefix+id, m); err != nil {
		return nil, err
	}
	if took := time.Since(loading); took > time.Minute {
		fmt.Printf("loading the images into %s took %.0f s\n", prefix+id, took.Seconds())
	}
	return m.Connect(ctx, prefix, id)
}

// Load loads images of a build into the cluster of that name; without names, those of the components.
func (m Machine) Load(ctx context.Context, name string, built Machine, images ...string) error {
	if len(images) == 0 {
		images = components
	}
	args := []string{"load", "image-archive", "--name", name}
	for _, image := range images {
		args = append(args, built.bin("images/"+image+".tar"))
	}
	_, err := m.Playground(ctx, args...)
	return err
}

// Connect returns an existing cluster.
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
	c.Config.WarningHandler = rest.NoWarnings{} // a program that lists every resource also lists deprecated ones
	if c.Client, err = client.New(c.Config, client.Options{Scheme: kube.NewScheme()}); err != nil {
		return nil, fmt.Errorf("creating a client of %s: %w", c.Name, err)
	}
	if c.Set, err = kubernetes.NewForConfig(c.Config); err != nil {
		return nil, fmt.Errorf("creating a client of %s: %w", c.Name, err)
	}
	return c, nil
}

// Delete deletes the cluster and everything in it.
func (m Machine) Delete(ctx context.Context, c *Cluster) error {
	_, err := m.Playground(ctx, "delete", "cluster", "--if-exists", "--name", c.Name)
	return err
}

// Node returns the name of the cluster's first node, the control plane node.
func (c *Cluster) Node() string { return c.Worker(1) }

// Worker is the name of one of its nodes, counted from 1.
func (c *Cluster) Worker(number int) string { return fmt.Sprintf("%s-%d", c.Name, number) }

// Install installs this build of Liqo.
func (m Machine) Install(ctx context.Context, c *Cluster, flags ...string) error {
	_, err := m.Liqoctl(ctx, append([]string{"install", "--kubeconfig", c.Kubeconfig, "--cluster-id", c.ID}, flags...)...)
	return err
}

// WithoutNetwork is the flag of "liqoctl peer" for clusters whose networks are not connected.
const WithoutNetwork = "--networking-disabled"

// Peer makes the provider a virtual node of the consumer. The node's name is the provider's ID.
func (m Machine) Peer(ctx context.Context, consumer, provider *Cluster, flags ...string) error {
	_, err := m.Liqoctl(ctx, append(append([]string{"peer"}, between(consumer, provider)...), flags...)...)
	return err
}

// Exec runs a command inside a node and returns what it printed.
func (m Machine) Exec(ctx context.Context, node string, command ...string) (string, error) {
	return m.Playground(ctx, append([]string{"exec", "--node", node, "--"}, command...)...)
}

// Unpeer ends a peering and deletes its tenant namespaces.
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
