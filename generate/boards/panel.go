package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// query is an expression of a panel. name is the name of its series, or of its column in a table.
type query struct{ expr, name string }

// numberWidth is the width of a number: six of them fill a row. Grafana's rows are 24 units wide.
const numberWidth = 4

// number shows the present value of an expression.
func number(title, description, unit, expr string) *stat.PanelBuilder {
	return stat.NewPanelBuilder().Title(title).Description(description).Unit(unit).Datasource(source()).Span(numberWidth).Height(4).
		GraphMode(common.BigValueGraphModeNone).ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})).
		WithTarget(target(query{expr: expr}, 0, prometheus.PromQueryFormatTimeSeries).Instant())
}

// trouble shows how many things are wrong: red from 1 on, and 0 if the expression has no result. expr must have one value without labels at most.
func trouble(title, description, expr string) *stat.PanelBuilder {
	return number(title, description, "short", expr+" or vector(0)").Thresholds(dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).
		Steps([]dashboard.Threshold{{Color: "green"}, {Value: new(1.0), Color: "red"}}))
}

// yesno shows 1 as yes, in green, and 0 as no, in red.
func yesno(title, description, expr, yes, no string) *stat.PanelBuilder {
	return number(title, description, "none", expr).Mappings([]dashboard.ValueMapping{{ValueMap: &dashboard.ValueMap{
		Type: dashboard.MappingTypeValueToText,
		Options: map[string]dashboard.ValueMappingResult{
			"1": {Text: new(yes), Color: new("green"), Index: new(int32(0))},
			"0": {Text: new(no), Color: new("red"), Index: new(int32(1))},
		},
	}}})
}

// graph shows expressions over time, in half a row.
func graph(title, description, unit string, queries ...query) *timeseries.PanelBuilder {
	panel := timeseries.NewPanelBuilder().Title(title).Description(description).Unit(unit).Datasource(source()).Span(12).Height(8).Min(0).FillOpacity(10).
		Legend(common.NewVizLegendOptionsBuilder().ShowLegend(true).DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom).
			Calcs([]string{}))
	for i, q := range queries {
		panel = panel.WithTarget(target(q, i, prometheus.PromQueryFormatTimeSeries).Range())
	}
	return panel
}

// list shows the present values of expressions in a table, in half a row. Series with the same labels are one row of it. A query without a name
// has no column: only its labels are shown.
func list(title, description, unit string, queries ...query) *table.PanelBuilder {
	hidden, names := map[string]bool{"Time": true}, map[string]string{}
	panel := table.NewPanelBuilder().Title(title).Description(description).Unit(unit).Datasource(source()).Span(12).Height(8)
	for i, q := range queries {
		panel = panel.WithTarget(target(q, i, prometheus.PromQueryFormatTable).Instant())
		column := "Value"
		if len(queries) > 1 {
			column = "Value #" + letter(i)
		}
		if q.name == "" {
			hidden[column] = true
		} else {
			names[column] = q.name
		}
	}
	return panel.WithTransformation(dashboard.DataTransformerConfig{Id: "merge", Options: map[string]any{}}).
		WithTransformation(dashboard.DataTransformerConfig{Id: "organize", Options: map[string]any{"excludeByName": hidden, "renameByName": names}})
}

func target(q query, i int, format prometheus.PromQueryFormat) *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().Expr(q.expr).LegendFormat(q.name).RefId(letter(i)).Format(format).Datasource(source())
}

func letter(i int) string { return string(rune('A' + i)) }

// panels is a row's list of panels.
func panels(all ...cog.Builder[dashboard.Panel]) []cog.Builder[dashboard.Panel] { return all }
