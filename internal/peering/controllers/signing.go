package controllers

import (
	"bytes"
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/accounts"
	"liqo.io/liqo/internal/reasons"
)

// +kubebuilder:rbac:groups=certificates.k8s.io,resources=certificatesigningrequests,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=certificatesigningrequests/approval,verbs=update
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=signers,verbs=approve,resourceNames=kubernetes.io/kube-apiserver-client

// signing gets certificates from the cluster's own signer. It never blocks: an event reports the signer's response.
type signing struct {
	client client.Client
	now    func() time.Time
	// accounts issues tokens instead of certificates; nil if that is not enabled.
	accounts *accounts.Issuer
}

// credential returns the requested certificate, or a token if this cluster issues tokens. If there is none yet, it returns a kube.Wait, as
// certificate does.
func (s *signing) credential(ctx context.Context, o accounts.Request) (*authv1beta1.AuthParams, error) {
	if s.accounts.Enabled() {
		// A certificate that was signed before stays until its renewal is due.
		if present := peering.CertificateIn(o.Present); len(present) > 0 && peering.CheckCertificate(present, o.Request, o.Subject, s.now()) == nil {
			return &authv1beta1.AuthParams{SignedCRT: present}, nil
		}
		token, err := s.accounts.Token(ctx, o)
		return &authv1beta1.AuthParams{Token: token}, err
	}
	certificate, err := s.certificate(ctx, o)
	return &authv1beta1.AuthParams{SignedCRT: certificate}, err
}

// kept returns the stored certificate for the request if it needs no renewal yet; nil otherwise.
func (s *signing) kept(ctx context.Context, o accounts.Request) ([]byte, error) {
	if present := peering.CertificateIn(o.Present); len(present) > 0 && peering.CheckCertificate(present, o.Request, o.Subject, s.now()) == nil {
		return present, nil // the cache of Secrets may be older than that of the owner
	}
	secret := &corev1.Secret{}
	err := s.client.Get(ctx, client.ObjectKey{Namespace: o.Owner.GetNamespace(), Name: o.Secret}, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s/%s: %w", o.Owner.GetNamespace(), o.Secret, err)
	}
	certificate := secret.Data[peering.CertificateKey]
	if !metav1.IsControlledBy(secret, o.Owner) || !bytes.Equal(secret.Data[peering.CertificateRequestKey], o.Request) ||
		peering.CheckCertificate(certificate, o.Request, o.Subject, s.now()) != nil {
		return nil, nil
	}
	return certificate, nil
}

// issued reports whether a certificate or a token was issued before for this very request, expired or not. If so, the consumer has already proved
// that it holds the key.
func (s *signing) issued(ctx context.Context, o accounts.Request) (bool, error) {
	if present := peering.CertificateIn(o.Present); len(present) > 0 && peering.CheckIssued(present, o.Request, o.Subject) == nil {
		return true, nil
	}
	if o.Present != nil && o.Present.Token != nil && peering.CheckIssuedToken(o.Present.Token, o.Request, o.Subject) == nil {
		return true, nil
	}
	secret := &corev1.Secret{}
	err := s.client.Get(ctx, client.ObjectKey{Namespace: o.Owner.GetNamespace(), Name: o.Secret}, secret)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading Secret %s/%s: %w", o.Owner.GetNamespace(), o.Secret, err)
	}
	return err == nil && metav1.IsControlledBy(secret, o.Owner) && bytes.Equal(secret.Data[peering.CertificateRequestKey], o.Request) &&
		peering.CheckIssued(secret.Data[peering.CertificateKey], o.Request, o.Subject) == nil, nil
}

// certificate returns the certificate for the request. If there is none yet, it creates a CertificateSigningRequest and returns a kube.Wait. The
// caller must watch CertificateSigningRequests with requestedFor.
func (s *signing) certificate(ctx context.Context, o accounts.Request) ([]byte, error) {
	csr := &certificatesv1.CertificateSigningRequest{}
	csr.Name = peering.RequestName(string(o.Owner.GetUID()), o.Request)
	err := s.client.Get(ctx, client.ObjectKeyFromObject(csr), csr)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading CertificateSigningRequest %s: %w", csr.Name, err)
	}
	found := err == nil
	if certificate, err := s.kept(ctx, o); err != nil || certificate != nil {
		if found && err == nil { // left over from an interrupted reconciliation
			err = kube.Delete(ctx, s.client, csr)
		}
		return certificate, err
	}
	waiting := kube.Wait(reasons.WaitingForSignature,
		"waiting for signer %s to sign CertificateSigningRequest %s (if the cluster signs no client certificates, like EKS: liqoctl upgrade --set authentication.identity=token)",
		certificatesv1.KubeAPIServerClientSignerName, csr.Name)
	if found && !asks(csr, o.Request) {
		// Any user who may create CertificateSigningRequests can take this name. Approving another user's request would issue a certificate
		// that was never checked.
		if err := kube.Delete(ctx, s.client, csr); err != nil {
			return nil, err
		}
		return nil, kube.Wait(reasons.WaitingForSignature,
			"CertificateSigningRequest %s of user %s contained another request: Liqo deleted it and creates its own", csr.Name, csr.Spec.Username)
	}
	if !found {
		if csr, err = s.ask(ctx, o, csr.Name); err != nil {
			return nil, err
		}
	}
	switch approved, refused := verdict(csr); {
	case refused != "":
		if err := kube.Delete(ctx, s.client, csr); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("the signer refused CertificateSigningRequest %s: %s", csr.Name, refused)
	case !approved:
		if err := s.approve(ctx, csr); err != nil {
			return nil, err
		}
		return nil, waiting
	case len(csr.Status.Certificate) == 0:
		return nil, waiting
	}
	certificate := csr.Status.Certificate
	if err := peering.CheckCertificate(certificate, o.Request, o.Subject, s.now()); err != nil {
		// The certificate is outdated, so request another one. The deletion of this CertificateSigningRequest requeues the owner.
		if err := kube.Delete(ctx, s.client, csr); err != nil {
			return nil, err
		}
		return nil, waiting
	}
	if err := s.keep(ctx, o, certificate); err != nil {
		return nil, err
	}
	return certificate, kube.Delete(ctx, s.client, csr)
}

// lifetime is the requested lifetime of consumers' certificates in seconds, the unit of spec.expirationSeconds.
const lifetime = int32(peering.CertificateLife / time.Second)

// asks reports whether a CertificateSigningRequest has exactly this PEM request and the signer for API server clients. Its lifetime must not be
// longer than that of consumers' certificates, and it must request no other usages than they have.
func asks(csr *certificatesv1.CertificateSigningRequest, request []byte) bool {
	for _, usage := range csr.Spec.Usages {
		switch usage {
		case certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth:
		default:
			return false
		}
	}
	return bytes.Equal(csr.Spec.Request, request) && csr.Spec.SignerName == certificatesv1.KubeAPIServerClientSignerName &&
		csr.Spec.ExpirationSeconds != nil && *csr.Spec.ExpirationSeconds <= lifetime
}

func (s *signing) ask(ctx context.Context, o accounts.Request, name string) (*certificatesv1.CertificateSigningRequest, error) {
	gvk, err := apiutil.GVKForObject(o.Owner, s.client.Scheme())
	if err != nil {
		return nil, err
	}
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				peering.LabelRemoteTenantCSR: api.True,
				api.LabelRemoteClusterID:     o.Consumer,
			},
			Annotations: map[string]string{
				peering.AnnotationRequestedFor: gvk.Kind + "/" + o.Owner.GetNamespace() + "/" + o.Owner.GetName(),
			},
		},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    o.Request,
			SignerName: certificatesv1.KubeAPIServerClientSignerName, ExpirationSeconds: new(lifetime),
			Usages: []certificatesv1.KeyUsage{
				certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth,
			},
		},
	}
	if err := s.client.Create(ctx, csr); err != nil {
		return nil, fmt.Errorf("creating CertificateSigningRequest %s: %w", name, err)
	}
	return csr, nil
}

func (s *signing) approve(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) error {
	return approve(ctx, s.client, csr, reasons.IdentityManagerApproval, "the identity of a consumer, checked by Liqo", s.now())
}

// approve approves a CertificateSigningRequest.
func approve(ctx context.Context, c client.Client, csr *certificatesv1.CertificateSigningRequest, reason, message string, now time.Time) error {
	csr = csr.DeepCopy()
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue,
		Reason: reason, Message: message, LastUpdateTime: metav1.NewTime(now),
	})
	if err := c.SubResource("approval").Update(ctx, csr); err != nil {
		return fmt.Errorf("approving CertificateSigningRequest %s: %w", csr.Name, err)
	}
	return nil
}

// verdict reports whether a request is approved, or why it was denied or failed.
func verdict(csr *certificatesv1.CertificateSigningRequest) (approved bool, refused string) {
	for _, condition := range csr.Status.Conditions {
		switch condition.Type {
		case certificatesv1.CertificateApproved:
			approved = true
		case certificatesv1.CertificateDenied, certificatesv1.CertificateFailed:
			return false, condition.Reason + ": " + condition.Message
		}
	}
	return approved, ""
}

func (s *signing) keep(ctx context.Context, o accounts.Request, certificate []byte) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: o.Owner.GetNamespace(), Name: o.Secret}}
	_, err := kube.Ensure(ctx, s.client, secret, func() error {
		label(secret, o.Consumer)
		secret.Data = map[string][]byte{peering.CertificateRequestKey: o.Request, peering.CertificateKey: certificate}
		return controllerutil.SetControllerReference(o.Owner, secret, s.client.Scheme())
	})
	return err
}
