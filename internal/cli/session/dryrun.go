package session

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AddDryRun registers --dry-run with a command that writes only through its clusters. A dry run executes the same code as a real run, so it
// reports the same problems in the same words. The API servers validate each write, with permissions and admission, but persist nothing.
// Each write is printed as a line. A dry run does not wait, and asks the user nothing.
func (s *Session) AddDryRun(flags *pflag.FlagSet) {
	flags.BoolVar(&s.DryRun, "dry-run", false, "Validate every change on the API server and print it, without applying anything")
}

// PlannedAddress is a placeholder for an address that is not assigned yet. It is reserved for documentation (RFC 5737).
const PlannedAddress = "192.0.2.1"

// IsDryRun reports whether the command runs as a dry run.
func (c *Cluster) IsDryRun() bool { return c.Plan != nil }

// AssumeNamespace assumes, in a dry run, that a namespace exists that a controller would create.
func AssumeNamespace(ctx context.Context, c *Cluster, name string) error {
	if !c.IsDryRun() {
		return nil
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	err := c.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)
	if apierrors.IsNotFound(err) {
		return c.Plan.Remember(namespace, true)
	}
	if err != nil {
		return c.Err(fmt.Errorf("reading Namespace %s: %w", name, err))
	}
	return nil
}
