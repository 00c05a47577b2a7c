package node

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Lifetimes of cached API server responses, with the defaults of a kubelet, and the minimum interval between two reads of the client CA.
const (
	allowTTL  = 5 * time.Minute
	denyTTL   = 30 * time.Second
	tokenTTL  = 2 * time.Minute
	caRefresh = 10 * time.Second
	// verdicts limits the entries of each cache; a full cache is cleared.
	verdicts = 1000
)

// +kubebuilder:rbac:groups="",resources=configmaps,resourceNames=extension-apiserver-authentication,verbs=get
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// Authorizer authenticates and authorizes requests to this node's kubelet API, with the rules of a kubelet. A client needs a certificate of the
// cluster's client CA or a bearer token that the API server accepts. It also needs permission for the subresource of this node that the path requires
// (see subresources).
type Authorizer struct {
	client client.Client
	node   string
	clock  clock.Clock

	mu     sync.Mutex
	pool   *x509.CertPool
	read   time.Time
	tokens map[[sha256.Size]byte]verdict
	rights map[string]verdict
}

// verdict is a cached response of the API server.
type verdict struct {
	user    authenticationv1.UserInfo
	ok      bool
	expires time.Time
}

// NewAuthorizer returns the Authorizer of a node.
func NewAuthorizer(c client.Client, node string, time clock.Clock) *Authorizer {
	return &Authorizer{client: c, node: node, clock: time, tokens: map[[sha256.Size]byte]verdict{}, rights: map[string]verdict{}}
}

// Wrap returns a handler that calls next only for authorized requests.
func (g *Authorizer) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
		defer cancel()
		user, err := g.authenticate(ctx, r)
		if err != nil {
			http.Error(w, "Unauthorized: "+err.Error(), http.StatusUnauthorized)
			return
		}
		about := subresources(r.URL.Path)
		allowed := false
		for i := 0; i < len(about) && !allowed && err == nil; i++ {
			allowed, err = g.authorize(ctx, user, r.Method, about[i])
		}
		switch {
		case err != nil:
			http.Error(w, "checking the rights of "+user.Username+": "+err.Error(), http.StatusInternalServerError)
		case !allowed:
			text := fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource(s)=%v)", user.Username, verb(r.Method), about)
			http.Error(w, text, http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

var errAnonymous = errors.New("neither a client certificate nor a bearer token")

func (g *Authorizer) authenticate(ctx context.Context, r *http.Request) (authenticationv1.UserInfo, error) {
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		return g.certificate(ctx, r.TLS.PeerCertificates)
	}
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && token != "" {
		return g.token(ctx, token)
	}
	return authenticationv1.UserInfo{}, errAnonymous
}

// certificate verifies a client certificate against the cluster's client CA. If the cached CA does not match, it re-reads the CA.
func (g *Authorizer) certificate(ctx context.Context, chain []*x509.Certificate) (authenticationv1.UserInfo, error) {
	opts := x509.VerifyOptions{
		Intermediates: x509.NewCertPool(), CurrentTime: g.clock.Now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, c := range chain[1:] {
		opts.Intermediates.AddCert(c)
	}
	for fresh := false; ; fresh = true {
		pool, err := g.clientCA(ctx, fresh)
		if err != nil {
			return authenticationv1.UserInfo{}, fmt.Errorf("reading the client CA: %w", err)
		}
		opts.Roots = pool
		if _, err = chain[0].Verify(opts); err == nil {
			return authenticationv1.UserInfo{Username: chain[0].Subject.CommonName, Groups: append([]string{"system:authenticated"}, chain[0].Subject.Organization...)}, nil
		} else if fresh {
			return authenticationv1.UserInfo{}, err
		}
	}
}

func (g *Authorizer) clientCA(ctx context.Context, fresh bool) (*x509.CertPool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pool != nil && (!fresh || g.clock.Since(g.read) < caRefresh) {
		return g.pool, nil
	}
	var cm corev1.ConfigMap
	if err := g.client.Get(ctx, types.NamespacedName{Namespace: "kube-system", Name: "extension-apiserver-authentication"}, &cm); err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(cm.Data["client-ca-file"])) {
		return nil, errors.New("the API server publishes no client CA")
	}
	g.pool, g.read = pool, g.clock.Now()
	return pool, nil
}

func (g *Authorizer) token(ctx context.Context, token string) (authenticationv1.UserInfo, error) {
	key := sha256.Sum256([]byte(token))
	known, found := recall(g, g.tokens, key)
	if !found {
		review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
		if err := g.client.Create(ctx, review); err != nil {
			return authenticationv1.UserInfo{}, fmt.Errorf("reviewing the token: %w", err)
		}
		known = verdict{user: review.Status.User, ok: review.Status.Authenticated, expires: g.clock.Now().Add(tokenTTL)}
		remember(g, g.tokens, key, known)
	}
	if !known.ok {
		return authenticationv1.UserInfo{}, errors.New("the token is not valid")
	}
	return known.user, nil
}

// subresources returns the subresources of this node for a path; permission for one of them is enough. Kubelets do the same since Kubernetes 1.33
// (KubeletFineGrainedAuthz): they check a fine-grained subresource first and then nodes/proxy, which permits everything of this group. Metrics,
// statistics, logs and checkpoints already had subresources of their own before, which nodes/proxy does not include.
func subresources(path string) []string {
	within := func(root string) bool { return path == root || strings.HasPrefix(path, root+"/") }
	switch {
	case within("/metrics"):
		return []string{"metrics"}
	case within("/stats"):
		return []string{"stats"}
	case within("/logs"):
		return []string{"log"}
	case within("/checkpoint"):
		return []string{"checkpoint"}
	case within("/pods"), within("/runningpods"):
		return []string{"pods", "proxy"}
	case within("/healthz"):
		return []string{"healthz", "proxy"}
	case within("/configz"):
		return []string{"configz", "proxy"}
	}
	return []string{"proxy"}
}

// authorize reports whether the user may use that subresource of this node.
func (g *Authorizer) authorize(ctx context.Context, user authenticationv1.UserInfo, method, about string) (bool, error) {
	key := strings.Join(append([]string{verb(method), about, user.Username, user.UID, fmt.Sprint(user.Extra)}, user.Groups...), "\x00")
	known, found := recall(g, g.rights, key)
	if found {
		return known.ok, nil
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb(method), Version: "v1", Resource: "nodes", Subresource: about, Name: g.node},
	}}
	for k, v := range user.Extra {
		if review.Spec.Extra == nil {
			review.Spec.Extra = map[string]authorizationv1.ExtraValue{}
		}
		review.Spec.Extra[k] = authorizationv1.ExtraValue(v)
	}
	if err := g.client.Create(ctx, review); err != nil {
		return false, err
	}
	ttl := allowTTL
	if !review.Status.Allowed {
		ttl = denyTTL
	}
	remember(g, g.rights, key, verdict{ok: review.Status.Allowed, expires: g.clock.Now().Add(ttl)})
	return review.Status.Allowed, nil
}

func recall[K comparable](g *Authorizer, m map[K]verdict, key K) (verdict, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v, found := m[key]
	return v, found && g.clock.Now().Before(v.expires)
}

func remember[K comparable](g *Authorizer, m map[K]verdict, key K, v verdict) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(m) >= verdicts {
		clear(m)
	}
	m[key] = v
}

// verb returns the RBAC verb on a subresource of nodes that an HTTP method needs.
func verb(method string) string {
	switch method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	default:
		return "get"
	}
}
