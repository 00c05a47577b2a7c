package monitoring

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	charts "liqo.io/liqo/charts/liqo"
)

// panel is what the tests read of a panel, and of a row, which may have panels.
type panel struct {
	Title   string
	Type    string
	Targets []struct{ Expr, LegendFormat string }
	Panels  []panel
}

// board is what the tests read of a board.
type board struct {
	Title, UID string
	Panels     []panel
	Templating struct {
		List []struct {
			Name  string
			Type  string
			Query any
		}
	}
}

// boards returns the boards of the chart by the name of their file.
func boards(t *testing.T) map[string]board {
	t.Helper()
	files, err := fs.Glob(charts.Files, "files/boards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("the chart has no boards: %v", err)
	}
	all := map[string]board{}
	for _, file := range files {
		text, err := charts.Files.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var b board
		if err := json.Unmarshal(text, &b); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[filepath.Base(file)] = b
	}
	return all
}

// chosen replaces what Grafana replaces in an expression: intervals, and variables by all of their values.
var chosen = strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$cluster_id", ".+", "$node_name", ".+")

// TestPanelsShowData: each expression of each panel uses metrics and labels that programs serve, and has a result in a healthy federation. That
// result has the labels from which the panel makes the names of its series.
func TestPanelsShowData(t *testing.T) {
	data := load(t, federation()...)
	placeholder := regexp.MustCompile(`{{ *(\w+) *}}`)
	for file, b := range boards(t) {
		expressions := 0
		for _, p := range b.Panels {
			for _, shown := range append([]panel{p}, p.Panels...) {
				for _, target := range shown.Targets {
					expressions++
					expression := chosen.Replace(target.Expr)
					for _, problem := range problems(expression) {
						t.Errorf("%s, %s: %s", file, shown.Title, problem)
					}
					result, err := data.query(t.Context(), expression, start.Add(time.Hour))
					if err != nil || len(result) == 0 {
						t.Errorf("%s, %s: nothing is shown of %s: %v", file, shown.Title, expression, err)
						continue
					}
					for _, label := range placeholder.FindAllStringSubmatch(target.LegendFormat, -1) {
						if result[0].Metric.Get(label[1]) == "" {
							t.Errorf("%s, %s: %s has no label %s for its legend", file, shown.Title, expression, label[1])
						}
					}
				}
			}
		}
		if expressions < 10 {
			t.Errorf("%s has only %d expressions", file, expressions)
		}
	}
}

// TestVariablesHaveValues: the values of each variable are those of a label that a metric has.
func TestVariablesHaveValues(t *testing.T) {
	values := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`)
	for file, b := range boards(t) {
		for _, variable := range b.Templating.List {
			if variable.Type != "query" {
				continue
			}
			text, _ := variable.Query.(string)
			of := values.FindStringSubmatch(text)
			if of == nil {
				t.Errorf("%s: variable %s has query %v", file, variable.Name, variable.Query)
				continue
			}
			for _, problem := range problems(of[1] + `{` + of[2] + `=~".+"}`) {
				t.Errorf("%s: variable %s: %s", file, variable.Name, problem)
			}
		}
	}
}

// TestQueriesOfTheGuideShowData: so do the queries that the guide suggests.
func TestQueriesOfTheGuideShowData(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "guide", "monitoring.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)## Queries\n\n```text\n(.*?)```").FindStringSubmatch(string(text))
	if block == nil {
		t.Fatal("the guide has no queries")
	}
	data := load(t, federation()...)
	for line := range strings.Lines(block[1]) {
		expression := strings.TrimSpace(line)
		if expression == "" || strings.HasPrefix(expression, "#") {
			continue
		}
		for _, problem := range problems(expression) {
			t.Errorf("%s: %s", expression, problem)
		}
		if result, err := data.query(t.Context(), expression, start.Add(time.Hour)); err != nil || len(result) == 0 {
			t.Errorf("%s: nothing is found: %v", expression, err)
		}
	}
}
