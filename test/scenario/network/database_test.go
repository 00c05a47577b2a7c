package network

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/install"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

var (
	moveKills     = flag.Int("move-kills", 4, "how many moves of the database are killed, for TestDatabase")
	updateRefusal = flag.Bool("update", false, "write the refusals of TestDatabase to testdata/refusals.txt")
)

// database is the namespace and the name of the StatefulSet of TestDatabase.
const database = "database"

// TestDatabase keeps the data of a StatefulSet with one replica in each cluster whole, through everything that an administrator does over the years: drains,
// interrupted moves, a partition, installations that Helm removes from under the peering, retained volumes, attempts to end the offloading, the peering and the installation, and another installation.
func TestDatabase(t *testing.T) {
	w := story.New(t, story.Plan{Prefix: "database-", Pair: true, Images: []string{playground.VolumeMover}, ComparedOnce: true})
	w.Tell(t, "database", keepDatabase)
}

// replicasOnly selects the pods of the StatefulSet. The pods of an unfinished move are in the same namespace.
var replicasOnly = client.MatchingLabels{"app": database}

// databaseStory holds what the steps of TestDatabase know.
type databaseStory struct {
	*story.Story
	// sums are the checksums of the data, by claim.
	sums map[string]string
	// refusals are the texts of the commands that refused, in order.
	refusals []string
}

func keepDatabase(s *story.Story) {
	d := &databaseStory{Story: s, sums: map[string]string{}}
	rome, milan := s.Rome, s.Milan
	s.Step("a replica on each cluster, each with its data", func() {
		s.Offload(database)
		s.Must(rome.Create(s.Context(), statefulSet(rome.Node())))
		d.scaled(2)
		for _, pod := range s.Pods(rome, database, replicasOnly) {
			d.write(pod.Name)
		}
	})
	s.Step("milan drains rome, and lets it in again", func() {
		d.succeeds(milan, "liqoctl drain tenant rome")
		s.Eventually(90*time.Second, "rome's pod in milan to end", func(ctx context.Context) error {
			pods, err := s.TryPods(ctx, milan, story.Twin(database))
			if err == nil && len(pods) > 0 {
				err = fmt.Errorf("%v are left", story.Names(pods))
			}
			return err
		})
		d.succeeds(milan, "liqoctl activate tenant rome")
		d.whole()
	})
	s.Step("nothing ends the data unless it is asked to", func() {
		d.refused(rome, "liqoctl unoffload namespace database")
		d.refused(rome, "liqoctl unpeer --remote-kubeconfig "+milan.Kubeconfig)
		d.refused(milan, "liqoctl force unpeer rome")
		d.refused(rome, "liqoctl uninstall")
		d.refused(milan, "liqoctl uninstall")
		d.refused(rome, "liqoctl move volume "+d.claimIn("milan")+" --namespace database --target-node "+rome.Node())
		d.whole()
	})
	d.interruptedMoves()
	s.Step("a partition in which the pod in milan is deleted", func() {
		s.Must(s.Partition(s.Context(), rome, milan))
		s.Cleanup(func() {
			if err := s.Heal(background(s), rome, milan); err != nil {
				s.Error(err)
			}
		})
		s.NodeReady("milan", false, 2*time.Minute)
		d.succeeds(rome, "kubectl -n database delete pod -l app="+database+" --wait=false")
		s.Must(s.Heal(s.Context(), rome, milan))
		s.NodeReady("milan", true, 2*time.Minute)
		d.whole()
	})
	for _, c := range s.Clusters() {
		s.Step("helm removes the programs of "+c.ID+" from under the peering, and it is installed again", func() { d.reinstalled(c) })
	}
	s.Step("the claims are deleted, and their retained volumes are used again", func() { d.reuse() })
	s.Step("the data is moved home, and nothing is in the way of the end", func() {
		claim := d.claimIn("milan")
		d.scaled(0)
		d.succeeds(rome, "liqoctl move volume "+claim+" --namespace database --target-node "+rome.Node())
		d.succeeds(rome, "liqoctl unoffload namespace database")
		d.succeeds(rome, "liqoctl unpeer --remote-kubeconfig "+milan.Kubeconfig)
		s.Must(s.Uninstall(s.Context(), milan, true))
		d.refused(rome, "liqoctl uninstall")
	})
	s.Step("milan is installed and peered again, and the data is still there", func() {
		s.Must(s.Machine.Install(s.Context(), milan))
		s.Must(s.Machine.Peer(s.Context(), rome, milan))
		s.NodeReady("milan", true, start)
		d.succeeds(rome, "liqoctl offload namespace database")
		d.whole()
	})
	s.Step("milan has no room for another claim: the move is refused before the claim is replaced, and is cancelled", func() { d.fullProvider() })
	s.Step("the data in milan again: new claims bind after another installation", func() {
		d.scaled(0)
		d.succeeds(rome, "liqoctl move volume data-database-0 --namespace database --target-node milan")
		d.whole()
	})
	s.Step("each refusal names what is kept, and the cure", func() { d.compareRefusals() })
	s.Step("with --delete-volumes the data in milan ends", func() {
		d.scaled(0)
		d.succeeds(rome, "liqoctl unoffload namespace database --delete-volumes")
		s.Gone(milan, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: story.Twin(database)}}, start)
		d.succeeds(rome, "kubectl delete namespace database")
	})
}

// statefulSet returns a StatefulSet with a replica on the node and one in milan, unless a volume says where one runs.
func statefulSet(node string) *appsv1.StatefulSet {
	class, replicas := "liqo", int32(2)
	pod := story.PodOn("", database, database, playground.Shell, "sleep", "infinity")
	pod.Spec.NodeSelector = nil
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node, "milan"}},
		}}},
	}}}
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels},
	}}
	pod.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
		Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels}},
	}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: database, Name: database},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: database, PodManagementPolicy: appsv1.OrderedReadyPodManagement,
			Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{
					StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("32Mi")}},
				},
			}},
		},
	}
}

// run runs a command line as the administrator of a cluster. liqoctl asks no questions.
func (d *databaseStory) run(ctx context.Context, c *playground.Cluster, line string) error {
	if strings.HasPrefix(line, "liqoctl ") {
		line = "exec " + line + " --skip-confirm"
	}
	_, err := d.Shell(ctx, c, line)
	return err
}

// succeeds runs a command line that has to succeed.
func (d *databaseStory) succeeds(c *playground.Cluster, line string) {
	d.Helper()
	d.Must(d.run(d.Context(), c, line))
}

// refused runs a command line that has to fail, and records what it says.
func (d *databaseStory) refused(c *playground.Cluster, line string) {
	d.Helper()
	err := d.run(d.Context(), c, line)
	if err == nil {
		d.Fatalf("%s in %s was not refused", line, c.ID)
	}
	_, said, found := strings.Cut(err.Error(), "exit status 1: ")
	if !found {
		d.Must(err)
	}
	_, said, _ = strings.Cut(said, "ERRO") // what it waited for before depends on the time
	d.refusals = append(d.refusals, c.ID+"$ "+line+"\nERRO"+said)
}

// scaled sets the number of replicas, and waits until that many are Ready.
func (d *databaseStory) scaled(replicas int) {
	d.Helper()
	d.succeeds(d.Rome, fmt.Sprintf("kubectl -n database scale statefulset database --replicas=%d", replicas))
	d.Eventually(2*start, fmt.Sprintf("%d replicas to be Ready", replicas), func(ctx context.Context) error {
		var list corev1.PodList
		if err := d.Rome.List(ctx, &list, client.InNamespace(database), replicasOnly); err != nil {
			return err
		}
		ready := slices.DeleteFunc(slices.Clone(list.Items), func(p corev1.Pod) bool { return !story.Ready(p) })
		if len(list.Items) != replicas || len(ready) != replicas {
			return fmt.Errorf("%v exist, and %d of them are Ready", story.Names(list.Items), len(ready))
		}
		return nil
	})
}

// write fills the volume of a pod.
func (d *databaseStory) write(pod string) {
	d.Helper()
	d.sums["data-"+pod] = d.sum(pod, "dd if=/dev/urandom of=/data/file bs=64k count=64 2>/dev/null; sync; ")
}

func (d *databaseStory) sum(pod, before string) string {
	d.Helper()
	said := d.Exec(d.Rome, story.WebSocket, database, pod, "", "sh", "-c", before+"sha256sum /data/file")
	if said.Code != 0 || !strings.HasSuffix(said.Out, "  /data/file\n") {
		d.Fatalf("the checksum of %s: %+v", pod, said)
	}
	return strings.Fields(said.Out)[0]
}

// whole waits until both replicas are Ready, and fails unless each has its data.
func (d *databaseStory) whole() {
	d.Helper()
	d.scaled(2)
	for claim, want := range d.sums {
		if got := d.sum(strings.TrimPrefix(claim, "data-"), ""); got != want {
			d.Fatalf("the data of claim %s has checksum %s, want %s", claim, got, want)
		}
	}
}

// claimIn returns the claim whose data is on a node: that of the replica that runs there.
func (d *databaseStory) claimIn(node string) string {
	d.Helper()
	pods := d.Pods(d.Rome, database, replicasOnly)
	i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Spec.NodeName == node })
	if i < 0 {
		d.Fatalf("none of %v runs on %s", story.Names(pods), node)
	}
	return "data-" + pods[i].Name
}

// interruptedMoves kills liqoctl at random moments of a move, and scales the owner up and down before the move is continued. No pod starts on other data.
func (d *databaseStory) interruptedMoves() {
	seed := rand.Uint64()
	if *killSeed != 0 {
		seed = *killSeed
	}
	r := rand.New(rand.NewPCG(seed, 1))
	usual := 20 * time.Second
	claim, there := d.claimIn("milan"), true
	for n := range *moveKills {
		moment := time.Duration(r.Int64N(int64(usual)))
		target := d.Rome.Node()
		if !there {
			target = "milan"
		}
		d.Step(fmt.Sprintf("move %d to %s is killed after %.1f s (-kill-seed %d), and its owner is scaled up and down", n+1, target, moment.Seconds(), seed), func() {
			d.scaled(0)
			line := fmt.Sprintf("liqoctl move volume %s --namespace database --target-node %s", claim, target)
			ctx, kill := context.WithTimeout(d.Context(), moment)
			err := d.run(ctx, d.Rome, line)
			kill()
			if err == nil {
				fmt.Println("             the move ended before")
			}
			d.succeeds(d.Rome, "kubectl -n database scale statefulset database --replicas=2")
			d.Pause(3 * time.Second)
			for _, pod := range d.Pods(d.Rome, database, replicasOnly) {
				if want, found := d.sums["data-"+pod.Name]; found && story.Ready(pod) {
					if got := d.sum(pod.Name, ""); got != want {
						d.Fatalf("pod %s runs on other data: checksum %s, want %s", pod.Name, got, want)
					}
				}
			}
			d.scaled(0)
			began := time.Now()
			d.succeeds(d.Rome, line)
			usual = max(usual/2, time.Since(began))
			there = !there
			d.whole()
		})
	}
	if !there {
		d.Step("it moves back to milan", func() {
			d.scaled(0)
			d.succeeds(d.Rome, "liqoctl move volume "+claim+" --namespace database --target-node milan")
			d.whole()
		})
	}
}

// reinstalled removes the programs of a cluster with Helm, which knows nothing of peerings and data, and installs them again with the same cluster ID.
// The pod in milan is the same one before and after, with its data, and so is the next one.
func (d *databaseStory) reinstalled(c *playground.Cluster) {
	d.Helper()
	running := func() []types.UID {
		var uids []types.UID
		for _, pod := range d.Pods(d.Milan, story.Twin(database)) {
			uids = append(uids, pod.UID)
		}
		return uids
	}
	before := running()
	d.succeeds(c, filepath.Join(d.Root, "bin", "helm")+" uninstall "+install.Release+" --namespace "+api.Namespace+" --wait")
	d.Must(d.Machine.Install(d.Context(), c))
	d.NodeReady("milan", true, start)
	if after := running(); len(before) != 1 || !slices.Equal(after, before) {
		d.Fatalf("pods in milan with UIDs %v, and %v before", after, before)
	}
	d.whole()
	d.scaled(0)
	d.whole()
}

// reuse sets the policy of all volumes to Retain, deletes the StatefulSet with its claims, and claims the volumes again as the guide says.
func (d *databaseStory) reuse() {
	d.Helper()
	rome := d.Rome
	volumes := map[string]string{}
	for claim := range d.sums {
		var c corev1.PersistentVolumeClaim
		d.Must(rome.Get(d.Context(), client.ObjectKey{Namespace: database, Name: claim}, &c))
		volumes[claim] = c.Spec.VolumeName
		d.succeeds(rome, "kubectl patch pv "+c.Spec.VolumeName+` --patch '{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}'`)
	}
	d.succeeds(rome, "kubectl -n database delete statefulset database --cascade=foreground")
	d.succeeds(rome, "kubectl -n database delete persistentvolumeclaims --all")
	d.refused(rome, "liqoctl unoffload namespace database")
	d.refused(rome, "liqoctl unpeer --remote-kubeconfig "+d.Milan.Kubeconfig)
	// A user who may do everything in another namespace claims the volumes before their owner does.
	d.succeeds(rome, "kubectl create namespace neighbour && kubectl -n neighbour create rolebinding mallory --clusterrole=admin --user=mallory")
	for claim, volume := range volumes {
		d.succeeds(rome, "kubectl wait --for=jsonpath={.status.phase}=Released --timeout=60s pv "+volume)
		d.succeeds(rome, claiming("--as mallory", "neighbour", claim, volume))
		d.succeeds(rome, "kubectl patch pv "+volume+" --type merge --patch "+
			`'{"spec":{"claimRef":{"namespace":"database","name":"`+claim+`","uid":null,"resourceVersion":null}}}'`)
		d.succeeds(rome, "kubectl wait --for=jsonpath={.status.phase}=Available --timeout=60s pv "+volume)
		d.succeeds(rome, claiming("", database, claim, volume))
		d.succeeds(rome, "kubectl -n database wait --for=jsonpath={.status.phase}=Bound --timeout=60s pvc "+claim)
		d.succeeds(rome, "kubectl -n neighbour wait --for=jsonpath={.status.phase}=Pending --timeout=10s pvc "+claim)
	}
	d.succeeds(rome, "kubectl delete namespace neighbour")
	d.Must(rome.Create(d.Context(), statefulSet(rome.Node())))
	d.whole()
	for _, volume := range volumes {
		d.succeeds(rome, "kubectl patch pv "+volume+` --patch '{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}'`)
	}
}

// claiming returns the command line by which somebody creates a claim of a volume.
func claiming(who, namespace, claim, volume string) string {
	return "kubectl " + who + ` apply -f - <<EOF
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: ` + claim + `, namespace: ` + namespace + `}
spec:
  storageClassName: liqo
  volumeName: ` + volume + `
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 32Mi}}
EOF`
}

// fullProvider tries to move a claim into a provider whose ResourceQuota is used up. The claim keeps its volume and its UID.
func (d *databaseStory) fullProvider() {
	d.Helper()
	const claim = "data-database-0"
	is := func() (out [2]string) {
		var c corev1.PersistentVolumeClaim
		d.Must(d.Rome.Get(d.Context(), client.ObjectKey{Namespace: database, Name: claim}, &c))
		return [2]string{string(c.UID), c.Spec.VolumeName}
	}
	before := is()
	full := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: story.Twin(database), Name: "full"}, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{corev1.ResourcePersistentVolumeClaims: resource.MustParse("0")},
	}}
	d.Must(d.Milan.Create(d.Context(), full))
	d.Eventually(time.Minute, "Kubernetes to know the ResourceQuota", func(ctx context.Context) error {
		if err := d.Milan.Get(ctx, client.ObjectKeyFromObject(full), full); err != nil {
			return err
		}
		if len(full.Status.Hard) == 0 {
			return fmt.Errorf("its status is empty")
		}
		return nil
	})
	d.scaled(0)
	d.refused(d.Rome, "liqoctl move volume "+claim+" --namespace database --target-node milan")
	if after := is(); after != before {
		d.Fatalf("the claim has UID and volume %q, and %q before", after, before)
	}
	d.succeeds(d.Rome, "liqoctl move volume "+claim+" --namespace database --target-node "+d.Rome.Node())
	d.whole()
	d.Must(d.Milan.Delete(d.Context(), full))
}

// changing matches what differs between two runs: UIDs, paths of kubeconfigs, and which of the replicas is in which cluster.
var changing = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|/\S+\.kubeconfig|database-[01]\b`)

// sortedItems sorts the items of each list: which of two claims comes first depends on which of them is in milan.
func sortedItems(text string) string {
	lines := strings.Split(text, "\n")
	item := func(i int) bool { return i < len(lines) && strings.HasPrefix(strings.TrimSpace(lines[i]), "- ") }
	for i := 0; i < len(lines); i++ {
		end := i
		for item(end) {
			end++
		}
		if end > i {
			slices.Sort(lines[i:end])
			i = end
		}
	}
	return strings.Join(lines, "\n")
}

// compareRefusals compares the texts of all refusals with testdata/refusals.txt.
func (d *databaseStory) compareRefusals() {
	d.Helper()
	file := filepath.Join("testdata", "refusals.txt")
	got := sortedItems(changing.ReplaceAllString(strings.Join(d.refusals, "\n\n")+"\n", "..."))
	if *updateRefusal {
		d.Must(os.MkdirAll("testdata", 0o755))
		d.Must(os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	d.Must(err)
	if got != string(want) {
		d.Errorf("the refusals are\n%s\nwant those in %s:\n%s", got, file, want)
	}
}
