package app

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/clientcmd"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/metrics"
	"liqo.io/liqo/test/apitest"
)

// The conditions under which the overhead of monitoring is promised, and the promised limits for each program.
const (
	scrapedPods, scrapedPeers = 1000, 10
	scrapeInterval            = 15 * time.Second
	scrapeCPULimit            = 0.02 // of a core
	scrapeMemoryLimit         = 5 << 20
)

const (
	// scrapesPerRound is the maximum number of scrapes between two garbage collections, because Go collects at least every two minutes. Each round
	// begins with a collection.
	scrapesPerRound = int(2*time.Minute/scrapeInterval) + 1
	// beat is the interval between two scrapes in this test.
	beat = 250 * time.Millisecond
	// roundsIdle is the number of rounds without scrapes, rounds the number of rounds with scrapes. The maximum memory of all rounds counts, because
	// a garbage collection may run in a single round.
	roundsIdle, rounds = 3, 5
	// quietFor is how long a process must be idle before it is observed.
	quietFor = 400 * time.Millisecond
	// clockTick is the unit of CPU times in /proc (proc_pid_stat(5)).
	clockTick = 10 * time.Millisecond
)

// TestScrapesCostLittleOnAPIServer: with 1,000 pods and 10 peers, scraping all metrics every 15 s costs each program at most 2 % of a core and 5 MiB. For the
// virtual kubelet, this includes all scrapes of a kubelet by kube-prometheus and metrics-server. The programs run as separate processes with real API servers.
func TestScrapesCostLittleOnAPIServer(t *testing.T) {
	w := newScrapedWorld(t)
	w.offload(t)
	w.peers(t)
	const health = "--health-address=127.0.0.1:0"
	_, webhooks, _ := strings.Cut(freeAddress(t), ":")
	listen := freeAddress(t)
	kubelet := startScraped(t, metrics.VirtualKubelet, w.romeFile, health, "--virtual-node=milan", "--tenant-namespace="+api.TenantNamespace("milan"),
		"--cluster-id=rome", "--foreign-cluster-id=milan", "--remote-kubeconfig="+w.milanFile, "--node-ip=127.0.0.1", "--listen="+listen, "--disable-network-check")
	kubelet.asKubelet("https://"+listen, w.scraper(t))
	w.offloaded(t)
	manager := startScraped(t, metrics.ControllerManager, w.milanFile, health, "--cluster-id=milan", "--auth-address=", "--webhook-port="+webhooks)
	programs := []*scrapedProcess{
		manager, kubelet,
		startScraped(t, metrics.Gateway, w.milanFile, health, "--name=gw", "--namespace=ns", "--cluster-id=milan", "--remote-cluster-id=rome", "--mode=server",
			"--node-name=node", "--pod-name=pod", "--pod-ip=192.0.2.1"),
		startScraped(t, metrics.Fabric, w.milanFile, health, "--node-name=node"),
		startScraped(t, metrics.Proxy, w.milanFile, "--listen=127.0.0.1:0", "--target="+strings.TrimPrefix(w.romeServer.Config.Host, "https://")),
	}
	w.settled(t)
	w.running(t)
	found := make([]overhead, len(programs))
	var group errgroup.Group
	for _, p := range programs {
		p.listens(t)
		p.quiet(t)
	}
	for i, p := range programs {
		group.Go(func() (err error) {
			if found[i], err = p.measure(t.Context()); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for i, o := range found {
		share := o.cpu.Seconds() / scrapeInterval.Seconds()
		t.Logf("%-18s %4d series, %4d KiB: %5.1f ms of CPU per scrape, %.3f %% of a core (%.1f %% without scrapes), %5.1f MiB of memory: idle %s, scraped %s",
			programs[i].name, len(regexp.MustCompile(`(?m)^[^#]`).FindAll(o.text, -1)), len(o.text)>>10, o.cpu.Seconds()*1000, share*100,
			o.idle.Seconds()/(beat.Seconds()*float64(scrapesPerRound*roundsIdle))*100, float64(o.memory)/(1<<20), mebibytes(o.peaksIdle), mebibytes(o.peaks))
		if share > scrapeCPULimit || o.memory > scrapeMemoryLimit {
			t.Errorf("%s: scrapes cost %.2f %% of a core and %d KiB, want at most %g %% and %d KiB", programs[i].name, share*100, o.memory>>10, scrapeCPULimit*100,
				scrapeMemoryLimit>>10)
		}
	}
	// Check that the programs are in the state for which the limits are promised.
	if n := len(found[0].series(metrics.PeerAPIServerReachable.Name, "cluster_id", "peer-")); n != scrapedPeers {
		t.Errorf("the controller manager reports %d peers, want %d", n, scrapedPeers)
	}
	for _, want := range []struct {
		of                   *overhead
		metric, label, value string
	}{
		{&found[0], metrics.QuotaUsed.Name, "resource", "pods"},
		{&found[1], metrics.ReflectedItems.Name, "reflector_resource", "Pod"}, {&found[1], metrics.VirtualNodePods.Name, "phase", "Running"},
	} {
		if values := want.of.series(want.metric, want.label, want.value); !slices.Contains(values, strconv.Itoa(scrapedPods)) {
			t.Errorf("%s of %s %s is %v, want %d", want.metric, want.label, want.value, values, scrapedPods)
		}
	}
	for _, labels := range []string{`{container="web",cpu="total",image="`, `{container="web",namespace="shop"`} { // samples of /metrics/cadvisor and /metrics/resource
		if n := bytes.Count(found[1].text, []byte("\ncontainer_cpu_usage_seconds_total"+labels)); n != scrapedPods {
			t.Errorf("the virtual node reports the usage of %d containers with labels %s..., want %d", n, labels, scrapedPods)
		}
	}
}

// mebibytes returns amounts of memory for people.
func mebibytes(all []int64) string {
	var texts []string
	for _, n := range all {
		texts = append(texts, fmt.Sprintf("%.1f", float64(n)/(1<<20)))
	}
	return strings.Join(texts, " ")
}

// envScraped selects the program that a process started by TestScrapesCostLittleOnAPIServer runs.
const envScraped = "LIQO_TEST_SCRAPED"

// TestScrapedProgram is not a test: it runs one of our programs in a separate process, for TestScrapesCostLittleOnAPIServer.
func TestScrapedProgram(t *testing.T) {
	program := os.Getenv(envScraped)
	if program == "" {
		return
	}
	// Collect garbage on demand, in place of the collections that Go does every two minutes.
	collect := make(chan os.Signal, 1)
	signal.Notify(collect, syscall.SIGUSR1)
	go func() {
		for range collect {
			runtime.GC()
		}
	}()
	if err := runScraped(t.Context(), program, flag.Args()); err != nil {
		t.Fatal(err)
	}
}

// runScraped runs a program as its main function does. The agents of the network are assembled as in production and serve their metrics, but do not
// touch the network of this machine.
func runScraped(ctx context.Context, program string, args []string) error {
	switch program {
	case metrics.ControllerManager:
		var opts ControllerManagerOptions
		flags := flag.NewFlagSet(program, flag.ContinueOnError)
		opts.AddFlags(flags)
		if err := flags.Parse(args); err != nil {
			return err
		}
		NewLog(slog.LevelInfo)
		cfg, err := clientcmd.BuildConfigFromFlags("", os.Getenv(clientcmd.RecommendedConfigPathEnvVar))
		if err != nil {
			return err
		}
		return ControllerManager(ctx, cfg, &opts)
	case metrics.VirtualKubelet:
		opts, err := parseVirtualKubelet(args)
		if err != nil {
			return err
		}
		// The test scrapes more often than Prometheus does. As with Prometheus, each scrape must read the usage of the pods from the provider.
		opts.usageAge = beat * 4 / 5
		return opts.run(ctx)
	case metrics.Proxy:
		return Proxy(ctx, args)
	}
	cfg, err := ownConfig()
	if err != nil {
		return err
	}
	log := NewLog(slog.LevelInfo)
	if program == metrics.Fabric {
		opts, err := parseFabric(args)
		if err != nil {
			return err
		}
		f, err := newFabric(cfg, opts, log)
		if err != nil {
			return err
		}
		return (&endpoints{metrics: opts.metricsAddress, gatherer: f.registry}).serve(ctx)
	}
	opts, err := parseGateway(args)
	if err != nil {
		return err
	}
	g, err := newGatewayAgent(cfg, opts, log)
	if err != nil {
		return err
	}
	return (&endpoints{metrics: opts.metricsAddress, gatherer: g.registry}).serve(ctx)
}

// scrapedProcess is a program of ours, in a process of its own.
type scrapedProcess struct {
	name, address string
	paths         []scrapedPath
	command       *exec.Cmd
	log           string
}

// startScraped starts a program with the settings of a pod. It ends with the test.
func startScraped(t *testing.T, name, kubeconfig string, args ...string) *scrapedProcess {
	t.Helper()
	p := &scrapedProcess{name: name, address: freeAddress(t), log: filepath.Join(t.TempDir(), "log")}
	p.paths = []scrapedPath{{url: "http://" + p.address + "/metrics", client: http.DefaultClient}}
	p.command = exec.Command(os.Args[0], append([]string{"-test.run=^TestScrapedProgram$", "--", "--metrics-address=" + p.address}, args...)...)
	p.command.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "GOGC=") || strings.HasPrefix(variable, "GOMAXPROCS=") // settings of the test process
	})
	p.command.Env = append(p.command.Env, envScraped+"="+name, clientcmd.RecommendedConfigPathEnvVar+"="+kubeconfig)
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	p.command.Stdout, p.command.Stderr = log, log
	if err := errors.Join(p.command.Start(), log.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.command.Process.Kill()
		_ = p.command.Wait() // Wait fails because the process was killed
		if t.Failed() {
			text, _ := os.ReadFile(p.log)
			t.Logf("%s: %s", name, text[max(0, len(text)-4096):])
		}
	})
	return p
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// scrapedPath is a path that Prometheus scrapes. It has its own connection, which stays open.
type scrapedPath struct {
	url, token string
	client     *http.Client
}

// asKubelet adds the paths of a kubelet that kube-prometheus and metrics-server scrape with a token.
func (p *scrapedProcess) asKubelet(server, token string) {
	for _, path := range []string{"/metrics", "/metrics/cadvisor", "/metrics/probes", "/metrics/slis", "/metrics/resource"} {
		transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // as kube-prometheus does
		p.paths = append(p.paths, scrapedPath{server + path, token, &http.Client{Transport: transport}})
	}
}

// scrape reads all metrics of the program as Prometheus does, over connections that stay open.
func (p *scrapedProcess) scrape(ctx context.Context) (text []byte, err error) {
	for i := range p.paths {
		part, err := p.paths[i].scrape(ctx)
		if err != nil {
			return nil, err
		}
		text = append(append(text, part...), '\n')
	}
	return text, nil
}

func (p *scrapedPath) scrape(ctx context.Context) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, nil)
	if err != nil {
		return nil, err
	}
	if p.token != "" {
		request.Header.Set("Authorization", "Bearer "+p.token)
	}
	response, err := p.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && (response.StatusCode != http.StatusOK || response.Uncompressed) {
		err = fmt.Errorf("%s: status %s, compressed: %t, %s", p.url, response.Status, response.Uncompressed, text)
	}
	return text, err
}

// listens waits until the program accepts connections. It does not scrape.
func (p *scrapedProcess) listens(t *testing.T) {
	t.Helper()
	apitest.Eventually(t, 30*time.Second, p.name+" to listen", func() error {
		connection, err := net.Dial("tcp", p.address)
		if err != nil {
			return err
		}
		return connection.Close()
	})
}

// quiet waits until the program is idle.
func (p *scrapedProcess) quiet(t *testing.T) {
	t.Helper()
	var last time.Duration
	apitest.Eventually(t, 30*time.Second, p.name+" to be idle", func() error {
		time.Sleep(quietFor)
		used, err := p.cpu()
		if used-last > quietFor/10 && err == nil {
			err = fmt.Errorf("it used the CPU for %s of %s", used-last, quietFor)
		}
		last = used
		return err
	})
}

// cpu returns the CPU time that the process has used.
func (p *scrapedProcess) cpu() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.command.Process.Pid))
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	var ticks time.Duration
	for _, field := range fields[11:13] { // utime and stime
		n, err := strconv.Atoi(string(field))
		if err != nil {
			return 0, err
		}
		ticks += time.Duration(n)
	}
	return ticks * clockTick, nil
}

// peak returns the most physical memory that the process has had since restartPeak.
func (p *scrapedProcess) peak() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "VmHWM:"); found {
			kib, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.New("the status of the process has no VmHWM")
}

// restartPeak makes the present memory the peak (proc_pid_clear_refs(5)).
func (p *scrapedProcess) restartPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.command.Process.Pid), []byte("5"), 0)
}

// observe observes the process for a round that begins with a garbage collection, with or without scrapes. It returns the CPU time that the process
// used, the most physical memory that it had, and the text of the last scrape.
func (p *scrapedProcess) observe(ctx context.Context, scraped bool) (used time.Duration, peak int64, text []byte, err error) {
	if err := p.command.Process.Signal(syscall.SIGUSR1); err != nil {
		return 0, 0, nil, err
	}
	time.Sleep(beat) // wait until the garbage collection has finished
	if err := p.restartPeak(); err != nil {
		return 0, 0, nil, err
	}
	before, err := p.cpu()
	if err != nil {
		return 0, 0, nil, err
	}
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for range scrapesPerRound {
		if scraped {
			if text, err = p.scrape(ctx); err != nil {
				return 0, 0, nil, err
			}
		}
		<-tick.C
	}
	after, err := p.cpu()
	if err != nil {
		return 0, 0, nil, err
	}
	peak, err = p.peak()
	return after - before, peak, text, err
}

// overhead is the resource usage that scrapes add to a program.
type overhead struct {
	// idle is the CPU time of the program in the rounds without scrapes. peaksIdle and peaks are the peaks of memory in each round without and with scrapes.
	idle             time.Duration
	peaksIdle, peaks []int64
	// cpu is the CPU time per scrape. memory is the difference between the highest peak with scrapes and the highest one without.
	cpu    time.Duration
	memory int64
	text   []byte
}

// measure observes the program first without and then with scrapes.
func (p *scrapedProcess) measure(ctx context.Context) (o overhead, err error) {
	var scraped time.Duration
	for i := range roundsIdle + rounds {
		used, peak, text, err := p.observe(ctx, i >= roundsIdle)
		if err != nil {
			return o, err
		}
		if i < roundsIdle {
			o.idle, o.peaksIdle = o.idle+used, append(o.peaksIdle, peak)
		} else {
			scraped, o.peaks, o.text = scraped+used, append(o.peaks, peak), text
		}
	}
	o.cpu = max(scraped-o.idle*rounds/roundsIdle, 0) / time.Duration(rounds*scrapesPerRound)
	o.memory = slices.Max(o.peaks) - slices.Max(o.peaksIdle)
	return o, nil
}

// series returns the values of the series of a metric that have a label with a value.
func (o *overhead) series(metric, label, value string) []string {
	var values []string
	for line := range strings.Lines(string(o.text)) {
		if strings.HasPrefix(line, metric+"{") && strings.Contains(line, label+`="`+value) {
			values = append(values, strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]))
		}
	}
	return values
}
