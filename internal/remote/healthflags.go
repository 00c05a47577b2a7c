package remote

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"
)

// AddFlags defines the flags of a program that checks the API servers of peers, with their defaults.
func (o *HealthOptions) AddFlags(flags *flag.FlagSet) {
	defaults := HealthOptions{}.withDefaults()
	flags.DurationVar(&o.Interval, "peer-check-interval", defaults.Interval, "time between two checks of the API server of a peer, while it responds")
	flags.DurationVar(&o.Timeout, "peer-check-timeout", defaults.Timeout, "longest duration of one check of the API server of a peer")
	flags.IntVar(&o.Failures, "peer-check-failures", defaults.Failures, "number of checks in a row that fail before the API server of a peer counts as not responding")
}

// Validate returns an error that names all flags of AddFlags with an invalid value.
func (o HealthOptions) Validate() error {
	var problems []error
	if o.Interval < time.Second {
		problems = append(problems, fmt.Errorf("--peer-check-interval is %s, want 1s or more", o.Interval))
	}
	if o.Timeout < time.Second {
		problems = append(problems, fmt.Errorf("--peer-check-timeout is %s, want 1s or more", o.Timeout))
	}
	if o.Failures < 1 {
		problems = append(problems, fmt.Errorf("--peer-check-failures is %d, want 1 or more", o.Failures))
	}
	return errors.Join(problems...)
}

// HealthOptionsOf returns the options that a program has by its arguments. Other arguments are ignored, and so is a value that the program itself refuses.
func HealthOptionsOf(arguments []string) HealthOptions {
	o := HealthOptions{}
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	o.AddFlags(flags)
	for _, argument := range arguments {
		name, value, _ := strings.Cut(strings.TrimPrefix(argument, "--"), "=")
		if flags.Lookup(name) == nil {
			continue
		}
		if before := o; flags.Set(name, value) != nil || o.Validate() != nil {
			o = before
		}
	}
	return o
}
