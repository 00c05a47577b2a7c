package remote

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"liqo.io/liqo/internal/eks"
)

// useEKS replaces the aws CLI in a kubeconfig. This process then creates the tokens for the EKS cluster itself and adds them to requests,
// without a program and without a request to AWS. useEKS returns false and changes nothing if the kubeconfig names another program.
func useEKS(cfg *rest.Config, now func() time.Time) bool {
	user, ok := eksUser(cfg.ExecProvider)
	if !ok {
		return false
	}
	cfg.ExecProvider = nil
	tokens := &eksTokens{user: user, now: now}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return &eksTransport{tokens: tokens, next: next} })
	return true
}

func eksUser(exec *clientcmdapi.ExecConfig) (eks.User, bool) {
	if exec == nil {
		return eks.User{}, false
	}
	environment := make([]eks.Variable, len(exec.Env))
	for i, variable := range exec.Env {
		environment[i] = eks.Variable{Name: variable.Name, Value: variable.Value}
	}
	return eks.UserOf(exec.Command, exec.Args, environment)
}

// eksTokens creates tokens and caches the current one. All transports of a configuration share it.
type eksTokens struct {
	user eks.User
	now  func() time.Time

	mu   sync.Mutex
	text string
	made time.Time
}

// get returns a token that the cluster still accepts for some minutes.
func (t *eksTokens) get(ctx context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if age := now.Sub(t.made); t.text != "" && age >= 0 && age < eks.RenewAfter { // a negative age: the clock was set back, and the token is from the future
		return t.text, nil
	}
	text, err := eksToken(ctx, t.user, now)
	if err != nil {
		return "", err
	}
	t.text, t.made = text, now
	return text, nil
}

// eksToken creates a token that is valid from now on.
func eksToken(ctx context.Context, user eks.User, now time.Time) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, user.URL(), http.NoBody)
	if err != nil {
		return "", fmt.Errorf("creating a token with %s: %w", user, err)
	}
	request.Header.Set(eks.ClusterHeader, user.Cluster)
	key := aws.Credentials{AccessKeyID: user.AccessKeyID, SecretAccessKey: user.SecretAccessKey}
	empty := sha256.Sum256(nil)
	signed, _, err := v4.NewSigner().PresignHTTP(ctx, key, request, hex.EncodeToString(empty[:]), eks.Service, user.Region, now)
	if err != nil {
		return "", fmt.Errorf("creating a token with %s: %w", user, err)
	}
	return eks.TokenPrefix + base64.RawURLEncoding.EncodeToString([]byte(signed)), nil
}

// eksTransport adds the current token to each request. Running watches and streams keep their connections.
type eksTransport struct {
	tokens *eksTokens
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *eksTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	token, err := t.tokens.get(req.Context())
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+token)
	return t.next.RoundTrip(req)
}

// WrappedRoundTripper returns the transport without tokens.
func (t *eksTransport) WrappedRoundTripper() http.RoundTripper { return t.next }
