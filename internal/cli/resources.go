package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
)

// resourceFlags holds the flags for the amounts of resources to request from a provider.
type resourceFlags struct {
	cpu, memory, pods string
	others            map[string]string
}

func (f *resourceFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.cpu, "cpu", "", "CPU to request, for example 4 or 500m (default: the provider decides)")
	flags.StringVar(&f.memory, "memory", "", "Memory to request, for example 8Gi (default: the provider decides)")
	flags.StringVar(&f.pods, "pods", "", "Number of pods to request (default: the provider decides)")
	flags.StringToStringVar(&f.others, "resource", nil, "Any other resource to request (name=quantity,...), for example nvidia.com/gpu=2")
}

// list parses the amounts. It fails if a quantity is invalid, negative, or set twice.
func (f *resourceFlags) list() (corev1.ResourceList, error) {
	asked := map[corev1.ResourceName]struct{ flag, text string }{}
	for name, given := range map[corev1.ResourceName]struct{ flag, text string }{
		corev1.ResourceCPU:    {"--cpu", f.cpu},
		corev1.ResourceMemory: {"--memory", f.memory},
		corev1.ResourcePods:   {"--pods", f.pods},
	} {
		if given.text != "" {
			asked[name] = given
		}
	}
	for name, text := range f.others {
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

// outputFlag is the flag -o of commands that can print an object instead of creating it.
type outputFlag struct{ format string }

func (f *outputFlag) add(flags *pflag.FlagSet, usage string) {
	flags.StringVarP(&f.format, "output", "o", "", usage+": json or yaml")
}

func (f *outputFlag) json() bool { return strings.EqualFold(f.format, "json") }

func (f *outputFlag) validate() error {
	if f.format == "" || slices.Contains([]string{"json", "yaml"}, strings.ToLower(f.format)) {
		return nil
	}
	return oneOfThese("output", f.format, "json", "yaml")
}

// defaultClass is the resource class that Liqo itself serves in the provider.
const defaultClass = authv1beta1.ResourceSliceClassDefault
