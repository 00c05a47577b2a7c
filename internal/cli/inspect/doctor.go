// Package inspect has the commands that read a cluster and change nothing: info, status and doctor. They share the facts that they gather.
package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/doctor"
	"liqo.io/liqo/internal/version"
)

// DoctorCommand returns the command doctor.
func DoctorCommand(a *session.Session) *cobra.Command {
	var output cmdline.Output
	var timeout time.Duration
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Diagnose problems and print their cures",
		Long: "Check every component, certificate, permission, connection, version and address range of the installation and its peerings. For each\n" +
			"problem, print the evidence and the cure. The worst problems are at the top, and the consequences of a problem are below it. With the\n" +
			"kubeconfig of a peer, check both clusters, and compare what each of them stores about the other. The exit code is 1 if a check fails;\n" +
			"warnings do not count. With --verbose, also print the checks that succeeded, and the cure of each consequence.\n\n" +
			"Related commands: info describes the cluster, and status shows whether its components run. kubectl get foreignclusters lists the\n" +
			"peerings, and kubectl wait can wait for them. All of them report the problems that doctor finds.",
		Example: cmdline.Example(`
			%[1]s doctor
			# Both clusters of a peering
			%[1]s doctor --remote-kubeconfig milan.yaml
			# What fails, for a program
			%[1]s doctor -o json`),
		Args: cobra.NoArgs,
	}
	flags := command.Flags()
	remote := session.RemoteFlags(flags)
	output.Add(flags, "Print all findings for programs")
	flags.DurationVar(&timeout, "timeout", time.Minute, "Maximum time for all checks")
	command.RunE = session.WithTimeout(&timeout, func(ctx context.Context, _ []string) error {
		if err := output.Validate(); err != nil {
			return err
		}
		facts, err := gatherFacts(ctx, a, remote, flags.Changed("remote-kubeconfig") || flags.Changed("remote-context") || flags.Changed("remote-cluster"))
		if err != nil {
			return err
		}
		findings := doctor.Examine(facts)
		if output.Format != "" {
			err = cmdline.Write(a.Console().Out(), findings, output.Format)
		} else {
			err = writeFindings(a.Console(), findings, a.Verbose)
		}
		if err == nil && doctor.Worst(findings) == doctor.Fail {
			err = fmt.Errorf("%d of %d checks failed", count(findings, doctor.Fail), len(findings))
		}
		return err
	})
	return command
}

// gatherFacts collects the facts about one or two clusters, and looks up the host names among them.
func gatherFacts(ctx context.Context, a *session.Session, remote *genericclioptions.ConfigFlags, two bool) (*doctor.Facts, error) {
	facts, err := factsOf(ctx, a, remote, two)
	if err != nil {
		return nil, err
	}
	for _, c := range []*doctor.Cluster{facts.Local, facts.Remote} {
		if c != nil {
			LookUpHosts(ctx, a, c.Names)
		}
	}
	return facts, nil
}

// LookUpHosts looks up host names, and records the names that have no address.
func LookUpHosts(ctx context.Context, a *session.Session, names []doctor.Name) {
	for i := range names {
		bounded, cancel := context.WithTimeout(ctx, AccessTimeout)
		addresses, err := a.Resolve(bounded, "ip", names[i].Host)
		cancel()
		switch {
		case err != nil:
			names[i].Failure = err.Error()
		case len(addresses) == 0:
			names[i].Failure = "its name server knows the name, and no address of it"
		}
	}
}

// factsOf collects the facts about one or two clusters.
func factsOf(ctx context.Context, a *session.Session, remote *genericclioptions.ConfigFlags, two bool) (*doctor.Facts, error) {
	facts := &doctor.Facts{Client: version.Version}
	step := a.Console().Start("Gathering facts")
	defer step.End()
	if !two {
		local, err := a.Installed(ctx)
		if err != nil {
			return nil, err
		}
		facts.Local = DoctorFacts(ctx, local, MakeDryRuns)
		facts.Now = time.Now()
		return facts, nil
	}
	p, err := a.Pair(ctx, remote)
	if err != nil {
		// If the peer is unreachable, the local cluster is still examined.
		if local, here := a.Installed(ctx); here == nil && Unreachable(err) {
			facts.Local = DoctorFacts(ctx, local, MakeDryRuns)
			facts.Local.Unread = append(facts.Local.Unread, fmt.Sprintf("the remote cluster can not be read: %v", err))
			facts.Now = time.Now()
			return facts, nil
		}
		return nil, err
	}
	err = session.Both(
		func() error { facts.Local = DoctorFacts(ctx, p.Local, MakeDryRuns); return nil },
		func() error { facts.Remote = DoctorFacts(ctx, p.Remote, MakeDryRuns); return nil },
	)
	facts.Now = time.Now()
	return facts, err
}

// Unreachable reports whether a request failed because the server did not respond. It returns false for an error response.
func Unreachable(err error) bool {
	dial := (*net.OpError)(nil)
	return errors.As(err, &dial) || errors.Is(err, context.DeadlineExceeded) || session.IsTimeout(err)
}

// Diagnosis returns the findings about the cluster without sending requests to its peers. Commands that show the state of the cluster use
// it.
func Diagnosis(ctx context.Context, c *session.Cluster) []doctor.Finding {
	facts := &doctor.Facts{Client: version.Version, Local: DoctorFacts(ctx, c, ReadOnly)}
	facts.Now = time.Now()
	return doctor.Examine(facts)
}

var marks = map[doctor.Level]string{doctor.OK: "✔", doctor.Warn: "!", doctor.Fail: "✖"}

// writeFindings prints the findings. It prints the details of OK findings only with verbose. Evidence may be long, so there is no box
// around it.
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

// problems adds findings to a box, at the given depth: each cause with its cure and the number of its consequences.
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
