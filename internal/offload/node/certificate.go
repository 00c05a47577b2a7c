package node

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/pki"
)

// Limits for certificate signing requests. signingTimeout is how long to wait for approval and signature, as a kubelet does. signingRetry is the delay after
// the first failure, signingLastRetry the longest delay, after many failures. Each attempt leaves a request behind, which the cluster keeps for a day if it is
// neither approved nor denied.
const (
	signingTimeout   = 15 * time.Minute
	signingRetry     = 5 * time.Second
	signingLastRetry = 30 * time.Minute
	// signingWait is how long TLS handshakes wait for the first signed certificate. It is usually signed within a second. Without the wait, a
	// client that verifies the certificate would fail.
	signingWait = 5 * time.Second
	// servingLife is the requested lifetime of the certificate. Without one, clusters sign for a year, and nothing ends the certificate of a removed virtual node.
	servingLife = 30 * 24 * time.Hour
)

// +kubebuilder:rbac:groups=certificates.k8s.io,resources=certificatesigningrequests,verbs=create;watch

// Certificate is the serving certificate of the kubelet API. The cluster's signer for kubelet serving certificates issues it, it is renewed after two
// thirds of its lifetime, and its key never leaves this process.
//
// If it is not signed within signingWait, a self-signed certificate serves in the meantime, as with any kubelet. An API server that does not verify
// kubelets can then fetch logs; an API server that verifies them has to wait.
type Certificate struct {
	node    *Node
	current atomic.Pointer[tls.Certificate]
	// certified is closed when the first certificate is signed. After the deadline, handshakes no longer wait for it.
	certified chan struct{}
	once      sync.Once
	deadline  time.Time
}

// NewCertificate returns the Certificate of a Node, self-signed until Run obtains a signed one.
func NewCertificate(n *Node) (*Certificate, error) {
	c := &Certificate{node: n, certified: make(chan struct{}), deadline: n.opts.Clock.Now().Add(signingWait)}
	own, err := c.selfSigned()
	if err != nil {
		return nil, fmt.Errorf("creating a self-signed certificate: %w", err)
	}
	c.current.Store(own)
	return c, nil
}

// Get returns the current certificate; use it as tls.Config.GetCertificate. During the first signingWait it waits for a signed certificate.
func (c *Certificate) Get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return c.serving(hello.Context())
}

func (c *Certificate) serving(ctx context.Context) (*tls.Certificate, error) {
	if left := c.deadline.Sub(c.node.opts.Clock.Now()); left > 0 {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.certified:
		case <-c.node.opts.Clock.After(left):
		}
	}
	return c.current.Load(), nil
}

// Leaf returns the current certificate.
func (c *Certificate) Leaf() *x509.Certificate { return c.current.Load().Leaf }

// Run requests and renews the certificate until ctx ends and then returns nil.
func (c *Certificate) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-c.node.exists:
	}
	opts, failures := c.node.opts, 0
	for {
		delay := signingDelay(failures)
		signed, err := c.request(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && failures == 0:
			opts.Log.Error("Failed to request a serving certificate", "node", opts.Name, "error", err)
		case err == nil:
			c.take(signed)
			delay = max(pki.RenewAt(signed.Leaf.NotBefore, signed.Leaf.NotAfter).Sub(opts.Clock.Now()), time.Minute)
			opts.Log.Info("Received a serving certificate", "node", opts.Name, "expires", signed.Leaf.NotAfter)
		}
		failures++
		if err == nil {
			failures = 0
		}
		select {
		case <-ctx.Done():
			return nil
		case <-opts.Clock.After(delay):
		}
	}
}

// take makes a signed certificate the current one.
func (c *Certificate) take(signed *tls.Certificate) {
	c.current.Store(signed)
	c.once.Do(func() { close(c.certified) })
}

// signingDelay returns the delay after a failed attempt that followed the given number of consecutive failures.
func signingDelay(failures int) time.Duration {
	delay := signingRetry
	for ; failures > 0 && delay < signingLastRetry; failures-- {
		delay *= 2
	}
	return min(delay, signingLastRetry)
}

// request generates a new key and has it certified.
func (c *Certificate) request(ctx context.Context) (*tls.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, signingTimeout)
	defer cancel()
	key, err := pki.NewKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	request, err := pki.Request(rand.Reader, key, &x509.CertificateRequest{
		Subject: c.subject(), IPAddresses: c.addresses(), DNSNames: []string{c.node.opts.Name},
	})
	if err != nil {
		return nil, err
	}
	private, err := pki.PrivateKey(key)
	if err != nil {
		return nil, err
	}
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "liqo-kubelet-", Labels: map[string]string{api.LabelManaged: api.True}},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    request,
			SignerName: certificatesv1.KubeletServingSignerName, ExpirationSeconds: new(int32(servingLife / time.Second)),
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
	}
	if n := c.node.Object(); n != nil { // so that garbage collection deletes it with the node
		csr.OwnerReferences = []metav1.OwnerReference{{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Node", Name: n.Name, UID: n.UID}}
	}
	if err := c.node.opts.Local.Create(ctx, csr); err != nil {
		return nil, fmt.Errorf("creating a CertificateSigningRequest: %w", err)
	}
	chain, err := c.signed(ctx, csr)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(chain, private)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate: %w", err)
	}
	return &pair, nil
}

// signed waits until the request is approved and signed, and returns the certificate chain in PEM.
func (c *Certificate) signed(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) ([]byte, error) {
	events, err := c.node.opts.Local.Watch(ctx, &certificatesv1.CertificateSigningRequestList{}, &client.ListOptions{Raw: &metav1.ListOptions{
		FieldSelector: "metadata.name=" + csr.Name, ResourceVersion: csr.ResourceVersion,
	}})
	if err != nil {
		return nil, fmt.Errorf("watching CertificateSigningRequest %s: %w", csr.Name, err)
	}
	defer events.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for CertificateSigningRequest %s to be approved and signed: %w", csr.Name, ctx.Err())
		case event, ok := <-events.ResultChan():
			if !ok || event.Type == watch.Error {
				return nil, fmt.Errorf("watching CertificateSigningRequest %s: the watch ended", csr.Name)
			}
			now, ok := event.Object.(*certificatesv1.CertificateSigningRequest)
			if !ok {
				continue
			}
			for _, cond := range now.Status.Conditions {
				if cond.Type == certificatesv1.CertificateDenied || cond.Type == certificatesv1.CertificateFailed {
					return nil, fmt.Errorf("CertificateSigningRequest %s is %s: %s", csr.Name, cond.Type, cond.Message)
				}
			}
			if len(now.Status.Certificate) > 0 {
				return now.Status.Certificate, nil
			}
		}
	}
}

// subject returns the subject that the signer for kubelet serving certificates requires.
func (c *Certificate) subject() pkix.Name {
	return pkix.Name{CommonName: "system:node:" + c.node.opts.Name, Organization: []string{"system:nodes"}}
}

func (c *Certificate) addresses() []net.IP {
	if ip := net.ParseIP(c.node.opts.IP); ip != nil {
		return []net.IP{ip}
	}
	return nil
}

func (c *Certificate) selfSigned() (*tls.Certificate, error) {
	own, err := pki.NewServer(rand.Reader, &x509.Certificate{
		Subject: c.subject(), IPAddresses: c.addresses(), DNSNames: []string{c.node.opts.Name},
	}, c.node.opts.Clock.Now(), 365*24*time.Hour, nil)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(own.Certificate, own.Key)
	return &pair, err
}
