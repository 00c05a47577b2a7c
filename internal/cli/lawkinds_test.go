package cli

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// uninstalled runs the command where the custom resource definitions are gone: it says so, and what brings them back. That there are no objects of
// kinds that nobody knows would be no answer.
func (l *trial) uninstalled(t *testing.T) {
	t.Helper()
	if strings.HasPrefix(l.command, "doctor") {
		return // it reports each missing kind
	}
	asked := map[string]bool{} // the clusters whose objects of Liqo are read
	for _, request := range l.want.seen {
		fields := strings.Fields(request)
		path, _, _ := strings.Cut(fields[2], "?")
		if of, ok := parsePath(path); ok && strings.Contains(of.of, "liqo.io/") {
			asked[fields[0]] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(asked)) {
		ran := l.in(t, l.at, l.command, func() {
			l.silent = true // so are the controllers
			for of := range servedKinds() {
				l.clusters[id].without[of] = strings.Contains(of, "liqo.io/")
			}
		})
		if ran.code != 1 || !strings.Contains(ran.said, "liqo is not installed in https://"+id) || !strings.Contains(ran.said, "liqoctl install") {
			t.Errorf("%s, and no definitions in %s: code %d\n%s%s", l.command, id, ran.code, ran.out, ran.said)
		}
	}
}
