package node

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
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
)

// Limits for certificate signing requests. signingTimeout is how long to wait for approval and signature, as a kubelet does. signingRetry is the
// delay after the first failure, signingLastRetry the maximum after many. Each attempt leaves a request behind, which the cluster keeps for a day if
// it is neither approved nor denied.
const (
	signingTimeout   = 15 * time.Minute
	signingRetry     = 5 * time.Second
	signingLastRetry = 30 * time.Minute
	// signingPatience is how long TLS handshakes wait for the first signed certificate. It is usually signed within a second. Without the wait, a
	// client that verifies the certificate would fail.
	signingPatience = 5 * time.Second
)

// +kubebuilder:rbac:groups=certificates.k8s.io,resources=certificatesigningrequests,verbs=create;watch

// Certificate is the serving certificate of the kubelet API. The cluster's signer for kubelet serving certificates issues it, it is renewed after two
// thirds of its lifetime, and its key never leaves this process.
//
// If it is not signed within signingPatience, a self-signed certificate serves in the meantime, as with any kubelet. An API server that does not verify
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
	c := &Certificate{node: n, certified: make(chan struct{}), deadline: n.opts.Clock.Now().Add(signingPatience)}
	own, err := c.selfSigned()
	if err != nil {
		return nil, fmt.Errorf("making a self-signed certificate: %w", err)
	}
	c.current.Store(own)
	return c, nil
}

// Get returns the current certificate; use it as tls.Config.GetCertificate. During the first signingPatience it waits for a signed certificate.
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
			life := signed.Leaf.NotAfter.Sub(signed.Leaf.NotBefore)
			delay = max(signed.Leaf.NotBefore.Add(life*2/3).Sub(opts.Clock.Now()), time.Minute)
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
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating a key: %w", err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: c.subject(), IPAddresses: c.addresses(), DNSNames: []string{c.node.opts.Name},
	}, key)
	if err != nil {
		return nil, fmt.Errorf("signing a request: %w", err)
	}
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "liqo-kubelet-", Labels: map[string]string{api.LabelManaged: api.True}},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeletServingSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
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
	return pair(chain, key)
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
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	now := c.node.opts.Clock.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: c.subject(), IPAddresses: c.addresses(), DNSNames: []string{c.node.opts.Name},
		NotBefore: now.Add(-time.Minute), NotAfter: now.Add(365 * 24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return pair(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key)
}

// pair combines a certificate chain in PEM with its key. It returns an error if they do not match.
func pair(chain []byte, key *ecdsa.PrivateKey) (*tls.Certificate, error) {
	out := &tls.Certificate{PrivateKey: key}
	for block, rest := pem.Decode(chain); block != nil; block, rest = pem.Decode(rest) {
		out.Certificate = append(out.Certificate, block.Bytes)
	}
	if len(out.Certificate) == 0 {
		return nil, errors.New("reading the certificate: there is none")
	}
	leaf, err := x509.ParseCertificate(out.Certificate[0])
	if err != nil {
		return nil, fmt.Errorf("reading the certificate: %w", err)
	}
	if !key.PublicKey.Equal(leaf.PublicKey) {
		return nil, errors.New("reading the certificate: it is for another key")
	}
	out.Leaf = leaf
	return out, nil
}
