package test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const everything = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: "registry.local/testserver:1"}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  type: LoadBalancer
  selector: {app: web}
  ports:
  - {name: http, port: 80, targetPort: 8080, nodePort: 30080}
  - {name: udp, port: 5353, protocol: UDP}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: shell}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - {name: shell, image: "registry.local/shell:1", command: [sleep, infinity], volumeMounts: [{name: data, mountPath: /data}]}
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
`

// budget is for a machine that does nothing else, with everything built.
const budget = 15 * time.Second

func TestOneNode(t *testing.T) {
	c, took := boot(t)
	if took > budget {
		t.Logf("warning: it took %v, and takes less than %v on a machine that does nothing else", took, budget)
	}
	c.apply(t, everything)
	c.kubectl(t, "rollout", "status", "deploy/web", "--timeout=60s")
	c.kubectl(t, "wait", "--for=condition=Ready", "pod/shell", "--timeout=60s")

	inside := func(t *testing.T, want string, args ...string) {
		t.Helper()
		c.eventually(t, 10*time.Second, want, append([]string{"exec", "shell", "--"}, args...)...)
	}
	t.Run("names", func(t *testing.T) {
		inside(t, c.kubectl(t, "get", "service", "web", "-o=jsonpath={.spec.clusterIP}"), "testserver", "lookup", "web.default.svc.cluster.local")
		inside(t, "pod: web-", "testserver", "get", "http://web/")
		inside(t, "pod", "testserver", "udp", "web:5353", "hello")
	})
	t.Run("node port", func(t *testing.T) { inside(t, "pod: web-", "testserver", "get", "http://172.30.1.1:30080/") })
	t.Run("load balancer", func(t *testing.T) {
		address := c.eventually(t, 10*time.Second, "172.30.1.", "get", "service", "web", "-o=jsonpath={.status.loadBalancer.ingress[0].ip}")
		inside(t, "pod: web-", "testserver", "get", "http://"+address+"/")
	})
	t.Run("logs", func(t *testing.T) {
		c.eventually(t, 10*time.Second, "serving", "logs", "deploy/web")
	})
	t.Run("volume", func(t *testing.T) {
		inside(t, "", "sh", "-c", "echo kept > /data/file")
		c.kubectl(t, "delete", "pod", "shell")
		c.apply(t, everything)
		c.kubectl(t, "wait", "--for=condition=Ready", "pod/shell", "--timeout=60s")
		inside(t, "kept", "cat", "/data/file")
	})
	t.Run("port-forward", func(t *testing.T) { forwarded(t, c) })
	t.Run("discovery", func(t *testing.T) {
		configuration := c.kubectl(t, "-n=kube-system", "get", "configmap", "kubeadm-config", "-o=jsonpath={.data.ClusterConfiguration}")
		for _, want := range []string{"podSubnet: 10.244.0.0/16", "serviceSubnet: 10.96.0.0/16", "clusterName: rome", "controlPlaneEndpoint: 172.30.1.1:6443"} {
			if !strings.Contains(configuration, want) {
				t.Errorf("the cluster configuration does not say %q:\n%s", want, configuration)
			}
		}
		if got := c.kubectl(t, "get", "endpointslice", "kubernetes", "-o=jsonpath={.endpoints[0].addresses[0]}"); got != "172.30.1.1" {
			t.Errorf("the API server is at %s", got)
		}
	})
	t.Run("image", func(t *testing.T) {
		archive := filepath.Join(t.TempDir(), "own.tar")
		playground(t, "build-image", "--name=registry.local/own:1", "--output="+archive, "--entrypoint=/busybox,echo,hello", "/bin/busybox:/busybox")
		playground(t, "load", "image-archive", archive, "--name=rome")
		c.kubectl(t, "run", "own", "--image=registry.local/own:1", "--restart=Never")
		c.eventually(t, 20*time.Second, "hello", "logs", "own")
	})
	t.Run("exec", func(t *testing.T) {
		if got := strings.TrimSpace(playground(t, "exec", "--name=rome", "--", "hostname")); got != "rome-1" {
			t.Errorf("hostname %q", got)
		}
		playground(t, "exec", "--node=rome-1", "--", "kubectl", "get", "--raw=/readyz")
	})
	t.Run("audit", func(t *testing.T) {
		data, err := os.ReadFile(filepath.Join(tool.home, "clusters/rome/nodes/rome-1/log/audit.log"))
		if err != nil || !strings.Contains(string(data), `"verb":"create"`) || strings.Contains(string(data), `"verb":"get"`) {
			t.Errorf("the audit log has %d bytes: %v", len(data), err)
		}
	})
	t.Run("again", func(t *testing.T) {
		if _, err := try(t.Context(), "create", "cluster", "--name=rome"); err == nil || !strings.Contains(err.Error(), "exists already") {
			t.Errorf("creating it again: %v", err)
		}
		playground(t, "create", "cluster", "--name=rome", "--if-not-exists")
	})
}

// boot makes a cluster and runs a pod in it.
func boot(t *testing.T) (cluster, time.Duration) {
	t.Helper()
	began := time.Now()
	c := create(t, "rome", "--audit")
	c.kubectl(t, "run", "first", "--image=registry.local/testserver:1")
	c.kubectl(t, "wait", "--for=condition=Ready", "pod/first", "--timeout=60s")
	took := time.Since(began)
	t.Logf("from nothing to the first running pod: %.1f s (load %s)", took.Seconds(), load())
	return c, took
}

// forwarded asks a Service through "kubectl port-forward".
func forwarded(t *testing.T, c cluster) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	listener.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := c.command(ctx, "port-forward", "service/web", fmt.Sprintf("%d:80", port))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cancel()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/", port))
		if err == nil {
			body, _ := io.ReadAll(response.Body)
			response.Body.Close()
			if strings.Contains(string(body), "pod: web-") {
				return
			}
			err = fmt.Errorf("answer %s", body)
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}
