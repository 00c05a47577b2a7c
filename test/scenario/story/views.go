package story

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ipam"
	"liqo.io/liqo/test/playground"
)

// NodeAddress is the InternalIP of a node.
func (s *Story) NodeAddress(c *playground.Cluster, name string) netip.Addr {
	s.Helper()
	var node corev1.Node
	s.Must(c.Get(s.Context(), client.ObjectKey{Name: name}, &node))
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			return netip.MustParseAddr(address.Address)
		}
	}
	s.Fatalf("node %s has no InternalIP", name)
	return netip.Addr{}
}

// External returns how a cluster sees the external CIDR of another cluster.
func (s *Story) External(in, of *playground.Cluster) ipam.Remap {
	s.Helper()
	var list networkingv1beta1.ConfigurationList
	s.Must(in.List(s.Context(), &list, client.MatchingLabels{api.LabelRemoteClusterID: of.ID}))
	if len(list.Items) != 1 || list.Items[0].Status.Remote == nil {
		s.Fatalf("%s does not see %s: %+v", in.ID, of.ID, list.Items)
	}
	found := list.Items[0]
	return ipam.Remap{
		Real: netip.MustParsePrefix(found.Spec.Remote.CIDR.External[0]), View: netip.MustParsePrefix(found.Status.Remote.CIDR.External[0]),
	}
}

// View waits until the IP object of a cluster has an address, and returns the address at which another cluster sees it.
func (s *Story) View(in, of *playground.Cluster, key client.ObjectKey) netip.Addr {
	s.Helper()
	var ip ipamv1alpha1.IP
	s.Eventually(Start, fmt.Sprintf("IP %s of %s to have an address", key, of.ID), func(ctx context.Context) error {
		if err := of.Get(ctx, key, &ip); err != nil {
			return err
		}
		if ip.Status.IP == "" {
			return fmt.Errorf("conditions %+v", ip.Status.Conditions)
		}
		return nil
	})
	view, ok := s.External(in, of).ToView(netip.MustParseAddr(ip.Status.IP))
	if !ok {
		s.Fatalf("IP %s of %s has the address %s, outside of its external CIDR", key, of.ID, ip.Status.IP)
	}
	return view
}

// ReachesAPI checks that a pod in a provider reaches the API server of rome, and proves it by its certificate.
func (s *Story) ReachesAPI(from playground.Inside, in *playground.Cluster) {
	s.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(s.Rome.Config.CAData) {
		s.Fatal("rome has no certificate authority")
	}
	server := s.View(in, s.Rome, client.ObjectKey{Namespace: api.Namespace, Name: ipamv1alpha1.IPAPIServer})
	proxy := s.View(in, s.Rome, client.ObjectKey{Namespace: api.Namespace, Name: ipamv1alpha1.IPAPIServerProxy})
	for _, test := range []struct {
		target string
		proxy  func(*http.Request) (*url.URL, error)
	}{
		{"https://" + net.JoinHostPort(server.String(), "443") + "/version", nil},
		{"https://kubernetes.default.svc/version", http.ProxyURL(&url.URL{Scheme: "http", Host: net.JoinHostPort(proxy.String(), "8118")})},
	} {
		transport := &http.Transport{
			Proxy: test.proxy, DialContext: from.Dial, DisableKeepAlives: true,
			TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "kubernetes.default.svc", MinVersion: tls.VersionTLS12},
		}
		s.Eventually(Start, fmt.Sprintf("%s in %s to reach %s", from.Name, in.ID, test.target), func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, test.target, nil)
			if err != nil {
				return err
			}
			response, err := transport.RoundTrip(request)
			if err != nil {
				return err
			}
			defer func() { _ = response.Body.Close() }()
			body, err := io.ReadAll(response.Body)
			if err == nil && !strings.Contains(string(body), "gitVersion") {
				err = fmt.Errorf("%s: %s", response.Status, body)
			}
			return err
		})
	}
}
