package enrollment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// answer is the body of every response that is not a success.
type answer struct {
	Error string `json:"error"`
}

// refusal is an error whose text and HTTP status the client gets. The text of any other error goes to the log of this cluster only.
type refusal struct {
	status int
	cause  error
}

func (r *refusal) Error() string { return r.cause.Error() }
func (r *refusal) Unwrap() error { return r.cause }

// refuse returns an error with an HTTP status and a text that the client gets.
func refuse(status int, cause error) error { return &refusal{status, cause} }

// retryLater returns an error with status 503, which makes the client retry after a while.
func retryLater(cause error) error { return &refusal{http.StatusServiceUnavailable, cause} }

// bounded returns an HTTP handler that reads a request, serves it and writes the response. It limits the size of a request, the number of requests
// served at the same time, and the rate of requests of one source. Behind a proxy, all requests have one source, so the proxy has to limit the rate
// of its clients.
func (d *Service) bounded(serve func(context.Context, []byte) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !d.Plain && !d.requestLimits.of(sourceOf(r.RemoteAddr)).Allow() { // the limit for all sources together applies after the check of the token only: see admit
			d.answer(w, r, nil, refuse(http.StatusTooManyRequests, errors.New("too many requests: try again in a few seconds")))
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
				err = refuse(http.StatusRequestEntityTooLarge, fmt.Errorf("the request has more than %d bytes", maxBody))
			} else {
				err = refuse(http.StatusBadRequest, errors.New("the request ended early"))
			}
			d.answer(w, r, nil, err)
			return
		}
		select {
		case d.working <- struct{}{}:
			defer func() { <-d.working }()
		default:
			d.answer(w, r, nil, retryLater(errors.New("too many requests at once")))
			return
		}
		out, err := serve(r.Context(), body)
		d.answer(w, r, out, err)
	}
}

// answer writes the response and logs errors. It logs neither the token nor the body of the request. The text of a rejection may quote a short part of it, such as the
// cluster ID.
func (d *Service) answer(w http.ResponseWriter, r *http.Request, out any, err error) {
	status := http.StatusOK
	rejection := &refusal{}
	switch {
	case errors.As(err, &rejection):
		status, out = rejection.status, &answer{Error: rejection.Error()}
		d.complaints.Do(func() {
			d.Log.Info("Rejected an enrollment request", "source", sourceOf(r.RemoteAddr), "path", r.URL.Path, "reason", rejection.Error())
		})
	case err != nil:
		status, out = http.StatusInternalServerError, &answer{Error: "the provider can't answer at present: its controller manager's log says why"}
		d.complaints.Do(func() {
			d.Log.Error(err, "Failed to handle an enrollment request", "source", sourceOf(r.RemoteAddr), "path", r.URL.Path)
		})
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(out) // an error means that the client has disconnected
}

func decode(body []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	if err := decoder.Decode(into); err != nil {
		return refuse(http.StatusBadRequest, errors.New("the body of the request is not the JSON that this path expects"))
	}
	return nil
}
