package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/playground"
)

// guardsBench measures what each admission policy and mutating webhook of Liqo costs an offloaded pod: it takes them out one at a time. The clusters are those of scaleBench.
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
	// Server is the CPU of the API server of the cluster, All that of all programs of both clusters. Spread is the difference of the largest and the smallest
	// value of All.
	Server, All, Spread float64
}

// GuardsResult is the result of guardsBench.
type GuardsResult struct {
	Pods, Runs int
	Costs      []GuardCost
	// Noise is the mean difference of two successive runs with all guards, in ms per pod of all programs.
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
	servers, alls := make([][]float64, len(guards)), make([][]float64, len(guards))
	var with []float64
	for range b.runs {
		var before map[string]float64
		for i, g := range guards {
			// Every third guard is compared with another run with all guards, because the speed of the machine changes.
			if i%3 == 0 {
				var err error
				if before, err = b.cost(ctx); err != nil {
					return nil, err
				}
				with = append(with, total(before))
			}
			without, err := b.without(ctx, g)
			if err != nil {
				return nil, fmt.Errorf("measuring without %s in %s: %w", g.name, g.cluster.ID, err)
			}
			server := g.cluster.ID + ": kube-apiserver"
			servers[i] = append(servers[i], before[server]-without[server])
			alls[i] = append(alls[i], total(before)-total(without))
			report("without %s in %s: %.2f ms less per pod, %.2f of it in the API server", g.name, g.cluster.ID, total(before)-total(without), before[server]-without[server])
		}
	}
	for i, g := range guards {
		result.Costs = append(result.Costs, GuardCost{g.cluster.ID, g.name, mean(servers[i]), mean(alls[i]), slices.Max(alls[i]) - slices.Min(alls[i])})
	}
	for i := 1; i < len(with); i++ {
		result.Noise += math.Abs(with[i]-with[i-1]) / float64(len(with)-1)
	}
	return result, nil
}

// without returns the cost without a guard, and puts the guard back.
func (b *guardsBench) without(ctx context.Context, g guard) (map[string]float64, error) {
	restore, err := g.remove(ctx)
	if err != nil {
		return nil, err
	}
	pause(ctx, settleGuard)
	costs, err := b.cost(ctx)
	err = errors.Join(err, restore(context.WithoutCancel(ctx)))
	pause(ctx, settleGuard)
	return costs, err
}

func mean(values []float64) (sum float64) {
	for _, value := range values {
		sum += value / float64(len(values))
	}
	return sum
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

// guardsOf returns the guards in a cluster that may be asked about the writes for an offloaded pod. Clusters of the bench have no guards of others.
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
		for at, webhook := range configuration.Webhooks {
			if slices.ContainsFunc(webhook.Rules, func(r admissionregistrationv1.RuleWithOperations) bool { return asked(r.Rule, r.Operations) }) {
				guards = append(guards, webhookGuard(c, configuration.Name, at, webhook))
			}
		}
	}
	return guards, nil
}

// webhookGuard returns the guard of one webhook of a configuration, which has it at this index.
func webhookGuard(c *playground.Cluster, configuration string, at int, webhook admissionregistrationv1.MutatingWebhook) guard {
	change := func(ctx context.Context, with bool) error {
		for {
			var now admissionregistrationv1.MutatingWebhookConfiguration
			if err := c.Get(ctx, client.ObjectKey{Name: configuration}, &now); err != nil {
				return err
			}
			now.Webhooks = slices.DeleteFunc(now.Webhooks, func(w admissionregistrationv1.MutatingWebhook) bool { return w.Name == webhook.Name })
			if with {
				now.Webhooks = slices.Insert(now.Webhooks, min(at, len(now.Webhooks)), webhook)
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
	fmt.Fprintf(table, "\nCPU of each guard, ms per pod of %d, means of %d runs (two successive runs with all guards differ by %.1f on average)\n", r.Pods, r.Runs, r.Noise)
	fmt.Fprintln(table, "cluster\tguard\tits API server\tall programs of both clusters\tlargest less smallest")
	for _, c := range r.Costs {
		fmt.Fprintf(table, "%s\t%s\t%.2f\t%.2f\t%.2f\n", c.Cluster, c.Guard, c.Server, c.All, c.Spread)
	}
	return table.Flush()
}
