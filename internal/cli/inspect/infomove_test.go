package inspect

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/storage"
	"liqo.io/liqo/test/clitest"
	"liqo.io/liqo/test/clitest/fakecluster"
)

// TestInfoAndStatusShowUnfinishedMoves: info and status name a move that no command has finished, with the volume that has the data and the commands that continue or
// cancel it, as text and for programs.
func TestInfoAndStatusShowUnfinishedMoves(t *testing.T) {
	const evidence = "the move of PersistentVolumeClaim data in namespace shop is unfinished: its data is in PersistentVolume pvc-u1"
	const cure = "continue it: liqoctl move volume data --namespace shop --target-node milan; or cancel it: the same command with a node of the cluster that has the data"
	for name, row := range map[string]struct {
		moves, claim bool
		want         []string
	}{
		"no move":                {claim: true},
		"an unfinished move":     {moves: true, claim: true, want: []string{evidence, cure}},
		"the claim is gone, too": {moves: true, want: []string{evidence + ", and the claim does not exist, so its pods can't start", cure}},
	} {
		volume, ok := clitest.VolumeOf("u1", "shop", "data", "").DeepCopyObject().(*corev1.PersistentVolume)
		if !ok {
			t.Fatal("no volume")
		}
		if row.moves {
			metav1.SetMetaDataAnnotation(&volume.ObjectMeta, storage.AnnotationMove, `{"node":"milan","provider":"milan"}`)
		}
		objects := []client.Object{volume, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: session.ControllerManager}, Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{}},
		}}
		if row.claim {
			objects = append(objects, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data"}})
		}
		var text bytes.Buffer
		c := fakecluster.New("rome", objects...)
		c.Namespace, c.Config, c.Console = "liqo", &rest.Config{Host: "https://rome"}, console.New(&text, &bytes.Buffer{}, false)
		status, err := gatherStatus(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		for command, write := range map[string]func() error{
			"info":           func() error { return status.localInfo.write(c.Console) },
			"status":         func() error { return status.write(c.Console, false) },
			"info -o json":   func() error { return json.NewEncoder(&text).Encode(status.localInfo) },
			"status -o json": func() error { return json.NewEncoder(&text).Encode(status) },
		} {
			text.Reset()
			if err := write(); err != nil {
				t.Fatal(err)
			}
			shown := strings.Join(strings.Fields(strings.NewReplacer("│", " ", "|", " ").Replace(text.String())), " ")
			for _, part := range row.want {
				if !strings.Contains(shown, part) {
					t.Errorf("%s: %s does not show %q:\n%s", name, command, part, text.String())
				}
			}
			if strings.Contains(shown, "liqoctl move volume") != row.moves {
				t.Errorf("%s: %s shows:\n%s", name, command, text.String())
			}
		}
	}
}
