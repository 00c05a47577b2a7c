package doors

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// peeringUser: a kubeconfig allows one consumer to peer, and nothing else, until it is revoked.
func peeringUser(s *story.Story) {
	rome, milan, naples := s.Rome, s.Milan, s.Naples
	var user string
	s.Step("milan makes a peering user for rome, who peers as it", func() {
		user = userFor(s, milan, "rome")
		shell(s, rome, "liqoctl peer --networking-disabled --remote-kubeconfig "+user)
		s.NodeReady("milan", true, soon)
	})
	g := inviteGuests(s, rome, milan)
	s.Step("it is good for nothing else", func() {
		for _, what := range []string{"nodes", "secrets -n liqo", "secrets -n liqo-tenant-rome", "pods -n " + g.twin(), "tenants -A"} {
			refused(s, rome, "kubectl get "+what+" --kubeconfig "+user, "is forbidden")
		}
		refused(s, naples, "liqoctl peer --networking-disabled --remote-kubeconfig "+user, "forbidden")
	})
	s.Step("nor is a certificate of it that ended", func() {
		refused(s, rome, "liqoctl peer --networking-disabled --remote-kubeconfig "+ended(s, milan, user), "does not know the user of the kubeconfig")
	})
	s.Step("milan takes it back: what was peered goes on", func() {
		shell(s, milan, "liqoctl delete peering-user --consumer-cluster-id rome")
		refused(s, rome, "liqoctl unpeer --remote-kubeconfig "+user, "forbidden")
		s.NodeReady("milan", true, soon)
		s.PodReady(rome, ns, "away", soon)
	})
	g.leave()
	s.Step("another one undoes the peering, and the first is as worthless as before", func() {
		another := userFor(s, milan, "rome")
		refused(s, rome, "liqoctl unpeer --remote-kubeconfig "+user, "forbidden")
		shell(s, rome, "liqoctl unpeer --remote-kubeconfig "+another)
		shell(s, milan, "liqoctl delete peering-user --consumer-cluster-id rome")
		strangers(s, rome, milan)
		strangers(s, naples, milan)
	})
}

// userFor creates a peering user in a provider, and returns the file of its kubeconfig. The file has the address of the API server that this machine reaches.
func userFor(s *story.Story, provider *playground.Cluster, consumer string) string {
	s.Helper()
	config, err := clientcmd.Load([]byte(shell(s, provider, "liqoctl generate peering-user --consumer-cluster-id "+consumer)))
	s.Must(err)
	for _, cluster := range config.Clusters {
		cluster.Server = provider.Config.Host
	}
	return written(s, config)
}

func written(s *story.Story, config *clientcmdapi.Config) string {
	s.Helper()
	file := filepath.Join(s.TempDir(), "user.kubeconfig")
	s.Must(clientcmd.WriteToFile(*config, file))
	return file
}

// ended returns the kubeconfig of a user whose certificate has expired. The certificate has the same authority and name.
func ended(s *story.Story, c *playground.Cluster, user string) string {
	s.Helper()
	config, err := clientcmd.LoadFromFile(user)
	s.Must(err)
	home := os.Getenv("PLAYGROUND_HOME")
	if home == "" {
		home = "/var/lib/liqo-playground"
	}
	authority, err := tls.LoadX509KeyPair(filepath.Join(home, "clusters", c.Name, "pki", "ca.crt"), filepath.Join(home, "clusters", c.Name, "pki", "ca.key"))
	s.Must(err)
	for _, info := range config.AuthInfos {
		block, _ := pem.Decode(info.ClientCertificateData)
		good, err := x509.ParseCertificate(block.Bytes)
		s.Must(err)
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		s.Must(err)
		template := &x509.Certificate{
			SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: good.Subject, NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour),
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}
		der, err := x509.CreateCertificate(rand.Reader, template, authority.Leaf, key.Public(), authority.PrivateKey)
		s.Must(err)
		private, err := x509.MarshalPKCS8PrivateKey(key)
		s.Must(err)
		info.ClientCertificateData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
		info.ClientKeyData = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	}
	return written(s, config)
}
