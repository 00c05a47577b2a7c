package scenario

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// life is the lifetime of the certificates that the story issues. They are renewed after two thirds of it. The provider's own signer issues the renewed ones,
// with the usual lifetime.
const life = 90 * time.Second

// renewal: rome's certificates for milan are about to expire while pods are created and deleted. They are renewed after two thirds of their lifetime. Every pod runs, none runs twice, the node stays Ready, and open log and exec streams to a pod are not interrupted.
func renewal(s *story.Story) {
	const ns = "renewal"
	rome, milan := s.Rome, s.Milan
	s.Step("a namespace", func() { s.Offload(ns) })
	there := s.Record(milan, story.Twin(ns))
	streams := openStreams(s, ns)
	kubelets, err := s.TryPods(s.Context(), rome, "liqo-tenant-milan")
	s.Must(err)

	pods := 0
	var began time.Time
	s.Step("certificates that end soon", func() { began = shorten(s) })
	s.Step("pods are created and deleted, and the certificates are renewed", func() { pods = renewed(s, ns, began) })
	s.Step("a log stream and an exec went on all the while", streams.check)

	s.Step("they are good for what they were for", func() {
		last := fmt.Sprintf("p%d", pods-1)
		s.PodReady(rome, ns, last, start)
		s.PodsReady(milan, story.Twin(ns), 5, start) // the last four pods, and the talker
		s.NodeReady("milan", true, start)
		if got := s.Exec(rome, story.WebSocket, ns, last, "", "/testserver", "cat", "/etc/hostname"); got.Out != last+"\n" {
			s.Errorf("exec: %+v", got)
		}
		if seen := there.Pods(); len(seen) > pods+1 {
			s.Errorf("milan ran %d pods for %d: %v", len(seen), pods+1, seen)
		}
		s.Eventually(start, "the same virtual kubelet to be there", func(ctx context.Context) error {
			var kubelet appsv1.Deployment
			if err := rome.Get(ctx, client.ObjectKey{Namespace: "liqo-tenant-milan", Name: "vk-milan"}, &kubelet); err != nil {
				return err
			}
			now, err := s.TryPods(ctx, rome, "liqo-tenant-milan")
			if err == nil && !slices.Equal(story.Names(now), story.Names(kubelets)) {
				err = fmt.Errorf("the virtual kubelet was replaced: %v, %v before", story.Names(now), story.Names(kubelets))
			}
			if err == nil && (len(now) != 1 || kubelet.Status.ObservedGeneration != kubelet.Generation || kubelet.Status.UpdatedReplicas != 1 || kubelet.Status.AvailableReplicas != 1) {
				err = fmt.Errorf("%v, %+v", story.Names(now), kubelet.Status)
			}
			return err
		})
		s.Renewed(rome, "secrets liqo-tenant-milan/", "identities liqo-tenant-milan/", "deployments liqo-tenant-milan/", "replicasets liqo-tenant-milan/", "pods liqo-tenant-milan/")
		s.Renewed(milan, "secrets liqo-tenant-rome/")
	})
}

// shorten replaces both of rome's certificates for milan by ones that expire soon, and returns the start of their validity.
func shorten(s *story.Story) (began time.Time) {
	s.Helper()
	rome, milan := s.Rome, s.Milan
	authority := authorityOf(s, milan)
	// Wait until the response to an earlier request is deleted. Otherwise rome would use that certificate, which is valid for longer.
	for c, namespace := range map[*playground.Cluster]string{rome: "liqo-tenant-milan", milan: "liqo-tenant-rome"} {
		answered := &authv1beta1.Renew{}
		answered.Namespace, answered.Name = namespace, "controlplane-milan"
		s.Gone(c, answered, start)
	}
	// The certificate that milan has issued for the slice is still valid, so milan has to issue another one.
	kept := &corev1.Secret{}
	kept.Namespace, kept.Name = "liqo-tenant-rome", peering.CertificateSecretName("milan")
	s.Must(milan.Delete(s.Context(), kept))
	began = time.Now()
	slice := &authv1beta1.ResourceSlice{}
	s.Must(milan.Get(s.Context(), client.ObjectKey{Namespace: "liqo-tenant-rome", Name: "milan"}, slice))
	before := slice.DeepCopy()
	slice.Status.AuthParams.SignedCRT = authority.again(s, slice.Status.AuthParams.SignedCRT, began)
	s.Must(milan.Status().Patch(s.Context(), slice, client.MergeFrom(before)))
	controlPlane := &authv1beta1.Identity{}
	s.Must(rome.Get(s.Context(), client.ObjectKey{Namespace: "liqo-tenant-milan", Name: "controlplane-milan"}, controlPlane))
	was := controlPlane.DeepCopy()
	controlPlane.Spec.AuthParams.SignedCRT = authority.again(s, controlPlane.Spec.AuthParams.SignedCRT, began)
	s.Must(rome.Patch(s.Context(), controlPlane, client.MergeFrom(was)))
	return began
}

// renewed creates and deletes pods until both certificates are renewed. It returns the number of created pods.
func renewed(s *story.Story, ns string, began time.Time) (pods int) {
	s.Helper()
	short, after := map[string]bool{}, map[string]time.Duration{}
	for deadline := began.Add(life); len(after) < 2; {
		if time.Now().After(deadline) {
			s.Fatalf("the certificates ended, and renewed were only %v", after)
		}
		if exchange(s, ns, pods) {
			pods++
		}
		s.Must(pause(s.Context(), 200*time.Millisecond))
		for _, name := range []string{"controlplane-milan", "resourceslice-milan"} {
			identity := &authv1beta1.Identity{}
			s.Must(s.Rome.Get(s.Context(), client.ObjectKey{Namespace: "liqo-tenant-milan", Name: name}, identity))
			certificate, err := pki.First(identity.Spec.AuthParams.SignedCRT)
			s.Must(err)
			ends := certificate.NotAfter.Sub(began) <= life
			short[name] = short[name] || ends
			if _, is := after[name]; !is && short[name] && !ends {
				after[name] = time.Since(began)
			}
		}
	}
	fmt.Printf("             %d pods; renewed of %v after %v\n", pods, life, after)
	for name, took := range after {
		if took < life*2/3-time.Second {
			s.Errorf("%s was renewed after %v already", name, took)
		}
	}
	return pods
}

// exchange creates a pod with that number, and reports whether it did. If there are four pods already, it first deletes the oldest one. Each pod runs before it
// is deleted, so that the machine is never asked to start more pods than it can: that would delay the renewals.
func exchange(s *story.Story, ns string, number int) bool {
	s.Helper()
	present := slices.DeleteFunc(s.Pods(s.Rome, ns), func(pod corev1.Pod) bool {
		return pod.DeletionTimestamp != nil || !strings.HasPrefix(pod.Name, "p")
	})
	slices.SortFunc(present, func(a, b corev1.Pod) int { return numberOf(a) - numberOf(b) })
	if len(present) == 4 && story.Ready(present[0]) {
		s.Must(s.Rome.Delete(s.Context(), &present[0]))
		present = present[1:]
	}
	if len(present) == 4 {
		return false
	}
	s.Must(s.Rome.Create(s.Context(), story.PodOn("milan", ns, fmt.Sprintf("p%d", number), playground.TestServer)))
	return true
}

// streams are two open connections to a pod of rome in milan.
type streams struct {
	*story.Story
	ns      string
	lines   *bufio.Scanner
	stop    context.CancelFunc
	session *story.Session
}

func openStreams(s *story.Story, ns string) *streams {
	s.Helper()
	open := &streams{Story: s, ns: ns}
	s.Step("a log stream and an exec", func() {
		s.Must(s.Rome.Create(s.Context(), story.PodOn("milan", ns, "talker", playground.Shell, "sh", "-c",
			"i=0; while :; do echo tick $i; i=$((i+1)); sleep 0.5; done")))
		s.PodReady(s.Rome, ns, "talker", start)
		open.lines, open.stop = s.LogStream(s.Rome, ns, "talker")
		open.session = s.Session(s.Rome, story.WebSocket, ns, "talker", "sh", "-c", "while read x; do echo heard $x; done")
		open.ask("before")
	})
	return open
}

func (o *streams) ask(line string) {
	o.Helper()
	if got := o.session.Ask(line); got != "heard "+line {
		o.Errorf("exec: asked %q and heard %q", line, got)
	}
}

// check reads the whole log stream. It must have no gap, and must continue with new lines of the pod.
func (o *streams) check() {
	o.Helper()
	o.ask("after")
	defer time.AfterFunc(start, o.stop).Stop()
	last := strings.TrimSpace(o.Logs(o.Rome, o.ns, "talker", corev1.PodLogOptions{TailLines: new(int64(1))}))
	for tick := 0; last != "" && o.lines.Scan(); tick++ {
		line := o.lines.Text()
		if want := fmt.Sprintf("tick %d", tick); line != want {
			o.Fatalf("the log stream says %q, want %q", line, want)
		}
		if line == last {
			return
		}
	}
	o.Fatalf("the log stream ended before %q: %v", last, o.lines.Err())
}

// numberOf returns the number in the name of a pod: 7 for p7.
func numberOf(pod corev1.Pod) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(pod.Name, "p"))
	return n
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// authority is the certificate authority with which a cluster signs client certificates.
type authority struct {
	certificate *x509.Certificate
	key         any
}

func authorityOf(s *story.Story, c *playground.Cluster) *authority {
	s.Helper()
	read := func(name string) []byte {
		text, err := s.Machine.Exec(s.Context(), c.Node(), "cat", "/etc/kubernetes/"+name)
		s.Must(err)
		block, _ := pem.Decode([]byte(text))
		if block == nil {
			s.Must(errors.New(name + " is not PEM"))
		}
		return block.Bytes
	}
	certificate, err := x509.ParseCertificate(read("ca.crt"))
	s.Must(err)
	key, err := x509.ParsePKCS8PrivateKey(read("ca.key"))
	s.Must(err)
	return &authority{certificate, key}
}

// again issues a certificate for the same subject and key as an existing one, with a short lifetime that starts now.
func (a *authority) again(s *story.Story, present []byte, now time.Time) []byte {
	s.Helper()
	certificate, err := pki.First(present)
	s.Must(err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), NotBefore: now.Truncate(time.Second), NotAfter: now.Truncate(time.Second).Add(life),
		Subject:  pkix.Name{CommonName: certificate.Subject.CommonName, Organization: certificate.Subject.Organization},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, a.certificate, certificate.PublicKey, a.key)
	s.Must(err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
