package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// get requests each URL over a new connection and prints the response bodies.
func get(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("get", flag.ContinueOnError)
	timeout := flags.Duration("timeout", 3*time.Second, "time for one request in all")
	data := flags.String("data", "", "send this with POST")
	if err := flags.Parse(args); err != nil || flags.NArg() == 0 {
		return errors.Join(errUsage, err)
	}
	client := &http.Client{Timeout: *timeout, Transport: &http.Transport{DisableKeepAlives: true}}
	for _, url := range flags.Args() {
		status, err := fetch(ctx, client, url, *data, out)
		if err != nil {
			return err
		}
		if status >= 400 {
			return fmt.Errorf("getting %s: %d %s", url, status, http.StatusText(status))
		}
	}
	return nil
}

// fetch copies a response body to out and returns the status code. It sends data, if any, with POST.
func fetch(ctx context.Context, client *http.Client, url, data string, out io.Writer) (int, error) {
	method, body := http.MethodGet, io.Reader(nil)
	if data != "" {
		method, body = http.MethodPost, strings.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return 0, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(out, response.Body); err != nil {
		return 0, fmt.Errorf("reading the answer of %s: %w", url, err)
	}
	return response.StatusCode, nil
}

// probed is the result of requesting one URL.
type probed struct {
	URL          string  `json:"url"`
	Milliseconds float64 `json:"milliseconds"`
	// Status is the HTTP status code. Answer is the response body, at most its first 64 KiB. Error is the reason for a failure.
	Status int    `json:"status,omitempty"`
	Answer string `json:"answer,omitempty"`
	Error  string `json:"error,omitempty"`
}

// probe requests all URLs at once, each over a new connection. It prints the results in the order of the arguments.
func probe(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("probe", flag.ContinueOnError)
	timeout := flags.Duration("timeout", 3*time.Second, "time for one request in all")
	if err := flags.Parse(args); err != nil || flags.NArg() == 0 {
		return errors.Join(errUsage, err)
	}
	client := &http.Client{Timeout: *timeout, Transport: &http.Transport{DisableKeepAlives: true}}
	outcomes := make([]probed, flags.NArg())
	var all sync.WaitGroup
	for i, url := range flags.Args() {
		all.Go(func() {
			began := time.Now()
			var answer bounded
			status, err := fetch(ctx, client, url, "", &answer)
			outcomes[i] = probed{URL: url, Milliseconds: float64(time.Since(began)) / float64(time.Millisecond), Status: status, Answer: answer.String()}
			if err != nil {
				outcomes[i].Error = err.Error()
			}
		})
	}
	all.Wait()
	encoder := json.NewEncoder(out)
	for _, outcome := range outcomes {
		if err := encoder.Encode(outcome); err != nil {
			return err
		}
	}
	return nil
}

// bounded keeps the first 64 KiB that are written to it and discards the rest.
type bounded struct{ strings.Builder }

func (b *bounded) Write(p []byte) (int, error) {
	_, err := b.Builder.Write(p[:min(len(p), max(0, 64<<10-b.Len()))])
	return len(p), err
}

// udp sends one datagram and prints the response. It does not retry, because a lost packet is a result.
func udp(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("udp", flag.ContinueOnError)
	timeout := flags.Duration("timeout", 2*time.Second, "time to wait for the answer")
	if err := flags.Parse(args); err != nil || flags.NArg() != 2 {
		return errors.Join(errUsage, err)
	}
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp", flags.Arg(0))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	// Closing the connection unblocks the read at SIGTERM as well as at the deadline.
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := conn.Write([]byte(flags.Arg(1))); err != nil {
		return fmt.Errorf("sending to %s: %w", flags.Arg(0), err)
	}
	buffer := make([]byte, 65536)
	n, err := conn.Read(buffer)
	if ctx.Err() != nil {
		return fmt.Errorf("waiting for an answer of %s: %w", flags.Arg(0), ctx.Err())
	}
	if err != nil {
		return fmt.Errorf("waiting for an answer of %s: %w", flags.Arg(0), err)
	}
	_, err = out.Write(buffer[:n])
	return err
}

// lookup prints "NAME ADDRESS" for every address of every name.
func lookup(ctx context.Context, names []string, out io.Writer) error {
	if len(names) == 0 {
		return errUsage
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for _, name := range names {
		addresses, err := net.DefaultResolver.LookupHost(ctx, name)
		if err != nil {
			return err
		}
		for _, address := range addresses {
			fmt.Fprintln(out, name, address)
		}
	}
	return nil
}

// sleep waits for the given duration. A signal ends it early without an error.
func sleep(ctx context.Context, text string) error {
	if text == "infinity" {
		<-ctx.Done()
		return nil
	}
	if !strings.ContainsAny(text, "nuµmsh") {
		text += "s"
	}
	duration, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	select {
	case <-ctx.Done():
	case <-time.After(duration):
	}
	return nil
}

func cat(names []string, out io.Writer) error {
	if len(names) == 0 {
		return errUsage
	}
	for _, name := range names {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, file)
		if err = errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
	}
	return nil
}
