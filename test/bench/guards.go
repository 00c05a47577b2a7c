package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/playground"
)

// guardsBench measures what each admission policy and webhook of Liqo costs an offloaded pod: it takes them out one at a time. The clusters are those of scaleBench.
type guardsBench struct {
	scaleBench
	size int
}

// guard is a policy binding or a webhook that the API server of a cluster asks while a pod is offloaded.
type guard struct {
	cluster *playground.Cluster
	name    string
	// remove takes the guard out, and returns what puts it back.
	remove func(ctx context.Context) (restore func(ctx context.Context) error, err error)
}

// GuardCost is what a guard costs: the difference of the CPU with it and without it, in ms per pod.
type GuardCost struct {
	Cluster, Guard string
	// Server is the CPU of the API server of the cluster, All that of all programs of both clusters.
	Server, All float64
}

// GuardsResult is the result of guardsBench.
type GuardsResult struct {
	Pods, Runs int
	Costs      []GuardCost
	// Noise is the largest difference of two runs with all guards, in ms per pod of all programs.
	Noise float64
}

// guardedResources are the resources that an offloaded pod writes, from its creation until it is Ready.
var guardedResources = []string{"pods", "pods/status", "pods/binding", "secrets", "shadowpods", "shadowpods/status", "serviceaccounts/token", "events"}

// settleGuard is the time that an API server gets to apply a change of its guards.
const settleGuard = 3 * time.Second

func (b *guardsBench) run(ctx context.Context) (*GuardsResult, error) {
	b.sizes = []int{b.size}
	return onMachine(ctx, &b.machine, b.end, b.measureAll)
}

func (b *guardsBench) measureAll(ctx context.Context) (*GuardsResult, error) {
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	var guards []guard
	for _, c := range []*playground.Cluster{b.rome, b.milan} {
		found, err := guardsOf(ctx, c)
		if err != nil {
			return nil, err
		}
		guards = append(guards, found...)
	}
	result := &GuardsResult{Pods: b.size, Runs: b.runs}
	sums := make([]GuardCost, len(guards))
	var all []float64
	for range b.runs {
		before, err := b.cost(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, total(before))
		for i, g := range guards {
			restore, err := g.remove(ctx)
			if err != nil {
				return nil, fmt.Errorf("taking out %s: %w", g.name, err)
			}
			pause(ctx, settleGuard)
			without, err := b.cost(ctx)
			if err = errors.Join(err, restore(context.WithoutCancel(ctx))); err != nil {
				return nil, fmt.Errorf("measuring without %s: %w", g.name, err)
			}
			pause(ctx, settleGuard)
			server := g.cluster.ID + ": kube-apiserver"
			sums[i].Cluster, sums[i].Guard = g.cluster.ID, g.name
			sums[i].Server += before[server] - without[server]
			sums[i].All += total(before) - total(without)
			report("without %s in %s: %.2f ms less per pod, %.2f of it in the API server", g.name, g.cluster.ID, total(before)-total(without), before[server]-without[server])
			// Every third guard is compared with another run with all guards, because the speed of the machine changes.
			if i%3 == 2 && i+1 < len(guards) {
				if before, err = b.cost(ctx); err != nil {
					return nil, err
				}
				all = append(all, total(before))
			}
		}
	}
	for _, s := range sums {
		s.Server /= float64(b.runs)
		s.All /= float64(b.runs)
		result.Costs = append(result.Costs, s)
	}
	slices.SortStableFunc(result.Costs, func(a, b GuardCost) int { return strings.Compare(a.Cluster, b.Cluster) })
	result.Noise = slices.Max(all) - slices.Min(all)
	return result, nil
}

// cost returns the CPU of each program in one run, in ms per pod.
func (b *guardsBench) cost(ctx context.Context) (map[string]float64, error) {
	run, err := b.measure(ctx, Offloaded, b.size, nil, b.places(Offloaded)...)
	if err != nil {
		return nil, err
	}
	for name := range run.ClusterCPU {
		run.ClusterCPU[name] *= 1000 / float64(b.size)
	}
	return run.ClusterCPU, nil
}

func total(costs map[string]float64) (sum float64) {
	for _, cost := range costs {
		sum += cost
	}
	return sum
}

// guardsOf returns the guards of Liqo in a cluster that may be asked about the writes for an offloaded pod.
func guardsOf(ctx context.Context, c *playground.Cluster) ([]guard, error) {
	var guards []guard
	var policies admissionregistrationv1.ValidatingAdmissionPolicyList
	var bindings admissionregistrationv1.ValidatingAdmissionPolicyBindingList
	var webhooks admissionregistrationv1.MutatingWebhookConfigurationList
	for _, list := range []client.ObjectList{&policies, &bindings, &webhooks} {
		if err := c.List(ctx, list); err != nil {
			return nil, fmt.Errorf("reading the admission of cluster %s: %w", c.ID, err)
		}
	}
	concerned := map[string]bool{}
	for i := range policies.Items {
		for _, rule := range policies.Items[i].Spec.MatchConstraints.ResourceRules {
			if asked(rule.Rule, rule.Operations) {
				concerned[policies.Items[i].Name] = true
			}
		}
	}
	for i := range bindings.Items {
		if binding := &bindings.Items[i]; concerned[binding.Spec.PolicyName] {
			guards = append(guards, guard{c, "policy " + binding.Spec.PolicyName, func(ctx context.Context) (func(context.Context) error, error) {
				return func(ctx context.Context) error {
					again := binding.DeepCopy()
					again.UID, again.ResourceVersion = "", ""
					return c.Create(ctx, again)
				}, c.Delete(ctx, binding)
			}})
		}
	}
	for i := range webhooks.Items {
		configuration := &webhooks.Items[i]
		for _, webhook := range configuration.Webhooks {
			if slices.ContainsFunc(webhook.Rules, func(r admissionregistrationv1.RuleWithOperations) bool { return asked(r.Rule, r.Operations) }) {
				guards = append(guards, webhookGuard(c, configuration.Name, webhook))
			}
		}
	}
	return guards, nil
}

// webhookGuard returns the guard of one webhook of a configuration.
func webhookGuard(c *playground.Cluster, configuration string, webhook admissionregistrationv1.MutatingWebhook) guard {
	change := func(ctx context.Context, with bool) error {
		for {
			var now admissionregistrationv1.MutatingWebhookConfiguration
			if err := c.Get(ctx, client.ObjectKey{Name: configuration}, &now); err != nil {
				return err
			}
			now.Webhooks = slices.DeleteFunc(now.Webhooks, func(w admissionregistrationv1.MutatingWebhook) bool { return w.Name == webhook.Name })
			if with {
				now.Webhooks = append(now.Webhooks, webhook)
			}
			if err := c.Update(ctx, &now); !apierrors.IsConflict(err) {
				return err
			}
		}
	}
	return guard{c, "webhook " + webhook.Name, func(ctx context.Context) (func(context.Context) error, error) {
		return func(ctx context.Context) error { return change(ctx, true) }, change(ctx, false)
	}}
}

// asked reports whether a rule concerns a write for an offloaded pod.
func asked(rule admissionregistrationv1.Rule, operations []admissionregistrationv1.OperationType) bool {
	return slices.ContainsFunc(rule.Resources, func(r string) bool { return slices.Contains(guardedResources, r) }) &&
		slices.ContainsFunc(operations, func(o admissionregistrationv1.OperationType) bool {
			return o == admissionregistrationv1.Create || o == admissionregistrationv1.Update
		})
}

func (r *GuardsResult) print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "\nCPU of each guard, ms per pod of %d, means of %d runs (two runs with all guards differ by up to %.1f)\n", r.Pods, r.Runs, r.Noise)
	fmt.Fprintln(table, "cluster\tguard\tits API server\tall programs of both clusters")
	for _, c := range r.Costs {
		fmt.Fprintf(table, "%s\t%s\t%.2f\t%.2f\n", c.Cluster, c.Guard, c.Server, c.All)
	}
	return table.Flush()
}
