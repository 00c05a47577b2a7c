package offload

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload/kinds"
	"liqo.io/liqo/internal/offload/kinds/podrules"
)

// withTokens adds a service account token to a pod.
func withTokens(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{{Name: "api", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}}}}}}
}

// TestTokenLaws covers every combination of a pod, its ShadowPod and its Secret.
func TestTokenLaws(t *testing.T) {
	pod := stepPod
	pod.APIServer = podrules.APIServer{Host: kinds.OriginAPIServer, Port: "443", Address: "10.70.0.3"}
	asks := func(more func(*corev1.Pod)) *corev1.Pod {
		return localPod("u1", func(p *corev1.Pod) {
			if more != nil {
				more(p)
			}
			withTokens(p)
		})
	}
	locals := map[string]*corev1.Pod{
		"none": nil, "new": asks(nil), "running": asks(labelled), "deleting": asks(func(p *corev1.Pod) { labelled(p); deleting(p) }),
		"finished": asks(phase2(corev1.PodSucceeded, "")), "without tokens": localPod("u1", labelled),
	}
	filled := func(uid string, expires time.Duration) *corev1.Secret {
		s := podrules.TokensSecret(asks(func(p *corev1.Pod) { p.UID = "u1" }), "shop-rome", pod)
		s.Annotations[kinds.AnnotationTokenPodUID] = uid
		podrules.FillTokens(s, map[string]string{podrules.Tokens(asks(nil), pod)[0].Key: ""}, stepNow.Add(expires-time.Hour), stepNow.Add(expires))
		return s
	}
	secrets := map[string]*corev1.Secret{
		"none": nil, "good": filled("u1", time.Hour), "due": filled("u1", time.Minute), "of an earlier pod": filled("u0", time.Hour), "foreign": {},
	}
	shadows := map[string]*offloadingv1beta1.ShadowPod{"none": nil, "ours": shadowFor(asks(nil), "s1", nil), "of an earlier pod": shadowFor(asks(func(p *corev1.Pod) { p.UID = "u0" }), "s0", nil), "foreign": shadowFor(asks(nil), "f1", func(s *offloadingv1beta1.ShadowPod) { s.Labels = nil })}
	for ln, local := range locals {
		for sn, secret := range secrets {
			for shn, shadow := range shadows {
				for _, synced := range []bool{true, false} {
					env := Env{Mapping: Mapping{State: Mapped, Namespace: "shop-rome"}, RemoteSynced: synced, Now: stepNow, Pod: pod}
					name := "local " + ln + ", secret " + sn + ", ShadowPod " + shn
					l, s := local.DeepCopy(), secret.DeepCopy()
					step, due, found := NextToken(local, shadow, secret, env)
					if !equality.Semantic.DeepEqual(l, local) || !equality.Semantic.DeepEqual(s, secret) {
						t.Errorf("%s: the facts were changed", name)
					}
					ours := secret != nil && sn != "foreign"
					wants := ln == "new" && (shn == "none" || shn == "ours") || ln == "running" && (shn == "ours" || shn == "of an earlier pod")
					switch {
					case !synced:
						if found {
							t.Errorf("%s: it acts on what it does not see: %s", name, step.Why)
						}
					case (ln == "none" || ln == "finished") && ours:
						if step.Action != DeleteRemote || !step.Confirm {
							t.Errorf("%s: tokens outlive their pod: %s (%s)", name, step.Action, step.Why)
						}
					case wants && sn == "none":
						if step.Action != CreateRemote || !step.Again {
							t.Errorf("%s: no tokens before the pod: %s (%s)", name, step.Action, step.Why)
						}
					case wants && (sn == "due" || sn == "of an earlier pod"):
						if step.Action != PatchRemote || step.Object.GetName() != podrules.TokenSecret("web") {
							t.Errorf("%s: stale tokens stay: %s (%s)", name, step.Action, step.Why)
						}
					case wants && sn == "good":
						if found || due != 48*time.Minute {
							t.Errorf("%s: due in %s, %s", name, due, step.Why)
						}
					case ln == "new" && shn == "none" && sn == "foreign":
						if step.Action != PatchLocalStatus || step.Warning == "" {
							t.Errorf("%s: the user does not hear of it: %s", name, step.Action)
						}
					default:
						if found {
							t.Errorf("%s: %s (%s)", name, step.Action, step.Why)
						}
					}
					if found && sn == "foreign" && step.Action != PatchLocalStatus {
						t.Errorf("%s: a foreign Secret is touched", name)
					}
				}
			}
		}
	}
}

func TestPodsWaitForTheirAPIServer(t *testing.T) {
	env := Env{Mapping: Mapping{State: Mapped, Namespace: "shop-rome"}, RemoteSynced: true, Now: stepNow, Pod: stepPod}
	env.Pod.APIServer.Waiting = "it has no address yet"
	if step := Next(localPod("u1", withTokens), nil, nil, env); step.Action != Nothing || step.Warning == "" {
		t.Errorf("%s (%s)", step.Action, step.Why)
	}
	if step := Next(localPod("u1", nil), nil, nil, env); step.Action != CreateRemote {
		t.Errorf("one without tokens: %s (%s)", step.Action, step.Why)
	}
}

func TestOriginAPIServerOfPods(t *testing.T) {
	pod := &corev1.Pod{}
	if UsesOriginAPIServer(pod) {
		t.Error("any pod uses the origin API server")
	}
	pod.Spec.HostAliases = []corev1.HostAlias{{IP: "10.0.0.1", Hostnames: []string{"db"}}, {IP: "10.70.0.3", Hostnames: []string{kinds.OriginAPIServer, "x"}}}
	if !UsesOriginAPIServer(pod) {
		t.Error("no pod uses the origin API server")
	}
	if err := SetOriginAPIServer(pod, func(netip.Addr) (netip.Addr, error) { return netip.MustParseAddr("10.71.0.3"), nil }); err != nil || pod.Spec.HostAliases[1].IP != "10.71.0.3" || pod.Spec.HostAliases[0].IP != "10.0.0.1" {
		t.Errorf("%v, %+v", err, pod.Spec.HostAliases)
	}
	foreign := errors.New("it is not the consumer's")
	if err := SetOriginAPIServer(pod, func(netip.Addr) (netip.Addr, error) { return netip.Addr{}, foreign }); !errors.Is(err, foreign) {
		t.Errorf("%v", err)
	}
	pod.Spec.HostAliases[1].IP = "nowhere"
	if err := SetOriginAPIServer(pod, nil); err == nil {
		t.Error("what is no address is one")
	}
}

// TestTokensThatAnEarlierReleaseNamed: tokens with the names of an earlier release are renewed in place while their pod runs, and removed for the
// next pod of its name.
func TestTokensThatAnEarlierReleaseNamed(t *testing.T) {
	pod := stepPod
	pod.APIServer = podrules.APIServer{Host: kinds.OriginAPIServer, Port: "443", Address: "10.70.0.3"}
	env := Env{Mapping: Mapping{State: Mapped, Namespace: "shop-rome"}, RemoteSynced: true, Now: stepNow, Pod: pod}
	running := localPod("u1", func(p *corev1.Pod) { labelled(p); withTokens(p) })
	secret := podrules.TokensSecret(running, "shop-rome", pod)
	secret.Name = podrules.FormerTokenSecret(running.Name)
	if step, _, _ := NextToken(running, shadowFor(running, "s1", nil), secret, env); step.Action != PatchRemote || step.Object.GetName() != secret.Name {
		t.Errorf("of a pod that runs: %s (%s)", step.Action, step.Why)
	}
	if step, _, _ := NextToken(localPod("u2", withTokens), nil, secret, env); step.Action != DeleteRemote || step.Object.GetName() != secret.Name {
		t.Errorf("of an earlier pod: %s (%s)", step.Action, step.Why)
	}
}
