package controllers

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/reasons"
	"liqo.io/liqo/test/apitest"
)

func virtualNode(namespace, name, cluster string) *offloadingv1beta1.VirtualNode {
	return &offloadingv1beta1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: offloadingv1beta1.VirtualNodeSpec{
			ClusterID: cluster, KubeconfigSecretRef: &corev1.LocalObjectReference{Name: "kubeconfig-resourceslice-" + name},
		},
	}
}

func testNamespaceOffloading(t *testing.T, c *cluster) {
	const provider = "turin"
	tenant := api.TenantNamespace(provider)
	c.namespace(t, tenant, nil)
	c.namespace(t, "demo", nil)
	c.create(t, virtualNode(tenant, "turin", provider))

	offloading := &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "offloading"}}
	c.create(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "early"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}}})
	c.create(t, offloading)
	m := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: provider}}
	eventually(t, c, m, "the NamespaceMap to ask for the remote namespace", func(m *offloadingv1beta1.NamespaceMap) error {
		if err := has(m.Labels, map[string]string{
			"liqo.io/replication": "true", "liqo.io/remoteID": provider, "liqo.io/remote-cluster-id": provider, "liqo.io/managed": "true",
		}); err != nil {
			return err
		}
		return has(m.Spec.DesiredMapping, map[string]string{"demo": "demo-rome"})
	})
	phase := func(want offloadingv1beta1.OffloadingPhase) {
		t.Helper()
		eventually(t, c, offloading, "phase "+string(want), func(o *offloadingv1beta1.NamespaceOffloading) error {
			if o.Status.OffloadingPhase != want || o.Status.ObservedGeneration != o.Generation {
				return fmt.Errorf("status %+v", o.Status)
			}
			return nil
		})
	}
	phase(offloadingv1beta1.PhaseInProgress)
	rights := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "liqo-virtual-kubelet-offloaded"}}
	eventually(t, c, rights, "the provider's virtual kubelet, and no other, to read what it copies", func(b *rbacv1.RoleBinding) error {
		if len(b.Subjects) != 1 || b.Subjects[0].Namespace != tenant || b.Subjects[0].Name != "turin" || b.RoleRef.Name != "liqo-virtual-kubelet-offloaded" ||
			len(b.OwnerReferences) != 1 || b.OwnerReferences[0].UID != offloading.UID {
			return fmt.Errorf("%+v", b)
		}
		return nil
	})
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}
	labelled := func(want string) {
		t.Helper()
		eventually(t, c, ns, "the namespace's label", func(ns *corev1.Namespace) error {
			return has(ns.Labels, map[string]string{"liqo.io/scheduling-enabled": want})
		})
	}
	labelled("true")
	apitest.Eventually(t, within, "the pod to be told that was made before", func() error {
		var events corev1.EventList
		if err := c.List(t.Context(), &events, client.InNamespace("demo")); err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Reason == reasons.PodsNotRescheduled && strings.HasSuffix(e.Message, ": early") {
				return nil
			}
		}
		return fmt.Errorf("%+v", events.Items)
	})
	report(t, c, m, func(m *offloadingv1beta1.NamespaceMap) {
		m.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{"demo": {RemoteNamespace: "demo-rome", Phase: offloadingv1beta1.MappingAccepted}}
	})
	phase(offloadingv1beta1.PhaseReady)

	// A selector may use labels that only the Node has.
	change(t, c, offloading, func(o *offloadingv1beta1.NamespaceOffloading) {
		o.Spec.ClusterSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: "kubernetes.io/arch", Operator: corev1.NodeSelectorOpIn, Values: []string{"arm64"}},
		}}}}
	})
	phase(offloadingv1beta1.PhaseNoClusterSelected)
	host := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "turin", Labels: map[string]string{
		"liqo.io/type": "virtual-node", "liqo.io/remote-cluster-id": provider, "kubernetes.io/arch": "arm64",
	}}}
	c.create(t, host)
	phase(offloadingv1beta1.PhaseReady)
	// A user, or a cloud provider that does not know the Node, deletes the Node by mistake. The Node is recreated soon. Until then the remote namespace must
	// stay, because its deletion would lose its content.
	asked := func(m *offloadingv1beta1.NamespaceMap) error {
		return has(m.Spec.DesiredMapping, map[string]string{"demo": "demo-rome"})
	}
	eventually(t, c, m, "the request for the remote namespace", asked)
	before := m.Generation
	c.remove(t, host)
	time.Sleep(time.Second) // wait, because no event shows that nothing happens
	eventually(t, c, m, "the NamespaceMap to be there", asked)
	if m.Generation != before {
		t.Errorf("what the provider is asked for changed, generation %d to %d", before, m.Generation)
	}
	phase(offloadingv1beta1.PhaseReady)
	change(t, c, offloading, func(o *offloadingv1beta1.NamespaceOffloading) {
		o.Spec.ClusterSelector.NodeSelectorTerms[0].MatchExpressions[0].Values = []string{"riscv64"}
	})
	phase(offloadingv1beta1.PhaseNoClusterSelected)
	change(t, c, offloading, func(o *offloadingv1beta1.NamespaceOffloading) { o.Spec.ClusterSelector = nil })
	phase(offloadingv1beta1.PhaseReady)

	change(t, c, offloading, func(o *offloadingv1beta1.NamespaceOffloading) {
		o.Spec.PodOffloadingStrategy = offloadingv1beta1.PodsLocal
	})
	labelled("")
	change(t, c, offloading, func(o *offloadingv1beta1.NamespaceOffloading) {
		o.Spec.PodOffloadingStrategy = offloadingv1beta1.PodsRemote
	})
	labelled("true")

	c.remove(t, offloading)
	phase(offloadingv1beta1.PhaseTerminating)
	labelled("")
	asksNothing := func(m *offloadingv1beta1.NamespaceMap) error {
		if len(m.Spec.DesiredMapping) > 0 {
			return fmt.Errorf("%v", m.Spec.DesiredMapping)
		}
		return nil
	}
	eventually(t, c, m, "the NamespaceMap to ask no more", asksNothing)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(offloading), offloading); err != nil {
		t.Fatalf("gone while the provider still holds the remote namespace: %v", err)
	}
	report(t, c, m, func(m *offloadingv1beta1.NamespaceMap) { m.Status.CurrentMapping = nil })
	c.gone(t, offloading)

	// The namespace itself is deleted. No controller here deletes the objects in it, as Kubernetes would a little later.
	offloading = &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "offloading"}}
	c.create(t, offloading)
	eventually(t, c, m, "the request for the remote namespace", asked)
	c.remove(t, ns)
	eventually(t, c, m, "the NamespaceMap to ask no more", asksNothing)
	c.gone(t, offloading)

	c.remove(t, m) // a user deletes the NamespaceMap by mistake
	eventually(t, c, m, "the NamespaceMap to be back", func(m *offloadingv1beta1.NamespaceMap) error {
		if !m.DeletionTimestamp.IsZero() {
			return errors.New("still going")
		}
		return nil
	})
}

// A namespace that the naming policy of this cluster refuses does not block the other namespaces.
func testRefusedNamespace(t *testing.T, c *cluster) {
	const consumer = "rieti"
	c.namespace(t, api.TenantNamespace(consumer), nil)
	c.create(t, &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "refuse"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"namespaces"}},
				},
			}}},
			Validations: []admissionregistrationv1.Validation{{Expression: "!object.metadata.name.startsWith('refused-')"}},
		},
	})
	c.create(t, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "refuse"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "refuse", ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	})
	apitest.Eventually(t, within, "the policy to be in force", func() error {
		probe := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "refused-probe"}}
		if err := c.Create(t.Context(), probe, client.DryRunAll); err == nil {
			return errors.New("it is not")
		}
		return nil
	})
	m := &offloadingv1beta1.NamespaceMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.TenantNamespace(consumer), Name: ownID, Labels: map[string]string{
			"liqo.io/replication": "false", "liqo.io/replicated": "true", "liqo.io/originID": consumer, "liqo.io/remote-cluster-id": consumer,
		}},
		Spec: offloadingv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{"a": "refused-rieti", "b": "b-rieti"}},
	}
	c.create(t, m)
	eventually(t, c, m, "the remote namespaces", func(m *offloadingv1beta1.NamespaceMap) error {
		if a, b := m.Status.CurrentMapping["a"].Phase, m.Status.CurrentMapping["b"].Phase; a != offloadingv1beta1.MappingCreationLoopBackOff ||
			b != offloadingv1beta1.MappingAccepted {
			return fmt.Errorf("%v", m.Status.CurrentMapping)
		}
		return nil
	})
}

func testNamespaceMap(t *testing.T, c *cluster) {
	const consumer = "naples"
	tenant := api.TenantNamespace(consumer)
	c.namespace(t, tenant, nil)
	c.namespace(t, "taken", map[string]string{"owner": "somebody"})
	m := &offloadingv1beta1.NamespaceMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: ownID, Labels: map[string]string{
			"liqo.io/replication": "false", "liqo.io/replicated": "true", "liqo.io/originID": consumer, "liqo.io/remote-cluster-id": consumer,
		}},
		Spec: offloadingv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{"web": "web-naples", "taken": "taken", "bad": "Not_A_Name"}},
	}
	c.create(t, m)
	current := func(what string, want map[string]offloadingv1beta1.MappingPhase) {
		t.Helper()
		eventually(t, c, m, what, func(m *offloadingv1beta1.NamespaceMap) error {
			if len(m.Status.CurrentMapping) != len(want) {
				return fmt.Errorf("%v", m.Status.CurrentMapping)
			}
			for local, phase := range want {
				if m.Status.CurrentMapping[local].Phase != phase {
					return fmt.Errorf("%v", m.Status.CurrentMapping)
				}
			}
			return nil
		})
	}
	accepted, backoff, terminating := offloadingv1beta1.MappingAccepted, offloadingv1beta1.MappingCreationLoopBackOff, offloadingv1beta1.MappingTerminating
	current("the remote namespaces", map[string]offloadingv1beta1.MappingPhase{"web": accepted, "taken": backoff, "bad": backoff})

	remote := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "web-naples"}}
	eventually(t, c, remote, "the marks of the remote namespace", func(ns *corev1.Namespace) error {
		return errors.Join(has(ns.Annotations, map[string]string{
			"liqo.io/managed-by-namespace-map": "liqo-tenant-naples/rome", "liqo.io/original-name": "web",
			"offloading.liqo.io/consumer-users": authv1beta1.SliceUserSuffix(consumer),
		}), has(ns.Labels, map[string]string{"liqo.io/remote-cluster-id": consumer}))
	})
	rights := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "web-naples", Name: tenant}}
	checkRights := func(rb *rbacv1.RoleBinding) error {
		if rb.RoleRef.Name != "liqo-virtual-kubelet-remote" || len(rb.Subjects) != 1 || rb.Subjects[0].Kind != "Group" || rb.Subjects[0].Name != consumer {
			return fmt.Errorf("%+v %+v", rb.RoleRef, rb.Subjects)
		}
		return has(rb.Labels, map[string]string{"app.kubernetes.io/managed-by": "liqo"})
	}
	eventually(t, c, rights, "the consumer's rights", checkRights)
	c.remove(t, rights)
	eventually(t, c, rights, "the consumer's rights to be back", checkRights)

	foreign := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "taken"}}
	eventually(t, c, foreign, "the foreign namespace", func(ns *corev1.Namespace) error {
		if len(ns.Annotations) > 0 || ns.Labels["liqo.io/remote-cluster-id"] != "" || !ns.DeletionTimestamp.IsZero() {
			return fmt.Errorf("it was touched: %+v", ns.ObjectMeta)
		}
		return nil
	})
	c.remove(t, foreign)
	c.endNamespace(t, "taken")
	current("the name to be free", map[string]offloadingv1beta1.MappingPhase{"web": accepted, "taken": accepted, "bad": backoff})

	change(t, c, m, func(m *offloadingv1beta1.NamespaceMap) { m.Spec.DesiredMapping = map[string]string{"taken": "taken"} })
	current("the remote namespace to be deleted", map[string]offloadingv1beta1.MappingPhase{"web": terminating, "taken": accepted})
	change(t, c, m, func(m *offloadingv1beta1.NamespaceMap) { m.Spec.DesiredMapping["web"] = "web-naples" })
	c.endNamespace(t, "web-naples")
	current("the remote namespace to be back", map[string]offloadingv1beta1.MappingPhase{"web": accepted, "taken": accepted})

	c.remove(t, m)
	current("the map to hold on", map[string]offloadingv1beta1.MappingPhase{"web": terminating, "taken": terminating})
	c.endNamespace(t, "web-naples")
	current("the other one", map[string]offloadingv1beta1.MappingPhase{"taken": terminating})
	c.endNamespace(t, "taken")
	c.gone(t, m)
}

// TestNamespaceQuotaOnAPIServer: the quota and the default limits of remote namespaces exist before the consumer can create anything, stay, and are
// deleted when the installation disables them.
func TestNamespaceQuotaOnAPIServer(t *testing.T) {
	admin := apitest.APIServer(t)
	config := ordinary(t, admin)
	const consumer = "lecce"
	m := &offloadingv1beta1.NamespaceMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.TenantNamespace(consumer), Name: ownID, Labels: map[string]string{
			"liqo.io/replication": "false", "liqo.io/replicated": "true", "liqo.io/originID": consumer, "liqo.io/remote-cluster-id": consumer,
		}},
		Spec: offloadingv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{"web": "web-lecce"}},
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "web-lecce", Name: "liqo"}}
	hard := corev1.ResourceList{"count/configmaps": resource.MustParse("1")}
	limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "web-lecce", Name: "liqo"}}
	disk := corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("20Gi")}
	t.Run("one that is set", func(t *testing.T) {
		c := run(t, admin, config, func(o *Options) { o.NamespaceQuota, o.DefaultLimits = hard, disk })
		c.namespace(t, m.Namespace, nil)
		c.create(t, m.DeepCopy())
		kept := func(what string) {
			t.Helper()
			eventually(t, c, quota, what, func(q *corev1.ResourceQuota) error {
				if !equality.Semantic.DeepEqual(q.Spec.Hard, hard) || !q.DeletionTimestamp.IsZero() {
					return fmt.Errorf("%+v", q.Spec)
				}
				return nil
			})
		}
		kept("the quota")
		change(t, c, quota, func(q *corev1.ResourceQuota) { q.Spec.Hard["count/configmaps"] = resource.MustParse("9") })
		kept("the quota to be as it was")
		c.remove(t, quota)
		kept("the quota to be back")
		testDefaultLimits(t, c, limits, disk)
		// The test writes the status that Kubernetes' ResourceQuota controller would write.
		report(t, c, quota, func(q *corev1.ResourceQuota) {
			q.Status = corev1.ResourceQuotaStatus{Hard: hard, Used: corev1.ResourceList{"count/configmaps": resource.MustParse("0")}}
		})
		apitest.Eventually(t, within, "the second ConfigMap to be refused", func() error {
			err := c.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "web-lecce", GenerateName: "many-"}})
			if err == nil || !strings.Contains(err.Error(), "exceeded quota: liqo") {
				return fmt.Errorf("it was answered with %w", err)
			}
			return nil
		})
	})
	t.Run("none", func(t *testing.T) {
		c := run(t, admin, config)
		c.gone(t, quota)
		c.gone(t, limits)
	})
}

// testProtectedNamespace continues after testNamespaceOffloading, with its virtual node. A namespace that becomes protected, or always was, is
// removed from its providers together with the permissions in it, and its user gets a message.
func testProtectedNamespace(t *testing.T, c *cluster) {
	const provider = "turin"
	tenant := api.TenantNamespace(provider)
	c.namespace(t, "keys", nil)
	c.namespace(t, "guarded-keys", nil)
	offloading := &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "keys", Name: "offloading"}}
	c.create(t, offloading)
	m := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: provider}}
	eventually(t, c, m, "the NamespaceMap to ask for the remote namespace", func(m *offloadingv1beta1.NamespaceMap) error {
		return has(m.Spec.DesiredMapping, map[string]string{"keys": "keys-rome"})
	})
	report(t, c, m, func(m *offloadingv1beta1.NamespaceMap) {
		m.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{"keys": {RemoteNamespace: "keys-rome", Phase: offloadingv1beta1.MappingAccepted}}
	})
	rights := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "keys", Name: "liqo-virtual-kubelet-offloaded"}}
	eventually(t, c, rights, "the virtual kubelet's rights", func(b *rbacv1.RoleBinding) error {
		if len(b.Subjects) != 1 {
			return fmt.Errorf("%+v", b.Subjects)
		}
		return nil
	})
	cut := func(o *offloadingv1beta1.NamespaceOffloading) {
		t.Helper()
		eventually(t, c, o, "the status to say why", func(o *offloadingv1beta1.NamespaceOffloading) error {
			conditions := o.Status.RemoteNamespacesConditions[provider]
			if o.Status.OffloadingPhase != offloadingv1beta1.PhaseAllFailed || len(conditions) == 0 || conditions[0].Reason != offloadingv1beta1.ReasonNamespaceProtected {
				return fmt.Errorf("%+v", o.Status)
			}
			return nil
		})
		eventually(t, c, m, "the NamespaceMap not to ask for it", func(m *offloadingv1beta1.NamespaceMap) error {
			if _, asked := m.Spec.DesiredMapping[o.Namespace]; asked {
				return fmt.Errorf("%v", m.Spec.DesiredMapping)
			}
			return nil
		})
		apitest.Eventually(t, within, "the event", func() error {
			var events corev1.EventList
			if err := c.List(t.Context(), &events, client.InNamespace(o.Namespace)); err != nil {
				return err
			}
			for _, e := range events.Items {
				if e.Reason == offloadingv1beta1.ReasonNamespaceProtected && strings.Contains(e.Message, "namespace "+o.Namespace+" can not be offloaded: ") {
					return nil
				}
			}
			return fmt.Errorf("%+v", events.Items)
		})
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: o.Namespace}}
		eventually(t, c, ns, "the namespace's label", func(ns *corev1.Namespace) error {
			return has(ns.Labels, map[string]string{"liqo.io/scheduling-enabled": ""})
		})
	}
	// The offloaded namespace becomes a tenant namespace, which is protected.
	change(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "keys"}}, func(ns *corev1.Namespace) {
		ns.Labels[api.LabelTenantNamespace] = api.True
	})
	cut(offloading)
	eventually(t, c, rights, "the virtual kubelet to have no rights, though the provider still has the remote namespace", func(b *rbacv1.RoleBinding) error {
		if len(b.Subjects) != 0 {
			return fmt.Errorf("%+v", b.Subjects)
		}
		return nil
	})
	// The options of this installation protect the name of this namespace.
	guarded := &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "guarded-keys", Name: "offloading"}}
	c.create(t, guarded)
	cut(guarded)
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "guarded-keys", Name: rights.Name}, &rbacv1.RoleBinding{}); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("rights in a namespace that was never offloaded: %v", err)
	}
	report(t, c, m, func(m *offloadingv1beta1.NamespaceMap) { m.Status.CurrentMapping = nil })
	c.remove(t, offloading)
	c.gone(t, offloading)
}
