package discovery

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
)

// local is milan with one address.
func local() *Advertisement {
	one := milan()
	one.Addresses = one.Addresses[1:]
	return one
}

var start = time.Unix(1_800_000_000, 0)

// TestAnnouncementsExpire: a cluster is known until the TTL of its records expires. Each announcement restarts the TTL, and a withdrawal ends it.
func TestAnnouncementsExpire(t *testing.T) {
	var cache Cache
	known := func(at time.Duration) int {
		clusters, problems := Assemble(LocalDomain, cache.Live(start.Add(at)), nil)
		if len(problems) > 0 {
			t.Errorf("after %s: %v", at, problems)
		}
		return len(clusters)
	}
	records := local().Records(LocalDomain)
	cache.Add(LocalDomain, records, start)
	if known(0) != 1 || known(89*time.Second) != 1 || !cache.Expires(start).Equal(start.Add(90*time.Second)) {
		t.Errorf("announced: %d, %d, until %s", known(0), known(89*time.Second), cache.Expires(start))
	}
	cache.Add(LocalDomain, records, start.Add(60*time.Second))
	if known(149*time.Second) != 1 || known(150*time.Second) != 0 || !cache.Expires(start.Add(150*time.Second)).IsZero() {
		t.Error("announced again")
	}
	cache.Add(LocalDomain, records, start)
	cache.Add(LocalDomain, Announcement(records, true).Answers, start.Add(time.Second))
	if known(time.Second) != 0 {
		t.Error("it said goodbye")
	}
}

// TestTheCacheIsBounded: announcements of other services are not kept, and no flood of records takes more than the limit.
func TestTheCacheIsBounded(t *testing.T) {
	var cache Cache
	cache.Add(LocalDomain, []Record{
		{Name: "_printer._tcp.local.", Type: PTR, TTL: 90, Target: "a._printer._tcp.local."},
		{Name: "a._printer._tcp.local.", Type: SRV, TTL: 90, Target: "p.local.", Port: 1},
		{Name: "p.local.", Type: A, TTL: 90, Address: netip.MustParseAddr("192.0.2.1")}, {Name: "p.local.", Type: CNAME, TTL: 90, Target: "q.local."},
	}, start)
	if got := cache.Live(start); len(got) > 0 {
		t.Errorf("%+v", got)
	}
	for i := range maxCached + 100 {
		cache.Add(LocalDomain, []Record{{Name: ServiceName(LocalDomain), Type: PTR, TTL: 90, Target: fmt.Sprintf("x%d.%s", i, ServiceName(LocalDomain))}}, start)
	}
	live := cache.Live(start)
	if len(live) != maxCached {
		t.Errorf("%d records", len(live))
	}
	if got := Instances(LocalDomain, live); len(got) != maxInstances {
		t.Errorf("%d instances", len(got))
	}
	cache.Add(LocalDomain, []Record{{Name: ServiceName(LocalDomain), Type: PTR, TTL: 1 << 31, Target: "x0." + ServiceName(LocalDomain)}}, start)
	if cache.expire(start.Add(2 * maxTTL * time.Second)); len(cache.entries) > 0 {
		t.Error("a record lives forever")
	}
}

// TestAnswers: a host answers each question once, and adds the records that the sender would query next. An ordinary resolver gets its ID and its
// question back, and short TTLs.
func TestAnswers(t *testing.T) {
	records := milan().Records(LocalDomain)
	ask := func(kind Type, name string, unicast bool) *Message {
		return &Message{ID: 7, Questions: []Question{{Name: name, Type: kind, Unicast: unicast}}}
	}
	answer, unicast := Answer(ask(PTR, ServiceName(LocalDomain), false), records, false)
	if answer == nil || unicast || answer.ID != 0 || len(answer.Questions) > 0 || len(answer.Answers) != 1 ||
		len(answer.Additionals) != len(records)-1 || !answer.Flush {
		t.Fatalf("%t, %+v", unicast, answer)
	}
	if _, unicast := Answer(ask(PTR, ServiceName(LocalDomain), true), records, false); !unicast {
		t.Error("a unicast response was asked for")
	}
	legacy, unicast := Answer(ask(PTR, ServiceName(LocalDomain), false), records, true)
	if !unicast || legacy.ID != 7 || len(legacy.Questions) != 1 || legacy.Answers[0].TTL != legacyTTL || legacy.Additionals[0].TTL != legacyTTL || legacy.Flush {
		t.Errorf("legacy: %+v", legacy)
	}
	if records[0].TTL != 90 {
		t.Error("the announcement itself was changed")
	}
	known := ask(PTR, ServiceName(LocalDomain), false)
	known.Answers = records[:1]
	response := ask(PTR, ServiceName(LocalDomain), false)
	response.Response = true
	for name, query := range map[string]*Message{
		"known already": known, "a response": response, "another service": ask(PTR, "_printer._tcp.local.", false),
		"another type": ask(TXT, ServiceName(LocalDomain), false), "nothing": {},
	} {
		if got, _ := Answer(query, records, false); got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got, _ := Answer(ask(typeAny, "milan."+ServiceName(LocalDomain), false), records, false); got == nil || len(got.Answers) != 2 {
		t.Errorf("all types: %+v", got)
	}
}

// TestForeignClustersShowWhatIsFound: a found cluster gets a ForeignCluster, which follows its address and is deleted when the announcement ends.
// ForeignClusters of users, of another discovery type, and those in use are not changed.
func TestForeignClustersShowWhatIsFound(t *testing.T) {
	const here, there = "https://198.51.100.7:443", "https://203.0.113.7:443"
	found := func(id string, urls ...string) Cluster { return Cluster{ID: id, URLs: urls, TTL: 90 * time.Second} }
	existing := func(id, way, url string, change func(*corev1beta1.ForeignCluster)) corev1beta1.ForeignCluster {
		fc := corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: id}, Spec: corev1beta1.ForeignClusterSpec{ClusterID: id, ForeignAuthURL: url}}
		if way != "" {
			fc.Labels = map[string]string{corev1beta1.LabelDiscoveryType: way}
		}
		if change != nil {
			change(&fc)
		}
		return fc
	}
	lan, dns := corev1beta1.DiscoveredLAN, corev1beta1.DiscoveredDNS
	for name, row := range map[string]struct {
		found    []Cluster
		existing []corev1beta1.ForeignCluster
		want     string
	}{
		"a new one":         {[]Cluster{found("milan", here)}, nil, "create milan " + here},
		"this very cluster": {[]Cluster{found("rome", here)}, nil, ""},
		"known":             {[]Cluster{found("milan", there, here)}, []corev1beta1.ForeignCluster{existing("milan", lan, here, nil)}, ""},
		"moved":             {[]Cluster{found("milan", there)}, []corev1beta1.ForeignCluster{existing("milan", lan, here, nil)}, "update milan " + there},
		"of somebody else":  {[]Cluster{found("milan", there)}, []corev1beta1.ForeignCluster{existing("milan", "", here, nil)}, ""},
		"of another way":    {[]Cluster{found("milan", there)}, []corev1beta1.ForeignCluster{existing("milan", dns, here, nil)}, ""},
		"moved and asked for": {[]Cluster{found("milan", there)}, []corev1beta1.ForeignCluster{existing("milan", lan, here, func(fc *corev1beta1.ForeignCluster) {
			fc.Spec.OutgoingPeeringEnabled = corev1beta1.PeeringYes
		})}, ""},
		"gone":                {nil, []corev1beta1.ForeignCluster{existing("milan", lan, here, nil)}, "delete milan " + here},
		"gone in another way": {nil, []corev1beta1.ForeignCluster{existing("milan", dns, here, nil), existing("turin", "", here, nil)}, ""},
		"gone and in use": {nil, []corev1beta1.ForeignCluster{existing("milan", lan, here, func(fc *corev1beta1.ForeignCluster) {
			fc.Status.Modules.Authentication.Enabled = true
		})}, ""},
		"gone and asked for": {nil, []corev1beta1.ForeignCluster{existing("milan", lan, here, func(fc *corev1beta1.ForeignCluster) {
			fc.Spec.OutgoingPeeringEnabled = corev1beta1.PeeringYes
		})}, ""},
		"gone and held": {nil, []corev1beta1.ForeignCluster{existing("milan", lan, here, func(fc *corev1beta1.ForeignCluster) {
			fc.Finalizers = []string{"x"}
		})}, ""},
	} {
		changes := Compare(row.found, row.existing, lan, "rome")
		got := ""
		for verb, list := range map[string][]corev1beta1.ForeignCluster{"create": changes.Create, "update": changes.Update, "delete": changes.Delete} {
			for _, fc := range list {
				got += strings.TrimSpace(verb + " " + fc.Name + " " + fc.Spec.ForeignAuthURL)
				if fc.Spec.OutgoingPeeringEnabled != corev1beta1.PeeringAuto && verb == "create" || fc.Labels[corev1beta1.LabelDiscoveryType] != lan {
					t.Errorf("%s: %+v", name, fc)
				}
			}
		}
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	var many []Cluster
	for i := range 3 * maxDiscovered {
		many = append(many, found(fmt.Sprintf("x%d", i), here))
	}
	if got := Compare(many, []corev1beta1.ForeignCluster{existing("x0", lan, here, nil)}, lan, "rome"); len(got.Create) != maxDiscovered-1 {
		t.Errorf("%d were created", len(got.Create))
	}
}

// TestNobodyJoinsAnAnnouncement: in the local network, a host may add its own name or address to the announcement of another cluster. Then the whole
// announcement is not used. In a domain, a cluster may have several addresses.
func TestNobodyJoinsAnAnnouncement(t *testing.T) {
	honest := local()
	for name, added := range map[string]func(string) Record{
		"a host": func(domain string) Record {
			return Record{Name: "milan." + ServiceName(domain), Type: SRV, TTL: 90, Weight: 9, Target: "liqo-auth-milan." + domain + ".", Port: 444}
		},
		"an address": func(domain string) Record {
			return Record{Name: "liqo-auth-milan." + domain + ".", Type: A, TTL: 90, Address: netip.MustParseAddr("192.0.2.66")}
		},
	} {
		if clusters, problems := Assemble(LocalDomain, append(honest.Records(LocalDomain), added(LocalDomain)), nil); len(clusters) > 0 || len(problems) != 1 {
			t.Errorf("%s: %+v, %v", name, clusters, problems)
		}
		if clusters, problems := Assemble(domain, append(honest.Records(domain), added(domain)), nil); len(clusters) != 1 || len(problems) > 0 {
			t.Errorf("%s in a domain: %+v, %v", name, clusters, problems)
		}
	}
}
