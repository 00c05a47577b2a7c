package move

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/storage"
)

// Refusal is the answer of the API server to the dry run of a creation that it refuses.
type Refusal struct {
	// Object is the object with its kind, name and namespace, for messages. Namespace is its namespace.
	Object, Namespace string
	// Reason is the error of the API server.
	Reason string
}

// begun returns the move that the request starts. Callers have checked refusal.
func (s *State) begun() *move {
	volume, node := s.volume(s.Claim.Spec.VolumeName), s.node(s.Node)
	out := &move{State: s, source: volume, record: newRecord(s.Claim, volume, node, &s.Request)}
	if s.Live {
		out.record.Live = &Live{UID: s.NewUID}
	}
	return out
}

// Rehearsed returns the objects that a new move will create in this cluster, for a dry run before the first change. The dry run finds everything that refuses
// them: Pod Security, quotas, limit ranges, policies, webhooks and missing rights. The list is empty if the move has begun, or can't begin.
func (s *State) Rehearsed() []storage.Object {
	if s.underway() != nil || s.refusal().Err != nil {
		return nil
	}
	m, node := s.begun(), s.node(s.Node)
	from, ok := m.sourceEnd()
	if !ok || admits(m.source, node) {
		return nil
	}
	to, pod := m.targetEnd(node), m.moverPod
	if m.ahead() {
		pod = m.livePod
	}
	out := []storage.Object{m.service(), m.repository(), m.storePod(), pod(sender, from, ""), pod(receiver, to, "")}
	for _, namespace := range m.namespaces(from, to) {
		out = append(out, m.secret(namespace))
	}
	return out
}

// namespaces returns the namespaces that need the credentials.
func (m *move) namespaces(from, to end) []string {
	return slices.Compact(slices.Sorted(slices.Values([]string{m.Namespace, from.namespace, to.namespace})))
}

// joined returns one error that lists all problems, nil if there are none.
func joined(problems []error) error {
	if len(problems) < 2 {
		return errors.Join(problems...)
	}
	out := fmt.Errorf("%d problems prevent the move. Nothing was changed", len(problems))
	for _, problem := range problems {
		out = fmt.Errorf("%w\n- %w", out, problem)
	}
	return out
}

// refusals returns one error for each reason why the API server refuses objects of the move.
func (s *State) refusals() (out []error) {
	type group struct{ namespace, reason string }
	names := map[group][]string{}
	var groups []group
	for _, r := range s.Refusals {
		_, reason, found := strings.Cut(r.Reason, " is forbidden: ")
		if !found {
			reason = r.Reason
		}
		of := group{r.Namespace, reason}
		if len(names[of]) == 0 {
			groups = append(groups, of)
		}
		names[of] = append(names[of], r.Object)
	}
	for _, of := range groups {
		out = append(out, fmt.Errorf("in a dry run, the API server refuses objects of the move: %s: %s. %s", strings.Join(names[of], ", "), of.reason,
			cure(of.reason, of.namespace)))
	}
	return out
}

// cure says what to do about a reason why objects of a move are refused.
func cure(reason, namespace string) string {
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(reason, part) })
	}
	switch {
	case has("violates PodSecurity"):
		return fmt.Sprintf("The pods of a move run as root, because only root reads the files of all users and restores their owners. They meet all other requirements of level baseline. "+
			"Permit level baseline until the move has ended: kubectl label --overwrite namespace %s pod-security.kubernetes.io/enforce=baseline", namespace)
	case has("exceeded quota", "failed quota", "must specify", "usage per", "limit to request ratio"):
		return "Change the ResourceQuota or the LimitRange, or set what the pods request, for example with --containers-cpu-requests and --containers-ram-limits"
	}
	return "Change what refuses it, and run the command again"
}

// unreachable returns the problems of the nodes that the move needs: the target, and one that has the data.
func (m *move) unreachable(target *corev1.Node) (out []error) {
	if !ready(target) {
		out = append(out, fmt.Errorf("--target-node %s: the node is not Ready%s: choose another one, or wait", m.Node, unready(target)))
	}
	for _, taint := range target.Spec.Taints {
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && taint.Key != api.TaintVirtualNode && ready(target) {
			out = append(out, fmt.Errorf("--target-node %s: the node has taint %s, which no pod of the move tolerates (spec.taints): choose another one, or remove the taint, for example with "+
				"kubectl uncordon", m.Node, taint.ToString()))
		}
	}
	if provider := providerOf(m.source); provider != "" {
		switch node := m.nodeOf(provider); {
		case node == nil:
			out = append(out, fmt.Errorf("cluster %s, which has the data of PersistentVolume %s, has no virtual node in this cluster, so no pod can read the data: restore the peering", provider,
				m.source.Name))
		case !ready(node):
			out = append(out, fmt.Errorf("node %s of cluster %s, which has the data of PersistentVolume %s, is not Ready%s: wait until the cluster is reachable (liqoctl doctor names causes)", node.Name,
				provider, m.source.Name, unready(node)))
		}
		return out
	}
	var names []string
	for i := range m.Nodes {
		if node := &m.Nodes[i]; admits(m.source, node) {
			if ready(node) {
				return out
			}
			names = append(names, node.Name)
		}
	}
	if len(names) == 0 {
		return append(out, fmt.Errorf("no node of this cluster matches spec.nodeAffinity of PersistentVolume %s, which has the data, so no pod can read it: bring its node back", m.source.Name))
	}
	return append(out, fmt.Errorf("nodes %s, which have the data of PersistentVolume %s, are not Ready: wait until one of them is", strings.Join(names, ", "), m.source.Name))
}

// unready returns the reason why a node is not Ready, with a colon and a space before it.
func unready(node *corev1.Node) string {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Message != "" {
			return " (" + c.Message + ")"
		}
	}
	return ""
}

// The checks are pods that run before the first change, one wherever pods of the move will run. No dry run shows whether a node can pull their image, and liqoctl
// has no rights in providers, which may refuse them. The checks mount nothing, and are otherwise like the pods of the move.
const (
	checkSource = "check-source"
	checkTarget = "check-target"
	checkStore  = "check-store"
)

// annotationNode, on the Pod of a check, is the node on which that Pod has to run. It is empty if the volume with the data permits more than one.
const annotationNode = "storage.liqo.io/move-node"

// checkTime is how long a command waits for a check.
const checkTime = 2 * time.Minute

// check returns the pod that checks whether a pod of the move can run in the cluster and namespace of at, on the given node. If node is empty, the scheduler
// selects one that has the data.
func (m *move) check(role string, at end, node string) *corev1.Pod {
	out := m.pod(at.namespace, role, "/restic", "version")
	out.Annotations[annotationNode] = node
	switch affinity := m.source.Spec.NodeAffinity; {
	case at.node != "":
		out.Spec.NodeName = at.node
		onVirtualNode(out)
	case node != "":
		out.Spec.Affinity = onNode(node)
	case affinity != nil:
		out.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: affinity.Required.DeepCopy()}}
	}
	// Kubernetes deletes the check together with its owner, even if the command is interrupted before the move begins. An owner can't be in another namespace.
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Name: m.Claim.Name, UID: m.Claim.UID}
	if at.namespace != m.Namespace {
		owner = metav1.OwnerReference{APIVersion: "v1", Kind: "PersistentVolume", Name: m.source.Name, UID: m.source.UID}
	}
	out.OwnerReferences = []metav1.OwnerReference{owner}
	return out
}

// checks returns the pods that have to run before the first change.
func (m *move) checks(target *corev1.Node) (out []*corev1.Pod) {
	if from, ok := m.sourceEnd(); ok {
		node := from.node
		if node == "" {
			node = m.nodeOfUsers()
		}
		out = append(out, m.check(checkSource, from, node))
	}
	to := m.targetEnd(target)
	if out = append(out, m.check(checkTarget, to, target.Name)); to.namespace != m.Namespace { // the namespace of the store
		out = append(out, m.check(checkStore, end{namespace: m.Namespace}, target.Name))
	}
	return out
}

// begunChecks returns the checks that exist, without except.
func (m *move) begunChecks(except *corev1.Pod) (out []storage.Object) {
	for i := range m.Pods {
		pod := &m.Pods[i]
		role := pod.Labels[labelRole]
		if m.ours(pod) && slices.Contains([]string{checkSource, checkTarget, checkStore}, role) && pod.Name == m.name()+"-"+role && pod.DeletionTimestamp == nil && pod != except {
			out = append(out, pod)
		}
	}
	return out
}

// placeOf describes where a check runs, or has to run.
func placeOf(check *corev1.Pod) string {
	switch {
	case check.Spec.NodeName != "":
		return "node " + check.Spec.NodeName
	case check.Annotations[annotationNode] != "":
		return "node " + check.Annotations[annotationNode]
	}
	return "a node with the data"
}

// failing returns the error about a check that does not run.
func (m *move) failing(check *corev1.Pod) error {
	cure := fmt.Sprintf("Its Events name the cause: kubectl describe pod %s --namespace %s. Make image %s available there, or name another one with --image. If its registry needs "+
		"credentials, add them to imagePullSecrets of ServiceAccount default in namespace %[2]s. If no node has room, change what the pods request, for example with "+
		"--containers-cpu-requests", check.Name, check.Namespace, m.Image)
	if forVirtualNode(check) {
		cure = fmt.Sprintf("An Event also says what refuses it in that cluster: kubectl get events --namespace %s --field-selector involvedObject.name=%s. Its administrator may have to "+
			"permit pods that run as root there (Pod Security level baseline for the remote namespace), raise a quota, or make image %s available", check.Namespace, check.Name, m.Image)
	}
	return fmt.Errorf("the check before the move failed: pod %s in namespace %s does not run on %s, so the pods that copy the data would not run there either: %s. Nothing was changed. %s", check.Name, check.Namespace, placeOf(check),
		trouble(check), cure)
}

// checked runs the checks. due is false once all of them have ended well.
func (m *move) checked(target *corev1.Node) (step Step, due bool) {
	for _, want := range m.checks(target) {
		have := m.part(want.Namespace, want.Labels[labelRole])
		switch {
		case have == nil:
			return creating(want, "checking that pods of the move run on "+placeOf(want)), true
		case have.DeletionTimestamp != nil:
			return wait(Preparing, "pod %s to be deleted", have.Name), true
		case m.outdated(have):
			return m.replaceImage(have, Preparing), true
		case have.Annotations[annotationNode] != want.Annotations[annotationNode]:
			return Step{Action: Delete, Object: have, Phase: Preparing, Why: "pod " + have.Name + " is one of an earlier command"}, true
		case hasEnded(have):
			continue
		}
		err := m.failing(have)
		refused := have.Status.Reason == offloadingv1beta1.PodOffloadingBackOff && have.Status.Message != ""
		if refused || have.Status.Phase == corev1.PodFailed || restarts(have) > maxRestarts {
			return Step{Action: Delete, Object: have, Phase: Preparing, Why: "the pod does not run on " + placeOf(have), Err: err, Unused: m.begunChecks(have)}, true
		}
		step := wait(Preparing, "pod %s to run on %s: %s", have.Name, placeOf(have), trouble(have))
		step.Late, step.Within, step.Unused = err, checkTime, m.begunChecks(nil)
		return step, true
	}
	return Step{}, false
}
