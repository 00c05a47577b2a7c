package main

import (
	"bufio"
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/internal/gateway"
	"liqo.io/liqo/internal/network"
	"liqo.io/liqo/test/playground"
)

// The ends of the bare tunnel, and the networks behind them.
const (
	bareServer      = "192.168.218.1"
	bareClient      = "192.168.218.2"
	forwardedServer = "192.168.219"
	forwardedClient = "192.168.220"
)

// bare creates a tunnel without gateways and adds two paths: Bare and Forwarded. It returns the implementation of WireGuard that the tunnel uses. The
// tunnel connects two pods on the nodes of the gateways. Each pod has the container that holds the tunnel in a gateway, unchanged, and is reached
// through a Service like a gateway. The test servers run in the same pods.
func (b *networkBench) bare(ctx context.Context) (implementation string, err error) {
	const name = "bare"
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": name},
			Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolUDP, Port: network.TunnelPort, TargetPort: intstr.FromInt32(network.TunnelPort)}},
		},
	}
	if err := b.milan.Create(ctx, service); err != nil {
		return "", err
	}
	var inside playground.Inside
	var ends [2]forwardedEnd
	keys := [2]*ecdh.PrivateKey{}
	for i := range keys {
		if keys[i], err = ecdh.X25519().GenerateKey(rand.Reader); err != nil {
			return "", err
		}
	}
	for i, c := range []*playground.Cluster{b.milan, b.rome} {
		peer := map[*playground.Cluster]string{b.milan: "rome", b.rome: "milan"}[c]
		gateway, err := only(ctx, c, api.TenantNamespace(peer), gatewayLabels)
		if err != nil {
			return "", err
		}
		if err := c.Create(ctx, barePod(name, c.Node(), gateway)); err != nil {
			return "", err
		}
		pod, err := b.ready(ctx, c, metav1.NamespaceDefault, name)
		if err != nil {
			return "", err
		}
		own, other, behind, beyond, sender := bareServer, bareClient, forwardedServer, forwardedClient, "on-milan"
		configuration := []string{"listen_port=" + strconv.Itoa(network.TunnelPort)}
		far := []string{"public_key=" + hex.EncodeToString(keys[1-i].PublicKey().Bytes())}
		if c == b.rome {
			own, other, behind, beyond, sender = other, own, beyond, behind, "on-"+b.rome.Node()
			configuration = nil
			address, err := b.balancer(ctx, service)
			if err != nil {
				return "", err
			}
			far = append(far, "endpoint="+net.JoinHostPort(address, strconv.Itoa(network.TunnelPort)), "persistent_keepalive_interval=25")
			if inside, err = playground.In(pod); err != nil {
				return "", err
			}
		}
		configuration = append([]string{"private_key=" + hex.EncodeToString(keys[i].Bytes())}, configuration...)
		configuration = append(append(configuration, far...), "allowed_ip="+other+"/32", "allowed_ip="+beyond+".0/30")
		if implementation, err = bareEnd(ctx, pod, own, configuration); err != nil {
			return "", fmt.Errorf("creating the bare tunnel in %s: %w", c.ID, err)
		}
		if ends[i], err = forwardedFrom(ctx, c, sender, pod, behind); err != nil {
			return "", err
		}
	}
	b.paths = append(b.paths, path{Bare, inside, net.JoinHostPort(bareServer, streamPort)})
	return implementation, b.forwarded(ctx, ends[1], ends[0])
}

// tunnelContainer is the name of the container that holds the tunnel in a gateway.
const tunnelContainer = "wireguard"

// barePod returns a pod with the test server and with the container that holds the tunnel in a gateway, including the volumes of that container.
func barePod(name, node string, gateway *corev1.Pod) *corev1.Pod {
	pod := networkPod(metav1.NamespaceDefault, name, node)
	for _, container := range gateway.Spec.Containers {
		if container.Name != tunnelContainer {
			continue
		}
		mounts := map[string]bool{}
		for _, mount := range container.VolumeMounts {
			mounts[mount.Name] = true
		}
		pod.Spec.Containers = append(pod.Spec.Containers, container)
		for _, volume := range gateway.Spec.Volumes {
			if mounts[volume.Name] {
				pod.Spec.Volumes = append(pod.Spec.Volumes, volume)
			}
		}
	}
	return pod
}

// balancer waits for the address of a Service.
func (b *networkBench) balancer(ctx context.Context, service *corev1.Service) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, errors.New("the Service of the bare tunnel has no address"))
	defer cancel()
	for {
		found, err := b.milan.Set.CoreV1().Services(service.Namespace).Get(ctx, service.Name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		if ingress := found.Status.LoadBalancer.Ingress; len(ingress) > 0 {
			return ingress[0].IP, nil
		}
		if !pause(ctx, 200*time.Millisecond) {
			return "", context.Cause(ctx)
		}
	}
}

// bareEnd waits until the tunnel container of a pod runs, and configures that end of the tunnel. It returns the implementation of WireGuard in use.
func bareEnd(ctx context.Context, pod *corev1.Pod, address string, configuration []string) (string, error) {
	pids, err := playground.Container(pod, tunnelContainer)
	if err != nil {
		return "", err
	}
	pid := strconv.Itoa(pids[0])
	directory := filepath.Join("/proc", pid, "root", gateway.Directory)
	var implementation string
	for deadline := time.Now().Add(10 * time.Second); ; {
		used, err := os.ReadFile(filepath.Join(directory, "implementation"))
		if err == nil {
			implementation = string(used)
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || time.Now().After(deadline) || !pause(ctx, 50*time.Millisecond) {
			return "", fmt.Errorf("waiting for the tunnel: %w", err)
		}
	}
	if implementation != string(gateway.UserSpace) {
		return "", fmt.Errorf("the tunnel is of the %s: this configures user-space ones only", implementation)
	}
	if err := configure(ctx, filepath.Join(directory, dataplane.TunnelLink+".sock"), configuration); err != nil {
		return "", err
	}
	for _, command := range []string{"ip address add " + address + "/30 dev " + dataplane.TunnelLink, "ip link set " + dataplane.TunnelLink + " up"} {
		if _, err := output(ctx, "nsenter --target "+pid+" --net -- "+command); err != nil {
			return "", err
		}
	}
	return implementation, nil
}

// configure sends lines of the configuration protocol of user-space WireGuard (https://www.wireguard.com/xplatform/).
func configure(ctx context.Context, socket string, lines []string) error {
	var conn net.Conn
	var err error
	for deadline := time.Now().Add(10 * time.Second); ; {
		if conn, err = (&net.Dialer{}).DialContext(ctx, "unix", socket); err == nil || time.Now().After(deadline) || !pause(ctx, 50*time.Millisecond) {
			break
		}
	}
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "set=1\n%s\n\n", strings.Join(lines, "\n")); err != nil {
		return err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && strings.TrimSpace(answer) != "errno=0" {
		err = fmt.Errorf("configuring the tunnel: %s", answer)
	}
	return err
}
