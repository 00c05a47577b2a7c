package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"liqo.io/playground/component"
)

// client calls a cluster's API server as cluster administrator.
type client struct {
	http   *http.Client
	server string
}

func (m Machine) client(state State) (*client, error) {
	file := func(name string) string { return filepath.Join(m.pki(state.Name), name) }
	ca, err := os.ReadFile(file("ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("reading the certificates of %s: %w", state.Name, err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	pair, err := tls.LoadX509KeyPair(file("admin.crt"), file("admin.key"))
	if err != nil {
		return nil, fmt.Errorf("reading the certificates of %s: %w", state.Name, err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}}}
	return &client{&http.Client{Transport: transport, Timeout: 10 * time.Second}, state.ForwardServer()}, nil
}

// do sends one request and returns the response body. A status code of 300 or more is an error.
// Every PATCH is a server-side apply.
func (c *client) do(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.server+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/apply-patch+yaml")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= 300 {
		return nil, &statusError{response.StatusCode, fmt.Sprintf("%s %s: %s: %s", method, path, response.Status, bytes.TrimSpace(answer))}
	}
	return answer, nil
}

// statusError is an answer of the API server that is an error.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return e.text }

// passes reports whether the same request may succeed later.
func (e *statusError) passes() bool { return e.code == http.StatusTooManyRequests || e.code >= 500 }

func (c *client) get(ctx context.Context, path string, into any) error {
	data, err := c.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// ready returns nil if the API server reports on /readyz that it is ready.
func (c *client) ready(ctx context.Context) error {
	_, err := c.do(ctx, http.MethodGet, "/readyz", nil)
	return err
}

// apply creates or updates an object with server-side apply. An API server that has just started may be too busy to answer. So apply repeats a
// request that failed, until the context ends, unless the API server refused the object.
func (c *client) apply(ctx context.Context, o component.Object) error {
	for {
		_, err := c.do(ctx, http.MethodPatch, o.Path+"?fieldManager=playground&force=true", o.Body)
		if err == nil {
			return nil
		}
		if status := (*statusError)(nil); errors.As(err, &status) && !status.passes() {
			return fmt.Errorf("applying: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("applying: %w: %w", context.Cause(ctx), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// settled returns nil if the cluster is ready for workloads. Otherwise, the error lists what is missing.
func (c *client) settled(ctx context.Context, state State) error {
	var nodes corev1.NodeList
	if err := c.get(ctx, "/api/v1/nodes", &nodes); err != nil {
		return err
	}
	want := state.FakeNodes
	if !state.ControlPlaneOnly {
		want = state.Nodes
	}
	var wrong []string
	if len(nodes.Items) < want {
		wrong = append(wrong, fmt.Sprintf("only %d of %d nodes are there", len(nodes.Items), want))
	}
	for _, n := range nodes.Items {
		if !nodeReady(n) {
			wrong = append(wrong, "node "+n.Name+" is not ready")
		}
	}
	for _, name := range deployments(state) {
		var d appsv1.Deployment
		if err := c.get(ctx, "/apis/apps/v1/namespaces/kube-system/deployments/"+name, &d); err != nil {
			return err
		}
		if d.Status.AvailableReplicas == 0 {
			wrong = append(wrong, name+" is not available")
		}
	}
	var account corev1.ServiceAccount
	if err := c.get(ctx, "/api/v1/namespaces/default/serviceaccounts/default", &account); err != nil {
		wrong = append(wrong, "the default service account is not there")
	}
	if !state.ControlPlaneOnly {
		if _, err := c.do(ctx, http.MethodGet, "/apis/storage.k8s.io/v1/storageclasses/standard", nil); err != nil {
			wrong = append(wrong, "the default storage class is not there")
		}
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, ", "))
	}
	return nil
}

// deployments returns the names of the Deployments in kube-system that a ready cluster needs.
func deployments(state State) []string {
	switch {
	case state.ControlPlaneOnly:
		return nil
	case state.MetricsServer:
		return []string{"coredns", "metrics-server"}
	}
	return []string{"coredns"}
}

// unsettled describes the objects that settled waits for: the conditions of nodes that are not ready, and of the Deployments and pods that are not
// available, with the states of their containers.
func (c *client) unsettled(ctx context.Context, state State) string {
	var found []string
	var nodes corev1.NodeList
	if err := c.get(ctx, "/api/v1/nodes", &nodes); err != nil {
		return err.Error()
	}
	for _, n := range nodes.Items {
		if nodeReady(n) {
			continue
		}
		said := "node " + n.Name + " has no condition yet"
		for _, condition := range n.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				said = fmt.Sprintf("node %s: Ready is %s: %s: %s", n.Name, condition.Status, condition.Reason, condition.Message)
			}
		}
		for _, taint := range n.Spec.Taints {
			said += ", taint " + taint.ToString()
		}
		found = append(found, said)
	}
	for _, name := range deployments(state) {
		var d appsv1.Deployment
		if err := c.get(ctx, "/apis/apps/v1/namespaces/kube-system/deployments/"+name, &d); err != nil {
			found = append(found, err.Error())
			continue
		}
		if d.Status.AvailableReplicas > 0 || d.Spec.Selector == nil {
			continue
		}
		for _, condition := range d.Status.Conditions {
			found = append(found, fmt.Sprintf("deployment %s: %s is %s: %s: %s", name, condition.Type, condition.Status, condition.Reason, condition.Message))
		}
		var pods corev1.PodList
		if err := c.get(ctx, "/api/v1/namespaces/kube-system/pods?labelSelector="+url.QueryEscape(labels.Set(d.Spec.Selector.MatchLabels).String()), &pods); err != nil {
			found = append(found, err.Error())
			continue
		}
		found = append(found, fmt.Sprintf("deployment %s has %d pods", name, len(pods.Items)))
		for _, pod := range pods.Items {
			found = append(found, podState(pod))
		}
	}
	return strings.Join(found, "; ")
}

// podState describes why a pod is not ready: its conditions that are not True, its containers that do not run, and its containers that were
// restarted.
func podState(pod corev1.Pod) string {
	said := []string{fmt.Sprintf("pod %s is %s", pod.Name, pod.Status.Phase)}
	for _, condition := range pod.Status.Conditions {
		if condition.Status != corev1.ConditionTrue {
			said = append(said, fmt.Sprintf("%s is %s since %s: %s: %s", condition.Type, condition.Status,
				condition.LastTransitionTime.Format(time.TimeOnly), condition.Reason, condition.Message))
		}
	}
	for _, container := range pod.Status.ContainerStatuses {
		switch {
		case container.State.Waiting != nil:
			said = append(said, fmt.Sprintf("container %s waits: %s: %s", container.Name, container.State.Waiting.Reason, container.State.Waiting.Message))
		case container.State.Terminated != nil:
			said = append(said, fmt.Sprintf("container %s has ended: %s, code %d", container.Name, container.State.Terminated.Reason, container.State.Terminated.ExitCode))
		}
		if container.RestartCount > 0 {
			said = append(said, fmt.Sprintf("container %s was restarted %d times", container.Name, container.RestartCount))
		}
	}
	return strings.Join(said, ", ")
}

func nodeReady(n corev1.Node) bool {
	for _, condition := range n.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
