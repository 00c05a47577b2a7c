package cli

import (
	"context"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// addDryRun registers --dry-run with a command whose every write goes through its cluster: the API server checks the writes, with
// admission and rights, and keeps none. Nothing is waited for then, and nobody is asked.
func (a *app) addDryRun(flags *pflag.FlagSet) {
	flags.BoolVar(&a.dryRun, "dry-run", false, "Have the API server check the changes, and make none")
}

// dryClient reads and watches as usual, and keeps nothing that it writes.
type dryClient struct {
	client.Client
	watcher client.WithWatch
}

func newDryClient(c client.WithWatch) client.WithWatch {
	return &dryClient{Client: client.NewDryRunClient(c), watcher: c}
}

func (c *dryClient) Watch(ctx context.Context, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	return c.watcher.Watch(ctx, list, opts...)
}
