package monitoring

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	charts "liqo.io/liqo/charts/liqo"
)

// panel holds the fields of a panel that the tests read. A row is a panel that may contain panels.
type panel struct {
	ID          int
	Title       string
	Type        string
	Datasource  struct{ UID string }
	Targets     []struct{ Expr, LegendFormat string }
	Panels      []panel
	FieldConfig struct {
		Defaults struct{ Thresholds struct{ Steps []step } }
	}
}

// step is the color of a panel for values from a threshold on.
type step struct {
	Color string
	Value float64
}

// board holds the fields of a board that the tests read.
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

// all returns the rows and the panels, also those inside of rows.
func (b *board) all() []panel {
	var all []panel
	for _, p := range b.Panels {
		all = append(append(all, p), p.Panels...)
	}
	return all
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
		for _, p := range b.all() {
			for _, target := range p.Targets {
				expressions++
				expression := chosen.Replace(target.Expr)
				for _, problem := range problems(expression) {
					t.Errorf("%s, %s: %s", file, p.Title, problem)
				}
				result, err := data.query(t.Context(), expression, start.Add(time.Hour))
				if err != nil || len(result) == 0 {
					t.Errorf("%s, %s: nothing is shown of %s: %v", file, p.Title, expression, err)
					continue
				}
				for _, label := range placeholder.FindAllStringSubmatch(target.LegendFormat, -1) {
					if result[0].Metric.Get(label[1]) == "" {
						t.Errorf("%s, %s: %s has no label %s for its legend", file, p.Title, expression, label[1])
					}
				}
			}
		}
		if expressions < 10 {
			t.Errorf("%s has only %d expressions", file, expressions)
		}
	}
}

// TestNoTroubleIsZero: a panel that can turn red shows 0 if there is nothing to count, for example in a cluster without a tunnel. It does not show that data is
// missing.
func TestNoTroubleIsZero(t *testing.T) {
	data := load(t, `liqo_build_info{program="controller-manager",version="v1",go_version="go1"} 1+0x120`)
	found := 0
	for file, b := range boards(t) {
		for _, p := range b.all() {
			red := slices.ContainsFunc(p.FieldConfig.Defaults.Thresholds.Steps, func(s step) bool { return s.Color == "red" && s.Value == 1 })
			if p.Type != "stat" || !red {
				continue
			}
			found++
			for _, target := range p.Targets {
				result, err := data.query(t.Context(), chosen.Replace(target.Expr), start.Add(time.Hour))
				if err != nil || len(result) != 1 || result[0].F != 0 {
					t.Errorf("%s, %s: %v of %s, %v: want 0", file, p.Title, result, target.Expr, err)
				}
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d panels turn red", found)
	}
}

// TestBoardsAreComplete: each board and each of its panels has a unique ID, and the user can choose the Prometheus of all panels.
func TestBoardsAreComplete(t *testing.T) {
	titles := map[string]bool{}
	for file, b := range boards(t) {
		if b.UID != "liqo-"+strings.TrimSuffix(file, ".json") || b.Title == "" || titles[b.Title] {
			t.Errorf("%s: its identity is %q, and its title %q", file, b.UID, b.Title)
		}
		titles[b.Title] = true
		if len(b.Templating.List) == 0 || b.Templating.List[0].Name != "datasource" || b.Templating.List[0].Type != "datasource" {
			t.Errorf("%s: the reader cannot choose a Prometheus first: %v", file, b.Templating.List)
		}
		ids := map[int]bool{}
		for _, p := range b.all() {
			if p.ID == 0 || ids[p.ID] || p.Title == "" {
				t.Errorf("%s: panel %q has number %d, which is 0 or that of another panel", file, p.Title, p.ID)
			}
			ids[p.ID] = true
			if p.Type != "row" && (p.Datasource.UID != "${datasource}" || len(p.Targets) == 0) {
				t.Errorf("%s: panel %q shows %d expressions of %q", file, p.Title, len(p.Targets), p.Datasource.UID)
			}
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

// TestQueriesOfTheGuideShowData: the queries in the guide have results in a healthy federation.
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
