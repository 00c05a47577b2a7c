package component

import (
	"fmt"
	"slices"
)

const etcdURL = "http://127.0.0.1:2379"

// controlPlane returns the files, programs and credentials of a control plane node.
func (c Cluster) controlPlane(n Node) (files []File, services []Service, credentials []string) {
	services = []Service{c.etcd(), c.apiServer(n), c.controllerManager(), scheduler()}
	if !c.ControlPlaneOnly {
		services = append(services, c.cloud())
	}
	if c.FakeNodes > 0 {
		services = append(services, c.fakeKubelet())
	}
	files = []File{{schedulerFile, schedulerConfiguration}}
	credentials = []string{
		"ca.crt", "ca.key", "front-proxy-ca.crt", "front-proxy-client.crt", "front-proxy-client.key",
		"apiserver.crt", "apiserver.key", "apiserver-kubelet-client.crt", "apiserver-kubelet-client.key", "sa.key", "sa.pub",
		"controller-manager.kubeconfig", "scheduler.kubeconfig", "admin.kubeconfig",
	}
	if c.Audit {
		files = append(files, File{auditFile, auditPolicy})
	}
	if c.PodSecurity != "" {
		files = append(files, File{admissionFile, fmt.Sprintf(admissionConfiguration, c.PodSecurity)})
	}
	return files, services, credentials
}

func (c Cluster) etcd() Service {
	return Service{Name: "etcd", Args: []string{
		bin("etcd"),
		"--name=" + c.Name,
		"--data-dir=/var/lib/etcd",
		"--listen-client-urls=" + etcdURL,
		"--advertise-client-urls=" + etcdURL,
		"--listen-peer-urls=http://127.0.0.1:2380",
		"--initial-advertise-peer-urls=http://127.0.0.1:2380",
		"--initial-cluster=" + c.Name + "=http://127.0.0.1:2380",
		// Without fsync, a killed etcd loses no data. Only a power failure of the machine can lose data.
		"--unsafe-no-fsync",
		"--log-level=warn",
	}}
}

func (c Cluster) apiServer(n Node) Service {
	s := Service{Name: "kube-apiserver", Args: []string{
		bin("kube-apiserver"),
		"--advertise-address=" + n.Address.String(),
		"--bind-address=0.0.0.0",
		fmt.Sprintf("--secure-port=%d", APIPort),
		"--etcd-servers=" + etcdURL,
		"--client-ca-file=" + credential("ca.crt"),
		"--tls-cert-file=" + credential("apiserver.crt"),
		"--tls-private-key-file=" + credential("apiserver.key"),
		"--kubelet-client-certificate=" + credential("apiserver-kubelet-client.crt"),
		"--kubelet-client-key=" + credential("apiserver-kubelet-client.key"),
		"--kubelet-certificate-authority=" + credential("ca.crt"),
		"--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + credential("sa.pub"),
		"--service-account-signing-key-file=" + credential("sa.key"),
		"--service-cluster-ip-range=" + c.ServiceCIDR.String(),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--enable-bootstrap-token-auth=true",
		"--allow-privileged=true",
		"--requestheader-client-ca-file=" + credential("front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file=" + credential("front-proxy-client.crt"),
		"--proxy-client-key-file=" + credential("front-proxy-client.key"),
	}}
	if c.Audit {
		s.Args = append(s.Args, "--audit-policy-file="+auditFile, "--audit-log-path="+Logs+"/audit.log", "--audit-log-mode=batch")
	}
	if c.PodSecurity != "" {
		s.Args = append(s.Args, "--admission-control-config-file="+admissionFile)
	}
	return s
}

func (c Cluster) controllerManager() Service {
	kubeconfig := credential("controller-manager.kubeconfig")
	s := Service{Name: "kube-controller-manager", Args: slices.Concat([]string{
		bin("kube-controller-manager"),
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		"--leader-elect=false",
		"--use-service-account-credentials=true",
		"--controllers=*,bootstrapsigner,tokencleaner",
		"--root-ca-file=" + credential("ca.crt"),
		"--service-account-private-key-file=" + credential("sa.key"),
	}, c.signers(), []string{
		"--requestheader-client-ca-file=" + credential("front-proxy-ca.crt"),
		"--cluster-name=" + c.Name,
		"--service-cluster-ip-range=" + c.ServiceCIDR.String(),
		"--cluster-cidr=" + c.PodCIDR.String(),
		// With ControlPlaneOnly, there may be more fake nodes than /24 networks in the pod CIDR, and no node needs a pod CIDR.
		fmt.Sprintf("--allocate-node-cidrs=%t", !c.ControlPlaneOnly),
		// With the default of 20 requests per second, the controller manager takes 5 s to start its controllers.
		"--kube-api-qps=200",
		"--kube-api-burst=400",
		// With the default of 15 s, a person who tries a HorizontalPodAutoscaler mostly waits for it.
		"--horizontal-pod-autoscaler-sync-period=5s",
	})}
	if !c.ControlPlaneOnly {
		s.Args = append(s.Args, fmt.Sprintf("--node-cidr-mask-size=%d", nodePrefixBits))
	}
	return s
}

// signers returns the arguments with the key of all signers: kube-apiserver-client, unless that is off, kube-apiserver-client-kubelet,
// kubelet-serving and legacy-unknown.
func (c Cluster) signers() []string {
	signers := []string{""}
	if c.NoClientSigner {
		signers = []string{"kubelet-client-", "kubelet-serving-", "legacy-unknown-"}
	}
	var args []string
	for _, signer := range signers {
		args = append(args, "--cluster-signing-"+signer+"cert-file="+credential("ca.crt"), "--cluster-signing-"+signer+"key-file="+credential("ca.key"))
	}
	return args
}

// cloud returns the controller that assigns addresses to Services of type LoadBalancer and provisions volumes for
// PersistentVolumeClaims.
func (c Cluster) cloud() Service {
	s := Service{Name: "cloud-controller", Args: []string{
		Self, "cloud-controller",
		"--kubeconfig=" + credential("admin.kubeconfig"),
		"--cluster-name=" + c.Name,
	}}
	if !c.NoLoadBalancers {
		s.Args = append(s.Args, "--address-pool="+c.LoadBalancers().String())
	}
	s.Args = append(s.Args, "--volume-root="+Volumes)
	return s
}

func (c Cluster) fakeKubelet() Service {
	return Service{Name: "fake-kubelet", Args: []string{
		Self, "fake-kubelet",
		"--kubeconfig=" + credential("admin.kubeconfig"),
		fmt.Sprintf("--nodes=%d", c.FakeNodes),
		"--name-prefix=" + c.Name + "-fake",
		"--pod-cidr=" + c.PodCIDR.String(),
	}}
}

const schedulerFile = "/etc/playground/scheduler.yaml"

const schedulerConfiguration = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: ` + Credentials + `/scheduler.kubeconfig, qps: 500, burst: 1000}
leaderElection: {leaderElect: false}
`

func scheduler() Service {
	return Service{Name: "kube-scheduler", Args: []string{
		bin("kube-scheduler"),
		"--config=" + schedulerFile,
		"--authentication-kubeconfig=" + credential("scheduler.kubeconfig"),
		"--authorization-kubeconfig=" + credential("scheduler.kubeconfig"),
		"--bind-address=127.0.0.1",
	}}
}

const auditFile = "/etc/playground/audit.yaml"

// The policy logs no reads, because the log is for counting the writes of each client.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, verbs: [create, update, patch, delete, deletecollection]}
- {level: None}
`

const admissionFile = "/etc/playground/admission.yaml"

// kube-system is exempt, because the cluster's own components run there.
const admissionConfiguration = `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: PodSecurity
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/v1
    kind: PodSecurityConfiguration
    defaults: {enforce: %s, enforce-version: latest}
    exemptions: {namespaces: [kube-system]}
`
