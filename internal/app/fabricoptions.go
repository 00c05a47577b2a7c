package app

import (
	"errors"
	"flag"
	"fmt"

	"liqo.io/liqo/internal/network"
)

// fabricOptions are the flags of the fabric agent.
type fabricOptions struct {
	nodeName, liqoNamespace, daemonSet string
	overlayPort, rulePriority          int
	fullMasquerade                     bool
	healthAddress, metricsAddress      string
}

// parseFabric parses and validates the flags.
func parseFabric(args []string) (*fabricOptions, error) {
	o := &fabricOptions{}
	fs := flag.NewFlagSet("fabric", flag.ContinueOnError)
	fs.StringVar(&o.nodeName, "node-name", "", "name of the Node of this pod")
	fs.StringVar(&o.liqoNamespace, "liqo-namespace", "liqo", "namespace of the installation")
	fs.StringVar(&o.daemonSet, "daemonset", "liqo-fabric", "DaemonSet of this program; if it is deleted when this program ends, this program removes its network objects from the node; empty for never")
	fs.IntVar(&o.overlayPort, "overlay-port", network.DefaultOverlayPort, "UDP port of the overlay")
	fs.IntVar(&o.rulePriority, "rule-priority", 0, "priority of the policy routing rule; 0 for the default")
	fs.BoolVar(&o.fullMasquerade, "full-masquerade", false, "masquerade all traffic from this node to peers: its source becomes the node's address")
	fs.StringVar(&o.healthAddress, "health-address", ":8081", "address of /healthz and /readyz; off when empty")
	fs.StringVar(&o.metricsAddress, "metrics-address", "", "address of /metrics; off when empty")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	var problems []error
	if fs.NArg() > 0 {
		problems = append(problems, fmt.Errorf("unexpected argument %q", fs.Arg(0)))
	}
	problems = append(problems,
		required("node-name", o.nodeName), required("liqo-namespace", o.liqoNamespace), port("overlay-port", o.overlayPort))
	if o.rulePriority < 0 || o.rulePriority >= mainRulePriority {
		problems = append(problems, fmt.Errorf("flag --rule-priority is %d, want 0 for the default, or less than %d, the priority of the main routing table",
			o.rulePriority, mainRulePriority))
	}
	return o, errors.Join(problems...)
}

// mainRulePriority is the priority of the rule for the main routing table in Linux.
const mainRulePriority = 32766

// required returns an error if a flag is empty.
func required(name, value string) error {
	if value == "" {
		return fmt.Errorf("flag --%s is required", name)
	}
	return nil
}

// port returns an error if the value of a flag is not a valid port.
func port(name string, value int) error {
	if value < 1 || value > 65535 {
		return fmt.Errorf("flag --%s is %d, want a port from 1 to 65535", name, value)
	}
	return nil
}

// options returns the network options that the flags define.
func (o *fabricOptions) options() network.Options {
	return network.Options{OverlayPort: uint16(o.overlayPort), RulePriority: o.rulePriority, FullMasquerade: o.fullMasquerade}
}
