package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/handshake"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/tunnel"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/invite"
)

// invitation holds the data that the user got from the administrator of a provider.
type invitation struct {
	// name is the user's name for the provider. id is its cluster ID.
	name, id   string
	url, token string
	// back is the URL of this cluster's own authentication service, to let the provider use this cluster too. It is empty without --invite.
	back string
}

func peerOutOfBandCommand(a *session.Session) *cobra.Command {
	var o peerOptions
	var i invitation
	command := &cobra.Command{
		Use:     "out-of-band NAME",
		Aliases: []string{"oob"},
		Short:   "Peer with a provider by a token, without its kubeconfig",
		Long: "Peer the local cluster, the consumer, with a provider. The provider's administrator ran generate peer-command and handed over the\n" +
			"command that it printed. The local cluster enrolls with the provider's authentication service, by the token, and receives its own\n" +
			"Identity there. NAME is the name of the virtual node. The ForeignCluster has the cluster ID as its name.\n\n" +
			"With --invite the provider may use resources of the local cluster too: its administrator runs peer with the ID of this cluster.",
		Example: cmdline.Example(`
			# On the provider
			%[1]s generate peer-command
			# On the consumer, as printed there
			%[1]s peer out-of-band milan --auth-url https://198.51.100.7 --cluster-id milan --auth-token liqo1...
			# The clusters meet in a VPN, in which milan has another address
			%[1]s peer out-of-band milan --auth-url https://100.64.0.7 --cluster-id milan --auth-token liqo1... --gw-client-address 100.64.0.7`),
		Args:              cmdline.ExactlyOne("the name of the provider"),
		ValidArgsFunction: cobra.NoFileCompletions, // the name is in the command from the provider
	}
	flags := command.Flags()
	flags.StringVar(&i.url, "auth-url", "", "URL of the provider's authentication service (required)")
	flags.StringVar(&i.id, "cluster-id", "", "Cluster ID of the provider (required)")
	flags.StringVar(&i.token, "auth-token", "", "Token from the administrator of the provider (required)")
	flags.BoolVar(&o.auth.Invite, "invite", false, fmt.Sprintf("Also let the provider use resources of the local cluster, for %d days, when its administrator runs peer NAME there", invite.MaxTokenLifetime/(24*time.Hour)))
	cmdline.Required(command, "auth-url", "cluster-id", "auth-token")
	command.PreRunE = func(cmd *cobra.Command, _ []string) error { // replaces the error of cobra's check, which does not say where the values of the flags come from
		if err := cmd.ValidateRequiredFlags(); err != nil {
			return fmt.Errorf("%w: liqoctl generate peer-command, run by the administrator of the provider, prints the whole command, with a token", err)
		}
		return nil
	}
	o.add(flags)
	a.AddDryRun(flags)
	flags.StringVar(&o.location, "gw-server-service-location", tunnel.LocationProvider, "Where the gateway server runs: Provider or Consumer")
	session.CompleteOneOf(command, "gw-server-service-location", tunnel.LocationProvider, tunnel.LocationConsumer)
	flags.StringVar(&o.network.Server.ServiceType, tunnel.ConnectServerFlags.ServiceType, "",
		"Type of the gateway server's Service if it runs in this cluster: LoadBalancer, NodePort or ClusterIP (default: that of the installation)")
	session.CompleteOneOf(command, tunnel.ConnectServerFlags.ServiceType, cmdline.ServiceTypes...)
	o.network.AddDialed(flags, "Address at which the gateway client connects to the provider (default: what the provider reports)"+tunnel.RemovesEarlier,
		"Port at which the gateway client connects to the provider (default: what the provider reports); 0 removes an earlier one")
	command.RunE = session.WithTimeout(&o.timeout, func(ctx context.Context, args []string) error {
		i.name = args[0]
		token, err := i.check(time.Now())
		if err != nil {
			return err
		}
		if err := o.checkRequest(); err != nil {
			return err
		}
		resources, err := o.resources.List()
		if err != nil {
			return err
		}
		local, err := a.Installed(ctx)
		if err != nil {
			return err
		}
		switch {
		case local.ID == i.id:
			return fmt.Errorf("--cluster-id %s is this cluster itself: run the command on the cluster that is to use its resources", i.id)
		case token.Consumer != "" && token.Consumer != local.ID:
			return fmt.Errorf("the token was made for cluster %s, and this is %s: check --kubeconfig and --context, or ask for another command",
				token.Consumer, local.ID)
		}
		return peerOutOfBand(ctx, local, &i, &o, resources)
	})
	return command
}

// checkRequest validates the flags about the network that a NetworkRequest passes on.
func (o *peerOptions) checkRequest() error {
	if err := cmdline.OneOf("gw-server-service-location", o.location, tunnel.LocationProvider, tunnel.LocationConsumer); err != nil {
		return err
	}
	if err := o.network.Dialed.Validate(); err != nil {
		return err
	}
	if flags := strings.TrimSpace(o.network.Arguments()); flags != "" && o.location == tunnel.LocationConsumer {
		return fmt.Errorf("%s is for a gateway server in the provider (--gw-server-service-location Provider): addresses of a server in this cluster are chart value "+
			"networking.gatewayTemplates.server.service.addresses", flags)
	}
	kind := o.network.Server.ServiceType
	if kind == "" {
		return nil
	}
	if err := cmdline.OneOf(tunnel.ConnectServerFlags.ServiceType, kind, cmdline.ServiceTypes...); err != nil {
		return err
	}
	if o.location != tunnel.LocationConsumer {
		return fmt.Errorf("--%s %s is for a gateway server in this cluster (--gw-server-service-location Consumer): the administrator of the provider sets the type of its own, "+
			"with liqoctl install --service-type", tunnel.ConnectServerFlags.ServiceType, kind)
	}
	return nil
}

// check validates the user's input and returns the parsed token.
func (i *invitation) check(now time.Time) (invite.Token, error) {
	if err := invite.CheckURL(i.url); err != nil {
		return invite.Token{}, fmt.Errorf("--auth-url: %w", err)
	}
	for what, value := range map[string]string{"NAME": i.name, "--cluster-id": i.id} {
		if problems := validation.IsDNS1123Label(value); len(problems) > 0 {
			return invite.Token{}, fmt.Errorf("%s is %q: %s", what, value, problems[0])
		}
	}
	token, err := invite.ParseToken(strings.TrimSpace(i.token))
	if err == nil && now.After(token.Expires) {
		err = invite.ErrTokenExpired
	}
	if err != nil {
		return invite.Token{}, fmt.Errorf("--auth-token: %w", err)
	}
	return token, nil
}

func peerOutOfBand(ctx context.Context, c *session.Cluster, i *invitation, o *peerOptions, resources corev1.ResourceList) error {
	if o.auth.Invite {
		var err error
		if i.back, err = session.EnrollmentURL(ctx, c, false); err != nil {
			return fmt.Errorf("--invite: %w", err)
		}
	}
	if o.createsNode() {
		if err := handshake.CheckNodeName(ctx, c, i.name, i.id, "give another NAME (liqoctl peer out-of-band NAME)"); err != nil {
			return err
		}
	}
	namespace, err := session.EnsureTenantNamespace(ctx, c, i.id)
	if err != nil {
		return err
	}
	if err := enroll(ctx, c, namespace, i); err != nil {
		return err
	}
	u := &use{Cluster: c, provider: i.id, namespace: namespace, nodeName: i.name, options: o, resources: resources}
	return session.ExplainUnreached(c, i.id, u.run(ctx))
}

// enroll enrolls the local cluster at the provider's authentication service, and waits until it has an identity there. It deletes the
// token afterwards.
func enroll(ctx context.Context, c *session.Cluster, namespace string, i *invitation) error {
	granted, err := withoutRefusal(ctx, c, namespace, i.id)
	if err != nil {
		return err
	}
	back, err := inviteThem(ctx, c, i, granted != nil)
	if err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: invite.Secret}}
	if _, err := c.Ensure(ctx, secret, func() error {
		kube.AddLabels(secret, map[string]string{invite.Label: api.True, api.LabelRemoteClusterID: i.id})
		secret.OwnerReferences = nil // from now on the Secret belongs to the administrator, even if the peer created it: then the peer cannot change it
		secret.Data = map[string][]byte{invite.URLKey: []byte(i.url), invite.TokenKey: []byte(strings.TrimSpace(i.token))}
		if back != "" {
			secret.Data[invite.BackURLKey], secret.Data[invite.BackTokenKey] = []byte(i.back), []byte(back)
		}
		return nil
	}); err != nil {
		return err
	}
	if granted != nil {
		if err := reenroll(ctx, c, granted, secret); err != nil {
			return err
		}
	}
	if err := obtainIdentity(ctx, c, namespace, i.id, secret); err != nil {
		return err
	}
	if back != "" {
		c.Did("Cluster %s may use resources of %s too, within %s: liqoctl peer %s, run there", i.id, c.ID, invite.MaxTokenLifetime, c.ID)
	}
	return kube.Delete(ctx, c, secret)
}

// inviteThem returns a token for the provider, which this cluster sends with its enrollment. The token is empty if the user does not invite the
// provider, or if the enrollment is over.
func inviteThem(ctx context.Context, c *session.Cluster, i *invitation, granted bool) (string, error) {
	switch {
	case i.back == "":
		return "", nil
	case granted:
		c.Warn("Cluster %s has admitted this cluster before, so this cluster sends no invitation there: run liqoctl generate peer-command --consumer-cluster-id %s here, and run the printed command on %s",
			i.id, i.id, i.id)
		return "", nil
	}
	return session.SealToken(ctx, c, &invite.Token{Expires: time.Now().Add(invite.MaxTokenLifetime), Consumer: i.id}, true)
}

// withoutRefusal returns the Identity that the provider has granted to the local cluster; nil if there is none. It deletes an Identity that is not granted,
// because the provider's rejection of an earlier token does not apply to a new one. A granted one stays, valid or not: deleting it would
// withdraw what this cluster uses of the provider. See reenroll for one that the provider does not accept any more.
func withoutRefusal(ctx context.Context, c *session.Cluster, namespace, provider string) (granted *authv1beta1.Identity, err error) {
	identity := &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: peering.ControlPlaneIdentityName(provider)}}
	err = c.Get(ctx, client.ObjectKeyFromObject(identity), identity)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", c.Name(identity), err)
	case identity.DeletionTimestamp != nil:
		return nil, c.Leaving(identity)
	case peering.Granted(&identity.Spec.AuthParams):
		return identity, nil
	}
	if err := kube.Delete(ctx, c, identity); err != nil {
		return nil, err
	}
	step := c.Start("Enrolling this cluster in %s", provider)
	defer step.End()
	return nil, c.WaitGone(ctx, step, identity)
}

// obtainIdentity creates the Identity that the controllers complete with the Invitation, and waits until its kubeconfig exists. The Invitation is nil
// if the cluster is enrolled already.
func obtainIdentity(ctx context.Context, c *session.Cluster, namespace, provider string, invitation *corev1.Secret) error {
	if err := handshake.ReplaceWish(ctx, c, provider, corev1beta1.PeeringNo, corev1beta1.PeeringAuto); err != nil {
		return err
	}
	identity := &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: peering.ControlPlaneIdentityName(provider)}}
	return c.Reach(ctx, &session.Goal{
		Object: identity, Doing: "Enrolling this cluster in " + provider, Done: fmt.Sprintf("Cluster %s has admitted this cluster", provider),
		Fill: func() {
			kube.AddLabels(identity, map[string]string{api.LabelRemoteClusterID: provider})
			identity.Spec.ClusterID, identity.Spec.Type = provider, authv1beta1.IdentityControlPlane
			if !peering.Granted(&identity.Spec.AuthParams) {
				peering.Accept(identity, invitation)
			}
		},
		Met: func() session.Verdict {
			if identity.Status.KubeconfigSecretRef != nil {
				return session.Yes()
			}
			ready := meta.FindStatusCondition(identity.Status.Conditions, kube.ConditionReady)
			if ready != nil && strings.HasPrefix(ready.Reason, "Invitation") {
				return session.Never("%s", ready.Message)
			}
			return session.NotYet("cluster %s has not granted it%s", provider, session.Unmet(identity.Status.Conditions))
		},
	})
}
