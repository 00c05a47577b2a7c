package doors

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/peering/invite"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// outOfBand: two administrators peer with a peer command and without exchanging kubeconfigs. The story also tests what others can do with the command, and what
// is left after one side has ended the peering.
func outOfBand(s *story.Story) {
	rome, milan, naples := s.Rome, s.Milan, s.Naples
	command := func(provider *playground.Cluster, flags string) string {
		line := shell(s, provider, "liqoctl generate peer-command --only-command "+flags)
		if !strings.HasPrefix(line, "liqoctl peer out-of-band "+provider.ID+" ") || strings.Contains(line, "\n") {
			s.Fatalf("the peer command of %s is %q", provider.ID, line)
		}
		return line
	}
	var used string
	s.Step("rome uses milan", func() {
		used = command(milan, "")
		shell(s, rome, used)
		s.NodeReady("milan", true, start)
	})
	s.Step("the same command once more changes nothing", func() { shell(s, rome, used) })
	s.Step("tokens that naples has no use for", func() {
		refused(s, naples, used, "another cluster has used it")
		refused(s, naples, command(milan, "--consumer-cluster-id rome"), "the token was made for cluster rome, and this is naples")
		short := command(milan, "--token-lifetime 1s")
		s.Eventually(soon, "the token to expire", expired(short))
		refused(s, naples, short, "the token has expired")
		replaced := command(milan, "")
		s.Must(milan.Delete(s.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: invite.KeySecret}}))
		refused(s, naples, replaced, "the provider has replaced its Secret since")
	})
	s.Step("naples tidies up", func() {
		shell(s, naples, "liqoctl unpeer milan --delete-namespaces")
		strangers(s, milan, naples)
	})
	s.Step("milan uses rome, whose provider it is: by a token for milan, and no other", func() {
		refused(s, milan, command(rome, ""), "--consumer-cluster-id milan")
		shell(s, milan, command(rome, "--consumer-cluster-id milan"))
	})
	ours, theirs := inviteGuests(s, rome, milan), inviteGuests(s, milan, rome)
	ours.talk()
	theirs.talk()

	s.Step("rome leaves by itself", func() {
		refused(s, rome, "liqoctl unpeer milan --delete-namespaces", "cluster milan also uses resources of rome")
	})
	before := s.Pod(rome, theirs.twin(), "away")
	ours.leave()
	s.Step("unpeer milan", func() {
		shell(s, rome, "liqoctl unpeer milan")
		s.Gone(rome, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}, start)
	})
	s.Step("milan's pod in rome has noticed nothing", func() {
		now := s.PodReady(milan, ns, "away", start)
		guest := s.Pod(rome, theirs.twin(), "away")
		if guest.UID != before.UID || story.Restarts(*guest) != 0 || story.Restarts(*now) != 0 {
			s.Errorf("it was started again: %s, %s", before.UID, guest.UID)
		}
	})
	theirs.talk()
	theirs.leave()
	s.Step("milan leaves by itself, and each takes its empty namespace away", func() {
		shell(s, milan, "liqoctl unpeer out-of-band rome --delete-namespaces")
		strangers(s, rome, milan)
	})
	// The Secret also holds the list of used tokens.
	s.Others("secrets " + api.Namespace + "/" + invite.KeySecret)
}

// expired returns a check that the token in a peer command has expired. All clusters share the clock of this machine.
func expired(line string) func(context.Context) error {
	fields := strings.Fields(line)
	return func(context.Context) error {
		token, err := invite.ParseToken(fields[len(fields)-1])
		if err != nil {
			return err
		}
		if left := time.Until(token.Expires); left >= 0 {
			return fmt.Errorf("it is good for another %v", left)
		}
		return nil
	}
}
