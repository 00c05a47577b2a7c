package main

import (
	"encoding/json"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// board is a board of Grafana.
type board struct {
	// name is the name of the file. With the prefix "liqo-", it is the identity of the board in Grafana.
	name, title, description string
	// variable is the label by which readers choose what they see; empty: none. from is a metric with that label, and label is its caption.
	variable, from, label string
	rows                  []row
}

// row is a row of panels under a title.
type row struct {
	title string
	// repeat is a variable; the row is shown once for each of its chosen values. Empty: once.
	repeat string
	panels []cog.Builder[dashboard.Panel]
}

// source is the Prometheus that the reader chooses.
func source() common.DataSourceRef {
	return common.DataSourceRef{Type: new("prometheus"), Uid: new("${datasource}")}
}

// json returns the board in the format that the sidecar of Grafana loads.
func (b *board) json() ([]byte, error) {
	builder := dashboard.NewDashboardBuilder(b.title) //nolint:staticcheck // the sidecar does not load the format that replaces this one
	builder = builder.Uid("liqo-"+b.name).Description(b.description).Tags([]string{"liqo"}).Refresh("30s").Time("now-1h", "now").
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Prometheus").Type("prometheus"))
	if b.variable != "" {
		builder = builder.WithVariable(dashboard.NewQueryVariableBuilder(b.variable).Label(b.label).Datasource(source()).
			Query(dashboard.StringOrMap{String: new("label_values(" + b.from + ", " + b.variable + ")")}).
			Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Sort(dashboard.VariableSortAlphabeticalAsc).Multi(true).IncludeAll(true).AllValue(".+"))
	}
	for _, r := range b.rows {
		head := dashboard.NewRowBuilder(r.title)
		if r.repeat != "" {
			head = head.Repeat(r.repeat)
		}
		builder = builder.WithRow(head)
		for _, panel := range r.panels {
			builder = builder.WithPanel(panel)
		}
	}
	built, err := builder.Build()
	if err != nil {
		return nil, err
	}
	identify(built.Panels)
	text, err := json.MarshalIndent(built, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(text, '\n'), nil
}

// identify numbers the panels. Links to a panel and alerts of Grafana name it by that number.
func identify(panels []dashboard.PanelOrRowPanel) {
	for i, panel := range panels {
		id := uint32(i) + 1
		if panel.RowPanel != nil {
			panel.RowPanel.Id = id
		} else {
			panel.Panel.Id = &id
		}
	}
}
