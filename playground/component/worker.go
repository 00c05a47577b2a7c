package component

import "fmt"

const (
	containerdFile = "/etc/playground/containerd.toml"
	kubeletFile    = "/etc/playground/kubelet.yaml"
	proxyFile      = "/etc/playground/proxy.yaml"
)

// worker returns the files, programs and credentials of a node that runs pods.
func (c Cluster) worker(n Node) (files []File, services []Service, credentials []string) {
	files = []File{
		{containerdFile, containerdConfiguration},
		{"/etc/cni/net.d/10-playground.conflist", c.cni(n)},
		{kubeletFile, c.kubeletConfiguration(n)},
		{proxyFile, c.proxyConfiguration(n)},
	}
	certificate, key := "kubelet-"+n.Name+".crt", "kubelet-"+n.Name+".key"
	client := "kubelet-client-" + n.Name
	credentials = []string{"ca.crt", certificate, key, client + ".crt", client + ".key", client + ".kubeconfig", "proxy.kubeconfig"}
	// Wait for the Node object. A kubelet that registers its node itself may get another pod CIDR than the one in the routes.
	registered := &Get{
		URL:         c.Server() + "/api/v1/nodes/" + n.Name,
		Authority:   credential("ca.crt"),
		Certificate: credential(client + ".crt"),
		Key:         credential(client + ".key"),
	}
	services = []Service{
		{Name: "containerd", Args: []string{bin("containerd"), "--config=" + containerdFile, "--log-level=warn"}},
	}
	var after []string
	for _, image := range c.images() {
		name := "image-" + image
		after = append(after, name)
		services = append(services, Service{Name: name, Once: true, Sockets: []string{Runtime}, Args: []string{
			bin("ctr"), "--namespace=k8s.io", "images", "import", "--local", Set + "/images/" + image + ".tar",
		}})
	}
	services = append(services,
		Service{Name: "kubelet", After: after, Sockets: []string{Runtime}, Get: registered, Args: []string{
			bin("kubelet"),
			"--config=" + kubeletFile,
			"--kubeconfig=" + credential(client+".kubeconfig"),
			"--node-ip=" + n.Address.String(),
			"--hostname-override=" + n.Name,
			"--root-dir=/var/lib/kubelet",
		}},
		Service{Name: "kube-proxy", Get: registered, Args: []string{bin("kube-proxy"), "--config=" + proxyFile}},
	)
	return files, services, credentials
}

// images returns the file names, without ".tar", of the image archives that every node imports.
func (c Cluster) images() []string {
	images := []string{"pause", "coredns", "testserver", "shell"}
	if c.MetricsServer {
		images = append(images, "metrics-server")
	}
	return images
}

// restrict_oom_score_adj is set because a machine may lack CAP_SYS_RESOURCE. Without it, runc would fail to lower the score.
//
// stats_collect_period is how often containerd asks every container for its statistics. Its default of 1 s takes 0.6 % of a core per container.
// Nothing here reads these statistics: the kubelet takes its own from the control groups.
const containerdConfiguration = `version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.erofs", "io.containerd.snapshotter.v1.blockfile", "io.containerd.nri.v1.nri",
  "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing",
]
[grpc]
  address = "` + Runtime + `"
[plugins.'io.containerd.cri.v1.images']
  snapshotter = "overlayfs"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = "` + PauseImage + `"
[plugins.'io.containerd.cri.v1.runtime']
  tolerate_missing_hugetlb_controller = true
  restrict_oom_score_adj = true
  disable_apparmor = true
  stats_collect_period = "10m"
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["/opt/cni/bin"]
    conf_dir = "/etc/cni/net.d"
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      SystemdCgroup = false
`

func (c Cluster) kubeletConfiguration(n Node) string {
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: %[1]s/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: %[1]s/kubelet-%[2]s.crt
tlsPrivateKeyFile: %[1]s/kubelet-%[2]s.key
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
clusterDNS: [%[3]s]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix://%[4]s
resolvConf: /etc/resolv.conf
maxPods: 250
maxOpenFiles: 20000
serializeImagePulls: false
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: "0%%", nodefs.available: "0%%", nodefs.inodesFree: "0%%", imagefs.available: "0%%"}
kubeAPIQPS: 100
kubeAPIBurst: 200
eventRecordQPS: 0
`, Credentials, n.Name, c.DNS(), Runtime)
}

func (c Cluster) proxyConfiguration(n Node) string {
	return fmt.Sprintf(`apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: %s/proxy.kubeconfig}
mode: nftables
clusterCIDR: %s
hostnameOverride: %s
metricsBindAddress: 127.0.0.1:10249
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
`, Credentials, c.PodCIDR, n.Name)
}

// cni returns the CNI configuration of a node: a simple network inside the node. The routes between nodes are in the node's plan.
func (c Cluster) cni(n Node) string {
	join := `"type":"ptp"`
	if c.CNI == Bridge {
		join = `"type":"bridge","bridge":"cni0","isGateway":true,"hairpinMode":true`
	}
	return fmt.Sprintf(`{"cniVersion":"1.0.0","name":"playground","plugins":[
 {%s,"ipMasq":false,"mtu":1500,
  "ipam":{"type":"host-local","ranges":[[{"subnet":"%s"}]],"routes":[{"dst":"0.0.0.0/0"}]}},
 {"type":"portmap","capabilities":{"portMappings":true}}]}
`, join, n.PodCIDR)
}

// ruleset returns the nftables ruleset of a node. It masquerades traffic from pods that leaves through eth0 to any destination other than
// a pod of the same cluster.
func (c Cluster) ruleset() string {
	return fmt.Sprintf(`table ip playground {
  chain postrouting {
    type nat hook postrouting priority 100; policy accept;
    ip saddr %[1]s ip daddr %[1]s return
    ip saddr %[1]s oifname "eth0" masquerade
  }
}
`, c.PodCIDR)
}
