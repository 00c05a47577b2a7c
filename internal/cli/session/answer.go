package session

import (
	"context"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/rest"

	"liqo.io/liqo/internal/remote"
)

// answerWait is the timeout of requests without a deadline of their own, such as discovery requests. A server that accepts a connection but never
// responds must not block a command forever.
const answerWait = time.Minute

// Limits of the memory and the time that a response of another administrator's cluster uses, and of the memory of all its lists that are read in pages. A list of
// 10,000 pods has some 100 MiB, and Kubernetes supports 150,000 pods.
const (
	foreignBytes = 128 << 20
	foreignLists = 2 << 30
	foreignTime  = 10 * time.Minute
)

// bounding adds a timeout to every request that uses config (see bounded.RoundTrip), and makes redirects errors (see remote.RefuseRedirects). It limits the
// responses and the lists of a foreign cluster, which could otherwise fill the memory of this machine.
func bounding(config *rest.Config, foreign bool) *rest.Config {
	remote.RefuseRedirects(config)
	if foreign {
		remote.LimitResponses(config, foreignBytes, foreignLists, foreignTime)
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return bounded{next} })
	return config
}

type bounded struct{ next http.RoundTripper }

// RoundTrip calls the wrapped transport with a timeout of answerWait. It does not limit watches, exec requests, and requests with a
// deadline.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, has := r.Context().Deadline(); has || r.URL.Query().Has("watch") || remote.IsExec(r.URL.Path) {
		return b.next.RoundTrip(r)
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerWait)
	response, err := b.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	response.Body = &boundedBody{response.Body, cancel}
	return response, nil
}

// boundedBody is a response body that cancels the context of its request when it is closed.
type boundedBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close closes the body and cancels the context.
func (b *boundedBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
