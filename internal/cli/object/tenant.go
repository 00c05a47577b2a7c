package object

import (
	"cmp"
	"context"
	"fmt"
	"strings"
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

func generateTenantCommand(a *session.Session) *cobra.Command {
	var f generation
	var provider, nonce string
	var auth handshake.Flags
	command := &cobra.Command{
		Use:     "tenant",
		Aliases: session.KindTenant.Aliases,
		Short:   "Generate the Tenant of this cluster, to be applied on a provider",
		Long: "Print the Tenant with which this cluster, the consumer, asks a provider to admit it. It holds the public key of this cluster, a\n" +
			"certificate request, and the signature of the provider's nonce, but no secret. Apply it in the provider's tenant namespace for this\n" +
			"cluster.",
		Example: cmdline.Example(`
			# The nonce is what create nonce printed in milan; the file is to be applied there
			%[1]s generate tenant --remote-cluster-id milan --nonce "$NONCE" > rome.yaml`),
		Args: cobra.NoArgs,
		RunE: a.OnInstalled(&f.timeout, func() error { return cmp.Or(f.output.Validate(), auth.Validate()) }, func(ctx context.Context, local *session.Cluster, _ []string) error {
			tenant, err := tenantFor(ctx, local, provider, []byte(nonce), auth.ProxyURL)
			if err != nil || tenant == nil {
				return err
			}
			return f.print(local, tenant)
		}),
	}
	flags := command.Flags()
	session.AddClusterFlag(command, &provider, "provider")
	flags.StringVar(&nonce, "nonce", "", "Nonce that create nonce printed in the provider (default: the nonce that was signed before)")
	flags.StringVar(&auth.ProxyURL, "proxy-url", "", "URL of an HTTP CONNECT proxy for the connections to the provider's API server")
	f.add(command)
	a.AddDryRun(flags)
	session.BeginsPeering(command)
	return command
}

// tenantFor returns the Tenant of this cluster for a provider. In a dry run it returns nil, because nothing is signed then.
func tenantFor(ctx context.Context, c *session.Cluster, provider string, nonce []byte, proxy string) (*authv1beta1.Tenant, error) {
	here, err := session.EnsureTenantNamespace(ctx, c, provider)
	if err != nil {
		return nil, err
	}
	if len(nonce) == 0 {
		if nonce, err = signedNonce(ctx, c, here, provider); err != nil {
			return nil, err
		}
	}
	signed := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: here, Name: authv1beta1.SignedNonceSecret}}
	of := &corev1.Secret{Data: map[string][]byte{authv1beta1.NonceKey: nonce}}
	if err := c.Reach(ctx, handshake.SignatureGoal(signed, of, provider)); err != nil || c.IsDryRun() {
		return nil, err
	}
	application, err := handshake.ApplicationOf(ctx, c)
	if err != nil {
		return nil, err
	}
	application.Signature = signed.Data[authv1beta1.SignedNonceKey]
	if proxy != "" {
		application.ProxyURL = &proxy
	}
	return &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: c.ID}, Spec: *application}, nil
}

// signedNonce returns the provider's nonce that this cluster has signed before.
func signedNonce(ctx context.Context, c *session.Cluster, namespace, provider string) ([]byte, error) {
	var secret corev1.Secret
	key := client.ObjectKey{Namespace: namespace, Name: authv1beta1.SignedNonceSecret}
	err := c.Get(ctx, key, &secret)
	switch {
	case err == nil && len(secret.Data[authv1beta1.NonceKey]) > 0:
		return secret.Data[authv1beta1.NonceKey], nil
	case err == nil || apierrors.IsNotFound(err):
		return nil, fmt.Errorf("this cluster has not signed a nonce of cluster %s: run liqoctl create nonce --remote-cluster-id %s on %s, and give the nonce that it prints with --nonce", provider, c.ID, provider)
	default:
		return nil, fmt.Errorf("reading Secret %s: %w", key, err)
	}
}

func generateIdentityCommand(a *session.Session) *cobra.Command {
	var f generation
	var consumer string
	command := &cobra.Command{
		Use:   "identity",
		Short: "Generate the Identity of a consumer, to be applied on that consumer",
		Long: "Print the Identity that this cluster, the provider, issues to a consumer whose Tenant it admitted. It holds no secret: only the owner\n" +
			"of the Tenant's private key can use it. Apply it in the consumer's tenant namespace for this cluster.",
		Example: cmdline.Example(`
			# Run in milan, to be applied in rome
			%[1]s generate identity --remote-cluster-id rome > milan.yaml`),
		Args: cobra.NoArgs,
		RunE: a.OnInstalled(&f.timeout, f.output.Validate, func(ctx context.Context, local *session.Cluster, _ []string) error {
			tenant, err := admitted(ctx, local, consumer)
			if err != nil {
				return err
			}
			return f.print(local, &authv1beta1.Identity{
				ObjectMeta: metav1.ObjectMeta{Name: authv1beta1.IdentityControlPlanePrefix + local.ID},
				Spec: authv1beta1.IdentitySpec{
					ClusterID: local.ID, Type: authv1beta1.IdentityControlPlane, AuthParams: *tenant.Status.AuthParams, Namespace: tenant.Status.TenantNamespace,
				},
			})
		}),
	}
	session.AddClusterFlag(command, &consumer, "consumer")
	f.add(command)
	return command
}

// admitted waits until the Tenant of a consumer has its AuthParams and its tenant namespace in the status.
func admitted(ctx context.Context, c *session.Cluster, consumer string) (*authv1beta1.Tenant, error) {
	tenant, err := session.TenantOf(ctx, c, consumer)
	if err != nil {
		return nil, err
	}
	step := c.Start("Waiting until tenant %s is admitted", tenant.Name)
	defer step.End()
	return tenant, c.WaitFor(ctx, step, tenant, func() session.Verdict {
		if tenant.Status.AuthParams == nil || tenant.Status.TenantNamespace == "" {
			return session.NotYet("its status is not filled%s", session.Unmet(tenant.Status.Conditions))
		}
		return session.Yes()
	})
}

func getKubeconfigCommand(a *session.Session) *cobra.Command {
	var provider string
	var timeout time.Duration
	command := &cobra.Command{
		Use:   "kubeconfig IDENTITY",
		Short: "Print the kubeconfig of an Identity issued by a provider",
		Long: "Print the kubeconfig with which this cluster, the consumer, calls the API server of a provider. It holds a private key. The name of\n" +
			"the Identity is controlplane-CLUSTER-ID for the control plane, with the provider's cluster ID, and resourceslice-NAME for a\n" +
			"ResourceSlice.",
		Example: cmdline.Example(`
			# Look into milan with the rights of the virtual node milan
			%[1]s get kubeconfig resourceslice-milan --remote-cluster-id milan > milan-as-rome.yaml`),
		Args: cmdline.ExactlyOne("the name of the Identity"),
		RunE: a.OnInstalled(&timeout, nil, func(ctx context.Context, local *session.Cluster, args []string) error {
			data, err := identityKubeconfig(ctx, local, provider, args[0])
			if err != nil {
				return err
			}
			_, err = local.Out().Write(data)
			return err
		}),
	}
	command.ValidArgsFunction = a.CompleteFirst(func(ctx context.Context, c *session.Cluster) ([]string, error) {
		var list authv1beta1.IdentityList
		labels := client.MatchingLabels{}
		if provider != "" {
			labels[api.LabelRemoteClusterID] = provider
		}
		err := c.List(ctx, &list, labels)
		return session.NamesOf(list.Items, func(i authv1beta1.Identity) string { return i.Name }), err
	})
	session.AddClusterFlag(command, &provider, "provider")
	cmdline.AddTimeout(command.Flags(), &timeout)
	return command
}

// identityKubeconfig returns the kubeconfig of an Identity.
func identityKubeconfig(ctx context.Context, c *session.Cluster, provider, name string) ([]byte, error) {
	namespace, err := session.RequireTenantNamespace(ctx, c, provider)
	if err != nil {
		return nil, err
	}
	var identities authv1beta1.IdentityList
	if err := c.List(ctx, &identities, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing Identities in namespace %s: %w", namespace, err)
	}
	for i := range identities.Items {
		identity := &identities.Items[i]
		if identity.Name != name {
			continue
		}
		if identity.Status.KubeconfigSecretRef == nil {
			return nil, fmt.Errorf("identity %s in namespace %s has no kubeconfig yet%s: run the command again when it has",
				name, namespace, session.Unmet(identity.Status.Conditions))
		}
		var secret corev1.Secret
		key := client.ObjectKey{Namespace: namespace, Name: identity.Status.KubeconfigSecretRef.Name}
		if err := c.Get(ctx, key, &secret); err != nil {
			return nil, fmt.Errorf("reading the kubeconfig of Identity %s, Secret %s: %w", name, key, err)
		}
		if len(secret.Data[authv1beta1.KubeconfigSecretKey]) == 0 {
			return nil, fmt.Errorf("reading the kubeconfig of Identity %s: Secret %s has no key %s", name, key, authv1beta1.KubeconfigSecretKey)
		}
		return secret.Data[authv1beta1.KubeconfigSecretKey], nil
	}
	known := session.NamesOf(identities.Items, func(i authv1beta1.Identity) string { return i.Name })
	return nil, fmt.Errorf("there is no Identity %s in namespace %s (known: %s)", name, namespace, cmp.Or(strings.Join(known, ", "), "none"))
}
