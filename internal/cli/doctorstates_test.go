package cli

import (
	"errors"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/workload"
	"liqo.io/liqo/test/apitest"
	"liqo.io/liqo/test/clitest"
)

// brokenState is a fault that the objects of a cluster show.
type brokenState struct {
	name string
	// how says, for readers of the table, in which objects begin makes the fault.
	how   string
	begin func()
	// first is part of the first problem that doctor prints, cure is part of its cure.
	first, cure string
	// changing is the command in cure that changes the cluster, if cure is more than that command.
	changing string
	// asks means that only doctor finds the fault, with a request to the peer. info and status make no such request.
	asks bool
	// after does what the controllers do once cure, which is a command then, was executed. It is nil if nothing remains to be done.
	after func()
	// cured is set where cure is no command that works on an API server alone. It writes what the objects become when a person follows the cure, and its
	// comment says why the cure can't be executed. Or executed names the test that executes it elsewhere, in a state of the same name.
	cured    func()
	executed string
}

// The tests that execute cures which need an installation, or a second cluster.
const (
	upgradeCures = "TestUpgradeCuresOnAPIServer"
	peerCures    = "TestCuresBetweenClusters"
)

// brokenStates are the faults that doctor is promised to find. Page troubleshooting.md lists them.
func brokenStates(w *doctorWorld) []brokenState {
	var out []brokenState
	for _, states := range [][]brokenState{installationStates(w), networkStates(w), identityStates(w), tenantStates(w), offloadingStates(w), objectStates(w)} {
		out = append(out, states...)
	}
	return out
}

func installationStates(w *doctorWorld) []brokenState {
	none := int32(0)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "liqo-controller-manager-x", Labels: map[string]string{"app": "liqo"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "controller-manager", Image: "x"}}},
	}
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "vkoptionstemplates.offloading.liqo.io"}}
	maps := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "namespacemaps.offloading.liqo.io"}}
	policy, binding := unconfiguredPolicy("claims", "persistentvolumeclaims")
	return []brokenState{
		{
			name: "the controller manager is scaled to zero",
			how:  "`spec.replicas` of its Deployment is 0",
			begin: func() {
				w.change(w.manager, func() { w.manager.Spec.Replicas, w.manager.Status = &none, appsv1.DeploymentStatus{} })
			},
			first: "-n liqo deployment/liqo-controller-manager is scaled to 0 replicas; until it runs, nothing is reconciled",
			cure:  "kubectl -n liqo scale --replicas=1 deployment/liqo-controller-manager",
		},
		{
			name: "the controller manager crashes",
			how:  "its only pod is in CrashLoopBackOff",
			begin: func() {
				w.change(w.manager, func() {
					w.manager.Status.AvailableReplicas, w.manager.Status.ReadyReplicas = 0, 0
				})
				pod.ResourceVersion = ""
				clitest.Create(w.t, w.client, pod)
				w.change(pod, func() {
					pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "controller-manager", State: corev1.ContainerState{
						Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"},
					}}}
				})
			},
			first: "-n liqo deployment/liqo-controller-manager: 0 of 1 pods are available: container controller-manager of pod liqo-controller-manager-x",
			cure:  "kubectl describe -n liqo deployment/liqo-controller-manager",
			// The command shows why the pod crashes; a kubelet starts it again.
			cured: func() { w.remove(pod); w.back(w.manager)() },
		},
		{
			name: "a DaemonSet of the installation matches no node",
			how:  "DaemonSet liqo-fabric wants 0 pods",
			begin: func() {
				w.change(w.fabric, func() { w.fabric.Status = appsv1.DaemonSetStatus{} })
			},
			first: "-n liqo daemonset/liqo-fabric: no node matches, none of its pods runs",
			cure:  "see nodeSelector, affinity and tolerations in kubectl get -n liqo daemonset/liqo-fabric -o yaml",
			// The DaemonSet controller of Kubernetes counts the nodes that match then.
			cured: w.back(w.fabric),
		},
		{
			name: "an upgrade stopped halfway",
			how:  "the image of DaemonSet liqo-fabric is of another version",
			begin: func() {
				w.change(w.fabric, func() { w.fabric.Spec.Template.Spec.Containers[0].Image = "registry.liqo.io/liqo/fabric:v0.0.1" })
			},
			first:    "-n liqo daemonset/liqo-fabric: component of version v0.0.1, the installation is",
			cure:     "finish the upgrade: liqoctl upgrade",
			executed: upgradeCures,
			cured:    w.back(w.fabric),
		},
		{
			name: "the installation has no version",
			how:  "the Deployment of the controller manager lost its label `app.kubernetes.io/version`",
			begin: func() {
				w.change(w.manager, func() { delete(w.manager.Labels, session.LabelVersion) })
			},
			first:    "the Deployment of the controller manager has no label with the version",
			cure:     "liqoctl upgrade sets it",
			executed: upgradeCures,
			cured:    w.back(w.manager),
		},
		{
			name: "a process was killed while it changed the installation",
			how:  "the Lease that locks the installation is held and no longer renewed",
			begin: func() {
				holder, lasts := "liqoctl-on-a-laptop", int32(60)
				w.change(w.lock, func() {
					w.lock.Spec.HolderIdentity, w.lock.Spec.LeaseDurationSeconds, w.lock.Spec.RenewTime = &holder, &lasts, microTime(time.Now().Add(-time.Hour))
				})
			},
			first:    "liqoctl-on-a-laptop changed the installation in namespace liqo and ended before it was done",
			cure:     "run the interrupted command again; if it is unknown, run liqoctl upgrade, which first completes or rolls back the interrupted change",
			executed: upgradeCures,
			cured:    w.back(w.lock),
		},
		{
			name: "a custom resource definition is missing",
			how:  "VkOptionsTemplates are deleted, with their definition",
			begin: func() {
				if err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(crd), crd); err != nil {
					w.t.Fatal(err)
				}
				w.remove(crd)
				apitest.Eventually(w.t, 30*time.Second, "the definition to be gone", func() error {
					if err := w.read(crd.DeepCopy()); !apierrors.IsNotFound(err) {
						return errors.Join(errors.New("it is there"), err)
					}
					return nil
				})
			},
			first:    "custom resource definition vkoptionstemplates.offloading.liqo.io is missing",
			cure:     "liqoctl upgrade brings the definitions of this version",
			executed: upgradeCures,
			cured: func() {
				crd.ResourceVersion, crd.UID, crd.DeletionTimestamp, crd.Finalizers, crd.Status = "", "", nil, nil, apiextensionsv1.CustomResourceDefinitionStatus{}
				clitest.Create(w.t, w.client, crd)
				apitest.Eventually(w.t, 30*time.Second, "the definition to be established", func() error {
					if err := w.read(crd); err != nil || !workload.CRDEstablished(crd).Done {
						return errors.Join(errors.New("it is not established"), err)
					}
					return nil
				})
			},
		},
		{
			name: "a custom resource definition is of an earlier release",
			how:  "the definition of NamespaceMaps has no field `spec.releasedMapping`, as after `helm upgrade`, which changes no definitions",
			begin: func() {
				if err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(maps), maps); err != nil {
					w.t.Fatal(err)
				}
				older := maps.DeepCopy()
				delete(older.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties, "releasedMapping")
				if err := w.client.Update(w.t.Context(), older); err != nil {
					w.t.Fatal(err)
				}
			},
			first:    "custom resource definition namespacemaps.offloading.liqo.io lacks field spec.releasedMapping of version v1beta1",
			cure:     "liqoctl upgrade brings the definitions of this version",
			executed: upgradeCures,
			cured: func() {
				older := maps.DeepCopy()
				if err := w.read(older); err != nil {
					w.t.Fatal(err)
				}
				older.Spec = maps.Spec
				if err := w.client.Update(w.t.Context(), older); err != nil {
					w.t.Fatal(err)
				}
			},
		},
		{
			name: "the CA of a webhook has expired",
			how:  "the CA bundle in the webhook configuration ended an hour ago",
			begin: func() {
				w.change(w.hooks, func() { w.hooks.Webhooks[0].ClientConfig.CABundle = w.certificateBetween(-10*time.Hour, -time.Hour) })
			},
			first: "webhook pod.mutate.liqo.io: its CA ended at",
			cure:  "kubectl -n liqo rollout restart deployment/liqo-controller-manager",
			after: func() { w.restarted(w.manager); w.back(w.hooks)() },
		},
		{
			name: "no pod serves a webhook",
			how:  "the only endpoint of Service liqo-webhook is not ready",
			begin: func() {
				no := false
				w.change(w.backend, func() { w.backend.Endpoints[0].Conditions.Ready = &no })
			},
			first: "webhook pod.mutate.liqo.io: Service liqo-webhook in namespace liqo has no ready endpoint",
			cure:  "kubectl -n liqo rollout restart deployment/liqo-controller-manager",
			// Kubernetes adds the new pod to the EndpointSlice when a kubelet reports it ready.
			after: func() { w.restarted(w.manager); w.back(w.backend)() },
		},
		{
			name: "a policy refuses every claim of consumers", asks: true,
			how:   "a ValidatingAdmissionPolicy for claims names a ConfigMap that does not exist, and its binding denies then",
			begin: func() { clitest.Create(w.t, w.client, policy, binding); w.claimsAreRefused(true) },
			first: "in a dry run, policy claims refuses a PersistentVolumeClaim in namespace blog-turin",
			cure:  "kubectl get validatingadmissionpolicies,validatingadmissionpolicybindings -o yaml shows which parameters policy claims needs",
			// The command shows what is missing.
			cured: func() { w.remove(binding); w.remove(policy); w.claimsAreRefused(false) },
		},
		{
			name: "the leader does not renew its lease",
			how:  "the Lease was last renewed two hours ago",
			begin: func() {
				w.change(w.leader, func() { w.leader.Spec.RenewTime = microTime(time.Now().Add(-2 * time.Hour)) })
			},
			first: "Lease leader in namespace liqo: its holder liqo-controller-manager-x last renewed it 2h0m",
			cure:  "kubectl -n liqo rollout restart deployment/liqo-controller-manager",
			after: func() { w.restarted(w.manager); w.back(w.leader)() },
		},
		{
			name: "a virtual kubelet does not renew the lease of its Node",
			how:  "the Lease in namespace kube-node-lease was last renewed two hours ago",
			begin: func() {
				w.change(w.heartbeat, func() { w.heartbeat.Spec.RenewTime = microTime(time.Now().Add(-2 * time.Hour)) })
			},
			first: "Lease turin in namespace kube-node-lease: its holder turin last renewed it 2h0m",
			cure:  "kubectl -n tenant-of-turin rollout restart deployment/vk-turin",
			after: func() { w.restarted(w.kubelet); w.back(w.heartbeat)() },
		},
	}
}

// unconfiguredPolicy returns a policy for a resource, whose parameters do not exist.
func unconfiguredPolicy(name, resource string) (*admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
	deny := admissionregistrationv1.DenyAction
	rule := admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"*"}, Resources: []string{resource}}
	return &admissionregistrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				ParamKind:   &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"},
				Validations: []admissionregistrationv1.Validation{{Expression: "true"}},
				MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionregistrationv1.RuleWithOperations{Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create}, Rule: rule},
				}}},
			},
		}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
				ParamRef: &admissionregistrationv1.ParamRef{Namespace: "liqo", Name: "missing", ParameterNotFoundAction: &deny},
			},
		}
}

// claimsAreRefused waits until the API server follows a change of policies.
func (w *doctorWorld) claimsAreRefused(want bool) {
	w.t.Helper()
	apitest.Eventually(w.t, 30*time.Second, "the policies to change", func() error {
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "a-", Namespace: "blog-turin", Labels: map[string]string{api.LabelOrigin: "turin"}},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}},
			},
		}
		if err := w.client.Create(w.t.Context(), claim, client.DryRunAll); (err != nil) != want {
			return errors.Join(errors.New("they did not"), err)
		}
		return nil
	})
}

func networkStates(w *doctorWorld) []brokenState {
	none := int32(0)
	return []brokenState{
		{
			name: "a range of the cluster is taken",
			how:  "the IPAM found no place for Network external-cidr",
			begin: func() {
				full := ready(1)
				full.Status, full.Reason, full.Message = metav1.ConditionFalse, "Full", "10.70.0.0/16 is in use"
				w.change(w.external, func() { w.external.Status.CIDR, w.external.Status.Conditions = "", []metav1.Condition{full} })
			},
			first: "Network external-cidr in namespace liqo: Full, 10.70.0.0/16 is in use",
			cure:  "kubectl get networks.ipam.liqo.io -A shows the Network that has the range: free it there, or give the installation another range: liqoctl upgrade --set ipam.externalCIDR=RANGE",
			// The IPAM allocates the range once it is free.
			cured: w.back(w.external),
		},
		{
			name: "two ranges overlap",
			how:  "a Network of the peer has a part of the pod range",
			begin: func() {
				w.change(w.remapped, func() { w.remapped.Status.CIDR = "10.1.128.0/17" })
			},
			first: "Network pod-cidr in namespace liqo (10.1.0.0/16) and Network turin-pod in namespace tenant-of-turin (10.1.128.0/17) overlap",
			cure:  "disconnect the peer that has the range (liqoctl network reset --remote-kubeconfig FILE: its traffic stops) and connect it again",
			// The command needs the other cluster; TestCuresBetweenClusters executes it for other ranges.
			cured: w.back(w.remapped),
		},
		{
			name: "the installation has other pod ranges than the cluster",
			how:  "the installation's ConfigMap has another pod range than the Networks",
			begin: func() {
				w.change(w.told, func() { w.told.Data["POD_CIDRS"] = "10.9.0.0/16,10.2.0.0/16" })
			},
			first:    "the installation is configured with the pod range 10.9.0.0/16, the Networks have 10.1.0.0/16, 10.2.0.0/16",
			cure:     "liqoctl upgrade --pod-cidr 10.1.0.0/16,10.2.0.0/16",
			executed: upgradeCures,
			cured:    w.back(w.told),
		},
		{
			name: "the ranges of a peer are not mapped",
			how:  "the Configuration of the peer has no condition about its ranges",
			begin: func() {
				w.change(w.configuration, func() { w.configuration.Status.Conditions = nil })
			},
			first: "Configuration turin in namespace tenant-of-turin: the peer's ranges are not mapped in this cluster yet",
			cure:  "see Networks of the namespace: kubectl get networks.ipam.liqo.io -n tenant-of-turin",
			// The command shows what is in the way; a controller reports the mapped ranges.
			cured: w.back(w.configuration),
		},
		{
			name: "a gateway is scaled to zero",
			how:  "`spec.replicas` of its Deployment is 0, and the Connection is in error",
			begin: func() {
				w.change(w.gateway, func() { w.gateway.Spec.Replicas, w.gateway.Status = &none, appsv1.DeploymentStatus{} })
				w.change(w.connection, func() { w.connection.Status.Value = networkingv1beta1.ConnectionError })
			},
			first: "-n tenant-of-turin deployment/gw-turin is scaled to 0 replicas",
			cure:  "kubectl -n tenant-of-turin scale --replicas=1 deployment/gw-turin",
			after: w.back(w.connection),
		},
		{
			name: "the tunnel is down",
			how:  "the Connection is in error, and the gateway runs",
			begin: func() {
				w.change(w.connection, func() { w.connection.Status.Value = networkingv1beta1.ConnectionError })
			},
			first: "Connection gw-turin in namespace tenant-of-turin is \"Error\"",
			cure:  "liqoctl network explain shows where the path is broken and changes nothing",
			// The command needs the other cluster.
			cured: w.back(w.connection),
		},
		{
			name: "a gateway reports nothing any more",
			how:  "the last measurement in the Connection is an hour old",
			begin: func() {
				w.change(w.connection, func() {
					w.connection.Status.Latency = &networkingv1beta1.ConnectionLatency{Value: "1ms", Timestamp: metav1.NewTime(time.Now().Add(-time.Hour))}
				})
			},
			first:    "Connection gw-turin in namespace tenant-of-turin: nothing was measured for 1h0m",
			cure:     "first read the log, which a restart deletes: kubectl -n tenant-of-turin logs -l networking.liqo.io/component=gateway -c gateway --tail=-1; then restart the gateway, which interrupts the traffic with turin for some seconds: kubectl -n tenant-of-turin rollout restart deployment -l networking.liqo.io/component=gateway",
			changing: "kubectl -n tenant-of-turin rollout restart deployment -l networking.liqo.io/component=gateway",
			after:    func() { w.restarted(w.gateway); w.back(w.connection)() },
		},
	}
}
