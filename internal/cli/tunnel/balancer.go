package tunnel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/cli/cmdline"
)

// GatewayTimeout is the default timeout of the commands for networks. By default, a gateway waits for a load balancer for the same time (value
// networking.gatewayTemplates.server.service.loadBalancerTimeout), and then falls back to its node port. So a command may time out just before: see
// WithBalancerHint.
const GatewayTimeout = 2 * time.Minute

// BalancerTimeout is the timeout that WithBalancerHint suggests for a command. It is long enough for a gateway whose load balancer never gets an address: the
// gateway waits for loadBalancerTimeout (2m by default), and then uses its node port.
const BalancerTimeout = 5 * time.Minute

// WithBalancerHint adds a hint to the error of a command that reached its timeout: a load balancer may take longer. The hint contains the same command with a
// timeout that is long enough. serviceType is the type of the gateway's Service that the user chose; empty if the user chose none.
func WithBalancerHint(err error, cmd *cobra.Command, args []string, timeout time.Duration, serviceType string) error {
	if !errors.Is(err, context.DeadlineExceeded) || timeout >= BalancerTimeout || serviceType != "" && serviceType != string(corev1.ServiceTypeLoadBalancer) {
		return err
	}
	return fmt.Errorf("%w\nThe command waited for %s. A load balancer may take longer: the gateway uses its node port if none comes within chart value "+
		"networking.gatewayTemplates.server.service.loadBalancerTimeout (2m by default). To wait longer, run the command again, it resumes where it stopped: %s --timeout %s",
		err, shortDuration(timeout), strings.Join(cmdline.SameCommand(cmd, args, "timeout"), " "), shortDuration(BalancerTimeout))
}

// shortDuration returns a duration without the units that are zero: 5m for 5m0s.
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
