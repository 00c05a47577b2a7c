package network

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/storage/mover"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// moved is the namespace of the volume that moves.
const moved = "moved"

// fill is a command that writes files of each kind.
const fill = `cd /data && mkdir -p deep/er empty && chmod 2750 deep && dd if=/dev/urandom of=deep/er/random bs=64k count=64 2>/dev/null &&
echo text > plain && chmod 4711 plain && chown 1234:5678 plain && ln plain same && ln -s ../plain deep/link && ln -s nowhere dangling && mkfifo pipe &&
truncate -s 8M sparse && i=0 && while [ $i -lt 200 ]; do echo $i > "deep/file $i"; i=$((i + 1)); done &&
touch -d '2001-02-03 04:05:06' plain deep/er empty && touch -h -d '2002-03-04 05:06:07' dangling && sync`

// list is a command that prints name, type and mode, owner, size, number of links and time of each file, the targets of links, and all checksums. It omits the
// size of directories, which depends on the file system.
const list = `cd /data && find . ! -path './lost+found*' | sort | while IFS= read -r f; do
if [ -d "$f" ]; then stat -c '%n %f %u %g %Y' "$f"; else stat -c '%n %f %u %g %s %h %Y' "$f"; fi
[ ! -L "$f" ] || readlink "$f"
[ ! -f "$f" ] || [ -L "$f" ] || sha256sum "$f"
done`

// move: a volume moves from rome to milan, on to naples and back to rome. After each move, all files are unchanged, and no other cluster has any of its data.
func move(s *story.Story) {
	rome := s.Rome
	s.Step("the engine keeps attributes, ACLs and holes", func() { engine(s) })
	s.Step("a volume of rome with files of each kind", func() {
		s.Offload(moved)
		class := "liqo"
		s.Must(rome.Create(s.Context(), &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: moved, Name: "data", Labels: map[string]string{"kept": "yes"}},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("64Mi")}},
			},
		}))
	})
	worker := rome.Worker(2)
	want := look(s, worker, fill+" && "+list)
	if strings.Count(want, "\n") < 400 {
		s.Fatalf("only these files were written:\n%s", want)
	}
	s.Step("a mounted volume is not moved", func() {
		s.Must(rome.Create(s.Context(), mounting(worker, "sleep", "infinity")))
		s.PodReady(rome, moved, "shell", 2*start)
		said, err := moving(s, "milan")
		if err == nil || !strings.Contains(said, "is mounted by pods shell") {
			s.Errorf("it says %q and ends with %v", said, err)
		}
		end(s)
	})
	s.Step("a claim of that name in milan stays as it is", func() { occupied(s) })
	for _, target := range []string{"milan", "naples", worker} {
		s.Step("it moves to "+target, func() {
			said, err := moving(s, target)
			s.Must(err)
			lines := strings.Split(strings.TrimSpace(said), "\n")
			var last struct {
				Phase, Checksum string
				Files           int
			}
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Phase != "done" || last.Checksum == "" || last.Files < 200 {
				s.Errorf("the last line of\n%s\nis %+v, %v", said, last, err)
			}
		})
		s.Step("a pod on "+target+" finds each file as it was", func() {
			if got := look(s, target, list); got != want {
				s.Errorf("the files were\n%s\nand are\n%s", want, got)
			}
		})
		s.Step("nothing of it is elsewhere", func() { nowhereElse(s, target) })
	}
}

// occupied moves the volume to milan, where a user already has a claim of the same name. The command reports that claim. No pod mounts it, and the claim in
// rome is not replaced. A later command resumes the move once the name is free.
func occupied(s *story.Story) {
	s.Helper()
	key, class := client.ObjectKey{Namespace: moved, Name: "data"}, "standard"
	var before, after corev1.PersistentVolumeClaim
	s.Must(s.Rome.Get(s.Context(), key, &before))
	theirs := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: story.Twin(moved), Name: "data"}, Spec: before.Spec}
	theirs.Spec.VolumeName, theirs.Spec.StorageClassName = "", &class
	s.Must(s.Milan.Create(s.Context(), theirs))
	said, err := moving(s, "milan")
	if err == nil || !strings.Contains(said+err.Error(), "PersistentVolumeClaim data in namespace "+story.Twin(moved)+" of cluster milan was not created by this move") {
		s.Errorf("it says %q and ends with %v", said, err)
	}
	s.Must(s.Milan.Get(s.Context(), client.ObjectKeyFromObject(theirs), theirs))
	if theirs.Status.Phase != corev1.ClaimPending || theirs.DeletionTimestamp != nil {
		s.Errorf("the claim of a user of milan was used: %+v", theirs)
	}
	if s.Must(s.Rome.Get(s.Context(), key, &after)); after.UID != before.UID {
		s.Errorf("the claim was replaced: %+v", after)
	}
	s.Must(s.Milan.Delete(s.Context(), theirs))
	s.Gone(s.Milan, theirs, start)
}

// moving runs liqoctl move volume.
func moving(s *story.Story, target string) (string, error) {
	return s.Liqoctl(s.Context(), "move", "volume", "data", "--namespace", moved, "--node", target, "--kubeconfig", s.Rome.Kubeconfig,
		"--timeout", "5m", "-o", "json")
}

// mounting returns a pod on a node that mounts the volume.
func mounting(node string, command ...string) *corev1.Pod {
	pod := story.PodOn(node, moved, "shell", playground.Shell, command...)
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}}}
	return pod
}

// look runs a command line in a pod with the volume, and returns its output.
func look(s *story.Story, node, line string) string {
	s.Helper()
	s.Must(s.Rome.Create(s.Context(), mounting(node, "sleep", "infinity")))
	s.PodReady(s.Rome, moved, "shell", 2*start)
	said := s.Exec(s.Rome, story.WebSocket, moved, "shell", "", "sh", "-c", line)
	if said.Code != 0 {
		s.Fatalf("%s: %+v", line, said)
	}
	end(s)
	return said.Out
}

// end deletes the pod with the volume.
func end(s *story.Story) {
	s.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: moved, Name: "shell"}}
	s.Must(s.Rome.Delete(s.Context(), pod))
	s.Gone(s.Rome, pod, start)
}

// nowhereElse fails unless the only claim with data of the namespace is in the target cluster, and the claim still has its label.
func nowhereElse(s *story.Story, target string) {
	s.Helper()
	var claim corev1.PersistentVolumeClaim
	s.Must(s.Rome.Get(s.Context(), client.ObjectKey{Namespace: moved, Name: "data"}, &claim))
	if claim.Labels["kept"] != "yes" {
		s.Errorf("labels %v", claim.Labels)
	}
	for _, c := range s.Clusters() {
		namespace, wanted := story.Twin(moved), 0
		if c == s.Rome {
			namespace = "liqo-storage"
		}
		if c.ID == target || c == s.Rome && strings.HasPrefix(target, s.Rome.Name) {
			wanted = 1
		}
		var claims corev1.PersistentVolumeClaimList
		s.Must(c.List(s.Context(), &claims, client.InNamespace(namespace)))
		if len(claims.Items) != wanted {
			s.Errorf("%s has %d claims in %s, want %d", c.ID, len(claims.Items), namespace, wanted)
		}
	}
	var volumes corev1.PersistentVolumeList
	s.Must(s.Rome.List(s.Context(), &volumes, client.MatchingLabels{"storage.liqo.io/virtual-volume": api.True}))
	if len(volumes.Items) != 1 || volumes.Items[0].Name != claim.Spec.VolumeName ||
		volumes.Items[0].Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		s.Errorf("volumes %+v, want only %s", volumes.Items, claim.Spec.VolumeName)
	}
}

// engine copies a directory of this machine to a repository, deletes the directory, and copies it back.
func engine(s *story.Story) {
	s.Helper()
	dir := s.TempDir()
	root := filepath.Join(dir, "volume")
	file := filepath.Join(root, "file")
	// An access ACL that gives user 1234 the right to read: version 2, then tag, permissions and ID of each entry.
	acl := []byte{
		2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 4, 0, 0xd2, 4, 0, 0, 4, 0, 4, 0, 255, 255, 255, 255,
		16, 0, 4, 0, 255, 255, 255, 255, 32, 0, 0, 0, 255, 255, 255, 255,
	}
	s.Must(errors.Join(
		os.MkdirAll(filepath.Join(root, "empty"), 0o755), os.WriteFile(file, []byte("content"), 0o640), os.Chmod(root, 0o1777),
		unix.Setxattr(file, "user.colour", []byte("red"), 0), unix.Setxattr(file, "system.posix_acl_access", acl, 0),
		os.Lchown(file, 1234, 5678), os.Link(file, filepath.Join(root, "same")), os.WriteFile(filepath.Join(root, "sparse"), nil, 0o600),
		os.Truncate(filepath.Join(root, "sparse"), 64<<20), os.Chtimes(root, time.Unix(1, 0), time.Unix(1, 123_456_000)),
	))
	s.Setenv("RESTIC_REPOSITORY", filepath.Join(dir, "repository"))
	s.Setenv("RESTIC_PASSWORD", "secret")
	program := &mover.Program{Restic: filepath.Join(s.Root, "bin", "restic"), Out: io.Discard, Err: os.Stderr}
	sent, err := program.Run(s.Context(), []string{"send", root})
	s.Must(err)
	s.Must(errors.Join(os.RemoveAll(root), os.Mkdir(root, 0o700)))
	for range 2 { // twice, as after an interruption
		received, err := program.Run(s.Context(), []string{"receive", root})
		s.Must(err)
		if *received != *sent {
			s.Errorf("sent %+v, received %+v", sent, received)
		}
	}
	var stat unix.Stat_t
	s.Must(unix.Stat(filepath.Join(root, "sparse"), &stat))
	if stat.Blocks*512 > 1<<20 {
		s.Errorf("a file with holes takes %d bytes", stat.Blocks*512)
	}
}
