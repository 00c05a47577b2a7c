package enrollment

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode"

	"liqo.io/liqo/internal/excerpt"
	"liqo.io/liqo/internal/peering/invite"
	"liqo.io/liqo/internal/remote"
)

const (
	// requestTimeout is the timeout of one request. It is longer than the timeouts of the service.
	requestTimeout = 20 * time.Second
	// maxAnswer is how many bytes of a response are read, maxWhy how many bytes of an error text are shown.
	maxAnswer = 1 << 20
	maxWhy    = 400
)

// ErrRefused means that the provider refuses the request, and that a retry is useless.
var ErrRefused = errors.New("the provider refuses")

// Ask sends one request to the authentication service at url and decodes the response into out. If the token has a pin, Ask sends nothing
// to a server without the pinned key.
func Ask(ctx context.Context, url string, token invite.Token, path string, request, out any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encoding a request: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	asked, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(url, "/")+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("creating a request: %w", err)
	}
	asked.Header.Set("Content-Type", "application/json")
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: trust(token), DisableKeepAlives: true}
	client := &http.Client{Transport: remote.WithoutRedirects(transport)}
	answered, err := client.Do(asked)
	if errors.Is(err, invite.ErrPin) {
		return fmt.Errorf("%w: %s: %w", ErrRefused, url, invite.ErrPin)
	}
	if err != nil {
		return fmt.Errorf("sending a request to the authentication service (HTTPS over TCP): %w", err)
	}
	defer func() { _ = answered.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(answered.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("reading the answer of %s: %w", url, err)
	}
	if answered.StatusCode != http.StatusOK {
		return explain(url, answered.StatusCode, data)
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("%w: the answer of %s is not from an authentication service", ErrRefused, url)
	}
	return nil
}

// trust returns the TLS configuration that verifies the server: by the token's pin if it has one, else by the CAs of the system.
func trust(token invite.Token) *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if token.Pin != nil {
		config.InsecureSkipVerify = true // VerifyConnection checks the pin instead, which only the provider's administrator can have set
		config.VerifyConnection = func(state tls.ConnectionState) error { return invite.CheckPin(token.Pin, state.PeerCertificates) }
	}
	return config
}

func explain(url string, status int, data []byte) error {
	said := answer{}
	if json.Unmarshal(data, &said) != nil || said.Error == "" {
		said.Error = http.StatusText(status) + ", which is not how an authentication service answers"
	}
	why := excerpt.Of(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, said.Error), maxWhy)
	if status >= http.StatusInternalServerError || status == http.StatusTooManyRequests || status == http.StatusConflict {
		return fmt.Errorf("%s answers %d: %s", url, status, why)
	}
	return fmt.Errorf("%w (%s answers %d): %s", ErrRefused, url, status, why)
}
