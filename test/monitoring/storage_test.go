package monitoring

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// database is Prometheus' query engine over series in memory. The storage and the rules engine of Prometheus are not used: with them the tests would
// depend on the clients of all clouds, which takes minutes to compile.
type database struct {
	engine *promql.Engine
	series []storage.Series
}

// load returns a database with the given series, one per line. Their values are in the notation of promtool, one for each minute.
func load(t *testing.T, series ...string) *database {
	t.Helper()
	d := &database{engine: promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Minute})}
	t.Cleanup(func() { _ = d.engine.Close() })
	for _, line := range series {
		of, values, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		var samples []chunks.Sample
		for minute, value := range values {
			if !value.Omitted {
				samples = append(samples, sample{start.Add(time.Duration(minute) * time.Minute).UnixMilli(), value.Value})
			}
		}
		d.series = append(d.series, storage.NewListSeries(of, samples))
	}
	return d
}

// query returns the result of an expression at a time.
func (d *database) query(ctx context.Context, expression string, at time.Time) (promql.Vector, error) {
	query, err := d.engine.NewInstantQuery(ctx, &storage.MockQueryable{MockQuerier: &storage.MockQuerier{SelectMockFunction: d.find}}, nil, expression, at)
	if err != nil {
		return nil, err
	}
	defer query.Close()
	result := query.Exec(ctx)
	if result.Err != nil {
		return nil, result.Err
	}
	vector, ok := result.Value.(promql.Vector)
	if !ok {
		return nil, errors.New("the result is not a vector")
	}
	return append(promql.Vector(nil), vector...), nil // the engine reuses the memory of its result
}

func (d *database) find(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	found := &seriesSet{}
	for _, series := range d.series {
		if matches(series.Labels(), matchers) {
			found.rest = append(found.rest, series)
		}
	}
	return found
}

func matches(of labels.Labels, matchers []*labels.Matcher) bool {
	for _, m := range matchers {
		if !m.Matches(of.Get(m.Name)) {
			return false
		}
	}
	return true
}

// seriesSet is the storage.SeriesSet of a slice.
type seriesSet struct {
	current storage.Series
	rest    []storage.Series
}

func (s *seriesSet) Next() bool {
	if len(s.rest) == 0 {
		return false
	}
	s.current, s.rest = s.rest[0], s.rest[1:]
	return true
}

func (s *seriesSet) At() storage.Series                { return s.current }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// sample is a value, in milliseconds since 1970.
type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                      { return s.at }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }
