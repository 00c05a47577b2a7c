package kinds

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
)

// TestMetadataIsCopiedByAnAllowList: an annotation or label with a prefix that no list names may drive a controller of the provider, so it is not
// copied. Neither are those by which Helm and GitOps tools recognize what they manage, unless an administrator includes them.
func TestMetadataIsCopiedByAnAllowList(t *testing.T) {
	local := metav1.ObjectMeta{Namespace: "shop", Name: "web"}
	local.Labels = map[string]string{
		"app": "web", "team": "blue", "app.kubernetes.io/name": "web", "helm.sh/chart": "web-1",
		"app.kubernetes.io/instance": "shop", "app.kubernetes.io/managed-by": "Helm", "grafana_dashboard": "1", "argocd.argoproj.io/instance": "x", "liqo.io/remote-cluster-id": "turin", "controller.example/of-tomorrow": "x",
	}
	local.Annotations = map[string]string{
		"note": "x", "meta.helm.sh/release-name": "shop", "meta.helm.sh/release-namespace": "shop", "kubernetes.io/ingress.class": "internal", "service.beta.kubernetes.io/aws-load-balancer-type": "nlb",
		"reflector.v1.k8s.emberstack.com/reflection-auto-enabled": "true", "cert-manager.io/cluster-issuer": "x", "controller.example/of-tomorrow": "x",
		"nginx.ingress.kubernetes.io/proxy-body-size": "1m", "service.kubernetes.io/topology-mode": "Auto", "nginx.ingress.kubernetes.io/server-snippet": "x",
	}
	copies := map[string]func(CopyOptions) metav1.Object{
		resourceServices: func(o CopyOptions) metav1.Object {
			out, _ := Service(&corev1.Service{ObjectMeta: local}, "x", ServiceOptions{CopyOptions: o})
			return out
		},
		resourceIngresses: func(o CopyOptions) metav1.Object {
			out, _ := Ingress(&networkingv1.Ingress{ObjectMeta: local}, "x", IngressOptions{CopyOptions: o})
			return out
		},
		resourceConfigMaps: func(o CopyOptions) metav1.Object {
			out, _ := ConfigMap(&corev1.ConfigMap{ObjectMeta: local}, "x", o)
			return out
		},
		resourceSecrets: func(o CopyOptions) metav1.Object {
			out, _ := Secret(&corev1.Secret{ObjectMeta: local}, "x", o)
			return out
		},
		resourceNetworkPolicies: func(o CopyOptions) metav1.Object {
			out, _, _ := NetworkPolicy(&networkingv1.NetworkPolicy{ObjectMeta: local}, "x", NetworkPolicyOptions{CopyOptions: o})
			return out
		},
	}
	for resource, row := range map[string][]string{
		resourceServices: {"note", "service.kubernetes.io/topology-mode"}, resourceIngresses: {"nginx.ingress.kubernetes.io/proxy-body-size", "note"},
		resourceConfigMaps: {"note"}, resourceSecrets: {"note"}, resourceNetworkPolicies: {"note"},
	} {
		out := copies[resource](plainOptions)
		annotations := Without(out.GetAnnotations(), AnnotationLabels, AnnotationAnnotations)
		if diff := cmp.Diff(row, slices.Sorted(maps.Keys(annotations))); diff != "" {
			t.Errorf("annotations of %s: %s", resource, diff)
		}
		labels := Without(out.GetLabels(), api.LabelOrigin, api.LabelDestination)
		if diff := cmp.Diff([]string{"app", "app.kubernetes.io/name", "helm.sh/chart", "team"}, slices.Sorted(maps.Keys(labels))); diff != "" {
			t.Errorf("labels of %s: %s", resource, diff)
		}
		o := plainOptions
		o.AnnotationsReflected, o.LabelsReflected, o.AnnotationsNotReflected = []string{"controller.example/*", "cert-manager.io/*"}, []string{"controller.example/of-tomorrow", "grafana_dashboard", "app.kubernetes.io/instance"}, []string{"cert-manager.io/*"}
		out = copies[resource](o)
		if _, found := out.GetAnnotations()["controller.example/of-tomorrow"]; !found {
			t.Errorf("%s: an annotation that the administrator includes stays here", resource)
		}
		if _, found := out.GetAnnotations()["cert-manager.io/cluster-issuer"]; found {
			t.Errorf("%s: an annotation that the administrator keeps here is copied", resource)
		}
		if l := out.GetLabels(); l["controller.example/of-tomorrow"] == "" || l["grafana_dashboard"] == "" || l["app.kubernetes.io/instance"] == "" || l["app.kubernetes.io/managed-by"] != "" || l["argocd.argoproj.io/instance"] != "" {
			t.Errorf("%s: labels %v", resource, l)
		}
	}
}

// TestExternalNames: a name that means something else in the provider is translated, or refused with a cure.
func TestExternalNames(t *testing.T) {
	remote := func(namespace string) (string, bool) {
		name, found := map[string]string{"shop": "shop-rome", "db": "db-rome"}[namespace]
		return name, found
	}
	for name, row := range map[string]struct{ want, says string }{
		"db.example.org":                    {want: "db.example.org."},
		"svc.example.org":                   {want: "svc.example.org."},
		"a.svc.example.org":                 {want: "a.svc.example.org."},
		"db.example.org.":                   {want: "db.example.org."},
		"vault.vault":                       {want: "vault.vault."}, // the trailing dot makes the name absolute, so it can't resolve to a Service
		"store.db.svc.cluster.local":        {want: "store.db-rome.svc.cluster.local"},
		"store.shop.svc":                    {want: "store.shop-rome.svc"},
		"store.shop.svc.rome.example":       {want: "store.shop-rome.svc.rome.example"},
		"db-0.store.db.svc.cluster.local":   {want: "db-0.store.db-rome.svc.cluster.local"},
		"STORE.db.svc.cluster.local.":       {want: "store.db-rome.svc.cluster.local"},
		"store.other.svc.cluster.local":     {says: "liqoctl offload namespace other"},
		"kubernetes.default.svc":            {says: "it is the API server"},
		"x.shop.svc.other.svc.x":            {says: "it contains svc twice"},
		"10-0-0-1.db.pod.rome.example":      {says: "name of a pod's address"},
		"169.254.169.254":                   {says: "with an EndpointSlice for the address"},
		"127.1":                             {says: "it is an address"},
		"2130706433":                        {says: "it is an address"},
		"0x7f000001":                        {says: "it is an address"},
		"metadata":                          {says: "a name without a domain"},
		"localhost":                         {says: "a name without a domain"},
		"metadata.google.internal":          {says: "names below .internal are private"},
		"instance-data.eu.compute.internal": {says: "names below .internal are private"},
		"printer.local":                     {says: "names below .local are private"},
	} {
		local := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: name}}
		o := serviceOptions
		o.RemoteNamespace = remote
		got, why := Service(local, "shop-rome", o)
		problem := ServiceProblem(local, o)
		switch {
		case row.says == "" && (got == nil || got.Spec.ExternalName != row.want || problem != nil):
			t.Errorf("%s: %v, %s, %v", name, got, why, problem)
		case row.says != "" && (got != nil || problem == nil || !strings.Contains(problem.Error(), row.says) || !strings.Contains(problem.Error(), `spec.externalName "`+name+`" is refused in cluster milan`)):
			t.Errorf("%s: %v, %v", name, got, problem)
		}
		local.Annotations = map[string]string{AnnotationSkip: ""}
		if got, _ := Service(local, "shop-rome", o); got != nil || ServiceProblem(local, o) != nil {
			t.Errorf("%s, which stays here: %v", name, got)
		}
	}
}

// TestPodLabelsThatControllersObey: the Pod of a consumer has no label by which a known controller or webhook of the provider decides. It keeps all others, because Services of
// operators select Pods by labels of any domain. Domains that only end alike are others.
func TestPodLabelsThatControllersObey(t *testing.T) {
	kept := []string{
		"app", "app.kubernetes.io/name", "app.kubernetes.io/instance", "cnpg.io/cluster", "strimzi.io/name", "jobset.sigs.k8s.io/jobset-name", "leaderworkerset.sigs.k8s.io/name", "team.example.org/tier",
		"notvolcano.sh/x", "amazonaws.com/x", "openservicemesh.io/x", "instana-autotrace-x",
	}
	labels := map[string]string{}
	for _, key := range slices.Concat(kept, []string{
		"istio.io/rev", "sidecar.istio.io/inject", "istio.io/dataplane-mode", "linkerd.io/inject", "kuma.io/sidecar-injection", "consul.hashicorp.com/connect-inject", "vault.hashicorp.com/agent-inject",
		"dapr.io/enabled", "injector.nsm.nginx.com/auto-inject", "admission.datadoghq.com/enabled", "instana-autotrace",
		"azure.workload.identity/use", "aadpodidbinding", "eks.amazonaws.com/skip-pod-identity-webhook", "spiffe.io/spire-managed-identity",
		"kueue.x-k8s.io/queue-name", "yunikorn.apache.org/queue", "yunikorn.apache.org/app-id", "volcano.sh/preemptable", "scheduling.volcano.sh/queue-name",
		"koordinator.sh/qosClass", "quota.scheduling.koordinator.sh/name",
		"eks.amazonaws.com/fargate-profile", "alibabacloud.com/eci", "virtual-kubelet.io/burst-to-cci",
	}) {
		labels[key] = "x"
	}
	RefusePodLabels(labels, nil, nil)
	slices.Sort(kept)
	if got := slices.Sorted(maps.Keys(labels)); !slices.Equal(got, kept) {
		t.Errorf("the Pod has the labels %v, want %v", got, kept)
	}
}

// TestInjectorsByAnnotation: injectors and cloud identities that go by an annotation of the Pod do not see theirs, known or not.
func TestInjectorsByAnnotation(t *testing.T) {
	annotations := map[string]string{"note": "x"}
	for _, key := range []string{
		"sidecar.istio.io/inject", "linkerd.io/inject", "kuma.io/sidecar-injection", "dapr.io/enabled", "consul.hashicorp.com/connect-inject", "vault.hashicorp.com/agent-inject",
		"sidecar.opentelemetry.io/inject", "instrumentation.opentelemetry.io/inject-java", "admission.datadoghq.com/java-lib.version", "gke-gcsfuse/volumes", "iam.gke.io/gcp-service-account",
		"iam.amazonaws.com/role", "eks.amazonaws.com/role-arn", "azure.workload.identity/inject-proxy-sidecar", "injector.example/of-tomorrow",
	} {
		annotations[key] = "true"
	}
	AcceptPodAnnotations(annotations, nil)
	if len(annotations) != 1 {
		t.Errorf("the Pod has the annotations %v", annotations)
	}
}
