package test

import (
	"testing"
	"time"
)

// TestFakePods: a control plane alone has a thousand simulated pods.
func TestFakePods(t *testing.T) {
	c := create(t, "fake", "--control-plane-only", "--fake-nodes=20")
	began := time.Now()
	c.kubectl(t, "create", "deployment", "big", "--image=registry.local/any:1", "--replicas=1000")
	c.kubectl(t, "rollout", "status", "deploy/big", "--timeout=120s")
	t.Logf("1000 pods were ready after %.1f s (load %s)", time.Since(began).Seconds(), load())
	if ready := c.kubectl(t, "get", "deploy", "big", "-o=jsonpath={.status.readyReplicas}"); ready != "1000" {
		t.Errorf("%s pods are ready", ready)
	}
	began = time.Now()
	c.kubectl(t, "delete", "deployment", "big", "--wait=false")
	for end := time.Now().Add(time.Minute); c.kubectl(t, "get", "pods", "-o=name") != ""; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("they do not go")
		}
	}
	t.Logf("they were gone after %.1f s", time.Since(began).Seconds())
}
