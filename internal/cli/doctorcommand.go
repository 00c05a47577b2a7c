package cli

import (
	"context"
	"fmt"
	"io"
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
		Long: "Look at every component, certificate, permission, connection, version and address range of the installation and its peerings, and\n" +
			"tell of what is wrong the evidence and the cure. With the kubeconfig of a peer it looks at both clusters, and at what each was told\n" +
			"of the other. The exit code is 1 when something fails; what is only worth knowing does not count. With --verbose it also tells what\n" +
			"is well.",
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
		facts.Local = local.doctorFacts(ctx)
		facts.Now = time.Now()
		return facts, nil
	}
	p, err := a.pair(ctx, remote)
	if err != nil {
		return nil, err
	}
	err = both(
		func() error { facts.Local = p.local.doctorFacts(ctx); return nil },
		func() error { facts.Remote = p.remote.doctorFacts(ctx); return nil },
	)
	facts.Now = time.Now()
	return facts, err
}

// writeFindings shows what was found as it was looked at, what is well only in detail to those who ask. Evidence may be long: it is not framed.
func writeFindings(c *console.Console, findings []doctor.Finding, verbose bool) error {
	marks := map[doctor.Level]string{doctor.OK: "✔", doctor.Warn: "!", doctor.Fail: "✖"}
	var text strings.Builder
	of := ""
	for _, finding := range findings {
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
	}
	_, err := io.WriteString(c.Out(), text.String())
	return err
}

func count(findings []doctor.Finding, level doctor.Level) (n int) {
	for _, finding := range findings {
		if finding.Level == level {
			n++
		}
	}
	return n
}
