package network

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

var (
	kills    = flag.Int("kills", 30, "how many moves of a volume are disturbed, for TestDisturbedMoves")
	killSeed = flag.Uint64("kill-seed", 0, "the seed of when and what, for TestDisturbedMoves; 0: one that is printed")
)

// cutFor is how long the tunnel is cut in the middle of a move.
const cutFor = 20 * time.Second

// TestDisturbedMoves moves a volume between three clusters, and disturbs each move at a random moment. Whatever the result of the first command, the second
// command succeeds. Every file is then unchanged and in one cluster only, and nothing else of the move is left.
func TestDisturbedMoves(t *testing.T) {
	w := story.New(t, story.Plan{Prefix: "kills-", Images: []string{playground.VolumeMover}})
	w.Tell(t, "disturbed", disturbed)
}

// disturbance is a fault in the middle of a move.
type disturbance struct {
	name string
	// do disturbs a move between two nodes. It returns false if the object to disturb does not exist at the moment.
	do func(s *story.Story, from, to string, stop context.CancelFunc) bool
}

var disturbances = []disturbance{
	{"liqoctl is killed", func(_ *story.Story, _, _ string, stop context.CancelFunc) bool { stop(); return true }},
	{"the sender is killed", func(s *story.Story, _, _ string, _ context.CancelFunc) bool { return killMover(s, "sender") }},
	{"the store is killed", func(s *story.Story, _, _ string, _ context.CancelFunc) bool { return killMover(s, "store") }},
	{"the receiver is killed", func(s *story.Story, _, _ string, _ context.CancelFunc) bool { return killMover(s, "receiver") }},
	{"the virtual kubelet of the source is killed", func(s *story.Story, from, _ string, _ context.CancelFunc) bool { return killKubelet(s, from) }},
	{"the virtual kubelet of the target is killed", func(s *story.Story, _, to string, _ context.CancelFunc) bool { return killKubelet(s, to) }},
	{"the tunnel is cut for 20 s", func(s *story.Story, from, to string, _ context.CancelFunc) bool { return cut(s, from, to) }},
}

// disturbed moves the volume from cluster to cluster.
func disturbed(s *story.Story) {
	seed := *killSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	fmt.Printf("             -kill-seed %d\n", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	rome := s.Rome
	places := []string{"milan", "naples", rome.Node()}
	at := rome.Node()
	var want string
	s.Step("a volume of rome with files of each kind", func() {
		s.Offload(moved)
		class := "liqo"
		s.Must(rome.Create(s.Context(), &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: moved, Name: "data", Labels: map[string]string{"kept": "yes"}},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("128Mi")}},
			},
		}))
		want = look(s, at, strings.Replace(fill, "count=64", "count=1024", 1)+" && "+list)
	})
	var usual time.Duration
	for i, target := range places {
		s.Step("it moves to "+target+", undisturbed", func() {
			began := time.Now()
			_, err := moving(s, target)
			s.Must(err)
			usual = max(usual, time.Since(began))
			at = places[i]
		})
	}
	counts := map[string]int{}
	for n := range *kills {
		what := disturbances[n%len(disturbances)]
		for done := false; !done; {
			others := slices.DeleteFunc(slices.Clone(places), func(place string) bool { return place == at })
			target := others[r.IntN(len(others))]
			moment := time.Duration(r.Int64N(int64(usual)))
			s.Step(fmt.Sprintf("%d: from %s to %s, %s after %.1f s", n+1, at, target, what.name, moment.Seconds()), func() {
				if what.possible(at, target) {
					done = disturb(s, what, at, target, moment)
				}
				_, err := moving(s, target)
				s.Must(err) // there is no move to resume if the first command has completed it
				if got := look(s, target, list); got != want {
					s.Fatalf("the files were\n%s\nand are\n%s", want, got)
				}
				nowhereElse(s, target)
				nothingOfMoves(s)
				at = target
			})
		}
		counts[what.name]++
	}
	fmt.Printf("             %v\n", counts)
}

// possible reports whether the object to disturb can exist for a move between two nodes: a cluster has no virtual kubelet for itself.
func (d disturbance) possible(from, to string) bool {
	remote := func(node string) bool { return node == "milan" || node == "naples" }
	return (!strings.Contains(d.name, "of the source") || remote(from)) && (!strings.Contains(d.name, "of the target") || remote(to))
}

// disturb runs the command and disturbs it at that moment. It returns false if the command had ended before.
func disturb(s *story.Story, what disturbance, from, target string, moment time.Duration) bool {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := s.Liqoctl(ctx, "move", "volume", "data", "--namespace", moved, "--node", target, "--kubeconfig", s.Rome.Kubeconfig, "--timeout", "3m", "-o", "json")
		ended <- err
	}()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); ; {
		select {
		case err := <-ended:
			s.Must(err)
			fmt.Println("             the move ended before")
			return false
		case <-tick.C:
		}
		if time.Since(began) >= moment && what.do(s, from, target, cancel) {
			break
		}
	}
	err := <-ended
	first := "ended well"
	if err != nil {
		text := strings.TrimSpace(err.Error())
		first = fmt.Sprintf("ended with %.200s", text[strings.LastIndex(text, "\n")+1:])
	}
	fmt.Printf("             the first command %s\n", first)
	if strings.HasPrefix(what.name, "the virtual kubelet") { // a new pod is restarted without the growing delay of the old one
		node := from
		if strings.HasSuffix(what.name, "target is killed") {
			node = target
		}
		s.Must(s.Rome.DeleteAllOf(s.Context(), &corev1.Pod{}, client.InNamespace(api.TenantNamespace(node)), client.HasLabels{api.LabelVirtualNode}))
		s.NodeReady(node, true, time.Minute)
	}
	return true
}

// killMover kills the processes of the move's pod with that role, in the cluster where it runs.
func killMover(s *story.Story, role string) bool {
	s.Helper()
	for _, c := range s.Clusters() {
		var pods corev1.PodList
		s.Must(c.List(s.Context(), &pods, client.MatchingLabels{"storage.liqo.io/move-role": role}))
		for i := range pods.Items {
			// The virtual kubelet's copy of the pod has no process.
			if pids, err := playground.Processes(&pods.Items[i]); err == nil && len(pids) > 0 {
				return playground.Kill(pids...) == nil
			}
		}
	}
	return false
}

func killKubelet(s *story.Story, node string) bool {
	s.Helper()
	for _, pod := range s.Pods(s.Rome, api.TenantNamespace(node), client.HasLabels{api.LabelVirtualNode}) {
		if pids, err := playground.Processes(&pod); err == nil && len(pids) > 0 {
			return playground.Kill(pids...) == nil
		}
	}
	return false
}

// cut interrupts rome's tunnel to one of the providers for cutFor.
func cut(s *story.Story, from, to string) bool {
	s.Helper()
	provider := s.Milan
	if from != provider.ID && to != provider.ID || from == "naples" {
		provider = s.Naples
	}
	s.Must(s.Partition(s.Context(), s.Rome, provider))
	defer func() { s.Must(s.Heal(background(s), s.Rome, provider)) }()
	s.Pause(cutFor)
	return true
}

// nothingOfMoves waits until no cluster has any object of a move.
func nothingOfMoves(s *story.Story) {
	s.Helper()
	s.Eventually(start, "all objects of the move to be gone", func(ctx context.Context) error {
		for _, c := range s.Clusters() {
			for _, list := range []client.ObjectList{
				&corev1.PodList{}, &corev1.SecretList{}, &corev1.ServiceList{}, &corev1.PersistentVolumeClaimList{}, &corev1.PersistentVolumeList{},
			} {
				if err := c.List(ctx, list, client.HasLabels{"storage.liqo.io/move"}); err != nil {
					return err
				}
				if left := names(list); len(left) > 0 {
					return fmt.Errorf("%s has %v", c.ID, left)
				}
			}
		}
		return nil
	})
}

// names returns the namespaces and names of the objects of a list.
func names(list client.ObjectList) []string {
	objects, err := apimeta.ExtractList(list)
	if err != nil {
		return []string{err.Error()}
	}
	var out []string
	for _, object := range objects {
		if o, ok := object.(client.Object); ok {
			out = append(out, fmt.Sprintf("%T %s/%s", o, o.GetNamespace(), o.GetName()))
		}
	}
	return out
}
