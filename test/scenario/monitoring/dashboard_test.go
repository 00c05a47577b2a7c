package monitoring

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"liqo.io/liqo/test/browser"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

const (
	// soon is how long a change may take to be on the page of the dashboard.
	soon = time.Second
	// noticed is how long the page may take to show a partition.
	noticed = 12 * time.Second
)

// openDashboard runs `liqoctl dashboard` for both clusters, and opens the address that it prints in a browser.
func openDashboard(s *story.Story) *browser.Page {
	s.Helper()
	command := exec.CommandContext(s.Context(), filepath.Join(s.Root, "bin", "liqoctl"), "dashboard", "--kubeconfig", s.Rome.Kubeconfig,
		"--remote-kubeconfig", s.Milan.Kubeconfig)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	out, err := command.StdoutPipe()
	s.Must(err)
	s.Must(command.Start())
	s.Cleanup(func() { _ = command.Wait() })
	url, err := bufio.NewReader(out).ReadString('\n')
	s.Must(err)
	page := browser.Open(s.T, strings.TrimSpace(url))
	page.Until(15*time.Second, "both clusters and the tunnel", browser.Shows("#topology", "2 clusters, 1 peering")+" && "+connected)
	return page
}

// connected is the condition that the page shows the tunnel as connected.
var connected = browser.Shows("#peerings", "tunnel: Connected") + ` && document.querySelector('#topology .edge .line.ok')`

// dashboard: the page shows two clusters and their tunnel, follows a pod that is offloaded within a second, and explains a path.
func dashboard(s *story.Story) {
	const ns = "dashboard"
	var page *browser.Page
	s.Step("the page shows both clusters, the tunnel and its traffic", func() {
		page = openDashboard(s)
		page.Until(30*time.Second, "the traffic of the tunnel", browser.Shows("#peerings", "B/s"))
	})
	s.Step("a pod is offloaded, and the page follows within a second", func() {
		s.Offload(ns)
		page.Follows("the namespace", browser.Shows("#namespaces", ns))
		browser.Evaluate[struct{}](page, `document.querySelector('#namespaces details').open = true; ({})`)
		row := func(pod string, parts ...string) string {
			conditions := []string{"e.cells[0].textContent === '" + pod + "'"}
			for _, part := range parts {
				conditions = append(conditions, fmt.Sprintf("e.textContent.includes(%q)", part))
			}
			return "[...document.querySelectorAll('#namespaces tbody tr')].some((e) => " + strings.Join(conditions, " && ") + ")"
		}
		for pod, node := range map[string]string{"away": "milan", "home": s.Rome.Node()} {
			s.Must(s.Rome.Create(s.Context(), story.PodOn(node, ns, pod, playground.TestServer)))
			created := page.Follows("pod "+pod, row(pod))
			s.PodReady(s.Rome, ns, pod, start)
			ran := page.Follows("pod "+pod+" to run", row(pod, "Running"))
			fmt.Printf("             %s is on the page %v after its creation, and Running %v after it was\n", pod, created.Round(time.Millisecond), ran.Round(time.Millisecond))
		}
		page.Follows("where pod away runs", row("away", "milan"))
		page.Prompt(soon)
	})
	s.Step("the page explains the path from one pod to the other", func() {
		page.Explain("rome/"+ns+"/home", "rome/"+ns+"/away")
		page.Until(10*time.Second, "the path", browser.Shows("#path", "the path works", "gw-milan"))
	})
	s.Step("it has no error, and axe-core finds nothing", func() {
		page.Accessible("two clusters")
		for _, problem := range page.Console() {
			s.Errorf("on the console: %s", problem)
		}
	})
}
