package remote

import (
	"flag"
	"strings"
	"testing"
	"time"
)

// TestHealthFlags: a program and whoever reads its arguments have the same options. Without flags, these are the defaults.
func TestHealthFlags(t *testing.T) {
	for name, row := range map[string]struct {
		arguments []string
		want      HealthOptions
	}{
		"none":  {nil, HealthOptions{Interval: 10 * time.Second, Timeout: 5 * time.Second, Failures: 3}},
		"some":  {[]string{"--peer-check-interval=1m"}, HealthOptions{Interval: time.Minute, Timeout: 5 * time.Second, Failures: 3}},
		"all":   {[]string{"--peer-check-timeout=20s", "--peer-check-failures=5", "--peer-check-interval=2s"}, HealthOptions{Interval: 2 * time.Second, Timeout: 20 * time.Second, Failures: 5}},
		"again": {[]string{"--peer-check-failures=5", "--peer-check-failures=6"}, HealthOptions{Interval: 10 * time.Second, Timeout: 5 * time.Second, Failures: 6}},
	} {
		var program HealthOptions
		flags := flag.NewFlagSet("", flag.ContinueOnError)
		program.AddFlags(flags)
		if err := flags.Parse(row.arguments); err != nil || program.Validate() != nil || program != row.want {
			t.Errorf("%s: %+v, %v, %v", name, program, err, program.Validate())
		}
		if read := HealthOptionsOf(append([]string{"--cluster-id=rome", "--auth-plain", "-x"}, row.arguments...)); read != row.want {
			t.Errorf("%s: it is read as %+v", name, read)
		}
	}
	for _, wrong := range []string{"--peer-check-interval=0s", "--peer-check-timeout=10ms", "--peer-check-failures=0"} {
		var program HealthOptions
		flags := flag.NewFlagSet("", flag.ContinueOnError)
		program.AddFlags(flags)
		named, value, _ := strings.Cut(wrong, "=")
		if err := flags.Parse([]string{wrong}); err != nil || program.Validate() == nil || !strings.Contains(program.Validate().Error(), named+" is "+value) {
			t.Errorf("%s: %v, %v", wrong, err, program.Validate())
		}
		if read := HealthOptionsOf([]string{wrong}); read != HealthOptionsOf(nil) {
			t.Errorf("%s: it is read as %+v", wrong, read)
		}
	}
}
