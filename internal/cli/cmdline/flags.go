package cmdline

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Resources holds the flags for the amounts of resources to request from a provider.
type Resources struct {
	CPU, Memory, Pods string
	Others            map[string]string
}

// Add registers the flags.
func (f *Resources) Add(flags *pflag.FlagSet) {
	flags.StringVar(&f.CPU, "cpu", "", "CPU to request, for example 4 or 500m (default: the provider decides)")
	flags.StringVar(&f.Memory, "memory", "", "Memory to request, for example 8Gi (default: the provider decides)")
	flags.StringVar(&f.Pods, "pods", "", "Number of pods to request (default: the provider decides)")
	flags.StringToStringVar(&f.Others, "resource", nil, "Any other resource to request (name=quantity,...), for example nvidia.com/gpu=2")
}

// List parses the amounts. It fails if a quantity is invalid, negative, or set twice.
func (f *Resources) List() (corev1.ResourceList, error) {
	asked := map[corev1.ResourceName]struct{ flag, text string }{}
	for name, given := range map[corev1.ResourceName]struct{ flag, text string }{
		corev1.ResourceCPU:    {"--cpu", f.CPU},
		corev1.ResourceMemory: {"--memory", f.Memory},
		corev1.ResourcePods:   {"--pods", f.Pods},
	} {
		if given.text != "" {
			asked[name] = given
		}
	}
	for name, text := range f.Others {
		if given, twice := asked[corev1.ResourceName(name)]; twice {
			return nil, fmt.Errorf("resource %s is given twice: by %s and by --resource", name, given.flag)
		}
		asked[corev1.ResourceName(name)] = struct{ flag, text string }{"--resource " + name, text}
	}
	out := corev1.ResourceList{}
	for name, given := range asked {
		quantity, err := resource.ParseQuantity(given.text)
		if err != nil {
			return nil, fmt.Errorf("%s: %q is not a quantity: write it as in a pod, for example 2, 500m or 4Gi", given.flag, given.text)
		}
		if quantity.Sign() < 0 {
			return nil, fmt.Errorf("%s: %s is negative", given.flag, given.text)
		}
		out[name] = quantity
	}
	return out, nil
}

// Output is the flag -o of commands that can print an object instead of creating it.
type Output struct{ Format string }

// Add registers the flag.
func (f *Output) Add(flags *pflag.FlagSet, usage string) {
	flags.StringVarP(&f.Format, "output", "o", "", usage+": json or yaml")
}

// JSON reports whether the user asked for JSON.
func (f *Output) JSON() bool { return strings.EqualFold(f.Format, "json") }

// Validate rejects a format that is not known.
func (f *Output) Validate() error {
	if f.Format == "" || slices.Contains([]string{"json", "yaml"}, strings.ToLower(f.Format)) {
		return nil
	}
	return OneOf("output", f.Format, "json", "yaml")
}

// ServiceTypes are the types that the Service of a gateway or of the authentication service may have.
var ServiceTypes = []string{string(corev1.ServiceTypeLoadBalancer), string(corev1.ServiceTypeNodePort), string(corev1.ServiceTypeClusterIP)}

// AddTimeout registers --timeout with a command that mostly reads and waits little.
func AddTimeout(flags *pflag.FlagSet, timeout *time.Duration) {
	flags.DurationVar(timeout, "timeout", time.Minute, "Maximum time for the whole command")
}
