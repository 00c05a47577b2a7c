package cli

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// answerWait is how long a request may stay without an answer where nothing else bounds it: a server that takes a connection and says nothing must not
// keep a command for ever. Discovery knows no time limit of the command's.
const answerWait = time.Minute

// bounding has every request of the connection end.
func bounding(config *rest.Config) *rest.Config {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return bounded{next} })
	return config
}

type bounded struct{ next http.RoundTripper }

// RoundTrip is that of the transport below, with an end. What is meant to last has an end of its own.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, has := r.Context().Deadline(); has || r.URL.Query().Has("watch") || strings.HasSuffix(r.URL.Path, "/exec") {
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

// boundedBody ends the time when it was read.
type boundedBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close closes the body.
func (b *boundedBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
