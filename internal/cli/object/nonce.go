package object

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/handshake"
	"liqo.io/liqo/internal/cli/session"
)

// CreateCommand returns the command that creates single objects of a peering.
func CreateCommand(a *session.Session) *cobra.Command {
	return cmdline.Group(&cobra.Command{
		Use:   "create",
		Short: "Create individual resources",
		Long:  "Create the objects of a peering one by one.",
		Example: cmdline.Example(`
			# Ask an authenticated provider for resources
			%[1]s create resourceslice milan --remote-cluster-id milan`),
	}, createResourceSliceCommand(a), createNonceCommand(a),
		createConfigurationCommand(a), createGatewayServerCommand(a), createGatewayClientCommand(a), createPublicKeyCommand(a),
		createVirtualNodeCommand(a))
}

// GetCommand returns the command that prints single values.
func GetCommand(a *session.Session) *cobra.Command {
	return cmdline.Group(&cobra.Command{
		Use:   "get",
		Short: "Print individual values",
		Long:  "Print values that you need to create a peering step by step.",
		Example: cmdline.Example(`
			# The nonce that the cluster rome has to sign
			%[1]s get nonce --remote-cluster-id rome`),
	}, getNonceCommand(a), getKubeconfigCommand(a))
}

func createNonceCommand(a *session.Session) *cobra.Command {
	var f creation
	command := &cobra.Command{
		Use:   "nonce",
		Short: "Create the nonce that a consumer signs",
		Long:  "Create the nonce that a consumer must sign before the local cluster, the provider, admits it.",
		Example: cmdline.Example(`
			# Run on the provider
			%[1]s create nonce --remote-cluster-id rome`),
		Args: cobra.NoArgs,
		RunE: a.OnInstalled(&f.timeout, f.output.Validate, func(ctx context.Context, local *session.Cluster, _ []string) error {
			if f.output.Format != "" {
				return session.PrintObject(local, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
					Namespace: api.TenantNamespace(f.peer), Name: authv1beta1.NonceSecret,
					Labels: map[string]string{authv1beta1.LabelNonce: api.True, api.LabelRemoteClusterID: f.peer},
				}}, f.output.Format)
			}
			namespace, err := session.EnsureTenantNamespace(ctx, local, f.peer)
			if err != nil {
				return err
			}
			nonce := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: authv1beta1.NonceSecret}}
			if err := local.Reach(ctx, handshake.NonceGoal(nonce, f.peer)); err != nil {
				return err
			}
			local.Did("Nonce for cluster %s: %s", f.peer, nonce.Data[authv1beta1.NonceKey])
			return nil
		}),
	}
	f.add(a, command, "consumer", 2*time.Minute, "")
	return command
}

func getNonceCommand(a *session.Session) *cobra.Command {
	var consumer string
	var timeout time.Duration
	command := &cobra.Command{
		Use:   "nonce",
		Short: "Print the nonce that a consumer signs",
		Long:  "Print the nonce that a consumer must sign before the local cluster, the provider, admits it.",
		Example: cmdline.Example(`
			# Run on the provider
			%[1]s get nonce --remote-cluster-id rome`),
		Args: cobra.NoArgs,
		RunE: a.OnInstalled(&timeout, nil, func(ctx context.Context, local *session.Cluster, _ []string) error {
			namespace, err := session.RequireTenantNamespace(ctx, local, consumer)
			if err != nil {
				return err
			}
			var secret corev1.Secret
			key := client.ObjectKey{Namespace: namespace, Name: authv1beta1.NonceSecret}
			if err := local.Get(ctx, key, &secret); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("reading Secret %s: %w", key, err)
			} else if apierrors.IsNotFound(err) || len(secret.Data[authv1beta1.NonceKey]) == 0 {
				return fmt.Errorf("there is no nonce for cluster %s in namespace %s: create it with liqoctl create nonce --remote-cluster-id %s",
					consumer, namespace, consumer)
			}
			_, err = fmt.Fprintf(local.Out(), "%s\n", secret.Data[authv1beta1.NonceKey])
			return err
		}),
	}
	session.AddClusterFlag(command, &consumer, "consumer")
	cmdline.AddTimeout(command.Flags(), &timeout)
	return command
}
