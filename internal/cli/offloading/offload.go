package offloading

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/deletevolumes"
	"liqo.io/liqo/internal/cli/loss"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/workload"
	"liqo.io/liqo/internal/offload"
)

// Command returns the command offload.
func Command(a *session.Session) *cobra.Command {
	return cmdline.Group(&cobra.Command{
		Use:   "offload",
		Short: "Offload namespaces to other clusters",
		Long:  "Offload namespaces of the local cluster to the clusters with which it is peered.",
		Example: cmdline.Example(`
			# Pods of this namespace may run in every provider
			%[1]s offload namespace demo`),
	}, offloadNamespaceCommand(a))
}

// namespaceChoice selects namespaces by name or by label selector.
type namespaceChoice struct {
	selector string
}

func (n *namespaceChoice) add(command *cobra.Command) {
	command.Flags().StringVar(&n.selector, "ns-selector", "", "Select the namespaces by label instead of by name")
}

func (n *namespaceChoice) validate(args []string) error {
	switch {
	case len(args) == 0 && n.selector == "":
		return errors.New("no namespace is named: give names, or choose by labels with --ns-selector")
	case len(args) > 0 && n.selector != "":
		return errors.New("namespaces are given by name and by --ns-selector: use one of them")
	}
	return nil
}

// resolve returns the names of the selected namespaces, each once. It fails with the cure if a named namespace does not exist.
func (n *namespaceChoice) resolve(ctx context.Context, c *session.Cluster, args []string, cure func(name string) string) ([]string, error) {
	if n.selector == "" {
		names := cmdline.Unique(args)
		for _, name := range names {
			if err := c.Get(ctx, client.ObjectKey{Name: name}, &corev1.Namespace{}); err != nil {
				if apierrors.IsNotFound(err) {
					return nil, fmt.Errorf("there is no namespace %s in the cluster: %s", name, cure(name))
				}
				return nil, fmt.Errorf("reading namespace %s: %w", name, err)
			}
		}
		return names, nil
	}
	selector, err := labels.Parse(n.selector)
	if err != nil {
		return nil, fmt.Errorf("--ns-selector %q: %w", n.selector, err)
	}
	var list corev1.NamespaceList
	if err := c.List(ctx, &list, client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, fmt.Errorf("listing namespaces by --ns-selector %q: %w", n.selector, err)
	}
	if len(list.Items) == 0 {
		return nil, fmt.Errorf("no namespace matches --ns-selector %q", n.selector)
	}
	names := make([]string, 0, len(list.Items))
	for _, namespace := range list.Items {
		names = append(names, namespace.Name)
	}
	return names, nil
}

// refuseProtected fails, before any change is made, if one of the namespaces must not be offloaded.
func refuseProtected(ctx context.Context, c *session.Cluster, selector string, names []string) error {
	policy := offload.ProtectedNamespaces{LiqoNamespace: c.Namespace}
	var manager appsv1.Deployment
	// An administrator of a single namespace may not read the patterns. The policy liqo-protected-namespaces rejects matching namespaces
	// then.
	if err := c.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: session.ControllerManager}, &manager); err != nil && !apierrors.IsForbidden(err) {
		return fmt.Errorf("reading Deployment %s in namespace %s: %w", session.ControllerManager, c.Namespace, err)
	}
	for _, container := range manager.Spec.Template.Spec.Containers {
		for _, argument := range container.Args {
			if patterns, is := strings.CutPrefix(argument, "--protected-namespaces="); is {
				policy.Patterns = strings.Split(patterns, ",")
			}
		}
	}
	var refused []string
	var problems []error
	for _, name := range names {
		var namespace corev1.Namespace
		if err := c.Get(ctx, client.ObjectKey{Name: name}, &namespace); err != nil {
			return fmt.Errorf("reading namespace %s: %w", name, err)
		}
		if why := policy.Why(name, namespace.Labels); why != "" {
			refused = append(refused, name)
			problems = append(problems, errors.New(offload.ProtectedMessage(name, why)))
		}
	}
	if len(refused) > 0 && selector != "" {
		problems = append(problems, fmt.Errorf("no namespace was offloaded: exclude the namespaces that cannot be offloaded with --ns-selector '%s,%s notin (%s)'",
			selector, corev1.LabelMetadataName, strings.Join(refused, ", ")))
	}
	return errors.Join(problems...)
}

// confirmLeft asks for confirmation before a new --selector excludes clusters: the remote namespaces there are deleted.
func confirmLeft(ctx context.Context, c *session.Cluster, a *session.Session, names []string, o *offloadOptions) error {
	if !o.given("selector") {
		return nil // the selector does not change
	}
	lost, unknown, err := loss.LeftOut(ctx, c, names, o.parsedClusterSelection)
	if err != nil {
		return err
	}
	var left []string
	for _, name := range names {
		for _, id := range lost[name] {
			left = append(left, fmt.Sprintf("%s from cluster %s", name, id))
		}
	}
	if len(left) == 0 {
		return nil
	}
	// If the user may not read volumes, the command cannot check them. The controller manager then keeps the remote namespaces with data, and reports
	// them in the status.
	err = deletevolumes.Check(ctx, c, func(namespace, provider string) bool { return slices.Contains(lost[namespace], provider) })
	if err != nil && !apierrors.IsForbidden(err) {
		return err
	}
	if unknown {
		return a.Confirm(fmt.Sprintf("Change the selector? It may leave out a cluster where the namespace is (%s): the remote namespace is deleted there, with everything in it.",
			strings.Join(left, ", ")))
	}
	return a.Confirm(fmt.Sprintf("Stop offloading %s? The new selector leaves it out: the remote namespace is deleted with everything in it.",
		strings.Join(left, ", ")))
}

type offloadOptions struct {
	choice                    namespaceChoice
	pods, mapping, remoteName string
	selectors                 []string
	timeout                   time.Duration
	output                    cmdline.Output
	parsedClusterSelection    *corev1.NodeSelector
	// given reports whether the user set a flag.
	given func(flag string) bool
}

func offloadNamespaceCommand(a *session.Session) *cobra.Command {
	var o offloadOptions
	command := &cobra.Command{
		Use:     "namespace NAME...",
		Aliases: []string{"ns", "namespaces"},
		Short:   "Offload namespaces to other clusters",
		Long: "Offload namespaces to the peers of the local cluster: every selected provider gets a remote namespace, and new pods may be scheduled\n" +
			"on its virtual nodes. Existing pods are not moved.\n\n" +
			"If a namespace is already offloaded, only the settings on the command line change. If the new selector no longer selects a provider,\n" +
			"the remote namespace there is deleted after a confirmation. If volumes have data there, the command also needs --delete-volumes.\n" +
			"The command rejects the namespaces of Kubernetes and Liqo, and those in value offloading.protectedNamespaces of the installation.",
		Example: cmdline.Example(`
			# Pods may run here and in every provider
			%[1]s offload namespace demo
			# Pods run only in providers of a region, in a remote namespace of the same name
			%[1]s offload namespace demo --pod-offloading-strategy Remote \
			    --namespace-mapping-strategy EnforceSameName --selector 'topology.kubernetes.io/region=europe'
			# In providers that are kubeadm clusters or anywhere in Asia: every --selector is an alternative
			%[1]s offload namespace demo -l 'liqo.io/provider=kubeadm' -l 'topology.kubernetes.io/region in (asia)'
			# Only print the object
			%[1]s offload namespace demo -o yaml`),
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.Complete(session.NamespaceNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.given = cmd.Flags().Changed
			if err := errors.Join(o.choice.validate(args), o.validate(), o.output.Validate()); err != nil {
				return err
			}
			local, err := a.ForNamespaces(cmd.Context())
			if err != nil {
				return err
			}
			names, err := o.choice.resolve(cmd.Context(), local, args, func(name string) string { return "create it first: kubectl create namespace " + name })
			if err != nil {
				return err
			}
			if err := refuseProtected(cmd.Context(), local, o.choice.selector, names); err != nil {
				return err
			}
			if o.output.Format == "" {
				// The time for the user's confirmation does not count towards the timeout.
				if err := confirmLeft(cmd.Context(), local, a, names, &o); err != nil {
					return err
				}
				if slices.Contains(names, metav1.NamespaceDefault) {
					local.Warn("Namespace %[1]s is offloaded. Commands and manifests without a namespace use it, so their pods may run in other clusters, and their Secrets are copied there, without intent. "+
						"It is safer to offload a namespace of its own. To end this offloading, run: liqoctl unoffload namespace %[1]s", metav1.NamespaceDefault)
				}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
			defer cancel()
			for i, name := range names {
				if o.output.Format != "" {
					if i > 0 && !o.output.JSON() {
						fmt.Fprintln(local.Out(), "---")
					}
					err = session.PrintObject(local, o.object(name), o.output.Format)
				} else {
					err = workload.OffloadNamespace(ctx, local, name, o.fill)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.pods, "pod-offloading-strategy", string(offloadingv1beta1.PodsLocalAndRemote),
		"Where pods may run: Local, Remote or LocalAndRemote")
	flags.StringVar(&o.mapping, "namespace-mapping-strategy", string(offloadingv1beta1.DefaultName),
		"Name of the remote namespace: DefaultName (the name and the ID of this cluster), EnforceSameName or SelectedName")
	flags.StringVar(&o.remoteName, "remote-namespace-name", "", "Name of the remote namespace, with the strategy SelectedName")
	flags.StringArrayVarP(&o.selectors, "selector", "l", nil, "Label selector of the virtual nodes; may be repeated, each is an alternative; '' selects all (default: all)")
	flags.DurationVar(&o.timeout, "timeout", 20*time.Second, "Maximum time for the whole command")
	o.choice.add(command)
	o.output.Add(flags, "Only print the object, do not create it")
	a.AddDryRun(flags)
	deletevolumes.AddFlag(a, flags)
	return command
}

func (o *offloadOptions) validate() error {
	strategies := []string{string(offloadingv1beta1.PodsLocal), string(offloadingv1beta1.PodsRemote), string(offloadingv1beta1.PodsLocalAndRemote)}
	if err := cmdline.OneOf("pod-offloading-strategy", o.pods, strategies...); err != nil {
		return err
	}
	mappings := []string{string(offloadingv1beta1.DefaultName), string(offloadingv1beta1.EnforceSameName), string(offloadingv1beta1.SelectedName)}
	if err := cmdline.OneOf("namespace-mapping-strategy", o.mapping, mappings...); err != nil {
		return err
	}
	if selected := o.mapping == string(offloadingv1beta1.SelectedName); selected != (o.remoteName != "") {
		return fmt.Errorf("--remote-namespace-name goes with --namespace-mapping-strategy %s, and only with it", offloadingv1beta1.SelectedName)
	}
	if slices.Equal(o.selectors, []string{""}) {
		return nil // select all, instead of the previous selectors
	}
	terms, err := nodeSelectorTerms(o.selectors)
	if len(terms) > 0 {
		o.parsedClusterSelection = &corev1.NodeSelector{NodeSelectorTerms: terms}
	}
	return err
}

// nodeSelectorTerms converts label selectors to the terms of a node selector. The terms are alternatives: one of them has to match.
func nodeSelectorTerms(selectors []string) ([]corev1.NodeSelectorTerm, error) {
	var terms []corev1.NodeSelectorTerm
	for _, text := range selectors {
		selector, err := labels.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("--selector %q: %w", text, err)
		}
		requirements, selectable := selector.Requirements()
		if !selectable || len(requirements) == 0 {
			return nil, fmt.Errorf("--selector %q selects nothing: write key=value", text)
		}
		term := corev1.NodeSelectorTerm{}
		for _, requirement := range requirements {
			operator, ok := nodeOperators[requirement.Operator()]
			if !ok {
				return nil, fmt.Errorf("--selector %q: nodes can not be selected by operator %q", text, requirement.Operator())
			}
			term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{
				Key: requirement.Key(), Operator: operator, Values: requirement.ValuesUnsorted(),
			})
			slices.Sort(term.MatchExpressions[len(term.MatchExpressions)-1].Values)
		}
		terms = append(terms, term)
	}
	return terms, nil
}

var nodeOperators = map[selection.Operator]corev1.NodeSelectorOperator{
	selection.Equals: corev1.NodeSelectorOpIn, selection.DoubleEquals: corev1.NodeSelectorOpIn, selection.In: corev1.NodeSelectorOpIn,
	selection.NotEquals: corev1.NodeSelectorOpNotIn, selection.NotIn: corev1.NodeSelectorOpNotIn,
	selection.Exists: corev1.NodeSelectorOpExists, selection.DoesNotExist: corev1.NodeSelectorOpDoesNotExist,
	selection.GreaterThan: corev1.NodeSelectorOpGt, selection.LessThan: corev1.NodeSelectorOpLt,
}

func (o *offloadOptions) object(namespace string) *offloadingv1beta1.NamespaceOffloading {
	object := &offloadingv1beta1.NamespaceOffloading{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: offloadingv1beta1.NamespaceOffloadingName},
	}
	o.fill(object)
	return object
}

// fill sets the fields whose flags the user set. For a new object it also sets the defaults of the other fields.
func (o *offloadOptions) fill(object *offloadingv1beta1.NamespaceOffloading) {
	set := func(flag string) bool { return object.ResourceVersion == "" || o.given == nil || o.given(flag) }
	if set("pod-offloading-strategy") {
		object.Spec.PodOffloadingStrategy = offloadingv1beta1.PodOffloadingStrategy(o.pods)
	}
	if set("namespace-mapping-strategy") {
		object.Spec.NamespaceMappingStrategy = offloadingv1beta1.NamespaceMappingStrategy(o.mapping)
		object.Spec.RemoteNamespaceName = o.remoteName
	}
	if set("selector") {
		object.Spec.ClusterSelector = o.parsedClusterSelection
	}
}
