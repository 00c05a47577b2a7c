package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"liqo.io/liqo/internal/cli/explain"
)

// dumpedCity is the manifests of a cluster of two nodes with the address ranges that all clusters of this test have, peered with another
// one that it sees at 10.71.0.0/16 and 10.73.0.0/16.
func dumpedCity(id, peer, gateway, connection string, more ...string) string {
	labelled := func(kind, apiVersion, namespace, name, labels, rest string) string {
		return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {namespace: %q, name: %s, labels: {%s}}\n%s\n", apiVersion, kind, namespace, name, labels, rest)
	}
	const ipam, networking = "ipam.liqo.io/v1alpha1", "networking.liqo.io/v1beta1"
	tenant := "liqo-tenant-" + peer
	ofPeer := "liqo.io/remote-cluster-id: " + peer
	var all []string
	for kind, cidr := range map[string]string{"pod-cidr": "10.200.0.0/16", "service-cidr": "10.96.0.0/16", "external-cidr": "10.70.0.0/16"} {
		all = append(all, labelled("Network", ipam, "liqo", kind, "ipam.liqo.io/network-type: "+kind, fmt.Sprintf("spec: {cidr: %s}\nstatus: {cidr: %s}", cidr, cidr)))
	}
	for i := 1; i <= 2; i++ {
		all = append(all, labelled("Node", "v1", "", fmt.Sprintf("%s-%d", id, i), "a: b", fmt.Sprintf(
			"spec: {podCIDR: 10.200.%d.0/24, podCIDRs: [10.200.%d.0/24]}\nstatus: {addresses: [{type: InternalIP, address: 172.16.0.%d}]}", i, i, i)))
		all = append(all, labelled("IP", ipam, "liqo", fmt.Sprintf("node-%s-%d", id, i), "ipam.liqo.io/ip-type: node", fmt.Sprintf(
			"spec: {ip: 172.16.0.%d}\nstatus: {ip: 10.70.0.%d, cidr: 10.70.0.0/16}", i, i)))
	}
	role, spec := "GatewayClient", "spec: {mtu: 1340, endpoint: {addresses: [192.0.2.10], port: 51840}}"
	if gateway == "server" {
		role, spec = "GatewayServer", "spec: {mtu: 1340, endpoint: {port: 51840, serviceType: LoadBalancer}}"
	}
	all = append(all,
		labelled("Configuration", networking, tenant, peer, ofPeer,
			"spec: {remote: {cidr: {pod: [10.200.0.0/16], external: [10.70.0.0/16]}}}\nstatus: {remote: {cidr: {pod: [10.71.0.0/16], external: [10.73.0.0/16]}}}"),
		labelled(role, networking, tenant, peer, ofPeer, spec),
		labelled("Connection", networking, tenant, "gw-"+peer, ofPeer, "status: {value: "+connection+", mtu: 1330}"),
		labelled("PublicKey", networking, tenant, peer, ofPeer+", networking.liqo.io/gateway-resource: 'true'", "spec: {publicKey: AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=}"),
		strings.Replace(labelled("Pod", "v1", tenant, "gw-"+peer+"-0", ofPeer+", networking.liqo.io/component: gateway, networking.liqo.io/active: 'true', networking.liqo.io/gateway-name: "+peer,
			"spec: {nodeName: "+id+"-1}\nstatus: {phase: Running, podIP: 10.200.1.100, conditions: [{type: Ready, status: 'True'}]}"),
			"metadata: {", "metadata: {ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: gw-"+peer+"-5d4f, uid: u, controller: true}], ", 1),
		"apiVersion: example.com/v1\nkind: Unknown\nmetadata: {name: x}\n",
	)
	return strings.Join(append(all, more...), "---\n")
}

func dumpedPod(namespace, name, node, address string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {namespace: %s, name: %s}\nspec: {nodeName: %s}\nstatus: {phase: Running, podIP: %s}\n", namespace, name, node, address)
}

// dump writes rome and milan, with the same addresses, and a pod of rome that runs in milan.
func dump(t *testing.T, connection string) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("milan/objects.yaml", dumpedCity("milan", "rome", "server", "Connected", dumpedPod("demo-rome", "hello", "milan-2", "10.200.2.5")))
	write("rome/objects.yaml", dumpedCity("rome", "milan", "client", connection))
	write("rome/pods.yaml", dumpedPod("demo", "home", "rome-2", "10.200.2.5")+"---\n"+dumpedPod("demo", "hello", "milan", "10.71.2.5"))
	// As kubectl prints many objects.
	write("rome/more.json", `{"apiVersion":"v1","kind":"List","items":[
		{"apiVersion":"v1","kind":"Node","metadata":{"name":"milan","labels":{"liqo.io/type":"virtual-node","liqo.io/remote-cluster-id":"milan"}}},
		{"apiVersion":"offloading.liqo.io/v1beta1","kind":"NamespaceMap","metadata":{"namespace":"liqo-tenant-milan","name":"milan"},"spec":{"desiredMapping":{"demo":"demo-rome"}}}]}`)
	return dir
}

func TestExplainFromManifests(t *testing.T) {
	dir := dump(t, "Connected")
	explained := func(t *testing.T, source, target string) explain.Fields {
		t.Helper()
		code, out, errOut := run(t, "network", "explain", source, target, "-f", dir, "-o", "json")
		var got explain.Fields
		if err := json.Unmarshal([]byte(out), &got); code != 0 || err != nil {
			t.Fatalf("code %d, %v: %s%s", code, err, out, errOut)
		}
		return got
	}
	// A pod that only shows what runs in milan, and all the ways to say which one is meant.
	for _, target := range []string{"milan/demo-rome/hello", "rome/demo/hello", "milan/10.200.2.5", "10.71.2.5"} {
		got := explained(t, "rome/demo/home", target)
		if !got.Whole || got.To.Name != "demo-rome/hello" || got.To.Node != "milan-2" || got.Address != "10.71.2.5" || got.Seen != "10.71.2.5" {
			t.Errorf("to %s: %+v", target, got)
		}
	}
	back := explained(t, "milan/demo-rome/hello", "10.71.2.5")
	if !back.Whole || back.To.Name != "demo/home" || back.To.Cluster != "rome" || len(back.There) != 5 || len(back.Back) != 5 {
		t.Errorf("back: %+v", back)
	}
	node := explained(t, "rome/172.16.0.1", "milan/demo-rome/hello")
	if !node.Whole || node.From.Name != "node rome-1" || node.Seen != "10.73.0.1" {
		t.Errorf("from a node: %+v", node)
	}
	code, out, _ := run(t, "network", "explain", "rome/demo/home", "milan/demo-rome/hello", "-f", dir)
	if code != 0 || !strings.Contains(out, "the way is whole in both directions") || !strings.Contains(out, "gateway gw-milan-0 in cluster rome") {
		t.Errorf("code %d: %s", code, out)
	}
}

func TestExplainReportsFaults(t *testing.T) {
	dir := dump(t, "Error")
	code, out, errOut := run(t, "network", "explain", "rome/demo/home", "milan/demo-rome/hello", "-f", dir, "-o", "yaml")
	if code != 1 || !strings.Contains(out, "whole: false") || !strings.Contains(out, "object: Connection liqo-tenant-milan/gw-milan") ||
		!strings.Contains(errOut, "is broken") || !strings.Contains(errOut, "not Connected") {
		t.Errorf("code %d: %s%s", code, out, errOut)
	}
	// A node must not be called by peers.
	code, out, errOut = run(t, "network", "explain", "milan/demo-rome/hello", "rome/172.16.0.1", "-f", dir)
	if code != 1 || !strings.Contains(out, "broken:") || !strings.Contains(errOut, "is broken") {
		t.Errorf("code %d: %s%s", code, out, errOut)
	}
	for target, want := range map[string]string{
		"milan/demo-rome/nobody": "there is no pod demo-rome/nobody in the pod network of cluster milan (pods there: hello)",
		"naples/a/b":             "cluster naples is not one of the given clusters (milan, rome)",
		"what":                   "neither an address nor",
		"a/b/c/d":                "want [cluster/]namespace/pod",
		"rome/demo/home":         "are both in cluster rome",
	} {
		code, _, errOut := run(t, "network", "explain", "rome/demo/home", target, "-f", dir)
		if code != 1 || !strings.Contains(errOut, want) {
			t.Errorf("%s: code %d: %s, want %q", target, code, errOut, want)
		}
	}
	if code, _, errOut := run(t, "network", "explain", "a/b", "c/d", "-f", t.TempDir()); code != 1 || !strings.Contains(errOut, "one for each cluster") {
		t.Errorf("an empty directory: code %d: %s", code, errOut)
	}
}
