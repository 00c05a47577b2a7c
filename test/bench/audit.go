package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"liqo.io/liqo/api"
	"liqo.io/liqo/test/playground"
)

// flush is the maximum time after which an API server writes buffered lines of its audit log.
const flush = 35 * time.Second

// event contains the fields of a line of the audit log that the benchmark uses.
type event struct {
	Verb string
	User struct {
		Username string
		Groups   []string
	}
	ObjectRef struct{ Resource, Subresource, Namespace string }
	Received  time.Time `json:"requestReceivedTimestamp"`
}

// ours reports whether Liqo sent the request: a component of the cluster itself, or a component of the cluster peer. who is the name of the client.
func (e event) ours(peer string) (who string, is bool) {
	if account, found := strings.CutPrefix(e.User.Username, "system:serviceaccount:"); found {
		namespace, _, _ := strings.Cut(account, ":")
		return account, namespace == api.Namespace || strings.HasPrefix(namespace, api.TenantNamespacePrefix)
	}
	return e.User.Username, slices.Contains(e.User.Groups, peer) || slices.Contains(e.User.Groups, "liqo.io")
}

// what describes a write and its client.
func (e event) what(who string) string { return fmt.Sprintf("%s by %s", e.operation(), who) }

// operation describes a write.
func (e event) operation() string {
	resource := e.ObjectRef.Resource
	if e.ObjectRef.Subresource != "" {
		resource += "/" + e.ObjectRef.Subresource
	}
	return e.Verb + " " + resource
}

// audit counts Liqo's writes in the audit logs of both API servers and adds them to the runs.
func (b *bench) audit(ctx context.Context, runs []Run) error {
	report("waiting %v for the audit logs", flush)
	if !pause(ctx, flush) {
		return ctx.Err()
	}
	for cluster, peer := range map[*playground.Cluster]string{b.rome: "milan", b.milan: "rome"} {
		events, err := b.events(ctx, cluster)
		if err != nil {
			return err
		}
		for i := range runs {
			r := &runs[i]
			into := &r.Consumer
			if cluster == b.milan {
				into = &r.Provider
			}
			into.Start, into.Delete, into.Others = map[string]int{}, map[string]int{}, map[string]int{}
			for _, e := range events {
				who, is := e.ours(peer)
				switch {
				case e.Received.After(r.began) && e.Received.Before(r.settled):
					if is {
						into.Start[e.what(who)]++
					} else {
						into.Others[e.operation()]++
					}
				case !is:
				case e.Received.After(r.deleted) && e.Received.Before(r.ended):
					into.Delete[e.what(who)]++
				}
			}
		}
	}
	return nil
}

// events reads the audit log of a cluster, including the rotated files.
func (b *bench) events(ctx context.Context, c *playground.Cluster) ([]event, error) {
	out, err := b.machine.Playground(ctx, "get", "nodes", "--name", c.Name, "-o", "json")
	if err != nil {
		return nil, err
	}
	var nodes []struct{ Dir string }
	if err := json.Unmarshal([]byte(out), &nodes); err != nil {
		return nil, fmt.Errorf("reading the nodes of %s: %w", c.Name, err)
	}
	var all []event
	for _, node := range nodes {
		files, err := filepath.Glob(filepath.Join(node.Dir, "log", "audit*.log"))
		if err != nil {
			return nil, err
		}
		for _, name := range files {
			some, err := read(name)
			if err != nil {
				return nil, fmt.Errorf("reading the audit log of %s: %w", c.Name, err)
			}
			all = append(all, some...)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the audit log of %s is empty", c.Name)
	}
	return all, nil
}

func read(name string) ([]event, error) {
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	var events []event
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, lines.Err()
}
