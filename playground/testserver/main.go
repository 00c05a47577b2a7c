// Command testserver is the workload of tests: an echo server over HTTP and UDP, a source of data streams, and the clients for them. It also has
// the few commands that a test needs in a container without a shell.
//
//	testserver [serve] [-http :8080,:9090] [-udp :5353] [-stream :9000]
//	                                                      echo until SIGTERM; the default
//	testserver get [-timeout 3s] [-data TEXT] URL...      print each response body; fails on the first error or status above 399
//	testserver probe [-timeout 3s] URL...                 request all at once and print one line of JSON for each; failures are results
//	testserver udp [-timeout 2s] HOST:PORT MESSAGE        send one datagram and print the response
//	testserver stream [-for 10s] [-rate N] [-stall 100ms] [-reconnect] HOST:9000
//	                                                      receive as fast as possible, or N bytes per second, until the time is over or
//	                                                      SIGTERM, and print the throughput and every stall as JSON
//	testserver rtt [-count 1000] [-interval 0] [-patience 10s] [-udp] HOST:9000
//	                                                      measure round trips and print their distribution as JSON
//	testserver app [-listen :8080] [-needs HOST:PORT,...]  serve one service of an application, which calls the services in -needs
//	testserver curl [-s] [-H 'NAME: VALUE'] URL...        print each response body, for people
//	testserver jq .                                       format the JSON of the standard input for people
//	testserver lookup NAME...                             print the addresses of each name
//	testserver sleep DURATION|infinity                    wait for this duration or until SIGTERM
//	testserver cat FILE...                                print files
//	testserver write FILE TEXT                            write a file
//	testserver exit CODE                                  end with this exit code
//
// If it is called under the name curl or jq, it runs that command. It exits with 1 if a command fails and with 2 if the command line is invalid.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// errUsage is the error for an invalid command line.
var errUsage = errors.New("usage: testserver serve|app|get|curl|jq|probe|udp|stream|rtt|lookup|sleep|cat|write|exit [ARGUMENTS]")

// exitCode is the error of the command exit. It makes the program exit with that code.
type exitCode int

func (c exitCode) Error() string { return "exit " + strconv.Itoa(int(c)) }

func main() {
	// The kernel ignores signals to PID 1 that have no handler. Without this handler, a pod would end only after its grace period.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := run(ctx, habit(os.Args[0], os.Args[1:]), os.Stdout)
	stop()
	var code exitCode
	switch {
	case err == nil:
	case errors.As(err, &code):
		os.Exit(int(code))
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run runs one command and writes its result to out.
func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		args = slices.Concat([]string{"serve"}, args)
	}
	name, args := args[0], args[1:]
	switch {
	case name == "serve":
		return serve(ctx, args, out)
	case name == "app":
		return app(ctx, args, out)
	case name == "curl":
		return curl(ctx, args, out)
	case name == "jq":
		return jq(args, os.Stdin, out)
	case name == "get":
		return get(ctx, args, out)
	case name == "udp":
		return udp(ctx, args, out)
	case name == "probe":
		return probe(ctx, args, out)
	case name == "stream":
		return receive(ctx, args, out)
	case name == "rtt":
		return roundTrips(ctx, args, out)
	case name == "lookup":
		return lookup(ctx, args, out)
	case name == "sleep" && len(args) == 1:
		return sleep(ctx, args[0])
	case name == "cat":
		return cat(args, out)
	case name == "write" && len(args) == 2:
		return os.WriteFile(args[0], []byte(args[1]), 0o644)
	case name == "exit" && len(args) == 1:
		code, err := strconv.ParseUint(args[0], 10, 8)
		if err != nil {
			return fmt.Errorf("%w: %w", errUsage, err)
		}
		if code == 0 {
			return nil
		}
		return exitCode(code)
	}
	return errUsage
}
