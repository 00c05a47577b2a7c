package enrollment

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"io"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/peering/invite"
	"liqo.io/liqo/internal/pki"
)

// +kubebuilder:rbac:groups=core,resources=secrets,verbs=get;create;patch

const (
	// secretSize is the number of random bytes of the HMAC key of tokens. The Secret has twice as many hexadecimal characters.
	secretSize = 64
	// certificateLife is the lifetime of the serving certificate. It is long, because consumers pin the key and ignore the expiry. To get a
	// new certificate, delete the Secret.
	certificateLife = 20 * 365 * 24 * time.Hour
	// reloadAfter is how long the certificate is used before the Secret is read again.
	reloadAfter = 5 * time.Second
)

// EnsureSecret returns the Secret with the HMAC key of tokens. It creates the Secret if it is missing, and fills it if its key is missing.
func EnsureSecret(ctx context.Context, o *Options) (*corev1.Secret, error) {
	return ensure(ctx, o, invite.KeySecret, corev1.SecretTypeOpaque, invite.SecretKey, func() (map[string][]byte, error) {
		raw := make([]byte, secretSize)
		if _, err := io.ReadFull(o.Random, raw); err != nil {
			return nil, fmt.Errorf("reading %d random bytes: %w", secretSize, err)
		}
		return map[string][]byte{invite.SecretKey: []byte(hex.EncodeToString(raw))}, nil
	})
}

// WriteUsedTokens stores the record of used tokens in the Secret that it was read from. It fails with a conflict if the Secret has changed since.
func WriteUsedTokens(ctx context.Context, c client.Client, secret *corev1.Secret, usedTokens []byte) error {
	if string(secret.Data[invite.UsedKey]) == string(usedTokens) {
		return nil
	}
	before := secret.DeepCopy()
	secret.Data[invite.UsedKey] = usedTokens
	return c.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// Issue gives a new token its ID, and returns its text. It records the token before anybody gets it, so that SpendTokens finds an unused token too.
// It refuses a token for a consumer whose Tenant is being deleted: the deletion of that Tenant would invalidate the token before it can be used.
func Issue(ctx context.Context, o *Options, token *invite.Token) (text string, err error) {
	if token.Consumer != "" {
		tenant, err := oldestTenant(ctx, o.Reader, token.Consumer)
		if apierrors.IsForbidden(err) {
			return "", fmt.Errorf("creating a token for one cluster requires the permission to list Tenants in all namespaces, since no token is created while an earlier peering of that cluster ends. "+
				"A ClusterRole grants it (kubectl create clusterrole token-makers --verb=list --resource=tenants.authentication.liqo.io): %w", err)
		}
		if err != nil {
			return "", err
		}
		if tenant != nil && tenant.DeletionTimestamp != nil {
			return "", fmt.Errorf("the peering of cluster %s is still ending, which would invalidate a new token: wait until Tenant %s/%s is deleted, then create the token",
				token.Consumer, tenant.Namespace, tenant.Name)
		}
	}
	if token.ID, err = invite.NewTokenID(o.Random); err != nil {
		return "", err
	}
	// Retry after conflicts: consumers that enroll, and other administrators, write the record too.
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		secret, err := EnsureSecret(ctx, o)
		if err != nil {
			return err
		}
		usedTokens, err := invite.Reserve(secret.Data[invite.UsedKey], *token, o.Now())
		if err != nil {
			return unreadable(o, err)
		}
		if err := WriteUsedTokens(ctx, o.Client, secret, usedTokens); err != nil {
			return fmt.Errorf("recording a new token in Secret %s/%s: %w", o.Namespace, invite.KeySecret, err)
		}
		text = token.Text(secret.Data[invite.SecretKey])
		return nil
	})
	return text, err
}

// unreadable returns the error for a record of used tokens that can't be read.
func unreadable(o *Options, err error) error {
	return fmt.Errorf("data.%s of Secret %s/%s: %w; delete the Secret, which revokes all tokens",
		invite.UsedKey, o.Namespace, invite.KeySecret, err)
}

// SpendTokens records that the peering with a consumer has ended. The tokens that the consumer used, and those that were made for it before, are no longer
// valid. The end of the peering began at ended: tokens for any cluster that existed then are no longer valid for that consumer.
func SpendTokens(ctx context.Context, o *Options, consumer string, ended time.Time) error {
	secret := &corev1.Secret{}
	err := o.Reader.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: invite.KeySecret}, secret)
	if apierrors.IsNotFound(err) || (err == nil && len(secret.Data[invite.UsedKey]) == 0) {
		return nil // no token is recorded
	}
	if err != nil {
		return fmt.Errorf("reading Secret %s/%s: %w", o.Namespace, invite.KeySecret, err)
	}
	usedTokens, err := invite.SpendTokens(secret.Data[invite.UsedKey], consumer, ended, o.Now())
	if err != nil {
		return unreadable(o, err)
	}
	if err := WriteUsedTokens(ctx, o.Client, secret, usedTokens); err != nil {
		return fmt.Errorf("recording that the tokens of cluster %s are spent: %w", consumer, err)
	}
	return nil
}

// keyAge is how long the HMAC key of tokens is used to refuse tokens before the Secret is read again. A token of a new key may be refused for that long.
const keyAge = time.Second

// tokenKey is the HMAC key of tokens that was read last.
type tokenKey struct {
	mu    sync.Mutex
	value []byte
	read  time.Time
}

// recent returns the key, nil if it was read more than keyAge ago.
func (k *tokenKey) recent(now time.Time) []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now.Sub(k.read) >= keyAge {
		return nil
	}
	return k.value
}

func (k *tokenKey) set(value []byte, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.value, k.read = value, now
}

// EnsureCertificate returns the serving certificate of the authentication service, and creates it if there is none.
func EnsureCertificate(ctx context.Context, o *Options) (tls.Certificate, error) {
	secret, err := ensure(ctx, o, invite.CertificateSecret, corev1.SecretTypeTLS, corev1.TLSPrivateKeyKey, func() (map[string][]byte, error) {
		return newCertificate(o.Now(), o.Random)
	})
	if err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("reading Secret %s/%s: %w; delete it, and it is created again", secret.Namespace, secret.Name, err)
	}
	return pair, nil
}

// ensure returns a Secret, and fills it if the key is missing. If several replicas try to fill it, the first one succeeds and the others
// use its result.
func ensure(ctx context.Context, o *Options, name string, kind corev1.SecretType, key string, fill func() (map[string][]byte, error)) (*corev1.Secret, error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: name}}
	err := o.Reader.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	if err == nil && len(secret.Data[key]) > 0 {
		return secret, nil
	}
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading Secret %s/%s: %w", o.Namespace, name, err)
	}
	data, fillErr := fill()
	if fillErr != nil {
		return nil, fillErr
	}
	if apierrors.IsNotFound(err) {
		secret.Type, secret.Data = kind, data
		err = o.Client.Create(ctx, secret)
	} else {
		before := secret.DeepCopy()
		secret.Data = data
		err = o.Client.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	}
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		secret = &corev1.Secret{} // another replica was first
		err = o.Reader.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: name}, secret)
	}
	if err != nil {
		return nil, fmt.Errorf("writing Secret %s/%s: %w", o.Namespace, name, err)
	}
	return secret, nil
}

// newCertificate generates a key and a self-signed certificate for it.
func newCertificate(now time.Time, random io.Reader) (map[string][]byte, error) {
	pair, err := pki.NewServer(random, &x509.Certificate{
		Subject: pkix.Name{CommonName: invite.Service}, DNSNames: []string{invite.Service},
	}, now, certificateLife, nil)
	if err != nil {
		return nil, fmt.Errorf("creating the certificate of the authentication service: %w", err)
	}
	return map[string][]byte{corev1.TLSCertKey: pair.Certificate, corev1.TLSPrivateKeyKey: pair.Key}, nil
}

// certificate caches the serving certificate. It follows changes of the Secret. While the Secret can't be read, it keeps the last
// certificate.
type certificate struct {
	*Options

	mu   sync.Mutex
	pair *tls.Certificate
	read time.Time
}

func (c *certificate) get(ctx context.Context) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Now()
	if c.pair != nil && now.Sub(c.read) < reloadAfter {
		return c.pair, nil
	}
	pair, err := EnsureCertificate(ctx, c.Options)
	if err != nil && c.pair == nil {
		return nil, err
	}
	c.read = now
	if err != nil {
		c.Log.Error(err, "Failed to read the certificate of the authentication service: the previous certificate stays in use")
		return c.pair, nil
	}
	c.pair = &pair
	return c.pair, nil
}
