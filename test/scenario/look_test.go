package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// start is how long a pod may take from its creation to Ready, on a machine that is busy with other things.
const start = story.Start

// look: for a pod that runs in milan, rome's API server serves logs, exec, attach and port-forward as for any other pod.
func look(s *story.Story) { lookOver(s, story.WebSocket, story.SPDY) }

// lookOver is look with these transports.
func lookOver(s *story.Story, transports ...story.Transport) {
	const ns = "look"
	rome := s.Rome
	s.Step("offload a namespace", func() { s.Offload(ns, "--pod-offloading-strategy", "Remote") })

	s.Step("pods run in milan", func() {
		talker := story.PodOn("milan", ns, "talker", playground.Shell, "sh", "-c",
			`if [ ! -e /state/seen ]; then touch /state/seen; echo first life; exit 3; fi; i=0; while true; do echo tick $i; i=$((i+1)); sleep 0.2; done`)
		talker.Spec.Volumes = []corev1.Volume{{Name: "state", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		talker.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "state", MountPath: "/state"}}
		echo := story.PodOn("milan", ns, "echo", playground.Shell, "sh", "-c", `while read line; do echo "heard $line"; done; sleep 1000`)
		echo.Spec.Containers[0].Stdin = true
		server := story.PodOn("milan", ns, "server", playground.TestServer)
		for _, pod := range []*corev1.Pod{talker, echo, server} {
			s.Must(rome.Create(s.Context(), pod))
		}
		s.PodReady(rome, ns, "server", start)
		s.PodReady(rome, ns, "echo", start)
		s.Eventually(start, "talker to be in its second life", func(ctx ctx) error {
			pod := s.Pod(rome, ns, "talker")
			// The kubelet serves the log of the previous container once the status has its end.
			if !story.Ready(*pod) || story.Restarts(*pod) != 1 || pod.Status.ContainerStatuses[0].LastTerminationState.Terminated == nil {
				return fmt.Errorf("status %+v, in milan %+v", pod.Status.ContainerStatuses, s.Pod(s.Milan, story.Twin(ns), "talker").Status.ContainerStatuses)
			}
			return nil
		})
		here, there := s.Pods(rome, ns), s.Pods(s.Milan, story.Twin(ns))
		if !slices.Equal(story.Names(here), story.Names(there)) {
			s.Errorf("rome has the pods %v, milan has %v", story.Names(here), story.Names(there))
		}
		for _, pod := range here {
			if pod.Spec.NodeName != "milan" {
				s.Errorf("pod %s is on node %q, want milan", pod.Name, pod.Spec.NodeName)
			}
		}
	})

	s.Step("logs", func() {
		if got := s.Logs(rome, ns, "talker", corev1.PodLogOptions{Previous: true}); got != "first life\n" {
			s.Errorf("logs --previous: %q", got)
		}
		s.Follow(rome, ns, "talker", 20*time.Second, func(line string) bool { return line == "tick 1" }) // wait until the log has two lines
		tail := int64(2)
		if got := s.Logs(rome, ns, "talker", corev1.PodLogOptions{TailLines: &tail}); strings.Count(got, "\n") != 2 || !strings.HasPrefix(got, "tick ") {
			s.Errorf("logs --tail 2: %q", got)
		}
		if got := s.Logs(rome, ns, "talker", corev1.PodLogOptions{Timestamps: true}); !strings.Contains(got, "Z tick 0\n") {
			s.Errorf("logs --timestamps: %q", got)
		}
		// A line that the container logs after the request has started shows that the log is streamed.
		var last int
		_, err := fmt.Sscanf(s.Logs(rome, ns, "talker", corev1.PodLogOptions{TailLines: new(int64(1))}), "tick %d", &last)
		s.Must(err)
		s.Follow(rome, ns, "talker", 20*time.Second, func(line string) bool { return line == fmt.Sprintf("tick %d", last+5) })
	})

	for _, transport := range transports {
		s.Step("exec, attach and port-forward over "+string(transport), func() {
			// The command reads its input to the end: Kubernetes may lose the output of a command that ends before. On a busy machine it may lose the
			// end of the answer, too. Then the exit code seems to be 0.
			var got story.Said
			for n := 0; n < 3 && got.Code == 0; n++ {
				got = s.Exec(rome, transport, ns, "talker", "hello\n", "sh", "-c", `x=$(cat); echo out $x; echo err $x >&2; exit 7`)
			}
			if want := (story.Said{Out: "out hello\n", Err: "err hello\n", Code: 7}); got != want {
				s.Errorf("exec: %+v, want %+v", got, want)
			}
			if got := s.Attach(rome, transport, ns, "echo", "knock"); got != "heard knock" {
				s.Errorf("attach: %q", got)
			}
			if got := s.Forward(rome, transport, ns, "server", 8080, "/door"); !strings.Contains(got, "pod: server\n") || !strings.Contains(got, "request: GET /door\n") {
				s.Errorf("port-forward: %q", got)
			}
		})
	}
}
