package monitoring

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

const (
	// rate is the number of bytes per second that the load sends through the tunnel, and receives back; beats is the number of writes per second.
	rate, beats = 1 << 20, 50
	// few and many are the two numbers of pods between which the load scales, scaling is the interval.
	few, many, scaling = 1, 3, 3 * time.Second
	// lag is how much later than the API server a virtual kubelet, or the story, may observe a change of a pod.
	lag = time.Second
)

// load is traffic through the tunnel, and pods on node milan that are created and deleted. It records the actual numbers of both.
type load struct {
	mu     sync.Mutex
	passed []passed
	states []state
	stop   func() error
}

// passed holds the numbers of bytes that had been sent and received through the tunnel at a time between began and ended, and the round trip time that the
// kernel measured then, in microseconds.
type passed struct {
	began, ended           time.Time
	forth, back, roundTrip float64
}

// state is the number of pods on node milan by phase, starting at a time.
type state struct {
	since time.Time
	pods  map[string]float64
}

// begin starts the load: a steady stream between pod home of rome and a pod in milan, which sends it back, and a Deployment that is scaled up and down.
func begin(s *story.Story, ns string) *load {
	s.Helper()
	l := &load{}
	connection := connect(s, ns)
	s.Must(s.Rome.Create(s.Context(), story.DeploymentOn("milan", ns, "churn", few, playground.TestServer)))
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error, 3)
	go func() { ended <- l.stream(ctx, connection) }()
	go func() { ended <- l.scale(ctx, s.Rome, ns) }()
	go func() { ended <- l.watch(ctx, s.Rome) }()
	l.stop = func() error {
		cancel()
		return errors.Join(<-ended, <-ended, <-ended)
	}
	return l
}

// connect opens a connection from pod home of rome to a pod in milan that sends everything back.
func connect(s *story.Story, ns string) *net.TCPConn {
	s.Helper()
	home, err := playground.In(s.Pod(s.Rome, ns, "home"))
	s.Must(err)
	var server string
	for _, pod := range s.Pods(s.Rome, ns) {
		if pod.Labels["app"] == "web" && story.Ready(pod) {
			server = pod.Status.PodIP
		}
	}
	connection, err := home.Dial(s.Context(), "tcp", net.JoinHostPort(server, "9000"))
	s.Must(err)
	_, err = fmt.Fprintln(connection, "echo")
	s.Must(err)
	return connection.(*net.TCPConn)
}

// stream sends at a steady rate, and discards the received data.
func (l *load) stream(ctx context.Context, connection *net.TCPConn) error {
	defer connection.Close()
	returned := make(chan error, 2)
	go func() {
		_, err := io.Copy(io.Discard, connection)
		returned <- err
	}()
	go func() { returned <- l.measure(ctx, connection) }()
	part := make([]byte, rate/beats)
	tick := time.NewTicker(time.Second / beats)
	defer tick.Stop()
	for {
		if _, err := connection.Write(part); err != nil && ctx.Err() == nil {
			return fmt.Errorf("sending through the tunnel: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-returned:
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("the connection through the tunnel ended: %w", err)
		case <-tick.C:
		}
	}
}

// measure records the numbers of bytes, also while nothing can be sent.
func (l *load) measure(ctx context.Context, connection *net.TCPConn) error {
	tick := time.NewTicker(time.Second / beats)
	defer tick.Stop()
	for ctx.Err() == nil {
		now := passed{began: time.Now()}
		if err := now.read(connection); err != nil {
			return err
		}
		l.mu.Lock()
		l.passed = append(l.passed, now)
		l.mu.Unlock()
		<-tick.C
	}
	return nil
}

// read computes the numbers of bytes of a connection in the tunnel, in both directions: the payload that the kernel counts, and for each segment the headers of
// IP, of TCP with a timestamp, and of WireGuard with its padding.
func (p *passed) read(connection *net.TCPConn) error {
	raw, err := connection.SyscallConn()
	if err != nil {
		return err
	}
	var info *unix.TCPInfo
	var failed error
	err = raw.Control(func(fd uintptr) { info, failed = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("reading the state of the connection: %w", err)
	}
	p.ended = time.Now()
	const headers, wireguard, block = 20 + 32, 32, 16
	size := func(payload uint64, data, all uint32) float64 {
		fill := (block - (info.Snd_mss+headers)%block) % block
		const empty = (headers+block-1)/block*block + wireguard
		return float64(payload) + float64(data)*float64(headers+wireguard+fill) + float64(all-data)*empty
	}
	p.forth, p.back = size(info.Bytes_sent, info.Data_segs_out, info.Segs_out), size(info.Bytes_received, info.Data_segs_in, info.Segs_in)
	p.roundTrip = float64(info.Rtt)
	return nil
}

// roundTrips returns the minimum, the average and the maximum of the round trips that the kernel has measured since a time.
func (l *load) roundTrips(since time.Time) (least, average, most float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	least = math.Inf(1)
	n := 0
	for _, p := range l.passed {
		if p.began.After(since) {
			least, average, most, n = min(least, p.roundTrip), average+p.roundTrip, max(most, p.roundTrip), n+1
		}
	}
	return least, average / float64(n), most
}

// scale scales the Deployment up and down.
func (l *load) scale(ctx context.Context, rome *playground.Cluster, ns string) error {
	deployments := rome.Set.AppsV1().Deployments(ns)
	for want := int32(many); ; want = few + many - want {
		pauseFor(ctx, scaling)
		if ctx.Err() != nil {
			return nil
		}
		patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, want)
		_, err := deployments.Patch(ctx, "churn", types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("scaling the Deployment: %w", err)
		}
	}
}

// watch records the number of pods on node milan by phase after each change.
func (l *load) watch(ctx context.Context, rome *playground.Cluster) error {
	options := metav1.ListOptions{FieldSelector: "spec.nodeName=milan"}
	list, err := rome.Set.CoreV1().Pods("").List(ctx, options)
	if err != nil {
		return fmt.Errorf("listing the pods on node milan: %w", err)
	}
	pods := map[string]corev1.Pod{}
	note := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.states = append(l.states, state{time.Now(), phases(slices.Collect(maps.Values(pods)))})
	}
	for _, pod := range list.Items {
		pods[string(pod.UID)] = pod
	}
	note()
	options.ResourceVersion = list.ResourceVersion
	changes, err := rome.Set.CoreV1().Pods("").Watch(ctx, options)
	if err != nil {
		return fmt.Errorf("watching the pods on node milan: %w", err)
	}
	defer changes.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case change, open := <-changes.ResultChan():
			pod, is := change.Object.(*corev1.Pod)
			if !open || !is {
				return fmt.Errorf("the watch of the pods on node milan ended: %+v", change.Object)
			}
			if pods[string(pod.UID)] = *pod; change.Type == "DELETED" {
				delete(pods, string(pod.UID))
			}
			note()
		}
	}
}

// between returns the minimum number of bytes at the start of an interval, and the maximum at its end. It returns false if they are not known yet.
func (l *load) between(from, to time.Time) (least, most passed, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := slices.IndexFunc(l.passed, func(p passed) bool { return p.ended.After(from) })
	last := slices.IndexFunc(l.passed, func(p passed) bool { return p.began.After(to) })
	if first < 1 || last < 0 {
		return least, most, false
	}
	return l.passed[first-1], l.passed[last], true
}

// during returns the states of the pods during an interval.
func (l *load) during(from, to time.Time) []map[string]float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []map[string]float64
	for i, one := range l.states {
		if one.since.Before(to) && (i+1 == len(l.states) || l.states[i+1].since.After(from)) {
			all = append(all, one.pods)
		}
	}
	return all
}

// around returns the states of the pods that a scrape may have found. Virtual kubelet and story observe a change up to lag later than the API server, plus the
// time in which the machine stood still.
func (l *load) around(scrape point) []map[string]float64 {
	from, to := scrape.began.Add(-lag), scrape.began.Add(scrape.took+lag)
	still := l.stoodStill(from, to)
	return l.during(from.Add(-still), to.Add(still))
}

// stoodStill returns the longest time within an interval in which the story measured nothing, although it measures at every beat.
func (l *load) stoodStill(from, to time.Time) (longest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := 1; i < len(l.passed); i++ {
		before, after := l.passed[i-1].began, l.passed[i].began
		if after.After(from) && before.Before(to) {
			longest = max(longest, after.Sub(before)-time.Second/beats)
		}
	}
	return longest
}

// series is a series with its samples as they were scraped.
type series struct {
	labels map[string]string
	points []point
}

// point is a sample of a series, with the start and the duration of its scrape.
type point struct {
	began time.Time
	took  time.Duration
	value float64
}

// since returns the samples of the matching series that were scraped since began.
func (p prometheus) since(ctx context.Context, began time.Time, matching string) ([]series, error) {
	seconds := int(time.Since(began).Seconds())
	all, err := p.ranged(ctx, fmt.Sprintf("%s[%ds]", matching, seconds))
	if err != nil {
		return nil, err
	}
	durations, err := p.ranged(ctx, fmt.Sprintf("scrape_duration_seconds[%ds]", seconds+5)) // query a longer time, because this query runs later
	if err != nil {
		return nil, err
	}
	took := map[string]time.Duration{}
	key := func(s series, at time.Time) string {
		return fmt.Sprint(s.labels["job"], " ", s.labels["instance"], " ", s.labels["metrics_path"], " ", at.UnixMilli())
	}
	for _, s := range durations {
		for _, point := range s.points {
			took[key(s, point.began)] = time.Duration(point.value * float64(time.Second))
		}
	}
	for _, s := range all {
		for i := range s.points {
			var known bool
			if s.points[i].took, known = took[key(s, s.points[i].began)]; !known {
				return nil, fmt.Errorf("it is not known how long the scrape of %v at %s took", s.labels, s.points[i].began)
			}
		}
	}
	return all, nil
}

// podsAreExact checks that each scrape of the virtual kubelet since began found the pods as they were at that time.
func (l *load) podsAreExact(p prometheus, began time.Time) {
	p.Helper()
	all, err := p.since(p.Context(), began, `liqo_virtual_node_pods{node_name="milan"}`)
	p.Must(err)
	scrapes, different := map[point]map[string]float64{}, map[string]bool{}
	for _, s := range all {
		for _, at := range s.points {
			value := at.value
			if at.value = 0; scrapes[at] == nil {
				scrapes[at] = map[string]float64{}
			}
			if value != 0 {
				scrapes[at][s.labels["phase"]] = value
			}
		}
	}
	for at, got := range scrapes {
		different[fmt.Sprint(got)] = true
		truth := l.around(at)
		if !slices.ContainsFunc(truth, func(want map[string]float64) bool { return maps.Equal(got, want) }) {
			p.Errorf("the scrape at %s found the pods %v, and they were %v", at.began, got, truth)
		}
	}
	fmt.Printf("             %d scrapes found %d different states of the pods\n", len(scrapes), len(different))
	if len(scrapes) < 3 || len(different) < 2 {
		p.Errorf("too little was scraped: %v", scrapes)
	}
}

// bytesAreTrue checks that the increase of each gateway's counters between the first and the last scrape equals the number of bytes transferred in between.
func (l *load) bytesAreTrue(began time.Time, rome, milan prometheus) {
	for _, one := range []struct {
		p           prometheus
		what        string
		metric      string
		peer        string
		count       func(passed) float64
		less, above bool // the story measures in rome, so it does not know which packets are lost on the way
	}{
		{rome, "sent by rome", "transmit", "milan", func(p passed) float64 { return p.forth }, false, false},
		{milan, "received by milan", "receive", "rome", func(p passed) float64 { return p.forth }, true, false},
		{milan, "sent by milan", "transmit", "rome", func(p passed) float64 { return p.back }, false, true},
		{rome, "received by rome", "receive", "milan", func(p passed) float64 { return p.back }, false, false},
	} {
		p := one.p
		p.Eventually(start, "the bytes "+one.what, func(ctx context.Context) error {
			all, err := p.since(ctx, began, fmt.Sprintf(`liqo_peer_%s_bytes_total{cluster_id=%q}`, one.metric, one.peer))
			if err != nil {
				return err
			}
			if len(all) != 1 || len(all[0].points) < 4 {
				return fmt.Errorf("of %s there are %+v, want one series with some scrapes", one.metric, all)
			}
			first, last := all[0].points[0], all[0].points[len(all[0].points)-1]
			from, until, known := l.between(first.began, first.began.Add(first.took))
			since, to, passed := l.between(last.began, last.began.Add(last.took))
			if !known || !passed {
				return errors.New("the truth about the last scrape is not known yet")
			}
			// The time at which the counter was read within a scrape is unknown.
			got, least, most := last.value-first.value, one.count(since)-one.count(until), one.count(to)-one.count(from)
			fmt.Printf("             %s in %.1f s: %.0f bytes, of %.0f to %.0f by the connection: %+.2f %%\n", one.what, last.began.Sub(first.began).Seconds(), got, least, most,
				100*(2*got/(least+most)-1))
			if got < least*(1-bytesOff) && !one.less || got > most*(1+bytesOff) && !one.above {
				p.Errorf("%s were %.0f bytes, want %.0f to %.0f", one.what, got, least, most)
			}
			return nil
		})
	}
}
