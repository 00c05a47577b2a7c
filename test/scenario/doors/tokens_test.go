package doors

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// tokenLife is the lifetime of tokens in naples. They are renewed after two thirds of it.
const tokenLife = 24 * time.Second

// tokens: naples signs no certificates for users, like EKS. Rome uses it with tokens. They are renewed while a pod runs and a stream is open, and are invalid
// after the peering has ended.
func tokens(s *story.Story) {
	rome, naples := s.Rome, s.Naples
	tenants := api.TenantNamespace(rome.ID)
	s.Step("rome peers with naples, which signs no certificate", func() {
		shell(s, rome, "liqoctl peer --networking-disabled --remote-kubeconfig "+naples.Kubeconfig)
		s.NodeReady(naples.ID, true, soon)
		requests := &certificatesv1.CertificateSigningRequestList{}
		s.Must(naples.List(s.Context(), requests))
		for _, request := range requests.Items {
			if request.Spec.SignerName == certificatesv1.KubeAPIServerClientSignerName {
				s.Errorf("naples was asked for certificate %s of user %s", request.Name, request.Spec.Username)
			}
		}
		for command, want := range map[string]string{
			"doctor --verbose": "the first token ends at", "info peer " + naples.ID: "token of a ServiceAccount, renewed before",
		} {
			if said := shell(s, rome, "liqoctl "+command+" 2>&1 || true"); !strings.Contains(said, want) {
				s.Errorf("liqoctl %s does not say %q:\n%s", command, want, said)
			}
		}
	})
	g := inviteGuests(s, rome, naples)
	names := []string{peering.ControlPlaneIdentityName(naples.ID), peering.SliceIdentityName(naples.ID)}
	// now returns an Identity and the client configuration in its kubeconfig.
	now := func(ctx context.Context, name string) (*authv1beta1.Identity, *rest.Config, error) {
		identity, secret := &authv1beta1.Identity{}, &corev1.Secret{}
		key := client.ObjectKey{Namespace: api.TenantNamespace(naples.ID), Name: name}
		err := rome.Get(ctx, key, identity)
		key.Name = peering.KubeconfigSecretName(name)
		if err := errors.Join(err, rome.Get(ctx, key, secret)); err != nil {
			return nil, nil, err
		}
		config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data[authv1beta1.KubeconfigSecretKey])
		if err == nil && (config.BearerToken == "" || len(config.CertData) > 0) {
			err = fmt.Errorf("the kubeconfig of Identity %s has no token, or a certificate", name)
		}
		return identity, config, err
	}
	var kubelets []corev1.Pod
	virtual := client.MatchingLabels{offloadingv1beta1.LabelComponent: offloadingv1beta1.ComponentVirtualKubelet}
	s.Step("both tokens are renewed twice, and a stream goes on", func() {
		kubelets = s.Pods(rome, api.TenantNamespace(naples.ID), virtual)
		s.Must(rome.Create(s.Context(), story.PodOn(naples.ID, ns, "talker", playground.Shell, "sh", "-c", "sleep 3600")))
		s.PodReady(rome, ns, "talker", start)
		session := s.Session(rome, story.WebSocket, ns, "talker", "sh", "-c", "while read x; do echo heard $x; done")
		for range 2 {
			for _, name := range names {
				before, config, err := now(s.Context(), name)
				s.Must(err)
				s.Eventually(2*tokenLife, "another token of Identity "+name, func(ctx context.Context) error {
					after, other, err := now(ctx, name)
					if err == nil && (!peering.Newer(&after.Spec.AuthParams, &before.Spec.AuthParams) || other.BearerToken == config.BearerToken) {
						err = errors.New("it is the same")
					}
					return err
				})
			}
		}
		if said := session.Ask("still there"); said != "heard still there" {
			s.Errorf("the stream says %q", said)
		}
		session.Close()
		after := s.Pods(rome, api.TenantNamespace(naples.ID), virtual)
		if len(kubelets) != 1 || len(after) != 1 || after[0].UID != kubelets[0].UID || story.Restarts(after[0]) > 0 {
			s.Errorf("the virtual kubelet was replaced or restarted: %v, then %v", story.Names(kubelets), story.Names(after))
		}
		s.NodeReady(naples.ID, true, soon)
	})
	var stolen []client.Client
	s.Step("a token alone is worth nothing, nor is it with another user's name", func() {
		for _, name := range names {
			_, config, err := now(s.Context(), name)
			s.Must(err)
			for user, forbidden := range map[string]bool{config.Impersonate.UserName: false, "": true, peering.TokenUserPrefix + "milan": true, "admin": true} {
				as := rest.CopyConfig(config)
				as.Host, as.Proxy = naples.Config.Host, nil
				as.CAData = naples.Config.CAData
				if forbidden {
					as.Impersonate = rest.ImpersonationConfig{UserName: user}
				}
				thief, err := client.New(as, client.Options{Scheme: kube.NewScheme()})
				s.Must(err)
				if !forbidden {
					stolen = append(stolen, thief)
				}
				err = thief.List(s.Context(), &authv1beta1.TenantList{}, client.InNamespace(tenants))
				if !apierrors.IsForbidden(err) {
					s.Errorf("%s as %q lists Tenants: %v", name, user, err)
				}
			}
		}
	})
	g.leave()
	s.Step("rome leaves, and the tokens are no tokens any more", func() {
		s.Must(s.Unpeer(s.Context(), rome, naples))
		for i, thief := range stolen {
			s.Eventually(soon, "naples to know the token no longer", func(ctx context.Context) error {
				if err := thief.List(ctx, &authv1beta1.ResourceSliceList{}, client.InNamespace(tenants)); !apierrors.IsUnauthorized(err) {
					return fmt.Errorf("the token of %s: %w", names[i], errors.Join(err, errors.New("want unauthorized")))
				}
				return nil
			})
		}
		strangers(s, rome, naples)
	})
}
