package reflection

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestNothingIsMissed: watch events, bookmarks, lists and responses to own writes arrive in any order. A client that reads an object after each
// notification has in the end the state of the API server. A response may contain an earlier write of another client. etcd may be restored from a
// backup: a new list follows, the writes after the backup are lost, and their resource versions are used again.
func TestNothingIsMissed(t *testing.T) {
	const worlds, writes, names = 5000, 12, 2
	// write is the operation of the API server with each resource version: it wrote or deleted the object of that name.
	type write struct {
		name    string
		uid     types.UID
		deleted bool
	}
	for seed := range uint64(worlds) {
		random := rand.New(rand.NewPCG(seed, 0))
		var log []string
		var s *store
		seen := map[string]string{}
		state := func(obj client.Object) string { return obj.GetResourceVersion() + " of " + string(obj.GetUID()) }
		look := func(key types.NamespacedName, _, _ client.Object) {
			delete(seen, key.Name)
			if obj := s.get(key); obj != nil {
				seen[key.Name] = state(obj)
			}
		}
		s = newStore(Resource{Object: &corev1.ConfigMap{}}, look, func() {
			for _, key := range s.keys() {
				look(key, nil, nil)
			}
		})
		object := func(w write, version int) client.Object {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: w.name, UID: w.uid, ResourceVersion: strconv.Itoa(version)}}
		}
		history, has := []write{}, map[string]int{}
		version := func(writes int) int { return 1 + writes } // resource version 1 is from before all writes
		told := 0                                             // the number of writes that the watch has reported
		uids := 0
		var listed []any // the list that the API server has made and the store has not received yet
		listing := false
		ask := func() {
			s.listing()
			listed, listing = nil, true
			for _, at := range has {
				listed = append(listed, object(history[at-2], at))
			}
			told = len(history)
			log = append(log, fmt.Sprintf("list at %d", told))
		}
		list := func() error {
			listing = false
			log = append(log, "listed")
			return s.Replace(listed, strconv.Itoa(version(told)))
		}
		restore := func(to int) {
			log = append(log, fmt.Sprintf("restored to %d of %d", to, len(history)))
			history = history[:to:to]
			clear(has)
			for i, w := range history {
				has[w.name] = version(i + 1)
				if w.deleted {
					delete(has, w.name)
				}
			}
		}
		event := func() error {
			w := history[told]
			told++
			log = append(log, fmt.Sprintf("event %d: %v", told, w))
			if w.deleted {
				return s.Delete(object(w, version(told)))
			}
			return s.Update(object(w, version(told)))
		}
		ask()
		err := list()
		restores := 0
		for err == nil && (len(history) < writes || told < len(history) || listing) {
			switch n := len(history); random.IntN(6) {
			case 0, 1:
				if n == writes {
					break
				}
				uids++
				w := write{name: fmt.Sprint("name-", random.IntN(names)), uid: types.UID(fmt.Sprint(uids))}
				if at := has[w.name]; at != 0 {
					w.uid, w.deleted = history[at-2].uid, random.IntN(3) == 0
				}
				history = append(history, w)
				has[w.name] = version(len(history))
				if w.deleted {
					delete(has, w.name)
				}
				if w.deleted && random.IntN(2) == 0 {
					log = append(log, fmt.Sprintf("removed by us: %v", w))
					s.removed(object(w, 0))
				}
			case 2, 3:
				if listing { // a reflector receives no events until its list has arrived
					err = list()
				} else if told < n {
					err = event()
				}
			case 4:
				if listing { // a reflector receives no events until its list has arrived
					break
				}
				if n > 0 && restores < 2 && random.IntN(6) == 0 {
					restores++
					restore(random.IntN(n))
					ask()
				} else if random.IntN(3) == 0 {
					ask()
				} else if told > 0 {
					err = s.Bookmark(strconv.Itoa(version(told)))
				}
			case 5:
				if i := random.IntN(n + 1); i < n && !history[i].deleted {
					log = append(log, fmt.Sprintf("answer %d: %v", i+1, history[i]))
					s.wrote(object(history[i], version(i+1)))
				}
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		holds, want := map[string]string{}, map[string]string{}
		for _, obj := range s.list() {
			holds[obj.GetName()] = state(obj)
		}
		for _, at := range has {
			obj := object(history[at-2], at)
			want[obj.GetName()] = state(obj)
		}
		if !maps.Equal(holds, want) || !maps.Equal(seen, want) {
			t.Fatalf("seed %d: the store differs by (-has +want): %s, what was seen by: %s\nafter %q", seed, gocmp.Diff(holds, want), gocmp.Diff(seen, want), log)
		}
	}
}
