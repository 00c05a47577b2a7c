package remote

import (
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"
)

// RefuseRedirects makes each redirect that a client of cfg receives an error. Clients of Go follow redirects, to any address that the server names, and
// those of Kubernetes add a bearer token to each request. So the API server of another cluster, or a pod behind the proxy of an API server, could
// choose the requests that this process sends, and receive its token. API servers do not redirect.
func RefuseRedirects(cfg *rest.Config) { cfg.Wrap(WithoutRedirects) }

// WithoutRedirects returns a transport that returns an error in place of a redirect. It is for clients that have no rest.Config.
func WithoutRedirects(next http.RoundTripper) http.RoundTripper { return &redirectRefuser{next} }

type redirectRefuser struct{ next http.RoundTripper }

// WrappedRoundTripper returns the wrapped transport, for callers that search for a transport of a certain type.
func (r *redirectRefuser) WrappedRoundTripper() http.RoundTripper { return r.next }

// RoundTrip implements http.RoundTripper. The status 304 (Not Modified) is not a redirect.
func (r *redirectRefuser) RoundTrip(req *http.Request) (*http.Response, error) {
	response, err := r.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if status := response.StatusCode; status < http.StatusMultipleChoices || status >= http.StatusBadRequest || status == http.StatusNotModified {
		return response, nil
	}
	_ = response.Body.Close()
	return nil, fmt.Errorf("%s responded with a redirect (%s), which is not followed: requests and credentials are sent to the configured address only",
		req.URL.Host, response.Status)
}
