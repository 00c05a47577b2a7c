package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/offload/kinds"
	"liqo.io/liqo/internal/storage"
	"liqo.io/liqo/test/playground"
)

// The promised limit for the time until a pod with a new claim runs on a virtual node: a factor for the time of the same pod in the provider, plus a
// constant.
const (
	claimFactor = 1.2
	claimAddend = 1.0
	claimRounds = 5
)

// claimBench measures how long a pod with a new claim takes to start on a virtual node, compared with the same pod in the provider.
type claimBench struct{ bench }

// ClaimResult is the result of claimBench.
type ClaimResult struct {
	Rounds []ClaimRound `json:"rounds"`
	// Offloaded and Direct are the medians in seconds. Limit is the maximum for Offloaded.
	Offloaded float64 `json:"offloadedSeconds"`
	Direct    float64 `json:"directSeconds"`
	Limit     float64 `json:"limitSeconds"`
	Reached   bool    `json:"reached"`
}

// ClaimRound is the measurement of one pod with a claim. Steps are in the order of time.
type ClaimRound struct {
	Kind    Kind        `json:"kind"`
	Seconds float64     `json:"seconds"`
	Idle    float64     `json:"idleBefore"`
	Steps   []ClaimStep `json:"steps"`
}

// ClaimStep is an observed event, with the time since the claim was created.
type ClaimStep struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// steps records the observed events since the watches of a round began. Only events of objects of this round count, because objects of an earlier
// round may still be changing.
type steps struct {
	ended chan struct{}

	mu   sync.Mutex
	seen []observation
	// own are the UIDs of the objects of the round, nil until its claim and pod are created.
	own map[types.UID]bool
}

// observation is an event of the object with the given uid. of is the UID of the object that it was created for. For a claim or a pod of the round,
// of is the object's own UID.
type observation struct {
	name    string
	uid, of types.UID
	at      time.Time
}

func (s *steps) observe(name string, uid, of types.UID, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, observation{name, uid, of, now})
	s.update()
}

// start sets the claim and the pod of the round. Events of both may have been observed before.
func (s *steps) start(uids ...types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own = map[types.UID]bool{}
	for _, uid := range uids {
		s.own[uid] = true
	}
	s.update()
}

// update adds the objects that were created for objects of the round, and ends the round at its last step. The caller holds the lock.
func (s *steps) update() {
	if s.own == nil {
		return
	}
	for before := -1; before != len(s.own); {
		before = len(s.own)
		for _, o := range s.seen {
			if s.own[o.of] {
				s.own[o.uid] = true
			}
		}
	}
	last := slices.ContainsFunc(s.seen, func(o observation) bool { return o.name == running && s.own[o.uid] })
	select {
	case <-s.ended:
	default:
		if last {
			close(s.ended)
		}
	}
}

// since returns the steps of the round in the order of time, up to the last step. Each step has the time of its first observation.
func (s *steps) since(began time.Time) []ClaimStep {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []ClaimStep
	for _, o := range s.seen {
		if !s.own[o.uid] || slices.ContainsFunc(out, func(step ClaimStep) bool { return step.Name == o.name }) {
			continue
		}
		if out = append(out, ClaimStep{o.name, o.at.Sub(began).Seconds()}); o.name == running {
			break
		}
	}
	return out
}

// running is the name of the last step.
const running = "the pod runs"

// watch records events of the claims and pods of a namespace, and of volumes for its claims. suffix distinguishes the clusters in the names of steps.
// last means that this is the cluster of the measured pod.
func (s *steps) watch(ctx context.Context, c *playground.Cluster, namespace, suffix string, last bool) error {
	set, err := frugal(c)
	if err != nil {
		return err
	}
	see := func(obj any) {
		now := time.Now()
		record := func(name string, uid, of types.UID) { s.observe(name, uid, of, now) }
		switch o := obj.(type) {
		case *corev1.PersistentVolumeClaim:
			of := cmp.Or(storage.BackingUID(o), o.UID)
			record("a claim exists"+suffix, o.UID, of)
			if o.Annotations[storage.AnnotationSelectedNode] != "" {
				record("its node is selected"+suffix, o.UID, of)
			}
			if o.Status.Phase == corev1.ClaimBound {
				record("the claim is bound"+suffix, o.UID, of)
			}
		case *corev1.PersistentVolume:
			if o.Spec.ClaimRef != nil && o.Spec.ClaimRef.Namespace == namespace {
				record("a volume exists"+suffix, o.UID, o.Spec.ClaimRef.UID)
			}
		case *corev1.Pod:
			of := cmp.Or(types.UID(o.Annotations[kinds.AnnotationLocalUID]), o.UID)
			record("a pod exists"+suffix, o.UID, of)
			if o.Spec.NodeName != "" {
				record("the pod is scheduled"+suffix, o.UID, of)
			}
			if o.Status.Phase == corev1.PodRunning {
				record(map[bool]string{true: running, false: running + suffix}[last], o.UID, of)
			}
		}
	}
	own := informers.NewSharedInformerFactoryWithOptions(set, 0, informers.WithNamespace(namespace))
	all := informers.NewSharedInformerFactory(set, 0)
	for _, informer := range []cache.SharedIndexInformer{
		own.Core().V1().PersistentVolumeClaims().Informer(), own.Core().V1().Pods().Informer(), all.Core().V1().PersistentVolumes().Informer(),
	} {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, obj any) { see(obj) }}); err != nil {
			return err
		}
	}
	for _, factory := range []informers.SharedInformerFactory{own, all} {
		factory.StartWithContext(ctx)
		factory.WaitForCacheSync(ctx.Done())
	}
	return context.Cause(ctx)
}

// run runs the whole benchmark. It deletes the clusters before it returns.
func (b *claimBench) run(ctx context.Context) (result *ClaimResult, err error) {
	dir, err := os.MkdirTemp("", "liqo-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if b.machine, err = playground.Find(dir); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.remove(context.WithoutCancel(ctx))) }()
	if err := b.clusters(ctx); err != nil {
		return nil, err
	}
	result = &ClaimResult{}
	for i := range 1 + claimRounds {
		order := []Kind{Direct, Offloaded}
		if i%2 == 1 {
			slices.Reverse(order)
		}
		for _, kind := range order {
			r, err := b.round(ctx, kind, fmt.Sprintf("claim-%d", i))
			if err != nil {
				return nil, err
			}
			report("%s: %.2f s, with the machine %.0f %% idle before", r.Kind, r.Seconds, 100*r.Idle)
			if i > 0 { // ignore the first rounds, which load images
				result.Rounds = append(result.Rounds, *r)
			}
		}
	}
	result.conclude()
	return result, nil
}

// round creates a claim and its pod, and waits until the pod runs.
func (b *claimBench) round(ctx context.Context, kind Kind, name string) (*ClaimRound, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Minute, fmt.Errorf("%s: the pod with claim %s does not run", kind, name))
	defer cancel()
	r := &ClaimRound{Kind: kind}
	var err error
	if r.Idle, err = quiet(ctx, min(b.patience, time.Minute)); err != nil {
		return nil, err
	}
	cluster, namespace, node, class := b.rome, offloadedNamespace, b.milan.ID, "liqo"
	s := &steps{ended: make(chan struct{})}
	if kind == Direct {
		cluster, namespace, node, class = b.milan, directNamespace, b.milan.Node(), ""
	} else if err := s.watch(ctx, b.milan, twinNamespace, " in the provider", false); err != nil {
		return nil, err
	}
	if err := s.watch(ctx, cluster, namespace, "", true); err != nil {
		return nil, err
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("16Mi")}},
		},
	}
	if class != "" {
		claim.Spec.StorageClassName = &class
	}
	pod := networkPod(namespace, name, node)
	grace := int64(1)
	c := &pod.Spec.Containers[0]
	c.ReadinessProbe, c.VolumeMounts, pod.Spec.TerminationGracePeriodSeconds = nil, []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}, &grace
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
	}}}
	began := time.Now()
	for _, obj := range []client.Object{claim, pod} {
		if err := cluster.Create(ctx, obj); err != nil {
			return nil, err
		}
	}
	s.start(claim.UID, pod.UID)
	select {
	case <-s.ended:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	r.Steps = s.since(began)
	r.Seconds = r.Steps[len(r.Steps)-1].Seconds
	for _, obj := range []client.Object{pod, claim} {
		if err := cluster.Delete(ctx, obj); err != nil {
			return nil, err
		}
	}
	for {
		switch err := cluster.Get(ctx, client.ObjectKeyFromObject(claim), claim); {
		case apierrors.IsNotFound(err):
			return r, nil
		case err != nil:
			return nil, err
		case !pause(ctx, 200*time.Millisecond):
			return nil, context.Cause(ctx)
		}
	}
}

func (r *ClaimResult) conclude() {
	r.Offloaded, r.Direct = r.median(Offloaded), r.median(Direct)
	r.Limit = claimFactor*r.Direct + claimAddend
	r.Reached = r.Offloaded <= r.Limit
}

func (r *ClaimResult) median(kind Kind) float64 {
	var all []float64
	for _, round := range r.Rounds {
		if round.Kind == kind {
			all = append(all, round.Seconds)
		}
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// print prints a table with the result, and the steps of each round.
func (r *ClaimResult) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\na pod with a new claim, median of %d\toffloaded\tdirectly\tlimit (%.1f times and %.0f s)\treached\n", claimRounds, claimFactor, claimAddend)
	fmt.Fprintf(w, "\t%.2f s\t%.2f s\t%.2f s\t%t\n", r.Offloaded, r.Direct, r.Limit, r.Reached)
	for _, round := range r.Rounds {
		var parts []string
		for _, step := range round.Steps {
			parts = append(parts, fmt.Sprintf("%.2f %s", step.Seconds, step.Name))
		}
		fmt.Fprintf(w, "%s\t%.2f s\t\t\t\t%s\n", round.Kind, round.Seconds, strings.Join(parts, ", "))
	}
	return w.Flush()
}
