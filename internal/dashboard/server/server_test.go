package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"liqo.io/liqo/internal/dashboard"
)

const address = "127.0.0.1:8088"

func newServer(t *testing.T) *Server {
	t.Helper()
	s, err := New(Options{
		Address: address, Feed: NewFeed(),
		Page: fstest.MapFS{"index.html": {Data: []byte("the page")}, "app.js": {Data: []byte("the script")}},
		Explain: func(_ context.Context, from, to string) (any, error) {
			if from == "nobody" {
				return nil, errors.New("there is no pod nobody")
			}
			return map[string]string{"from": from, "to": to}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func token(s *Server) string {
	_, token, _ := strings.Cut(s.URL(), "#")
	return token
}

// request sends a request to the host that browsers use, with headers as key: value.
func request(t *testing.T, s *Server, method, path, body string, headers ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Host = address
	for _, header := range headers {
		key, value, _ := strings.Cut(header, ": ")
		if key == "Host" {
			r.Host = value
			continue
		}
		r.Header.Set(key, value)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result()
}

// login exchanges the token, and returns the header with the key of the session.
func login(t *testing.T, s *Server) string {
	t.Helper()
	response := request(t, s, http.MethodPost, "/api/session", `{"token":"`+token(s)+`"}`)
	return "Authorization: Bearer " + sessionOf(t, response)
}

func sessionOf(t *testing.T, response *http.Response) string {
	t.Helper()
	var body struct{ Session string }
	if err := json.NewDecoder(response.Body).Decode(&body); err != nil || response.StatusCode != http.StatusOK || body.Session == "" {
		t.Fatalf("exchanging the token: %s, %v", response.Status, err)
	}
	return body.Session
}

func text(t *testing.T, response *http.Response) string {
	t.Helper()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestOnlyTheTokenOpensASession: the token opens one session. The session uses no cookie, because browsers would send it to servers at other ports
// too.
func TestOnlyTheTokenOpensASession(t *testing.T) {
	s := newServer(t)
	for _, body := range []string{`{"token":"wrong"}`, `{"token":""}`, `{}`} {
		if response := request(t, s, http.MethodPost, "/api/session", body); response.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %s", body, response.Status)
		}
	}
	for _, body := range []string{"", "no JSON", `{"token":"` + strings.Repeat("x", bodyLimit) + `"}`} {
		if response := request(t, s, http.MethodPost, "/api/session", body); response.StatusCode != http.StatusBadRequest {
			t.Errorf("a body of %d bytes: %s", len(body), response.Status)
		}
	}
	once := `{"token":"` + token(s) + `"}`
	response := request(t, s, http.MethodPost, "/api/session", once)
	if session := sessionOf(t, response); strings.Contains(once, session) || len(response.Cookies()) > 0 {
		t.Errorf("the session is %s, with cookies %v", session, response.Cookies())
	}
	if response := request(t, s, http.MethodPost, "/api/session", once); response.StatusCode != http.StatusUnauthorized {
		t.Errorf("the token again: %s", response.Status)
	}
	if strings.TrimSuffix(s.URL(), "#") != "http://"+address+"/" {
		t.Errorf("after the exchange the address is still %s", s.URL())
	}
	other := newServer(t)
	if token(newServer(t)) == token(other) {
		t.Error("two servers have the same token")
	}
}

// TestClustersNeedASession: all data about clusters needs a session, whatever the path and the header.
func TestClustersNeedASession(t *testing.T) {
	s := newServer(t)
	for _, header := range []string{"", "Authorization: Bearer ", "Authorization: Bearer wrong", "Authorization: " + token(s), "Cookie: session="} {
		for _, path := range []string{"/api/stream", "/api/explain?from=a&to=b", "/api/", "/api/other", "/api/session"} {
			if response := request(t, s, http.MethodGet, path, "", header); response.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s with %q: %s", path, header, response.Status)
			}
		}
	}
	session := login(t, s)
	if response := request(t, s, http.MethodGet, "/api/explain?from=a&to=b", "", session); response.StatusCode != http.StatusOK {
		t.Errorf("with the session: %s", response.Status)
	}
	if response := request(t, newServer(t), http.MethodGet, "/api/explain?from=a&to=b", "", session); response.StatusCode != http.StatusUnauthorized {
		t.Errorf("with the session of another server: %s", response.Status)
	}
}

// TestThePageIsForEverybody: the page itself contains no secret and needs no session, so that it can exchange the token.
func TestThePageIsForEverybody(t *testing.T) {
	s := newServer(t)
	for path, want := range map[string]string{"/": "the page", "/app.js": "the script"} {
		if response := request(t, s, http.MethodGet, path, ""); response.StatusCode != http.StatusOK || text(t, response) != want {
			t.Errorf("%s: %s", path, response.Status)
		}
	}
	if response := request(t, s, http.MethodGet, "/none", ""); response.StatusCode != http.StatusNotFound {
		t.Errorf("/none: %s", response.Status)
	}
}

// TestOtherHostsAreRefused: a request with another host name that resolves to this machine is refused, even with a session.
func TestOtherHostsAreRefused(t *testing.T) {
	s := newServer(t)
	session := login(t, s)
	for host, want := range map[string]int{
		address: http.StatusOK, "localhost:8088": http.StatusOK, "127.0.0.1": http.StatusMisdirectedRequest, "127.0.0.1:80": http.StatusMisdirectedRequest,
		"evil.example:8088": http.StatusMisdirectedRequest, "": http.StatusMisdirectedRequest, "localhost:8088.evil.example": http.StatusMisdirectedRequest,
	} {
		for _, path := range []string{"/", "/api/explain?from=a&to=b"} {
			if response := request(t, s, http.MethodGet, path, "", "Host: "+host, session); response.StatusCode != want {
				t.Errorf("host %q, %s: %s, want %d", host, path, response.Status, want)
			}
		}
	}
}

// TestTheDefaultPortIsLeftOut: browsers send no port to port 80, and a port to every other one.
func TestTheDefaultPortIsLeftOut(t *testing.T) {
	for at, hosts := range map[string]map[string]int{
		"127.0.0.1:80": {
			"127.0.0.1": http.StatusOK, "localhost": http.StatusOK, "127.0.0.1:80": http.StatusOK, "localhost:80": http.StatusOK,
			"evil.example": http.StatusMisdirectedRequest, "": http.StatusMisdirectedRequest, "127.0.0.1:8088": http.StatusMisdirectedRequest,
		},
		"[::1]:80":       {"[::1]": http.StatusOK, "localhost": http.StatusOK, "::1": http.StatusMisdirectedRequest},
		"127.0.0.1:8080": {"127.0.0.1": http.StatusMisdirectedRequest, "localhost": http.StatusMisdirectedRequest, "localhost:8080": http.StatusOK},
	} {
		s, err := New(Options{Address: at, Page: fstest.MapFS{"index.html": {Data: []byte("the page")}}})
		if err != nil {
			t.Fatal(err)
		}
		for host, want := range hosts {
			if response := request(t, s, http.MethodGet, "/", "", "Host: "+host); response.StatusCode != want {
				t.Errorf("%s, host %q: %s, want %d", at, host, response.Status, want)
			}
		}
	}
}

// TestOtherSitesAreRefused: a page from another port, or from the Internet, can't use the session and gets no data.
func TestOtherSitesAreRefused(t *testing.T) {
	s := newServer(t)
	session := login(t, s)
	for site, want := range map[string]int{
		"same-origin": http.StatusOK, "same-site": http.StatusForbidden, "cross-site": http.StatusForbidden, "none": http.StatusForbidden,
	} {
		response := request(t, s, http.MethodGet, "/api/explain?from=a&to=b", "", session, "Sec-Fetch-Site: "+site, "Origin: http://127.0.0.1:9")
		if response.StatusCode != want {
			t.Errorf("%s: %s, want %d", site, response.Status, want)
		}
		for header := range response.Header {
			if strings.HasPrefix(header, "Access-Control-") {
				t.Errorf("%s: the response has %s", site, header)
			}
		}
	}
}

// TestEveryResponseIsProtected: all responses, including errors, have the security headers.
func TestEveryResponseIsProtected(t *testing.T) {
	s := newServer(t)
	for _, path := range []string{"/", "/app.js", "/none", "/api/stream", "/api/explain"} {
		for _, host := range []string{address, "evil.example"} {
			header := request(t, s, http.MethodGet, path, "", "Host: "+host).Header
			policy := header.Get("Content-Security-Policy")
			if !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") ||
				header.Get("X-Content-Type-Options") != "nosniff" || header.Get("Referrer-Policy") != "no-referrer" {
				t.Errorf("%s at %s: %v", path, host, header)
			}
		}
	}
}

// TestOnlyReading: no method but GET does anything, except for the exchange of the token.
func TestOnlyReading(t *testing.T) {
	s := newServer(t)
	session := login(t, s)
	for _, method := range []string{
		http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace,
	} {
		for _, path := range []string{"/", "/app.js", "/api/stream", "/api/explain?from=a&to=b", "/api/other"} {
			if response := request(t, s, method, path, "", session); response.StatusCode != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %s", method, path, response.Status)
			}
		}
	}
}

func TestExplain(t *testing.T) {
	s := newServer(t)
	session := login(t, s)
	for query, want := range map[string]struct {
		code int
		text string
	}{
		"from=rome/demo/a&to=10.2.0.5": {http.StatusOK, `{"from":"rome/demo/a","to":"10.2.0.5"}`},
		"from=nobody&to=b":             {http.StatusUnprocessableEntity, "there is no pod nobody\n"},
		"from=a":                       {http.StatusBadRequest, "want two ends, from and to, each [cluster/]namespace/pod or [cluster/]address\n"},
	} {
		response := request(t, s, http.MethodGet, "/api/explain?"+query, "", session)
		if got := text(t, response); response.StatusCode != want.code || got != want.text {
			t.Errorf("%s: %s, %s", query, response.Status, got)
		}
	}
}

// TestAddressesOfOtherMachines: the page is for this machine only.
func TestAddressesOfOtherMachines(t *testing.T) {
	for _, address := range []string{"0.0.0.0:80", "192.0.2.1:80", "localhost:80", ":80", "127.0.0.1"} {
		if _, err := New(Options{Address: address}); err == nil || !strings.Contains(err.Error(), address) {
			t.Errorf("%s: %v", address, err)
		}
	}
	if _, err := New(Options{Address: "[::1]:80", Page: fstest.MapFS{}}); err != nil {
		t.Error(err)
	}
}

// pipe is a response that a test reads while it is written.
type pipe struct {
	*io.PipeWriter
	header http.Header
}

func (p pipe) Header() http.Header { return p.header }
func (p pipe) WriteHeader(int)     {}
func (p pipe) Flush()              {}

// TestStream: a stream sends all documents first, and then the changes that the browser does not have yet. A comment keeps an idle connection alive.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		session := strings.TrimPrefix(login(t, s), "Authorization: ")
		documents := func(pods string) dashboard.Documents {
			return dashboard.Documents{"cluster/rome": json.RawMessage(`1`), "pod/" + pods: json.RawMessage(`2`)}
		}
		s.options.Feed.Publish(documents("a"))
		ctx, cancel := context.WithCancel(t.Context())
		reader, writer := io.Pipe()
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/stream", nil)
		r.Host = address
		r.Header.Set("Authorization", session)
		response := pipe{writer, http.Header{}}
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.ServeHTTP(response, r)
			writer.Close()
		}()
		lines := bufio.NewScanner(reader)
		next := func() string {
			for lines.Scan() {
				if lines.Text() != "" {
					return lines.Text()
				}
			}
			return "the end"
		}
		expect := func(want string) {
			t.Helper()
			if diff := cmp.Diff(want, next()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		expect(`data: {"first":true,"set":{"cluster/rome":1,"pod/a":2}}`)
		if response.header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("the type is %s", response.header.Get("Content-Type"))
		}
		s.options.Feed.Publish(documents("a")) // nothing has changed
		s.options.Feed.Publish(documents("b"))
		expect(`data: {"set":{"pod/b":2},"removed":["pod/a"]}`)
		began := time.Now()
		expect(": alive")
		if time.Since(began) > keepAlive {
			t.Errorf("the first comment comes after %s", time.Since(began))
		}
		cancel()
		expect("the end")
		<-done
	})
}
