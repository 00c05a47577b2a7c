package scenario

import (
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
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// life of the certificates that the story hands out. They are renewed at two thirds, and by the provider's own signer, so for as long as that one likes.
const life = 30 * time.Second

// renewal: rome's identities in milan are about to end while pods come and go. They are renewed in time, after two thirds of their life and not before; every pod
// runs, none twice, and the node stays Ready.
func renewal(s *story.Story) {
	const ns = "renewal"
	rome, milan := s.Rome, s.Milan
	s.Step("a namespace", func() { s.Offload(ns) })
	there := s.Record(milan, story.Twin(ns))

	var began time.Time
	controlPlane := &authv1beta1.Identity{}
	controlPlane.Namespace, controlPlane.Name = "liqo-tenant-milan", "controlplane-milan"
	slice := &authv1beta1.ResourceSlice{}
	slice.Namespace, slice.Name = "liqo-tenant-rome", "milan"
	s.Step("certificates that end soon", func() {
		authority := authorityOf(s, milan)
		// What milan has signed for the slice is still good: it has to sign anew.
		kept := &corev1.Secret{}
		kept.Namespace, kept.Name = "liqo-tenant-rome", peering.CertificateSecretName("milan")
		s.Must(milan.Delete(s.Context(), kept))
		began = time.Now()
		s.Must(milan.Get(s.Context(), client.ObjectKeyFromObject(slice), slice))
		before := slice.DeepCopy()
		slice.Status.AuthParams.SignedCRT = authority.again(s, slice.Status.AuthParams.SignedCRT, began)
		s.Must(milan.Status().Patch(s.Context(), slice, client.MergeFrom(before)))
		s.Must(rome.Get(s.Context(), client.ObjectKeyFromObject(controlPlane), controlPlane))
		was := controlPlane.DeepCopy()
		controlPlane.Spec.AuthParams.SignedCRT = authority.again(s, controlPlane.Spec.AuthParams.SignedCRT, began)
		s.Must(rome.Patch(s.Context(), controlPlane, client.MergeFrom(was)))
	})

	kubelets, err := s.TryPods(s.Context(), rome, "liqo-tenant-milan")
	s.Must(err)
	pods := 0
	short, renewed := map[string]bool{}, map[string]time.Duration{}
	s.Step("pods come and go, and the certificates are renewed", func() {
		for deadline := began.Add(life); len(renewed) < 2; {
			if time.Now().After(deadline) {
				s.Fatalf("the certificates ended, and renewed were only %v", renewed)
			}
			// Four at a time. Each of them runs before it is deleted, so that no more are asked for than the machine can start.
			present := slices.DeleteFunc(s.Pods(rome, ns), func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
			slices.SortFunc(present, func(a, b corev1.Pod) int { return numberOf(a) - numberOf(b) })
			if len(present) == 4 && story.Ready(present[0]) {
				s.Must(rome.Delete(s.Context(), &present[0]))
				present = present[1:]
			}
			if len(present) < 4 {
				s.Must(rome.Create(s.Context(), story.PodOn("milan", ns, fmt.Sprintf("p%d", pods), playground.TestServer)))
				pods++
			}
			s.Must(pause(s.Context(), 200*time.Millisecond))
			for _, name := range []string{"controlplane-milan", "resourceslice-milan"} {
				identity := &authv1beta1.Identity{}
				s.Must(rome.Get(s.Context(), client.ObjectKey{Namespace: "liqo-tenant-milan", Name: name}, identity))
				certificate, err := peering.Certificate(identity.Spec.AuthParams.SignedCRT)
				s.Must(err)
				ends := certificate.NotAfter.Sub(began) <= life
				short[name] = short[name] || ends
				if _, is := renewed[name]; !is && short[name] && !ends {
					renewed[name] = time.Since(began)
				}
			}
		}
		fmt.Printf("             %d pods; renewed of %v after %v\n", pods, life, renewed)
		for name, after := range renewed {
			if after < life*2/3-time.Second {
				s.Errorf("%s was renewed after %v already", name, after)
			}
		}
	})

	s.Step("they are good for what they were for", func() {
		last := fmt.Sprintf("p%d", pods-1)
		s.PodReady(rome, ns, last, start)
		s.PodsReady(milan, story.Twin(ns), 4, start)
		s.NodeReady("milan", true, start)
		if got := s.Exec(rome, story.WebSocket, ns, last, "", "/testserver", "cat", "/etc/hostname"); got.Out != last+"\n" {
			s.Errorf("exec: %+v", got)
		}
		if seen := there.Pods(); len(seen) > pods {
			s.Errorf("milan ran %d pods for %d: %v", len(seen), pods, seen)
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

// numberOf is 7 for the pod p7.
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

// authority is what a cluster signs client certificates with.
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

// again signs what a certificate is for once more, for a short life that begins now.
func (a *authority) again(s *story.Story, present []byte, now time.Time) []byte {
	s.Helper()
	certificate, err := peering.Certificate(present)
	s.Must(err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), NotBefore: now.Truncate(time.Second), NotAfter: now.Truncate(time.Second).Add(life),
		Subject:  pkix.Name{CommonName: certificate.Subject.CommonName, Organization: certificate.Subject.Organization},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, a.certificate, certificate.PublicKey, a.key)
	s.Must(err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
