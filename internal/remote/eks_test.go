package remote

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/eks"
	"liqo.io/liqo/internal/peering"
)

const romesKey, otherKey = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "je7MtGbClwBF/2Zp9Utk/h3yCo8nvbEXAMPLEKEY"

// fakeEKS is an API server that admits users of AWS as EKS does: it takes the signed request out of the token, and asks STS whose it is. Its STS
// knows one user. It computes the signature as AWS documents it, without the SDK.
type fakeEKS struct {
	*httptest.Server
	cluster, region, secret string
	now                     func() time.Time

	mu     sync.Mutex
	tokens []string
	// refusal is why the last request was refused.
	refusal error
}

func newFakeEKS(t *testing.T, cluster string, now func() time.Time) *fakeEKS {
	t.Helper()
	f := &fakeEKS{cluster: cluster, region: "eu-west-1", secret: romesKey, now: now}
	f.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		f.mu.Lock()
		defer f.mu.Unlock()
		f.tokens = append(f.tokens, token)
		if f.refusal = f.check(token); f.refusal != nil {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(f.Close)
	return f
}

// check is what the authenticator of EKS does with a token, and then STS with the request in it.
func (f *fakeEKS) check(token string) error {
	encoded, ok := strings.CutPrefix(token, "k8s-aws-v1.")
	const longest = 4096
	if !ok || len(token) > longest {
		return errors.New("no token of EKS")
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return err
	}
	signed, err := url.Parse(string(text))
	if err != nil {
		return err
	}
	query := signed.Query()
	for name, values := range query {
		if len(values) != 1 {
			return fmt.Errorf("parameter %s is there %d times", name, len(values))
		}
	}
	made, err := time.Parse("20060102T150405Z", query.Get("X-Amz-Date"))
	if err != nil {
		return err
	}
	expires, err := strconv.Atoi(query.Get("X-Amz-Expires"))
	scope := made.Format("20060102") + "/" + f.region + "/sts/aws4_request"
	switch age := f.now().Sub(made); {
	case signed.Scheme != "https" || signed.Host != "sts."+f.region+".amazonaws.com" || signed.Path != "/":
		return fmt.Errorf("for %s", signed.Host)
	case query.Get("Action") != "GetCallerIdentity" || query.Get("Version") != "2011-06-15" || len(query) != 8:
		return fmt.Errorf("asks %v", query)
	case query.Get("X-Amz-SignedHeaders") != "host;x-k8s-aws-id":
		return fmt.Errorf("signed are %s", query.Get("X-Amz-SignedHeaders"))
	case query.Get("X-Amz-Credential") != "AKIAIOSFODNN7EXAMPLE/"+scope:
		return fmt.Errorf("of %s", query.Get("X-Amz-Credential"))
	case err != nil || expires < 0 || expires > 900:
		return fmt.Errorf("expires after %s", query.Get("X-Amz-Expires"))
	case age >= 15*time.Minute || age < -5*time.Minute:
		return fmt.Errorf("it is %s old", age)
	}
	got := query.Get("X-Amz-Signature")
	query.Del("X-Amz-Signature")
	if want := f.signature(query, scope); got != want {
		return errors.New("another signature")
	}
	return nil
}

// signature is the signature of version 4 of a GET request with the parameters and the cluster's header.
func (f *fakeEKS) signature(query url.Values, scope string) string {
	empty := sha256.Sum256(nil)
	canonical := "GET\n/\n" + strings.ReplaceAll(query.Encode(), "+", "%20") + "\nhost:sts." + f.region + ".amazonaws.com\nx-k8s-aws-id:" + f.cluster +
		"\n\nhost;x-k8s-aws-id\n" + hex.EncodeToString(empty[:])
	sum := sha256.Sum256([]byte(canonical))
	key := []byte("AWS4" + f.secret)
	for part := range strings.SplitSeq(scope, "/") {
		key = mac(key, part)
	}
	return hex.EncodeToString(mac(key, "AWS4-HMAC-SHA256\n"+query.Get("X-Amz-Date")+"\n"+scope+"\n"+hex.EncodeToString(sum[:])))
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// identity is the Identity with which rome uses the server, for a cluster and with a secret key.
func (f *fakeEKS) identity(cluster, secret string) *authv1beta1.Identity {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.Certificate().Raw})
	return &authv1beta1.Identity{
		ObjectMeta: metav1.ObjectMeta{Name: "controlplane-milan"},
		Spec: authv1beta1.IdentitySpec{ClusterID: "milan", Namespace: "liqo-tenant-rome", AuthParams: authv1beta1.AuthParams{
			CA: ca, APIServer: f.URL, AwsConfig: &authv1beta1.AwsConfig{
				AwsAccessKeyID: "AKIAIOSFODNN7EXAMPLE", AwsSecretAccessKey: secret, AwsRegion: "eu-west-1", AwsClusterName: cluster,
				AwsUserArn: "arn:aws:iam::111122223333:user/rome",
			},
		}},
	}
}

func (f *fakeEKS) kubeconfig(t *testing.T, cluster, secret string) []byte {
	t.Helper()
	kubeconfig, err := peering.Kubeconfig(f.identity(cluster, secret), nil)
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// request sends one request and returns the token that arrived. It fails if the server admits it although it should not, or the other way round.
func (f *fakeEKS) request(t *testing.T, transport http.RoundTripper, admitted bool) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.URL+"/version", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer theirs") // whoever asks: this cluster's credentials count
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	if (response.StatusCode == http.StatusOK) != admitted {
		t.Errorf("status %s, %v; want admitted %t", response.Status, f.refusal, admitted)
	}
	return f.tokens[len(f.tokens)-1]
}

// streaming builds a transport as virtual nodes do for logs and exec: without the one that client-go shares among configurations.
func streaming(cfg *rest.Config) (http.RoundTripper, error) {
	config, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return nil, err
	}
	return rest.HTTPWrappersForConfig(cfg, &http.Transport{TLSClientConfig: config})
}

// TestIdentitiesOfEKS: an Identity with an access key of AWS becomes clients that a cluster of EKS admits, for as long as they run. No program is run, and
// nothing is sent to AWS.
func TestIdentitiesOfEKS(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // without the aws CLI
	then := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	now := then
	clock := func() time.Time { return now }
	milan := newFakeEKS(t, "milan", clock)
	cfg, err := parse(milan.kubeconfig(t, "milan", romesKey), clock)
	if err != nil {
		t.Fatal(err)
	}
	identity := IdentityOf(cfg)
	client, err := identity.Config()
	if err != nil {
		t.Fatal(err)
	}
	stream, err := identity.Transport(streaming)
	if err != nil {
		t.Fatal(err)
	}
	first := milan.request(t, client.Transport, true)
	now = then.Add(10*time.Minute - time.Second)
	if again := milan.request(t, stream, true); again != first {
		t.Error("a token is made for each request, or for each transport")
	}
	now = then.Add(10 * time.Minute)
	second := milan.request(t, client.Transport, true)
	if second == first {
		t.Error("the token was not replaced before it ended")
	}
	for hour := range 48 { // however long nothing was sent
		now = then.Add(time.Duration(hour) * time.Hour)
		milan.request(t, client.Transport, true)
	}
	now = then.Add(-time.Hour) // the clock was set right: a token from the future would be refused
	milan.request(t, client.Transport, true)

	// Whoever has the token of this cluster can't use it elsewhere, and not for long.
	if naples := newFakeEKS(t, "naples", clock); naples.check(second) == nil {
		t.Error("another cluster takes the token")
	}
	now = then.Add(25 * time.Minute)
	if milan.check(second) == nil {
		t.Error("the fake server takes old tokens: this test proves nothing")
	}
}

// TestRotatedAccessKeys: a new access key is used as soon as it is in the kubeconfig, and a wrong one is refused.
func TestRotatedAccessKeys(t *testing.T) {
	milan := newFakeEKS(t, "milan", time.Now)
	identity, err := NewIdentity(milan.kubeconfig(t, "milan", otherKey))
	if err != nil {
		t.Fatal(err)
	}
	client, err := identity.Config()
	if err != nil {
		t.Fatal(err)
	}
	milan.request(t, client.Transport, false)
	health, err := NewHealth(client, HealthOptions{Failures: 1})
	if err != nil {
		t.Fatal(err)
	}
	changed := health.Subscribe()
	go func() { _ = health.Run(t.Context()) }()
	if <-changed; !errors.Is(health.State().Err, ErrUnauthorized) {
		t.Errorf("the state does not show that the key is refused: %v", health.State().Err)
	}
	if replaced, err := identity.Replace(milan.kubeconfig(t, "milan", romesKey)); err != nil || !replaced {
		t.Fatalf("replaced %t, %v", replaced, err)
	}
	milan.request(t, client.Transport, true)
	if replaced, err := identity.Replace(milan.kubeconfig(t, "naples", romesKey)); err != nil || !replaced {
		t.Fatalf("replaced %t, %v", replaced, err)
	}
	milan.request(t, client.Transport, false)
}

// presigner lets the SDK's client of STS sign as of a moment.
type presigner struct{ now time.Time }

func (p presigner) PresignHTTP(ctx context.Context, key aws.Credentials, r *http.Request, hash, service, region string, _ time.Time, options ...func(*v4.SignerOptions)) (string, http.Header, error) {
	return v4.NewSigner().PresignHTTP(ctx, key, r, hash, service, region, p.now, options...)
}

// TestTokensAreThoseOfTheSDK: a token holds the very URL that the client of STS in the official SDK makes.
func TestTokensAreThoseOfTheSDK(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	user := eks.User{AccessKeyID: "AKIAIOSFODNN7EXAMPLE", SecretAccessKey: romesKey, Region: "eu-west-1", Cluster: "milan"}
	client := sts.New(sts.Options{Region: user.Region, Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: user.AccessKeyID, SecretAccessKey: user.SecretAccessKey}, nil
	})})
	want, err := sts.NewPresignClient(client, func(o *sts.PresignOptions) { o.Presigner = presigner{now} }).
		PresignGetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{}, func(o *sts.PresignOptions) {
			o.ClientOptions = append(o.ClientOptions, sts.WithAPIOptions(
				smithyhttp.SetHeaderValue("X-Amz-Expires", "60"), smithyhttp.SetHeaderValue("x-k8s-aws-id", user.Cluster)))
		})
	if err != nil {
		t.Fatal(err)
	}
	token, err := eksToken(t.Context(), user, now)
	if err != nil {
		t.Fatal(err)
	}
	got, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(token, eks.TokenPrefix))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want.URL {
		t.Errorf("signed\n%s, want\n%s", got, want.URL)
	}
}

// roundTripper is a function as a transport.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestTokensStayOutOfTheCallersRequest: a transport must not change the request that it gets, which may be sent or logged again.
func TestTokensStayOutOfTheCallersRequest(t *testing.T) {
	user := eks.User{AccessKeyID: "AKIAIOSFODNN7EXAMPLE", SecretAccessKey: romesKey, Region: "eu-west-1", Cluster: "milan"}
	sent := ""
	transport := &eksTransport{tokens: &eksTokens{user: user, now: time.Now}, next: roundTripper(func(r *http.Request) (*http.Response, error) {
		sent = r.Header.Get("Authorization")
		return &http.Response{Body: http.NoBody}, nil
	})}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://milan/version", http.NoBody)
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if !strings.HasPrefix(sent, "Bearer "+eks.TokenPrefix) || request.Header.Get("Authorization") != "" {
		t.Errorf("sent %.30q, and left %.30q", sent, request.Header.Get("Authorization"))
	}
}

// TestOtherProgramsStayRefused: recognizing the aws CLI lets no other program in.
func TestOtherProgramsStayRefused(t *testing.T) {
	user := eks.User{AccessKeyID: "AKIAIOSFODNN7EXAMPLE", SecretAccessKey: romesKey, Region: "eu-west-1", Cluster: "milan"}
	exec := func() *clientcmdapi.ExecConfig {
		out := &clientcmdapi.ExecConfig{
			APIVersion: eks.APIVersion, Command: eks.Command, Args: user.Arguments(), InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
		}
		for _, variable := range user.Environment() {
			out.Env = append(out.Env, clientcmdapi.ExecEnvVar{Name: variable.Name, Value: variable.Value})
		}
		return out
	}
	if _, _, err := Config(kubeconfig(t, &clientcmdapi.AuthInfo{Exec: exec()})); err != nil {
		t.Errorf("the aws CLI: %v", err)
	}
	for name, change := range map[string]func(*clientcmdapi.ExecConfig){
		"another program":  func(e *clientcmdapi.ExecConfig) { e.Command = "./aws" },
		"another argument": func(e *clientcmdapi.ExecConfig) { e.Args = append(e.Args, "--endpoint-url=https://192.0.2.1") },
		"without a key":    func(e *clientcmdapi.ExecConfig) { e.Env = nil },
	} {
		e := exec()
		change(e)
		if _, _, err := Config(kubeconfig(t, &clientcmdapi.AuthInfo{Exec: e})); err == nil || strings.Contains(err.Error(), romesKey) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
