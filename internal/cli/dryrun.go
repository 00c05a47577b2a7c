package cli

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// addDryRun registers --dry-run with a command that writes only through its clusters. A dry run executes the same code as a real run, so it
// reports the same problems in the same words. The API servers validate each write, with permissions and admission, but persist nothing.
// Each write is printed as a line. A dry run does not wait, and asks the user nothing.
func (a *app) addDryRun(flags *pflag.FlagSet) {
	flags.BoolVar(&a.dryRun, "dry-run", false, "Validate every change on the API server and print it, without applying anything")
}

// plannedAddress is a placeholder for an address that is not assigned yet. It is reserved for documentation (RFC 5737).
const plannedAddress = "192.0.2.1"

// isDryRun reports whether the command runs as a dry run.
func (c *cluster) isDryRun() bool { return c.plan != nil }

// assumeNamespace assumes, in a dry run, that a namespace exists that a controller would create.
func assumeNamespace(ctx context.Context, c *cluster, name string) error {
	if !c.isDryRun() {
		return nil
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	err := c.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)
	if apierrors.IsNotFound(err) {
		return c.plan.Remember(namespace, true)
	}
	if err != nil {
		return c.error(fmt.Errorf("reading Namespace %s: %w", name, err))
	}
	return nil
}

// reportDryRun prints the last line of a dry run that succeeded.
func (a *app) reportDryRun() {
	if a.changes.Load() == 0 {
		a.console().Info("Dry run: no changes needed")
		return
	}
	a.console().Info("Dry run succeeded: no changes applied")
}
