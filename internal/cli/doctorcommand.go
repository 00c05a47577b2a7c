package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/cli/doctor"
	"liqo.io/liqo/internal/version"
)

func (a *app) doctorCommand() *cobra.Command {
	var output outputFlag
	var timeout time.Duration
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Find out what is wrong, and what to do about it",
		Long: "Check every component, certificate, permission, connection, version and address range of the installation and its peerings, and\n" +
			"print for each problem the evidence and the cure: causes first, the worst at the top, and under each cause what it leads to. With the\n" +
			"kubeconfig of a peer it checks both clusters, and whether what each knows of the other is true. The exit code is 1 when something fails; warnings\n" +
			"do not count. With --verbose it also prints what is well, and the cure of each consequence.\n\n" +
			"info shows what the cluster is and has, status whether its parts run, kubectl get foreignclusters the peerings for programs and for\n" +
			"kubectl wait; all of them report the problems that doctor finds.",
		Example: example(`
			%[1]s doctor
			# Both clusters of a peering
			%[1]s doctor --remote-kubeconfig milan.yaml
			# What fails, for a program
			%[1]s doctor -o json`),
		Args: cobra.NoArgs,
	}
	flags := command.Flags()
	remote := remoteFlags(flags)
	output.add(flags, "Print all findings for programs")
	flags.DurationVar(&timeout, "timeout", time.Minute, "How long to look in all")
	command.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := output.validate(); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
		defer cancel()
		facts, err := a.gatherFacts(ctx, remote, flags.Changed("remote-kubeconfig") || flags.Changed("remote-context") || flags.Changed("remote-cluster"))
		if err != nil {
			return err
		}
		findings := doctor.Examine(facts)
		if output.format != "" {
			err = write(a.console().Out(), findings, output.format)
		} else {
			err = writeFindings(a.console(), findings, a.verbose)
		}
		if err == nil && doctor.Worst(findings) == doctor.Fail {
			err = fmt.Errorf("%d of %d checks failed", count(findings, doctor.Fail), len(findings))
		}
		return err
	}
	return command
}

func (a *app) gatherFacts(ctx context.Context, remote *remoteConfig, two bool) (*doctor.Facts, error) {
	facts := &doctor.Facts{Client: version.Version}
	step := a.console().Start("Looking at what there is")
	defer step.End()
	if !two {
		local, err := a.installed(ctx)
		if err != nil {
			return nil, err
		}
		facts.Local = local.doctorFacts(ctx, true)
		facts.Now = time.Now()
		return facts, nil
	}
	p, err := a.pair(ctx, remote)
	if err != nil {
		// A peer that does not respond keeps nobody from learning what the local cluster knows of it.
		if local, here := a.installed(ctx); here == nil && unreachable(err) {
			facts.Local = local.doctorFacts(ctx, true)
			facts.Local.Unread = append(facts.Local.Unread, fmt.Sprintf("the remote cluster can not be read: %v", err))
			facts.Now = time.Now()
			return facts, nil
		}
		return nil, err
	}
	err = both(
		func() error { facts.Local = p.local.doctorFacts(ctx, true); return nil },
		func() error { facts.Remote = p.remote.doctorFacts(ctx, true); return nil },
	)
	facts.Now = time.Now()
	return facts, err
}

// unreachable tells whether a request failed because there was no response, not because of what the response was.
func unreachable(err error) bool {
	dial := (*net.OpError)(nil)
	return errors.As(err, &dial) || errors.Is(err, context.DeadlineExceeded) || isTimeout(err)
}

// diagnosis is what doctor finds in the cluster, without asking its peers: for the commands that show the state of the cluster.
func (c *cluster) diagnosis(ctx context.Context) []doctor.Finding {
	facts := &doctor.Facts{Client: version.Version, Local: c.doctorFacts(ctx, false)}
	facts.Now = time.Now()
	return doctor.Examine(facts)
}

var marks = map[doctor.Level]string{doctor.OK: "✔", doctor.Warn: "!", doctor.Fail: "✖"}

// writeFindings shows the findings, the details of what is well only to those who ask. Evidence may be long: it is not framed.
func writeFindings(c *console.Console, findings []doctor.Finding, verbose bool) error {
	var text strings.Builder
	of := ""
	for i := range findings {
		finding := &findings[i]
		if finding.Cluster != of {
			of = finding.Cluster
			fmt.Fprintf(&text, "Cluster %s\n", of)
		}
		fmt.Fprintf(&text, "  %s %s", marks[finding.Level], finding.Check)
		if finding.Level != doctor.OK || verbose {
			fmt.Fprintf(&text, ": %s", finding.Evidence)
		}
		text.WriteString("\n")
		if finding.Cure != "" {
			fmt.Fprintf(&text, "      cure: %s\n", finding.Cure)
		}
		for j := range finding.Consequences {
			consequence := &finding.Consequences[j]
			where := ""
			if consequence.Cluster != of {
				where = "in cluster " + consequence.Cluster + ": "
			}
			fmt.Fprintf(&text, "      leads to: %s%s: %s\n", where, consequence.Check, consequence.Evidence)
			if verbose {
				fmt.Fprintf(&text, "          cure: %s\n", consequence.Cure)
			}
		}
	}
	_, err := io.WriteString(c.Out(), text.String())
	return err
}

// problems puts findings in a box, at a depth: each cause with its cure, and how much follows from it.
func problems(box *console.Box, depth int, findings []doctor.Finding) {
	for i := range findings {
		finding := &findings[i]
		box.Line(depth, fmt.Sprintf("%s %s", marks[finding.Level], finding.Evidence), "")
		box.Line(depth+1, "cure", finding.Cure)
		if n := len(finding.Consequences); n > 0 {
			box.Line(depth+1, "consequences", fmt.Sprintf("%d (liqoctl doctor lists them)", n))
		}
	}
}

func count(findings []doctor.Finding, level doctor.Level) (n int) {
	for _, finding := range findings {
		if finding.Level == level {
			n++
		}
	}
	return n
}
