package object

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/inspect"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
)

// peeringUser is a user of this cluster with only the permissions to peer one consumer with it.
type peeringUser struct {
	*session.Cluster
	consumer string
	// lifetime is the requested lifetime of its certificate.
	lifetime time.Duration
	// tenantNamespace is the tenant namespace of the consumer.
	tenantNamespace string
}

// Limits of the lifetime of a peering user's certificate. The API server accepts no shorter one.
const (
	minUserLifetime = 10 * time.Minute
	maxUserLifetime = 10 * 365 * 24 * time.Hour
)

// The names of the objects of a peering user: the CertificateSigningRequest and the two RoleBindings.
func (u *peeringUser) request() string { return peering.PeeringUserPrefix + u.consumer }
func (u *peeringUser) reader() string  { return u.request() + "-liqo-ns-reader" }
func (u *peeringUser) writer() string  { return u.request() + "-tenant-ns-writer" }

func generatePeeringUserCommand(a *session.Session) *cobra.Command {
	var consumer, rsa string
	var timeout, lifetime time.Duration
	command := &cobra.Command{
		Use:   "peering-user",
		Short: "Generate a kubeconfig that allows one consumer to peer with this cluster, and nothing else",
		Long: "Create a user of this cluster, the provider, that may peer one consumer with it and nothing else, and print its kubeconfig. The\n" +
			"consumer's administrator passes it to peer, unpeer, network connect and network disconnect as --remote-kubeconfig. The user may not\n" +
			"create gateways: the control planes of both clusters connect the networks after the consumer is authenticated. The user exists until\n" +
			"delete peering-user, and its certificate is valid for --lifetime, or for less if the signer of the cluster decides so.",
		Example: cmdline.Example(`
			# Run in milan; the file is for the administrator of rome
			%[1]s generate peering-user --consumer-cluster-id rome > milan-for-rome.yaml
			# For a pipeline that peers within the hour
			%[1]s generate peering-user --consumer-cluster-id rome --lifetime 1h > milan-for-rome.yaml`),
		Args: cobra.NoArgs,
		RunE: a.OnInstalled(&timeout, func() error {
			if lifetime < minUserLifetime || lifetime > maxUserLifetime {
				return fmt.Errorf("--lifetime %s: want at least %s and at most %s", lifetime, minUserLifetime, maxUserLifetime)
			}
			return cmdline.OneOf("tls-compatibility-mode", rsa, "auto", "true", "false")
		}, func(ctx context.Context, local *session.Cluster, _ []string) error {
			if consumer == local.ID {
				return fmt.Errorf("--consumer-cluster-id %s: that is this cluster, which can not be its own consumer", consumer)
			}
			return (&peeringUser{Cluster: local, consumer: consumer, lifetime: lifetime}).generate(ctx, rsa)
		}),
	}
	command.Flags().StringVar(&consumer, "consumer-cluster-id", "", "Cluster ID of the consumer (required)")
	command.Flags().StringVar(&rsa, "tls-compatibility-mode", "auto",
		"Use an RSA key, for API servers that support no other type: auto (like the keys of the cluster), true or false")
	command.Flags().DurationVar(&lifetime, "lifetime", 365*24*time.Hour, "Lifetime of the user's certificate, from 10m to 87600h")
	command.Flags().DurationVar(&timeout, "timeout", 2*time.Minute, "Maximum time for the whole command")
	a.AddDryRun(command.Flags())
	cmdline.Required(command, "consumer-cluster-id")
	session.CompleteOneOf(command, "tls-compatibility-mode", "auto", "true", "false")
	return command
}

func (u *peeringUser) generate(ctx context.Context, rsa string) error {
	existing := &rbacv1.RoleBinding{}
	if err := u.Get(ctx, client.ObjectKey{Namespace: u.Namespace, Name: u.reader()}, existing); err == nil {
		return fmt.Errorf("there is a peering user for cluster %s already (RoleBinding %s in namespace %s): its kubeconfig was printed once and is not stored; "+
			"liqoctl delete peering-user --consumer-cluster-id %s revokes its rights, then another one can be created", u.consumer, u.reader(), u.Namespace, u.consumer)
	} else if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading RoleBinding %s in namespace %s: %w", u.reader(), u.Namespace, err)
	}
	if !u.IsDryRun() {
		u.Warn("Whoever has the kubeconfig can peer cluster %s with this one, until liqoctl delete peering-user --consumer-cluster-id %s",
			u.consumer, u.consumer)
		u.Warn("The kubeconfig holds a private key and is printed only now: store it safely and hand it over by a safe channel")
		u.Warn("It is valid for cluster %s only: another consumer needs another peering user", u.consumer)
	}
	var err error
	if u.tenantNamespace, err = session.EnsureTenantNamespace(ctx, u.Cluster, u.consumer); err != nil {
		return err
	}
	algorithm, err := u.algorithm(ctx, rsa)
	if err != nil {
		return err
	}
	var suffix [16]byte
	if _, err := rand.Read(suffix[:]); err != nil {
		return fmt.Errorf("creating the name of a user: %w", err)
	}
	private, _, err := peering.NewKey(algorithm, rand.Reader)
	if err != nil {
		return err
	}
	// A deleted user's certificate stays valid until it expires, so a user name is never reused.
	subject := peering.Subject{User: u.request() + "-" + hex.EncodeToString(suffix[:]), Group: peering.OrganizationControlPlane}
	// All data for the kubeconfig is read before the user gets permissions. A user whose kubeconfig cannot be printed must not have any.
	config, err := u.kubeconfig(ctx)
	if err != nil {
		return err
	}
	certificate, err := u.sign(ctx, private, subject)
	if err != nil {
		return err
	}
	if err := u.bind(ctx, subject.User); err != nil || u.IsDryRun() {
		return err // a dry run has no certificate, so it prints nothing
	}
	config.AuthInfos[u.user()] = &clientcmdapi.AuthInfo{ClientCertificateData: certificate, ClientKeyData: private}
	data, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("writing the kubeconfig of %s: %w", subject.User, err)
	}
	_, err = u.Out().Write(data)
	return err
}

// algorithm returns the algorithm for the user's key. By default it is the algorithm of the cluster's own keys.
func (u *peeringUser) algorithm(ctx context.Context, rsa string) (peering.Algorithm, error) {
	switch rsa {
	case "true":
		return peering.RSA2048, nil
	case "false":
		return peering.Ed25519, nil
	}
	var keys corev1.Secret
	name := client.ObjectKey{Namespace: u.Namespace, Name: authv1beta1.KeysSecret}
	if err := u.Get(ctx, name, &keys); err != nil {
		return 0, fmt.Errorf("reading the keys of the cluster, Secret %s: %w", name, err)
	}
	key, err := peering.ParsePublicKey(keys.Data[authv1beta1.PublicKeyKey])
	if err != nil {
		return 0, fmt.Errorf("reading data.%s of Secret %s: %w", authv1beta1.PublicKeyKey, name, err)
	}
	if _, ok := key.(ed25519.PublicKey); ok {
		return peering.Ed25519, nil
	}
	return peering.RSA2048, nil
}

// sign requests a client certificate from the signer of the cluster, approves the request, and waits for the certificate.
func (u *peeringUser) sign(ctx context.Context, private []byte, subject peering.Subject) ([]byte, error) {
	step := u.Start("Waiting for a certificate")
	defer step.End()
	signer, err := peering.ParsePrivateKey(private)
	if err != nil {
		return nil, err
	}
	request, err := peering.NewRequest(rand.Reader, signer, subject)
	if err != nil {
		return nil, err
	}
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: u.request()},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: request, SignerName: certificatesv1.KubeAPIServerClientSignerName, ExpirationSeconds: new(int32(u.lifetime / time.Second)),
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth},
		},
	}
	kube.AddLabels(csr, map[string]string{api.LabelRemoteClusterID: u.consumer, api.LabelManaged: api.True})
	u.Mark(csr)
	left := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: csr.Name}}
	if err := kube.Delete(ctx, u, left); err != nil { // left over from an interrupted command
		return nil, err
	}
	if err := u.Create(ctx, csr); err != nil {
		return nil, fmt.Errorf("creating CertificateSigningRequest %s: %w", csr.Name, err)
	}
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "PeeringUser", Message: "asked for by liqoctl generate peering-user",
	})
	if err := u.SubResource("approval").Update(ctx, csr); err != nil {
		return nil, fmt.Errorf("approving CertificateSigningRequest %s: %w", csr.Name, err)
	}
	err = u.WaitFor(ctx, step, csr, func() session.Verdict {
		for _, condition := range csr.Status.Conditions {
			if condition.Type == certificatesv1.CertificateDenied || condition.Type == certificatesv1.CertificateFailed {
				return session.Never("it is %s, %s: %s", condition.Type, condition.Reason, condition.Message)
			}
		}
		if len(csr.Status.Certificate) == 0 {
			return session.NotYet("the cluster's signer %s has not answered", csr.Spec.SignerName)
		}
		return session.Yes()
	})
	return csr.Status.Certificate, err
}

// bind gives the user the roles that the installation defines for it. The RoleBinding that marks an existing peering user is created last,
// so that an interrupted command can be run again.
func (u *peeringUser) bind(ctx context.Context, user string) error {
	for _, of := range []struct{ namespace, name, kind string }{
		{u.tenantNamespace, u.writer(), "ClusterRole"}, {u.Namespace, u.reader(), "Role"},
	} {
		binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: of.namespace, Name: of.name}}
		if _, err := u.Ensure(ctx, binding, func() error {
			kube.AddLabels(binding, map[string]string{api.LabelRemoteClusterID: u.consumer, api.LabelManaged: api.True})
			binding.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: of.kind, Name: peering.RolePeeringUser}
			binding.Subjects = []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// user returns the name of the user in the kubeconfig.
func (u *peeringUser) user() string { return u.consumer + "-user" }

// kubeconfig returns a kubeconfig with the API server address for peers. The caller adds the credentials of the user.
func (u *peeringUser) kubeconfig(ctx context.Context) (*clientcmdapi.Config, error) {
	info, err := inspect.GatherLocal(ctx, u.Cluster)
	if err != nil {
		return nil, err
	}
	var root corev1.ConfigMap
	name := client.ObjectKey{Namespace: u.Namespace, Name: "kube-root-ca.crt"}
	if err := u.Get(ctx, name, &root); err != nil {
		return nil, fmt.Errorf("reading the API server's CA, ConfigMap %s: %w", name, err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[u.consumer] = &clientcmdapi.Cluster{Server: info.Local.APIServerAddr, CertificateAuthorityData: []byte(root.Data["ca.crt"])}
	// liqoctl looks for the installation there: the user may not look everywhere.
	config.Contexts[u.consumer] = &clientcmdapi.Context{Cluster: u.consumer, AuthInfo: u.user(), Namespace: u.Namespace}
	config.CurrentContext = u.consumer
	return config, nil
}

func deletePeeringUserCommand(a *session.Session) *cobra.Command {
	var consumer string
	var ignore bool
	var timeout time.Duration
	command := &cobra.Command{
		Use:   "peering-user",
		Short: "Delete a peering user and its rights",
		Long:  "Revoke the rights of a consumer's peering user. Its kubeconfig then grants no access. The peerings created with it stay.",
		Example: cmdline.Example(`
			%[1]s delete peering-user --consumer-cluster-id rome`),
		Args: cobra.NoArgs,
		RunE: a.OnInstalled(&timeout, nil, func(ctx context.Context, local *session.Cluster, _ []string) error {
			u := &peeringUser{Cluster: local, consumer: consumer}
			var err error
			if u.tenantNamespace, err = session.FindTenantNamespace(ctx, local, consumer); err != nil {
				return err
			}
			return session.MayBeGone(local, ignore, u.delete(ctx))
		}),
	}
	command.Flags().StringVar(&consumer, "consumer-cluster-id", "", "Cluster ID of the consumer (required)")
	session.AddIgnoreNotFound(command.Flags(), &ignore)
	cmdline.AddTimeout(command.Flags(), &timeout)
	a.AddDryRun(command.Flags())
	cmdline.Required(command, "consumer-cluster-id")
	return command
}

func (u *peeringUser) delete(ctx context.Context) error {
	request := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: u.request()}}
	objects := []client.Object{&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: u.Namespace, Name: u.reader()}}}
	if u.tenantNamespace != "" {
		objects = append(objects, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: u.tenantNamespace, Name: u.writer()}})
	}
	found := false
	for _, object := range append(objects, request) {
		err := u.Get(ctx, client.ObjectKeyFromObject(object), object)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading %s: %w", u.Name(object), err)
		}
		if err == nil {
			found = true
			if err := kube.Delete(ctx, u, object); err != nil {
				return err
			}
		}
	}
	if !found {
		return &session.NoneError{Text: fmt.Sprintf("there is no peering user for cluster %s", u.consumer)}
	}
	u.Did("Peering user for cluster %s deleted", u.consumer)
	return nil
}
