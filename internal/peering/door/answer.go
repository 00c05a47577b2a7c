package door

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// answer is the body of every answer that is no success.
type answer struct {
	Error string `json:"error"`
}

// refusal is an outcome that the other side may read; any other error is ours alone.
type refusal struct {
	status int
	cause  error
}

func (r *refusal) Error() string { return r.cause.Error() }
func (r *refusal) Unwrap() error { return r.cause }

// refuse tells the other side that it is useless to ask the same again.
func refuse(status int, cause error) error { return &refusal{status, cause} }

// later tells the other side to ask again after a while.
func later(cause error) error { return &refusal{http.StatusServiceUnavailable, cause} }

// bounded reads a request, no more of them than are good for us, and writes the answer.
func (d *Door) bounded(serve func(context.Context, []byte) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !d.knocks.of(sourceOf(r.RemoteAddr)).Allow() { // what all sources have together is for those with a token: see admit
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
			d.answer(w, r, nil, later(errors.New("too many requests at once")))
			return
		}
		out, err := serve(r.Context(), body)
		d.answer(w, r, out, err)
	}
}

// answer writes what came out, and tells of it. Neither the token nor anything else of the request gets into the log.
func (d *Door) answer(w http.ResponseWriter, r *http.Request, out any, err error) {
	status := http.StatusOK
	told := &refusal{}
	switch {
	case errors.As(err, &told):
		status, out = told.status, &answer{Error: told.Error()}
		d.complaints.Do(func() {
			d.Log.Info("a request is refused", "from", sourceOf(r.RemoteAddr), "path", r.URL.Path, "why", told.Error())
		})
	case err != nil:
		status, out = http.StatusInternalServerError, &answer{Error: "the provider can't answer at present: its controller manager's log tells why"}
		d.complaints.Do(func() { d.Log.Error(err, "a request failed", "from", sourceOf(r.RemoteAddr), "path", r.URL.Path) })
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(out) // who is gone does not want to know
}

func decode(body []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	if err := decoder.Decode(into); err != nil {
		return refuse(http.StatusBadRequest, errors.New("the request is not the JSON that this path takes"))
	}
	return nil
}
