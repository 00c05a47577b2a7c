package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/setup"
	"liqo.io/liqo/internal/install"
	"liqo.io/liqo/internal/version"
	"liqo.io/liqo/test/apitest"
	"liqo.io/liqo/test/clitest"
)

// bareServer is an API server with one node and a namespace for the installation, made by kubeadm.
func bareServer(t *testing.T) (kubeconfig string, c client.Client) {
	t.Helper()
	env, config := apitest.Environment(t)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, env.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	c = apitest.Client(t, config)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "rome-1"}, Spec: corev1.NodeSpec{PodCIDRs: []string{"10.244.0.0/24"}}}
	clitest.Create(t, c, node, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo"}}, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kubeadm-config"},
		Data:       map[string]string{"ClusterConfiguration": "networking:\n  podSubnet: 10.244.0.0/16\n  serviceSubnet: 10.0.0.0/24\n"},
	})
	node.Status = corev1.NodeStatus{
		NodeInfo:   corev1.NodeSystemInfo{KernelVersion: "6.1.0", OperatingSystem: "linux", Architecture: "amd64"},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}
	if err := c.Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	return kubeconfig, c
}

// bare is such a server for commands that write nothing to the output stream.
func bare(t *testing.T) (liqoctl func(ctx context.Context, command string) (int, string), c client.Client) {
	t.Helper()
	kubeconfig, c := bareServer(t)
	return func(ctx context.Context, command string) (int, string) {
		var out, errOut bytes.Buffer
		code := Main(ctx, append(strings.Fields(command), "--kubeconfig", kubeconfig), genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut})
		if out.Len() > 0 {
			t.Errorf("%s writes to the output stream: %s", command, out.String())
		}
		return code, errOut.String()
	}, c
}

// TestInstallDetectsTheClusterOnAPIServer: detected values are shown with their source, written, and refused with a cure. Nothing is changed.
func TestInstallDetectsTheClusterOnAPIServer(t *testing.T) {
	t.Parallel()
	liqoctl, c := bare(t)
	file := filepath.Join(t.TempDir(), "values.yaml")
	code, said := liqoctl(t.Context(), "install --only-output-values --cluster-name rome --api-server-url https://rome:6443 --dump-values-path "+file+
		" --set ipam.reservedSubnets={10.200.0.0/16} --cluster-labels region=north --set discovery.config.clusterLabels.region=null")
	for _, want := range []string{
		"INFO  Provider: kubeadm, from ConfigMap kubeadm-config in namespace kube-system\n",
		"Cluster ID: rome, from the request (--cluster-id)\n",
		"Pod CIDR: 10.244.0.0/16, from ConfigMap kubeadm-config (--pod-cidr)\n",
		"Service CIDR: 10.0.0.0/24, from ServiceCIDR objects (--service-cidr)\n",
		"API server: https://rome:6443, from the request (--api-server-url)\n",
		"Reserved subnets: 10.200.0.0/16 (--reserved-subnets)\n",
		"INFO  All Set! The values of the chart are in " + file + "\n",
	} {
		if code != 0 || !strings.Contains(said, want) {
			t.Errorf("code %d, no %q in\n%s", code, want, said)
		}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(data, &values); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"apiServer": map[string]any{"address": "https://rome:6443"},
		"discovery": map[string]any{"config": map[string]any{"clusterID": "rome", "clusterLabels": map[string]any{install.LabelProvider: "kubeadm"}}},
		"ipam":      map[string]any{"podCIDRs": []any{"10.244.0.0/16"}, "serviceCIDR": "10.0.0.0/24", "reservedSubnets": []any{"10.200.0.0/16"}},
		"tag":       version.Version,
	}
	if diff := cmp.Diff(want, values); diff != "" {
		t.Error(diff)
	}

	// The images have the version that the user names for a chart of its own.
	code, said = liqoctl(t.Context(), "install --only-output-values --local-chart-path ../../charts/liqo --version v8.8.8 --dump-values-path "+file)
	data, err = os.ReadFile(file)
	if code != 0 || err != nil || !strings.Contains(string(data), "tag: v8.8.8\n") {
		t.Errorf("code %d, %v: %s: %s", code, err, said, data)
	}

	clitest.Create(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "narrow", Labels: map[string]string{setup.LabelPodSecurity: "baseline"}}})
	for command, want := range map[string]string{
		"install --pod-cidr 10.0.0.0/8":                         "10.0.0.0/24 (ServiceCIDR objects) overlaps 10.0.0.0/8 (the request): check both",
		"install --pod-cidr 10.244.0.0":                         `"10.244.0.0", from the request, is not a CIDR: write it as`,
		"install --service-cidr 10.43.0.0/16":                   "Service kubernetes has the address 10.0.0.1, which is not in the service CIDR 10.43.0.0/16 (the request): give the right one with --service-cidr",
		"install --api-server-url https://127.0.0.1:6443":       "leads peers to themselves: give an address that the peers can reach",
		"install --cluster-id Rome":                             `cluster ID "Rome"`,
		"install --sharing-percentage 120":                      "--sharing-percentage 120 is no percentage",
		"install --service-type Ingress":                        "--service-type Ingress: want one of LoadBalancer, NodePort, ClusterIP",
		"install -n narrow":                                     "namespace narrow enforces the Pod Security level baseline",
		"install --values /no/where":                            "reading the values given by --values, --set and --set-string: open /no/where",
		"install --set a":                                       "reading the values given by --values, --set and --set-string",
		"install --local-chart-path /no/where":                  "loading chart /no/where",
		"install --set controllerManager.replicas=many":         "rendering the chart",
		"install --only-output-values --dump-values-path /no/a": "writing the values: open /no/a",
		"install --cluster-id a --cluster-name b":               "[cluster-id cluster-name] were all set",
	} {
		if code, said := liqoctl(t.Context(), command); code != 1 || !strings.Contains(said, want) {
			t.Errorf("%s: code %d, no %q in\n%s", command, code, want, said)
		}
	}
	if code, said := liqoctl(t.Context(), "install k3s --only-output-values --dump-values-path "+file); code != 0 || !strings.Contains(said, "WARN  k3s is requested, but the cluster looks like kubeadm: ConfigMap kubeadm-config") {
		t.Errorf("code %d: %s", code, said)
	}
	if code, said := liqoctl(t.Context(), "install --dry-run"); code != 0 || !strings.Contains(said, "Dry run: the API server accepts the objects, nothing was changed") {
		t.Errorf("code %d: %s", code, said)
	}
	var namespace corev1.Namespace
	if err := c.Get(t.Context(), client.ObjectKey{Name: "liqo"}, &namespace); err != nil || namespace.Labels[setup.LabelPodSecurity] != "" {
		t.Errorf("labels %v: %v", namespace.Labels, err)
	}
	var deployments appsv1.DeploymentList
	if err := c.List(t.Context(), &deployments); err != nil || len(deployments.Items) > 0 {
		t.Errorf("%d Deployments: %v", len(deployments.Items), err)
	}
}

// broken is an argument that the pods of a program do not live with.
const broken = "--broken"

// keepRunning marks each Deployment and DaemonSet as running, as controllers would, except those with the argument broken: these get a pod that
// tells why not. It also ends the deletion of namespaces, as the namespace controller would. It acts on events: a controller that lists everything again and
// again would take as much processor time as the command under test.
func keepRunning(ctx context.Context, t *testing.T, c client.Client) {
	t.Helper()
	watching := c.(client.WithWatch)
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	for _, list := range []client.ObjectList{&appsv1.DeploymentList{}, &appsv1.DaemonSetList{}, &corev1.NamespaceList{}} {
		running.Go(func() {
			for ctx.Err() == nil {
				events, err := watching.Watch(ctx, list)
				if err != nil {
					continue // the context has ended, or the next request succeeds
				}
				for event := range events.ResultChan() {
					if event.Type == watch.Added || event.Type == watch.Modified {
						markRunning(ctx, c, event.Object.(client.Object))
					}
				}
			}
		})
	}
}

// markRunning sets the status of a Deployment or DaemonSet, or ends the deletion of a namespace. After a conflict there is another event. Any other failure is
// repeated.
func markRunning(ctx context.Context, c client.Client, object client.Object) {
	for ctx.Err() == nil {
		err := setRunning(ctx, c, object)
		if err == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func setRunning(ctx context.Context, c client.Client, object client.Object) error {
	switch o := object.(type) {
	case *corev1.Namespace:
		if o.DeletionTimestamp == nil || len(o.Spec.Finalizers) == 0 {
			return nil
		}
		o.Spec.Finalizers = nil
		return c.SubResource("finalize").Update(ctx, o)
	case *appsv1.Deployment:
		n := *o.Spec.Replicas
		status := appsv1.DeploymentStatus{ObservedGeneration: o.Generation, Replicas: n, UpdatedReplicas: n, AvailableReplicas: n, ReadyReplicas: n}
		if slices.Contains(o.Spec.Template.Spec.Containers[0].Args, broken) {
			status.AvailableReplicas, status.ReadyReplicas = 0, 0
			if err := failing(ctx, c, o); err != nil {
				return err
			}
		}
		if cmp.Equal(o.Status, status) {
			return nil
		}
		o.Status = status
	case *appsv1.DaemonSet:
		status := appsv1.DaemonSetStatus{ObservedGeneration: o.Generation, DesiredNumberScheduled: 1, CurrentNumberScheduled: 1, UpdatedNumberScheduled: 1, NumberAvailable: 1, NumberReady: 1}
		if cmp.Equal(o.Status, status) {
			return nil
		}
		o.Status = status
	}
	return c.Status().Update(ctx, object)
}

// failing makes the pod of a Deployment that ends as soon as it starts.
func failing(ctx context.Context, c client.Client, d *appsv1.Deployment) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name + "-x", Labels: d.Spec.Selector.MatchLabels}, Spec: *d.Spec.Template.Spec.DeepCopy()}
	if err := client.IgnoreAlreadyExists(c.Create(ctx, pod)); err != nil || pod.UID == "" {
		return err
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: pod.Spec.Containers[0].Name,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
			Reason: "CrashLoopBackOff", Message: "back-off 10s restarting failed container",
		}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 2, Reason: "Error", Message: "unknown flag: " + broken}},
	}}
	return c.Status().Update(ctx, pod)
}

// TestUpgradeOnAPIServer: an upgrade keeps the values of the installation. One that does not become ready before its timeout or an interrupt is
// rolled back, definitions included, and names the failing container.
func TestUpgradeOnAPIServer(t *testing.T) {
	t.Parallel()
	liqoctl, c := bare(t)
	keepRunning(t.Context(), t, c)
	// until runs a command that can't succeed, and interrupts it once that shows.
	until := func(command string) (int, string) {
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		go func() {
			for shows := false; !shows && ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
				var pod corev1.Pod
				err := c.Get(ctx, client.ObjectKey{Namespace: "liqo", Name: session.ControllerManager + "-x"}, &pod)
				shows = err == nil && len(pod.Status.ContainerStatuses) > 0
			}
			interrupt()
		}()
		return liqoctl(ctx, command)
	}
	breaking := " --set controllerManager.replicas=2,controllerManager.pod.extraArgs={" + broken + "}"
	waiting := "waiting for Deployment liqo-controller-manager in namespace liqo: interrupted, last seen: "
	blame := "- container controller-manager of pod liqo-controller-manager-x in namespace liqo is waiting, CrashLoopBackOff: back-off 10s restarting failed container; " +
		"container controller-manager ended with code 2 before, Error: unknown flag: --broken\n"

	// A fresh installation that comes to nothing leaves nothing.
	code, said := until("install --cluster-id rome" + breaking)
	if code != interruptedCode || !strings.Contains(said, waiting) || !strings.Contains(said, blame) || !strings.Contains(said, "The installation was rolled back\n") {
		t.Fatalf("code %d: %s", code, said)
	}
	var namespace corev1.Namespace
	if err := c.Get(t.Context(), client.ObjectKey{Name: "liqo"}, &namespace); err != nil || namespace.Labels[setup.LabelPodSecurity] != "" {
		t.Errorf("labels %v: %v", namespace.Labels, err)
	}
	if err := c.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace("liqo"), client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}

	if code, said := liqoctl(t.Context(), "install --cluster-id rome --pod-cidr 10.7.0.0/16 --set controllerManager.replicas=2"); code != 0 || !strings.Contains(said, "All Set! This cluster is rome") {
		t.Fatalf("code %d: %s", code, said)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "liqo"}, &namespace); err != nil || namespace.Labels[setup.LabelPodSecurity] != "privileged" {
		t.Errorf("labels %v: %v", namespace.Labels, err)
	}
	// As an earlier version would have left it.
	name := client.ObjectKey{Name: "virtualnodes.offloading.liqo.io"}
	var before apiextensionsv1.CustomResourceDefinition
	if err := c.Get(t.Context(), name, &before); err != nil {
		t.Fatal(err)
	}
	before.Annotations["earlier"] = "true"
	before.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = "as it was"
	if err := c.Update(t.Context(), &before); err != nil {
		t.Fatal(err)
	}

	code, said = until("upgrade" + breaking)
	for _, want := range []string{
		"Cluster ID: rome, from the installation (--cluster-id)\n", "Pod CIDR: 10.7.0.0/16, from the installation (--pod-cidr)\n",
		waiting, blame,
		"Rolled back to version v0.0.0-dev\n",
	} {
		if code != 130 || !strings.Contains(said, want) {
			t.Errorf("code %d, no %q in\n%s", code, want, said)
		}
	}
	var deployment appsv1.Deployment
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "liqo", Name: session.ControllerManager}, &deployment); err != nil {
		t.Fatal(err)
	}
	if *deployment.Spec.Replicas != 2 || slices.Contains(deployment.Spec.Template.Spec.Containers[0].Args, broken) {
		t.Errorf("%d replicas, arguments %v", *deployment.Spec.Replicas, deployment.Spec.Template.Spec.Containers[0].Args)
	}
	var after apiextensionsv1.CustomResourceDefinition
	if err := c.Get(t.Context(), name, &after); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before.Spec, after.Spec); diff != "" || after.Annotations["earlier"] != "true" {
		t.Errorf("the definition was not restored, annotations %v: %s", after.Annotations, diff)
	}

	if code, said := liqoctl(t.Context(), "upgrade --enable-ha"); code != 0 || !strings.Contains(said, "Pod CIDR: 10.7.0.0/16, from the installation") {
		t.Fatalf("code %d: %s", code, said)
	}

	// The tag of an installation is that of its version, also after an installation that was given another tag.
	for _, step := range []struct{ command, said, tag string }{
		{"upgrade --set tag=v0.0.0-alpha", "All Set!", "v0.0.0-alpha"},
		{"upgrade", "WARN  The image tag v0.0.0-alpha of the installation is replaced by", version.Version},
	} {
		if code, said := liqoctl(t.Context(), step.command); code != 0 || !strings.Contains(said, step.said) {
			t.Fatalf("%s: code %d, no %q in\n%s", step.command, code, step.said, said)
		}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "liqo", Name: session.ControllerManager}, &deployment); err != nil {
			t.Fatal(err)
		}
		if image := deployment.Spec.Template.Spec.Containers[0].Image; !strings.HasSuffix(image, ":"+step.tag) {
			t.Errorf("%s: the image is %s, want the tag %s", step.command, image, step.tag)
		}
	}
}

// TestCloudNeedsTheClusterName: the user has to name the cluster to look up in a cloud, before anything is requested.
func TestCloudNeedsTheClusterName(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	for command, want := range map[string]string{
		"install aks": `required flag(s) "resource-group-name", "resource-name" not set`,
		"install aks --resource-group-name a --resource-name b":                                           "at least one of the flags in the group [subscription-id subscription-name] is required",
		"install aks --resource-group-name a --resource-name b --subscription-id c --subscription-name d": "[subscription-id subscription-name] were all set",
		"install eks": `required flag(s) "eks-cluster-name", "eks-cluster-region" not set`,
		"install gke": `required flag(s) "cluster-id", "project-id" not set`,
		"install gke --project-id a --cluster-id b":                     "at least one of the flags in the group [zone region] is required",
		"install gke --project-id a --cluster-id b --zone c --region d": "[region zone] were all set",
		"install eks --eks-cluster-name a --eks-cluster-region b --user-name u --policy-name p --access-key-id k --secret-access-key hidden --cluster-name c":                      "KUBECONFIG names ",
		"install aks --resource-group-name a --resource-name b --subscription-name c --fqdn d --private-link --vnet-resource-group-name e --pod-cidr 10.1.0.0/16 --cluster-name f": "KUBECONFIG names ",
		"install gke --project-id a --zone b --cluster-id c --credentials-path d --cluster-name e":                                                                                 "KUBECONFIG names ",
	} {
		code, out, errOut := run(t, strings.Fields(command)...)
		if code != 1 || out != "" || !strings.HasPrefix(errOut, " ERRO  ") || !strings.Contains(errOut, want) || strings.Contains(errOut, "hidden") {
			t.Errorf("%s: code %d, output %q, errors %q, want %q in them", command, code, out, errOut, want)
		}
	}
}
