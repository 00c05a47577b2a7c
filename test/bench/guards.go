package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload/kinds/podrules"
	"liqo.io/liqo/test/playground"
)

// guardsBench measures what admission costs each write for an offloaded pod. It repeats the writes as dry runs of the same users, and profiles the API server meanwhile.
// To compare runs with and without a guard would show nothing: two equal runs differ by more than most guards cost.
type guardsBench struct{ bench }

// request is a write for an offloaded pod, which is sent as a dry run.
type request struct {
	cluster        *playground.Cluster
	verb, resource string // as in the audit log
	object         client.Object
	operation      admissionregistrationv1.OperationType
	send           func(ctx context.Context, as user) error
}

// user is a client of the user that makes a request.
type user struct {
	client.Client
	set kubernetes.Interface
}

// RequestCost is what a request costs its API server.
type RequestCost struct {
	Cluster, Request string
	// CPU is in ms per request. Shares are of the CPU, by the names of parts.
	CPU    float64
	Shares map[string]float64
	// Guards are the admission policies and webhooks whose selectors select the request.
	Guards []string
}

// GuardsResult is the result of guardsBench.
type GuardsResult struct{ Costs []RequestCost }

// part is a part of an API server, by the functions whose time and that of what they call counts.
type part struct {
	name      string
	functions []string
}

var parts = []part{
	{"policies", []string{"k8s.io/apiserver/pkg/admission/plugin/policy/validating.(*Plugin).Validate"}},
	{"webhooks", []string{
		"k8s.io/apiserver/pkg/admission/plugin/webhook/mutating.(*Plugin).Admit", "k8s.io/apiserver/pkg/admission/plugin/webhook/validating.(*Plugin).Validate",
		"net/http.(*persistConn).readLoop", "net/http.(*persistConn).writeLoop", "net/http.(*Transport).dialConnFor",
	}},
	{"managedFields", []string{"k8s.io/apimachinery/pkg/util/managedfields/internal.(*FieldManager).UpdateNoErrors"}},
	{"garbage", []string{"runtime.gcBgMarkWorker", "runtime.gcAssistAlloc"}},
}

const (
	// profileTime is how long an API server is profiled for each request.
	profileTime = 8 * time.Second
	// sentAtOnce is the number of requests on their way. On an idle machine what programs do without requests would count as well.
	sentAtOnce = 8
)

func (b *guardsBench) run(ctx context.Context) (*GuardsResult, error) {
	return onMachine(ctx, &b.machine, b.remove, b.measureAll)
}

func (b *guardsBench) measureAll(ctx context.Context) (*GuardsResult, error) {
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	result := &GuardsResult{}
	// The pod exists while the writes for it are repeated.
	_, err := b.measure(ctx, Offloaded, 1, func(ctx context.Context) error { return b.measureRequests(ctx, result) }, place{b.rome, offloadedNamespace, on("milan")})
	return result, err
}

func (b *guardsBench) measureRequests(ctx context.Context, result *GuardsResult) error {
	requests, err := b.requests(ctx)
	if err != nil {
		return err
	}
	report("waiting %v for the audit logs, which name the users", flush)
	if !pause(ctx, flush) {
		return ctx.Err()
	}
	users, guards := map[*playground.Cluster]map[string]user{}, map[*playground.Cluster]map[string]selected{}
	for _, c := range []*playground.Cluster{b.rome, b.milan} {
		if users[c], err = b.users(ctx, c); err != nil {
			return err
		}
		if guards[c], err = guardsOf(ctx, c); err != nil {
			return err
		}
	}
	for _, r := range requests {
		as, known := users[r.cluster][r.what()]
		if !known {
			return fmt.Errorf("finding the user of %q in the audit log of %s: no such request was made", r.what(), r.cluster.ID)
		}
		cost, err := b.profile(ctx, r, as)
		if err != nil {
			return fmt.Errorf("measuring %q in %s: %w", r.what(), r.cluster.ID, err)
		}
		var namespace corev1.Namespace
		if err := r.cluster.Get(ctx, client.ObjectKey{Name: r.object.GetNamespace()}, &namespace); err != nil {
			return err
		}
		for name, g := range guards[r.cluster] {
			included, err := g.includes(r, namespace.Labels)
			if err != nil {
				return fmt.Errorf("reading the selectors of %s in cluster %s: %w", name, r.cluster.ID, err)
			}
			if included {
				cost.Guards = append(cost.Guards, name)
			}
		}
		slices.Sort(cost.Guards)
		report("%s in %s: %.2f ms", cost.Request, cost.Cluster, cost.CPU)
		result.Costs = append(result.Costs, cost)
	}
	for _, p := range parts {
		if !slices.ContainsFunc(result.Costs, func(c RequestCost) bool { return c.Shares[p.name] > 0 }) {
			return fmt.Errorf("no profile has a function of %s: this version of Kubernetes may name them differently", p.name)
		}
	}
	return nil
}

func (r request) what() string { return r.verb + " " + r.resource }

// profile repeats a request while its API server is profiled.
func (b *guardsBench) profile(ctx context.Context, r request, as user) (RequestCost, error) {
	cost := RequestCost{Cluster: r.cluster.ID, Request: r.what()}
	group, sending := errgroup.WithContext(ctx)
	var sent atomic.Int64
	var enough atomic.Bool
	for range sentAtOnce {
		group.Go(func() error {
			for !enough.Load() {
				if err := r.send(sending, as); err != nil {
					return err
				}
				sent.Add(1)
			}
			return nil
		})
	}
	data, used, err := b.profileServer(ctx, r.cluster, sent.Load)
	enough.Store(true)
	if err = errors.Join(group.Wait(), err); err != nil {
		return cost, err
	}
	cost.CPU = used
	cost.Shares, err = shares(ctx, data)
	return cost, err
}

// profileServer profiles the API server of a cluster, and returns also how much CPU it used for each request, in ms. sent returns the number of requests so far.
func (b *guardsBench) profileServer(ctx context.Context, c *playground.Cluster, sent func() int64) (profile []byte, used float64, err error) {
	pause(ctx, time.Second) // the first requests connect to webhooks and fill caches
	before, err := b.clusterCPU()
	if err != nil {
		return nil, 0, err
	}
	first := sent()
	profile, err = c.Set.CoreV1().RESTClient().Get().AbsPath("/debug/pprof/profile").Param("seconds", strconv.Itoa(int(profileTime.Seconds()))).Do(ctx).Raw()
	if err != nil {
		return nil, 0, fmt.Errorf("profiling the API server: %w", err)
	}
	last := sent()
	if last == first {
		return nil, 0, fmt.Errorf("no request was answered in %v", profileTime)
	}
	after, err := b.clusterCPU()
	if err != nil {
		return nil, 0, err
	}
	server := c.ID + ": kube-apiserver"
	return profile, (after[server] - before[server]) * 1000 / float64(last-first), nil
}

// shares returns the share of each part in a CPU profile.
func shares(ctx context.Context, profile []byte) (map[string]float64, error) {
	file, err := os.CreateTemp("", "liqo-bench-profile-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	_, err = file.Write(profile)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	out, err := exec.CommandContext(ctx, "go", "tool", "pprof", "-top", "-cum", "-nodecount=0", "-nodefraction=0", "-edgefraction=0", file.Name()).Output()
	if err != nil {
		return nil, fmt.Errorf("reading a profile: %w", err)
	}
	cumulative := map[string]float64{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line) // flat, its share, the sum of shares, cumulative, its share, function
		if len(fields) < 6 {
			continue
		}
		if share, err := strconv.ParseFloat(strings.TrimSuffix(fields[4], "%"), 64); err == nil {
			cumulative[fields[5]] = share / 100
		}
	}
	all := map[string]float64{}
	for _, p := range parts {
		for _, function := range p.functions {
			all[p.name] += cumulative[function]
		}
	}
	return all, nil
}

// requests returns the seven writes for the offloaded pod that every pod needs, and of which the admission differs. Events, bindings and later statuses are left out.
func (b *guardsBench) requests(ctx context.Context) ([]request, error) {
	here, err := only(ctx, b.rome, offloadedNamespace, client.MatchingLabels{"app": "bench"})
	if err != nil {
		return nil, err
	}
	var shadow offloadingv1beta1.ShadowPod
	if err := b.milan.Get(ctx, client.ObjectKey{Namespace: twinNamespace, Name: here.Name}, &shadow); err != nil {
		return nil, err
	}
	var there corev1.Pod
	if err := b.milan.Get(ctx, client.ObjectKey{Namespace: twinNamespace, Name: here.Name}, &there); err != nil {
		return nil, err
	}
	var tokens corev1.SecretList
	if err := b.milan.List(ctx, &tokens, client.InNamespace(twinNamespace), client.HasLabels{podrules.LabelServiceAccount}); err != nil {
		return nil, err
	}
	if len(tokens.Items) != 1 {
		return nil, fmt.Errorf("finding the Secret with the token of pod %s: there are %d, want one", here.Name, len(tokens.Items))
	}
	created := (place{b.rome, offloadedNamespace, on("milan")}).deployment(1).Spec.Template
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: offloadedNamespace, Name: here.Name, Labels: created.Labels}, Spec: created.Spec}
	there.Spec.NodeName = ""
	create := func(c *playground.Cluster, resource string, obj client.Object) request {
		copied := another(obj)
		return request{c, "create", resource, copied, admissionregistrationv1.Create, func(ctx context.Context, as user) error {
			return as.Create(ctx, copied.DeepCopyObject().(client.Object), client.DryRunAll)
		}}
	}
	status := func(c *playground.Cluster, of *corev1.Pod) request {
		return request{c, "patch", "pods/status", of, admissionregistrationv1.Update, func(ctx context.Context, as user) error {
			return as.Status().Patch(ctx, of.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"message":"measured"}}`)), &client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{DryRun: []string{metav1.DryRunAll}}})
		}}
	}
	return []request{
		create(b.rome, "pods", pod),
		status(b.rome, here),
		{b.rome, "create", "serviceaccounts/token", &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: offloadedNamespace}}, admissionregistrationv1.Create, func(ctx context.Context, as user) error {
			_, err := as.set.CoreV1().ServiceAccounts(offloadedNamespace).CreateToken(ctx, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}},
		create(b.milan, "secrets", &tokens.Items[0]),
		create(b.milan, "shadowpods", &shadow),
		create(b.milan, "pods", &there),
		status(b.milan, &there),
	}, nil
}

// another returns a copy of an object that can be created under another name.
func another(obj client.Object) client.Object {
	copied := obj.DeepCopyObject().(client.Object)
	copied.SetName(obj.GetName() + "x")
	copied.SetUID("")
	copied.SetResourceVersion("")
	copied.SetManagedFields(nil)
	return copied
}

// users returns the users that made each request of the audit log, by its verb and resource. If there were several, the last one counts.
func (b *guardsBench) users(ctx context.Context, c *playground.Cluster) (map[string]user, error) {
	events, err := b.events(ctx, c)
	if err != nil {
		return nil, err
	}
	names := map[string]rest.ImpersonationConfig{}
	for _, e := range events {
		if e.ObjectRef.Namespace == offloadedNamespace || e.ObjectRef.Namespace == twinNamespace {
			names[e.operation()] = rest.ImpersonationConfig{UserName: e.User.Username, Groups: e.User.Groups}
		}
	}
	all := map[string]user{}
	for operation, name := range names {
		cfg := rest.CopyConfig(c.Config)
		cfg.Impersonate = name
		var as user
		if as.Client, err = client.New(cfg, client.Options{Scheme: kube.NewScheme()}); err != nil {
			return nil, err
		}
		if as.set, err = kubernetes.NewForConfig(cfg); err != nil {
			return nil, err
		}
		all[operation] = as
	}
	return all, nil
}

// guardsOf returns the admission policies and webhooks of a cluster. Clusters of the bench have none of others.
func guardsOf(ctx context.Context, c *playground.Cluster) (map[string]selected, error) {
	var policies admissionregistrationv1.ValidatingAdmissionPolicyList
	var mutating admissionregistrationv1.MutatingWebhookConfigurationList
	var validating admissionregistrationv1.ValidatingWebhookConfigurationList
	for _, list := range []client.ObjectList{&policies, &mutating, &validating} {
		if err := c.List(ctx, list); err != nil {
			return nil, fmt.Errorf("reading the admission of cluster %s: %w", c.ID, err)
		}
	}
	all := map[string]selected{}
	for i := range policies.Items {
		by := policies.Items[i].Spec.MatchConstraints
		some := selected{namespaces: by.NamespaceSelector, object: by.ObjectSelector}
		for _, rule := range by.ResourceRules {
			some.rules = append(some.rules, rule.RuleWithOperations)
		}
		all[policies.Items[i].Name] = some
	}
	for i := range mutating.Items {
		for _, w := range mutating.Items[i].Webhooks {
			all[w.Name] = selected{w.Rules, w.NamespaceSelector, w.ObjectSelector}
		}
	}
	for i := range validating.Items {
		for _, w := range validating.Items[i].Webhooks {
			all[w.Name] = selected{w.Rules, w.NamespaceSelector, w.ObjectSelector}
		}
	}
	return all, nil
}

// selected are the requests that a policy or a webhook selects, by selectors of the namespace and of the object. Nil selects all.
type selected struct {
	rules              []admissionregistrationv1.RuleWithOperations
	namespaces, object *metav1.LabelSelector
}

// includes reports whether a request is selected. Its namespace has these labels.
func (s selected) includes(r request, namespace labels.Set) (bool, error) {
	ofNamespace, err := matches(s.namespaces, namespace)
	ofObject, invalid := matches(s.object, r.object.GetLabels())
	return ofNamespace && ofObject && slices.ContainsFunc(s.rules, func(rule admissionregistrationv1.RuleWithOperations) bool {
		return slices.Contains(rule.Resources, r.resource) && slices.Contains(rule.Operations, r.operation)
	}), errors.Join(err, invalid)
}

func matches(selector *metav1.LabelSelector, set labels.Set) (bool, error) {
	if selector == nil {
		return true, nil
	}
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && s.Matches(set), err
}

func (r *GuardsResult) print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "\nCPU of the API server for each write\ncluster\trequest\tms")
	for _, p := range parts {
		fmt.Fprint(table, "\t"+p.name)
	}
	fmt.Fprintln(table, "\tguards")
	for _, c := range r.Costs {
		fmt.Fprintf(table, "%s\t%s\t%.2f", c.Cluster, c.Request, c.CPU)
		for _, p := range parts {
			fmt.Fprintf(table, "\t%.0f %%", 100*c.Shares[p.name])
		}
		fmt.Fprintln(table, "\t"+strings.Join(c.Guards, ", "))
	}
	return table.Flush()
}
