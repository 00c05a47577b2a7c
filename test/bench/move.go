package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/playground"
)

// movedBytes is the amount of data in a volume that is moved.
const movedBytes = 1 << 30

// moveTarget is the target for the rate of a move, as a fraction of the rate of a TCP stream.
const moveTarget = 0.8

// shapes are commands that write movedBytes to /data, by a name for the content.
var shapes = map[string]string{
	"one file":     "dd if=/dev/urandom of=/data/file bs=1M count=1024",
	"20,000 files": "cd /data && dd if=/dev/urandom of=/tmp/part bs=53687 count=1 && i=0 && while [ $i -lt 20000 ]; do mkdir -p $((i / 200)) && { echo $i; cat /tmp/part; } | head -c 53687 >$((i / 200))/$i; i=$((i + 1)); done",
}

// moveBench measures how fast liqoctl moves a volume from rome to milan, compared with a TCP stream between pods of the two clusters.
type moveBench struct{ bench }

// MoveResult is the result of moveBench.
type MoveResult struct {
	Moves []Move `json:"moves"`
	// Reached reports whether all targets were reached.
	Reached bool `json:"reached"`
}

// Move is one move of a volume. Rates are in bytes per second.
type Move struct {
	Shape   string  `json:"shape"`
	Files   int64   `json:"files"`
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
	// Phases are the seconds of each phase of the move, in their order.
	Phases []MovePhase `json:"phases"`
	// Stream is the rate of a TCP stream between pods of the two clusters: the mean of one measurement before and one after the move.
	Stream float64 `json:"streamBytesPerSecond"`
	// Ratio is the rate of the move divided by the rate of the stream. The move includes the start of its pods and the checksums.
	Ratio float64 `json:"ratio"`
}

// MovePhase is a phase of a move.
type MovePhase struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// run runs the whole benchmark. It deletes the clusters before it returns.
func (b *moveBench) run(ctx context.Context) (*MoveResult, error) {
	return onMachine(ctx, &b.machine, b.remove, b.measureAll)
}

func (b *moveBench) measureAll(ctx context.Context) (result *MoveResult, err error) {
	if err := b.clusters(ctx); err != nil {
		return nil, err
	}
	path, err := b.stream(ctx)
	if err != nil {
		return nil, err
	}
	result = &MoveResult{Reached: true}
	for shape, command := range shapes {
		before, err := path.measure(ctx)
		if err != nil {
			return nil, err
		}
		m, err := b.move(ctx, strings.NewReplacer(" ", "-", ",", "").Replace(shape), command)
		if err != nil {
			return nil, err
		}
		after, err := path.measure(ctx)
		if err != nil {
			return nil, err
		}
		m.Shape, m.Stream = shape, (before.BitsPerSecond+after.BitsPerSecond)/2/8
		m.Ratio = float64(m.Bytes) / m.Seconds / m.Stream
		report("%s: %.0f s, %.2f of a TCP stream", shape, m.Seconds, m.Ratio)
		result.Moves = append(result.Moves, *m)
		result.Reached = result.Reached && m.Ratio >= moveTarget
	}
	return result, nil
}

// stream starts a pod in each cluster, and returns the path between them.
func (b *moveBench) stream(ctx context.Context) (*path, error) {
	n := networkBench{}
	for name, node := range map[string]string{"near": b.rome.Node(), "far": b.milan.ID} {
		if err := b.rome.Create(ctx, networkPod(offloadedNamespace, name, node)); err != nil {
			return nil, err
		}
	}
	near, err := n.ready(ctx, b.rome, offloadedNamespace, "near")
	if err != nil {
		return nil, err
	}
	far, err := n.ready(ctx, b.rome, offloadedNamespace, "far")
	if err != nil {
		return nil, err
	}
	from, err := playground.In(near)
	if err != nil {
		return nil, err
	}
	return &path{kind: Overlapping, from: from, address: far.Status.PodIP + ":" + streamPort}, nil
}

// move creates a volume in rome, fills it, and moves it to milan. command fills the volume.
func (b *moveBench) move(ctx context.Context, name, command string) (*Move, error) {
	class := "liqo"
	if err := b.rome.Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: offloadedNamespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1200Mi")}},
		},
	}); err != nil {
		return nil, err
	}
	if err := b.fill(ctx, name, command); err != nil {
		return nil, err
	}
	began := time.Now()
	said, err := b.machine.Liqoctl(ctx, "move", "volume", name, "--namespace", offloadedNamespace, "--node", b.milan.ID, "--kubeconfig", b.rome.Kubeconfig,
		"--timeout", "20m", "-o", "json")
	if err != nil {
		return nil, err
	}
	return phases(said, time.Since(began))
}

// phases parses the output of "liqoctl move volume -o json".
func phases(said string, took time.Duration) (*Move, error) {
	m := &Move{Seconds: took.Seconds()}
	var since time.Time
	for line := range strings.Lines(said) {
		var progress struct {
			Time         time.Time
			Phase        string
			Bytes, Files int64
		}
		if err := json.Unmarshal([]byte(line), &progress); err != nil {
			return nil, fmt.Errorf("reading the progress of a move: %w: %s", err, line)
		}
		if last := len(m.Phases) - 1; last >= 0 {
			m.Phases[last].Seconds += progress.Time.Sub(since).Seconds()
		}
		if since = progress.Time; len(m.Phases) == 0 || m.Phases[len(m.Phases)-1].Name != progress.Phase {
			m.Phases = append(m.Phases, MovePhase{Name: progress.Phase})
		}
		if progress.Phase == "done" {
			m.Bytes, m.Files = progress.Bytes, progress.Files
		}
	}
	if m.Bytes < movedBytes*9/10 {
		return nil, fmt.Errorf("the move of %d bytes says at its end that it moved %d", movedBytes, m.Bytes)
	}
	return m, nil
}

// fill runs a command in a pod of rome with the volume at /data.
func (b *moveBench) fill(ctx context.Context, claim, command string) error {
	pod := networkPod(offloadedNamespace, "fill-"+claim, b.rome.Node())
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	c := &pod.Spec.Containers[0]
	c.Image, c.ReadinessProbe, c.Command = playground.Shell, nil, []string{"sh", "-c", command + " && sync"}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}}
	if err := b.rome.Create(ctx, pod); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Minute, fmt.Errorf("pod %s does not end", pod.Name))
	defer cancel()
	for {
		if err := b.rome.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		switch pod.Status.Phase {
		case corev1.PodSucceeded:
			return b.rome.Delete(ctx, pod)
		case corev1.PodFailed:
			return fmt.Errorf("pod %s failed: %v", pod.Name, pod.Status.ContainerStatuses)
		}
		if !pause(ctx, 200*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
}

// print prints a table with the result.
func (r *MoveResult) print(out io.Writer) error {
	slices.SortFunc(r.Moves, func(a, b Move) int { return strings.Compare(a.Shape, b.Shape) })
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\nvolume of 1 GiB\tfiles\tseconds\tMB/s\tTCP stream, MB/s\tratio (want %.1f)\tphases\n", moveTarget)
	for _, m := range r.Moves {
		var parts []string
		for _, phase := range m.Phases {
			parts = append(parts, fmt.Sprintf("%s %.1f s", phase.Name, phase.Seconds))
		}
		fmt.Fprintf(w, "%s\t%d\t%.0f\t%.1f\t%.1f\t%.2f\t%s\n", m.Shape, m.Files, m.Seconds, float64(m.Bytes)/m.Seconds/1e6, m.Stream/1e6, m.Ratio, strings.Join(parts, ", "))
	}
	return w.Flush()
}
