package monitoring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	charts "liqo.io/liqo/charts/liqo"
	"liqo.io/liqo/internal/metrics"
	"liqo.io/liqo/test/playground"
)

// empty returns the reason why a panel shows nothing in a cluster, and whether it does. All other panels must show something.
func empty(c *playground.Cluster, board, panel string) (why string, is bool) {
	const noConsumer, noProvider = "rome has no consumer", "milan has no provider, so it has no virtual node"
	switch c.ID + ": " + board + ": " + panel {
	case "rome: Liqo / Federation: Quotas of consumers", "rome: Liqo / Federation: Granted to consumers":
		return noConsumer, true
	case "milan: Liqo / Federation: Requests to providers", "milan: Liqo / Federation: Pods on virtual nodes":
		return noProvider, true
	}
	if c.ID == "milan" && board == "Liqo / Virtual kubelet" && panel != "Errors" {
		return noProvider, true
	}
	return "", false
}

type panel struct {
	Type, Title string
	Targets     []struct{ Expr string }
	Panels      []panel
}

// chosen replaces what Grafana replaces in an expression: intervals, and variables by all of their values.
var chosen = strings.NewReplacer("$__rate_interval", "1m", "$__range", "5m", "$cluster_id", ".+", "$node_name", ".+")

// query is an expression of a panel that must have a result.
type query struct{ board, panel, expression string }

// boards evaluates each expression of each panel of each board. A failed scrape ends the series of its target until the next scrape, so an expression without a
// result is evaluated again.
func (p prometheus) boards() {
	p.Helper()
	files, err := fs.Glob(charts.Files, "files/boards/*.json")
	p.Must(err)
	expressions := 0
	var missing []query
	for _, file := range files {
		text, err := charts.Files.ReadFile(file)
		p.Must(err)
		var board panel
		p.Must(json.Unmarshal(text, &board))
		rows := board.Panels
		for len(rows) > 0 {
			one := rows[0]
			rows = append(rows[1:], one.Panels...)
			for _, target := range one.Targets {
				expressions++
				expression := chosen.Replace(target.Expr)
				why, may := empty(p.c, board.Title, one.Title)
				if !may {
					missing = append(missing, query{board.Title, one.Title, expression})
					continue
				}
				result, err := p.query(p.Context(), expression)
				p.Must(err)
				if len(result) > 0 {
					p.Errorf("panel %s of %s shows %v in %s, though %s", one.Title, board.Title, result, p.c.ID, why)
				}
			}
		}
	}
	if expressions < 50 {
		p.Errorf("the boards have only %d expressions", expressions)
	}
	p.Eventually(start, "each panel to show something in "+p.c.ID, func(ctx context.Context) error {
		var problems []error
		missing = slices.DeleteFunc(missing, func(q query) bool {
			result, err := p.query(ctx, q.expression)
			if err == nil && len(result) == 0 {
				err = fmt.Errorf("panel %s of %s shows nothing: %s", q.panel, q.board, q.expression)
			}
			problems = append(problems, err)
			return err == nil
		})
		return errors.Join(problems...)
	})
}

// reference checks that some cluster serves each metric of the reference.
func reference(all ...prometheus) {
	served := map[string]bool{}
	for _, p := range all {
		var names []string
		p.Must(p.read(p.Context(), "label/__name__/values", nil, &names))
		for _, name := range names {
			served[name] = true
		}
	}
	for _, d := range metrics.All() {
		name := d.Name
		if d.Type == metrics.Histogram {
			name += "_bucket"
		}
		if !served[name] {
			all[0].Errorf("no cluster serves %s", name)
		}
	}
}
