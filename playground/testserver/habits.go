package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"
)

// habit returns the arguments for run. If the program was called as curl or jq, it puts that name first. This supports the most common
// uses of these tools.
func habit(program string, args []string) []string {
	if name := filepath.Base(program); name == "curl" || name == "jq" {
		return append([]string{name}, args...)
	}
	return args
}

// headers is the value of a repeatable flag of the form "NAME: VALUE".
type headers http.Header

func (h headers) String() string { return "" }

func (h headers) Set(text string) error {
	name, value, found := strings.Cut(text, ":")
	if !found {
		return fmt.Errorf("header %q: want NAME: VALUE", text)
	}
	http.Header(h).Add(strings.TrimSpace(name), strings.TrimSpace(value))
	return nil
}

// curl prints the response body of each URL, whatever its status. A URL without a scheme uses http.
func curl(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("curl", flag.ContinueOnError)
	header := headers{}
	flags.Var(header, "H", "header to send, NAME: VALUE")
	for _, name := range []string{"s", "silent"} {
		flags.Bool(name, false, "no progress is shown anyway")
	}
	timeout := flags.Duration("max-time", 10*time.Second, "time for one request in all")
	if err := flags.Parse(args); err != nil || flags.NArg() == 0 {
		return errors.Join(errUsage, err)
	}
	client := &http.Client{Timeout: *timeout}
	for _, url := range flags.Args() {
		if !strings.Contains(url, "://") {
			url = "http://" + url
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		request.Header = http.Header(header)
		response, err := client.Do(request)
		if err != nil {
			return fmt.Errorf("curl: %w", err)
		}
		_, err = io.Copy(out, response.Body)
		if err = errors.Join(err, response.Body.Close()); err != nil {
			return fmt.Errorf("curl: reading the answer of %s: %w", url, err)
		}
	}
	return nil
}

// jq formats JSON from its input for people. It supports only the filter ".".
func jq(args []string, in io.Reader, out io.Writer) error {
	if len(args) != 1 || args[0] != "." {
		return fmt.Errorf("%w; jq knows the filter . only", errUsage)
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	decoder := json.NewDecoder(in)
	for {
		var value any
		if err := decoder.Decode(&value); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("jq: %w", err)
		}
		if err := encoder.Encode(value); err != nil {
			return err
		}
	}
}
