package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/cli/handshake"
	"liqo.io/liqo/internal/cli/inspect"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/doctor"
)

// use is one run of a command that lets a cluster use the resources of a provider. Its steps share it.
type use struct {
	*session.Cluster
	// provider is the cluster ID of the provider, and namespace the tenant namespace for it. nodeName is the name of the ResourceSlice and the
	// virtual node.
	provider, namespace, nodeName string
	options                       *peerOptions
	resources                     corev1.ResourceList
	// connected means that the networks are connected. node means that there is a virtual node.
	connected, node bool
}

// run runs the steps of a cluster that has an identity in the provider: the control planes connect the networks, and the provider grants
// resources.
func (u *use) run(ctx context.Context) error {
	return session.InOrder(ctx, u.requestNetwork, session.When(u.options.createResourceSlice, u.askForResources), u.becomeHealthy)
}

// askForResources creates the ResourceSlice and waits for the outcome: a Ready node, unless the user wants no node.
func (u *use) askForResources(ctx context.Context) error {
	slice, err := handshake.EnsureSlice(ctx, u.Cluster, &handshake.SliceRequest{
		Name: u.nodeName, Class: u.options.class, Provider: u.provider, Namespace: u.namespace, VirtualNode: u.options.createNode, Resources: u.resources,
	})
	if err != nil {
		return err
	}
	if !handshake.Accepted(slice) {
		return fmt.Errorf("cluster %s does not grant the resources of ResourceSlice %s in namespace %s: ask for less, or ask its administrator",
			u.provider, slice.Name, slice.Namespace)
	}
	if !u.options.createNode {
		return nil
	}
	u.node = true
	return handshake.NodeReady(ctx, u.Cluster, u.namespace, slice.Name)
}

// becomeHealthy waits until the ForeignCluster reports every module that was set up as healthy, and then reports what the doctor finds.
func (u *use) becomeHealthy(ctx context.Context) error {
	foreign := &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: u.provider}}
	err := u.Reach(ctx, &session.Goal{
		Object: foreign, Doing: fmt.Sprintf("Waiting for the peering with %s to be healthy", u.provider),
		Met: func() session.Verdict { return healthVerdict(foreign, u.connected, u.node) },
	})
	if err != nil || u.IsDryRun() {
		return err
	}
	return concludePeering(ctx, u.Cluster, u.provider)
}

// healthVerdict judges whether a ForeignCluster reports no module as unhealthy, and each module that was set up as healthy.
func healthVerdict(foreign *corev1beta1.ForeignCluster, network, node bool) session.Verdict {
	modules := foreign.Status.Modules
	networking, networkAlerts := inspect.StatusOf(modules.Networking)
	authentication, authenticationAlerts := inspect.AuthenticationOf(foreign)
	offloading, offloadingAlerts := inspect.StatusOf(modules.Offloading)
	var missing []string
	for _, module := range []struct {
		name   string
		wanted bool
		status inspect.ModuleStatus
		alerts []string
	}{
		{"networking", network, networking, networkAlerts}, {"authentication", true, authentication, authenticationAlerts},
		{"offloading", node, offloading, offloadingAlerts},
	} {
		if module.status == inspect.ModuleUnhealthy || (module.wanted && module.status == inspect.ModuleDisabled) {
			missing = append(missing, strings.TrimSpace(fmt.Sprintf("%s is %s %s", module.name, module.status, strings.Join(module.alerts, "; "))))
		}
	}
	if len(missing) > 0 {
		return session.NotYet("%s", strings.Join(missing, ", "))
	}
	return session.Yes()
}

// The conditions of new objects may be out of date for a moment. concludePeering reads them every settlePause, and for at most settleTime, before it reports
// a problem.
const (
	settleTime  = 5 * time.Second
	settlePause = 500 * time.Millisecond
)

// concludePeering ends a command that peers. It warns about the doctor's findings for the installation and the peering, or reports that the
// peering is healthy.
func concludePeering(ctx context.Context, c *session.Cluster, peer string) error {
	step := c.Start("Waiting for doctor to find the peering with %s healthy", peer)
	defer step.End()
	var found []doctor.Finding
	for end := time.Now().Add(settleTime); ; {
		findings := inspect.Diagnosis(ctx, c)
		// A mere warning about the installation is not about this peering, for example a namespace that is offloaded to no cluster.
		found = slices.DeleteFunc(doctor.Installation(findings), func(f doctor.Finding) bool { return f.Level != doctor.Fail })
		found = append(found, doctor.OfPeer(findings, peer)...)
		found = slices.DeleteFunc(found, func(f doctor.Finding) bool { return f.Minor() })
		if len(found) == 0 {
			c.Did("The peering with %s is healthy", peer)
			return nil
		}
		if time.Now().After(end) || ctx.Err() != nil {
			break
		}
		time.Sleep(settlePause)
	}
	for i := range found {
		c.Warn("%s\nCure: %s", found[i].Evidence, found[i].Cure)
	}
	c.Warn("The peering with %s is established, but not healthy: see above, and liqoctl doctor", peer)
	return nil
}
