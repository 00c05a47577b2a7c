package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/sharing"
)

// admission is a command that changes what a provider grants to a tenant.
type admission struct {
	verb, done  string
	short, long string
	// The command sets condition to. It is allowed in the conditions in from; an empty list means any.
	to   authv1beta1.TenantCondition
	from []authv1beta1.TenantCondition
	// question is the confirmation question. It is empty if the command needs no confirmation, because nothing is lost.
	question string
}

var (
	cordonTenant = admission{
		verb: "cordon", done: "cordoned", to: authv1beta1.TenantCordoned, from: []authv1beta1.TenantCondition{authv1beta1.TenantActive},
		short: "Stop granting new resources to a consumer",
		long: "Run this command in a provider. It cordons a tenant: the granted resources stay granted and the consumer's pods keep running, but the\n" +
			"consumer gets no further resources and the provider admits no further pods of it, until uncordon.",
		question: "Cordon tenant %s? Its pods keep running, but it gets no further resources and no further pods are admitted.",
	}
	uncordonTenant = admission{
		verb: "uncordon", done: "uncordoned", to: authv1beta1.TenantActive, from: []authv1beta1.TenantCondition{authv1beta1.TenantCordoned},
		short: "Undo cordon tenant",
		long:  "Run this command in a provider. It undoes cordon tenant: the consumer may request resources again, and run pods with them.",
	}
	drainTenant = admission{
		verb: "drain", done: "drained", to: authv1beta1.TenantDrained,
		short: "Revoke the access of a consumer and end its pods",
		long: "Run this command in a provider. It drains a tenant: the consumer's identities lose their permissions, and its pods in this cluster end.\n" +
			"Its remote namespaces stay, with their claims and data, and so does the network between the clusters. After activate, the consumer\n" +
			"continues with the same data.",
		question: "Drain tenant %s? Its pods in this cluster end. Its namespaces and data stay.",
	}
	activateTenant = admission{
		verb: "activate", done: "activated", to: authv1beta1.TenantActive,
		short: "Restore the access of a consumer",
		long: "Run this command in a provider. It undoes drain tenant and cordon tenant: the consumer's identities get their permissions back. After a\n" +
			"drain, pods that a controller recreates run here again, with the data that they had.",
	}
)

// CordonCommand returns the command cordon.
func CordonCommand(a *session.Session) *cobra.Command {
	return cmdline.Group(&cobra.Command{
		Use:   "cordon",
		Short: "Stop granting new resources to a tenant",
		Long:  "Run this command in a provider. It stops granting resources to a consumer. Resources that were granted already stay granted.",
		Example: cmdline.Example(`
			# Nothing more for the consumer rome
			%[1]s cordon tenant rome`),
	}, tenantCommand(a, cordonTenant), sliceCommand(a, cordonSlice))
}

// UncordonCommand returns the command uncordon.
func UncordonCommand(a *session.Session) *cobra.Command {
	return cmdline.Group(&cobra.Command{
		Use:   "uncordon",
		Short: "Resume granting resources to a tenant",
		Long:  "Run this command in a provider. It undoes cordon.",
		Example: cmdline.Example(`
			# The consumer rome may ask for resources again
			%[1]s uncordon tenant rome`),
	}, tenantCommand(a, uncordonTenant), sliceCommand(a, uncordonSlice))
}

// DrainCommand returns the command drain.
func DrainCommand(a *session.Session) *cobra.Command {
	return cmdline.Group(&cobra.Command{
		Use:   "drain",
		Short: "Revoke the resources granted to a tenant",
		Long:  "Run this command in a provider. It revokes all resources that were granted to a consumer, and ends the consumer's pods. No data is deleted.",
		Example: cmdline.Example(`
			# Everything from the consumer rome
			%[1]s drain tenant rome`),
	}, tenantCommand(a, drainTenant))
}

// ActivateCommand returns the command activate.
func ActivateCommand(a *session.Session) *cobra.Command {
	return cmdline.Group(&cobra.Command{
		Use:   "activate",
		Short: "Grant a drained tenant its resources again",
		Long:  "Run this command in a provider. It undoes drain and cordon.",
		Example: cmdline.Example(`
			# The consumer rome is let in again
			%[1]s activate tenant rome`),
	}, tenantCommand(a, activateTenant))
}

func tenantCommand(a *session.Session, of admission) *cobra.Command {
	var timeout time.Duration
	command := &cobra.Command{
		Use:     "tenant [NAME]",
		Aliases: session.KindTenant.Aliases,
		Short:   of.short,
		Long:    of.long + "\n\nA tenant is named after its cluster ID. The command searches all namespaces, unless --namespace names one.\nWithout NAME, the command takes the only tenant; it fails if there are several.",
		Example: cmdline.Example("\t# The consumer rome\n\t%[1]s " + of.verb + " tenant rome"),
		Args:    cmdline.AtMostOne("the name of the tenant"),
		RunE: func(cmd *cobra.Command, args []string) error {
			// The time for the user's confirmation does not count towards the timeout.
			local, within, err := a.InstalledWithin(cmd.Context())
			if err != nil {
				return err
			}
			name := strings.Join(args, "")
			if name == "" {
				all, err := session.ListKind(cmd.Context(), local, session.KindTenant, within)
				if err != nil {
					return err
				}
				if name, err = session.OnlyName(local, session.NamesOf(all, client.Object.GetName), "tenants in "+session.NamespaceText(within), "name one: "+cmd.UseLine()); err != nil {
					return err
				}
			}
			object, err := session.FindObject(cmd.Context(), local, session.KindTenant, within, name)
			if err != nil {
				return err
			}
			tenant, ok := object.(*authv1beta1.Tenant)
			if !ok {
				return fmt.Errorf("reading tenant %s: it is a %T", name, object)
			}
			if why := of.hindered(tenant.Spec.TenantCondition); why != "" {
				local.Warn("Tenant %s is not %s: %s", tenant.Name, of.done, why)
				return nil
			}
			if of.question != "" {
				if err := a.Confirm(fmt.Sprintf(of.question, tenant.Name)); err != nil {
					return err
				}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return setTenantCondition(ctx, local, tenant, of)
		},
		ValidArgsFunction: a.CompleteNames(session.KindTenant),
	}
	a.AddDryRun(command.Flags())
	command.Flags().DurationVar(&timeout, "timeout", 2*time.Minute, "Maximum time to wait until it takes effect")
	return command
}

// hindered returns the reason why the command has no effect on a tenant in the given condition; empty if it has an effect.
func (of *admission) hindered(now authv1beta1.TenantCondition) string {
	switch {
	case len(of.from) == 0 || slices.Contains(of.from, now):
		return ""
	case now == of.to:
		return fmt.Sprintf("it is %s already", now)
	default:
		return fmt.Sprintf("it is %s, but only a tenant that is %s can be %s", now, of.from[0], of.done)
	}
}

// setTenantCondition sets the condition of a tenant, and waits until it is in effect.
func setTenantCondition(ctx context.Context, c *session.Cluster, tenant *authv1beta1.Tenant, of admission) error {
	step := c.Start("Waiting until tenant %s is %s", tenant.Name, of.done)
	defer step.End()
	before := tenant.DeepCopy()
	tenant.Spec.TenantCondition = of.to
	if err := c.Patch(ctx, tenant, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("setting spec.tenantCondition of %s to %s: %w", c.Name(tenant), of.to, err)
	}
	err := c.WaitFor(ctx, step, tenant, func() session.Verdict {
		ready := meta.FindStatusCondition(tenant.Status.Conditions, kube.ConditionReady)
		switch {
		case ready == nil || ready.ObservedGeneration < tenant.Generation:
			return session.NotYet("the controller manager has not reconciled it yet")
		// A tenant that was never admitted can be cordoned without further effect. A drain or an activation has to complete.
		case of.to != authv1beta1.TenantCordoned && ready.Status != metav1.ConditionTrue:
			return session.NotYet("it is not done%s", session.Unmet(tenant.Status.Conditions))
		}
		return session.Yes()
	})
	if err == nil {
		err = awaitQuotas(ctx, c, step, tenant, func(*authv1beta1.ResourceSlice) bool { return true })
	}
	if err != nil {
		return err
	}
	step.Done("Tenant %s %s", tenant.Name, of.done)
	return nil
}

// awaitQuotas waits until the Quotas for the selected ResourceSlices of a consumer are cordoned or not, as the tenant and the ResourceSlices
// require.
func awaitQuotas(ctx context.Context, c *session.Cluster, step *console.Step, tenant *authv1beta1.Tenant, which func(*authv1beta1.ResourceSlice) bool) error {
	if !peering.GrantsOf(tenant).Access {
		return nil // its identities have no permissions, and its Quotas are deleted with the ResourceSlices
	}
	var list authv1beta1.ResourceSliceList
	if err := c.List(ctx, &list, client.InNamespace(tenant.Namespace)); err != nil {
		return fmt.Errorf("listing ResourceSlices in namespace %s: %w", tenant.Namespace, err)
	}
	for i := range list.Items {
		slice := &list.Items[i]
		if !peering.IsCopy(slice, tenant.Spec.ClusterID) || !which(slice) {
			continue
		}
		quota := &offloadingv1beta1.Quota{ObjectMeta: metav1.ObjectMeta{
			Namespace: slice.Namespace, Name: peering.ResourceSliceSubject(slice.Name, tenant.Spec.ClusterID).User,
		}}
		err := c.Get(ctx, client.ObjectKeyFromObject(quota), quota)
		if apierrors.IsNotFound(err) {
			continue // the ResourceSlice has no granted resources
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", c.Name(quota), err)
		}
		cordoned := sharing.Cordoned(slice, tenant)
		if err := c.WaitFor(ctx, step, quota, func() session.Verdict {
			switch now := quota.Spec.Cordoned != nil && *quota.Spec.Cordoned; {
			case now == cordoned:
				return session.Yes()
			case cordoned:
				return session.NotYet("it still admits pods")
			default:
				return session.NotYet("it still admits no pods")
			}
		}); err != nil {
			return err
		}
	}
	return nil
}
