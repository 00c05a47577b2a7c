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
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"liqo.io/liqo/internal/gateway"
	"liqo.io/liqo/internal/network"
	"liqo.io/liqo/test/playground"
)

// bareTunnel is two pods with nothing but the tunnel between them: the program that holds it in gateways, on the same nodes, reached through
// a Service like a gateway, but with servers at its very ends.
type bareTunnel struct {
	ends           []*exec.Cmd
	implementation string
}

// Ends of the bare tunnel.
const (
	bareServer = "192.168.218.1"
	bareClient = "192.168.218.2"
	bareMTU    = 1340 // that of peer, so that packets are as long as on the paths compared with it
)

// bare makes the tunnel and adds its path.
func (b *networkBench) bare(ctx context.Context) (t *bareTunnel, err error) {
	const name = "bare"
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": name},
			Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolUDP, Port: network.TunnelPort, TargetPort: intstr.FromInt32(network.TunnelPort)}},
		},
	}
	if err := b.milan.Create(ctx, service); err != nil {
		return nil, err
	}
	t = &bareTunnel{}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	var inside playground.Inside
	keys := [2]*ecdh.PrivateKey{}
	for i := range keys {
		if keys[i], err = ecdh.X25519().GenerateKey(rand.Reader); err != nil {
			return t, err
		}
	}
	for i, c := range []*playground.Cluster{b.milan, b.rome} {
		if err := c.Create(ctx, networkPod(metav1.NamespaceDefault, name, c.Node())); err != nil {
			return t, err
		}
		pod, err := b.ready(ctx, c, metav1.NamespaceDefault, name)
		if err != nil {
			return t, err
		}
		pids, err := playground.Container(pod, pod.Spec.Containers[0].Name)
		if err != nil {
			return t, err
		}
		own, other := bareServer, bareClient
		configuration := []string{"listen_port=" + strconv.Itoa(network.TunnelPort)}
		peer := []string{"public_key=" + hex.EncodeToString(keys[1-i].PublicKey().Bytes())}
		if c == b.rome {
			own, other = other, own
			configuration = nil
			address, err := b.balancer(ctx, service)
			if err != nil {
				return t, err
			}
			peer = append(peer, "endpoint="+net.JoinHostPort(address, strconv.Itoa(network.TunnelPort)), "persistent_keepalive_interval=25")
			if inside, err = playground.In(pod); err != nil {
				return t, err
			}
		}
		configuration = append([]string{"private_key=" + hex.EncodeToString(keys[i].Bytes())}, configuration...)
		configuration = append(append(configuration, peer...), "allowed_ip="+other+"/32")
		if err := t.start(ctx, b.machine.Root, pids[0], own, configuration); err != nil {
			return t, fmt.Errorf("making the bare tunnel in %s: %w", c.ID, err)
		}
	}
	b.paths = append(b.paths, path{Bare, inside, net.JoinHostPort(bareServer, streamPort)})
	return t, nil
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

// start runs the tunnel's program in the network of a pod, with a /run of its own for its socket, and configures it.
func (t *bareTunnel) start(ctx context.Context, root string, pid int, address string, configuration []string) error {
	in := []string{"nsenter", "--target", strconv.Itoa(pid), "--net", "--"}
	script := `mount -t tmpfs none /run && mkdir -p ` + gateway.Directory + ` && exec "$@"`
	args := append([]string{"--mount", "sh", "-c", script, "sh"}, in...)
	args = append(args, filepath.Join(root, "bin", "gateway"), "tunnel", "--mtu", strconv.Itoa(bareMTU))
	cmd := exec.Command("unshare", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return err
	}
	t.ends = append(t.ends, cmd)
	// Not by /var/run, a link that would lead out of there.
	directory := filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "root", "run", filepath.Base(gateway.Directory))
	for deadline := time.Now().Add(10 * time.Second); ; {
		used, err := os.ReadFile(filepath.Join(directory, "implementation"))
		if err == nil {
			t.implementation = string(used)
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || time.Now().After(deadline) || !pause(ctx, 50*time.Millisecond) {
			return fmt.Errorf("waiting for the tunnel: %w: %s", err, said.String())
		}
	}
	if t.implementation != string(gateway.UserSpace) {
		return fmt.Errorf("the tunnel is of the %s: this configures user-space ones only", t.implementation)
	}
	if err := configure(ctx, filepath.Join(directory, "liqo-tunnel.sock"), configuration); err != nil {
		return err
	}
	for _, command := range []string{"ip address add " + address + "/30 dev " + "liqo-tunnel", "ip link set liqo-tunnel up"} {
		whole := append(append([]string{}, in...), strings.Fields(command)...)
		if out, err := exec.CommandContext(ctx, whole[0], whole[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", command, err, out)
		}
	}
	return nil
}

// configure speaks the configuration protocol of user-space WireGuard (https://www.wireguard.com/xplatform/).
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

// close ends the programs.
func (t *bareTunnel) close() error {
	for _, cmd := range t.ends {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		_ = cmd.Wait() // it was told to end
	}
	return nil
}
