package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/install"
	"liqo.io/liqo/internal/pki"
)

// components checks the workloads. It reports a workload that requests no pods as missing, for example a Deployment scaled to zero, or a DaemonSet
// that matches no node.
func components(r *report) {
	for _, c := range r.Components {
		none := c.Desired == 0
		if c.Available >= c.Desired && !none {
			continue
		}
		manager := strings.HasSuffix(c.Name, " deployment/liqo-controller-manager")
		switch {
		case manager && c.Available == 0:
			r.about(partManager, "")
		case c.Peer == "":
			r.about(partComponent, "")
		case strings.Contains(c.Name, " deployment/vk-"):
			r.about(partKubelet, c.Peer)
		default:
			r.about(partGateway, c.Peer)
		}
		why, stale := c.Trouble, ""
		if why == "" {
			why = "its pods show no reason"
		}
		if manager && c.Available == 0 {
			stale = "; until it runs, nothing is reconciled and every status shown is from before"
		}
		if none && strings.Contains(c.Name, " daemonset/") {
			r.fail("see nodeSelector, affinity and tolerations in kubectl get "+c.Name+" -o yaml, and the labels and taints of the nodes",
				"%s: no node matches, none of its pods runs", c.Name)
			continue
		}
		if none {
			r.fail(strings.Replace("kubectl "+c.Name, " deployment/", " scale --replicas=1 deployment/", 1), "%s is scaled to 0 replicas%s", c.Name, stale)
			continue
		}
		r.fail("see kubectl describe "+c.Name, "%s: %d of %d pods are available: %s%s", c.Name, c.Available, c.Desired, why, stale)
	}
	r.healthy("%d components, all available", len(r.Components))
}

// versions compares the running images with the installed version, and the installed version with liqoctl.
func versions(r *report) {
	if r.Version == "" {
		r.warn("liqoctl upgrade sets it", "the Deployment of the controller manager has no label with the version")
		return
	}
	if r.client != r.Version {
		r.warn("use liqoctl "+r.Version+", or upgrade the cluster: liqoctl upgrade", "liqoctl is %s, the installation %s", r.client, r.Version)
	}
	tags := map[string][]string{}
	for _, c := range r.Components {
		for _, image := range c.Images {
			name, tag := splitImage(image)
			if strings.Contains(name, "liqo") && !slices.Contains(tags[tag], c.Name) {
				tags[tag] = append(tags[tag], c.Name)
			}
		}
	}
	for _, tag := range slices.Sorted(maps.Keys(tags)) {
		if tag != r.Version && len(tags) > 1 {
			r.warn("finish the upgrade: liqoctl upgrade; components that started earlier are updated one after the other",
				"%s: %s of version %s, the installation is %s",
				strings.Join(tags[tag], ", "), plural(len(tags[tag]), "component"), tag, r.Version)
		}
	}
	r.healthy("everything is %s", r.Version)
}

// splitImage returns the name and the tag of an image. The tag is empty if the image has none.
func splitImage(image string) (name, tag string) {
	image, _, _ = strings.Cut(image, "@")
	if at := strings.LastIndex(image, ":"); at > strings.LastIndex(image, "/") {
		return image[:at], image[at+1:]
	}
	return image, ""
}

func definitions(r *report) {
	const cure = "liqoctl upgrade brings the definitions of this version"
	for _, name := range r.Wanted {
		switch established, exists := r.Defined[name]; {
		case !exists:
			r.fail(cure, "custom resource definition %s is missing", name)
		case !established:
			r.fail("see its conditions: kubectl describe crd "+name, "custom resource definition %s is not established", name)
		case r.Lacked[name] != "" && r.client == r.Version: // otherwise the installation may have the definitions of its own version
			r.fail(cure+". With Helm: helm show crds CHART | kubectl apply --server-side --force-conflicts -f -",
				"custom resource definition %s lacks %s: the API server removes such values without an error", name, r.Lacked[name])
		}
	}
	r.healthy("%d custom resource definitions, all established", len(r.Wanted))
}

func webhooks(r *report) {
	cure := fmt.Sprintf("restart the controller manager, which writes a new certificate into the webhook configurations: "+
		"kubectl -n %s rollout restart deployment/liqo-controller-manager", r.Namespace)
	pods := fmt.Sprintf("read why no pod of the controller manager is ready: kubectl -n %[1]s describe pods -l %[2]s; then restart it: "+
		"kubectl -n %[1]s rollout restart deployment/liqo-controller-manager", r.Namespace, "app.kubernetes.io/component=controller-manager")
	count := 0
	for _, configuration := range r.Webhooks {
		for _, hook := range configuration.Webhooks {
			count++
			if ca, err := pki.First(hook.ClientConfig.CABundle); err != nil {
				r.fail(cure, "webhook %s: its CA bundle can not be used: %v", hook.Name, err)
			} else if r.now.After(ca.NotAfter) {
				r.fail(cure, "webhook %s: its CA ended at %s", hook.Name, ca.NotAfter.UTC().Format(time.RFC3339))
			}
			if service := hook.ClientConfig.Service; service != nil && r.Backends[service.Name] == 0 {
				r.fail(pods, "webhook %s: Service %s in namespace %s has no ready endpoint", hook.Name, service.Name, service.Namespace).fromManager = true
			}
		}
	}
	if count > 0 {
		r.healthy("%d webhooks, with a valid CA and a Service with ready endpoints", count)
	}
}

// leases checks that holders renew their leases in time. A lease without a holder was released and is ignored.
func leases(r *report) {
	held := 0
	for i := range r.Leases {
		spec := &r.Leases[i].Spec
		if spec.HolderIdentity == nil || *spec.HolderIdentity == "" || spec.RenewTime == nil || spec.LeaseDurationSeconds == nil {
			continue
		}
		held++
		if silent := r.now.Sub(spec.RenewTime.Time); silent > time.Duration(*spec.LeaseDurationSeconds)*time.Second {
			of, peer := r.holder(&r.Leases[i])
			r.about(partLease, peer)
			if r.Leases[i].Name == install.LockName {
				r.warn("run the interrupted command again; if it is unknown, run liqoctl upgrade, which first completes or rolls back the interrupted change",
					"%s changed the installation in namespace %s and ended before it was done, %s ago",
					*spec.HolderIdentity, r.Leases[i].Namespace, silent.Round(time.Second))
				continue
			}
			finding := r.fail(r.heir(&r.Leases[i], of, peer), "Lease %s in namespace %s: its holder %s last renewed it %s ago, a lease lasts %d s",
				r.Leases[i].Name, r.Leases[i].Namespace, *spec.HolderIdentity, silent.Round(time.Second), *spec.LeaseDurationSeconds)
			finding.module, finding.fromManager = of, peer == ""
		}
	}
	if held > 0 {
		r.healthy("%d leases, all renewed in time", held)
	}
}

// holder returns the owner of a lease: the virtual kubelet or the gateway of a peer. If peer is empty, it is a component of the
// installation.
func (r *report) holder(lease *coordinationv1.Lease) (of module, peer string) {
	for i := range r.VirtualNodes {
		if lease.Namespace == corev1.NamespaceNodeLease && r.VirtualNodes[i].Name == lease.Name {
			return offloading, r.VirtualNodes[i].Spec.ClusterID
		}
	}
	for i := range r.Peers {
		if lease.Namespace != "" && lease.Namespace == r.Peers[i].Status.TenantNamespace.Local {
			return networking, r.Peers[i].Spec.ClusterID
		}
	}
	return authentication, ""
}

// heir returns the cure for a lease that its holder no longer renews: the command that restarts the program. The command is not needed if another
// replica acquires the lease.
func (r *report) heir(lease *coordinationv1.Lease, of module, peer string) string {
	const rest = " starts another holder, if none takes over automatically"
	switch {
	case peer == "":
		return fmt.Sprintf("kubectl -n %s rollout restart deployment/liqo-controller-manager"+rest, r.Namespace)
	case of == offloading:
		at := slices.IndexFunc(r.VirtualNodes, func(v offloadingv1beta1.VirtualNode) bool { return v.Name == lease.Name })
		return fmt.Sprintf("kubectl -n %s rollout restart deployment/%s%s"+rest, r.VirtualNodes[at].Namespace,
			offloadingv1beta1.VirtualKubeletDeploymentPrefix, lease.Name)
	default:
		return restartGateway(lease.Namespace) + rest
	}
}

// restartGateway returns the command that restarts the gateways of the peer with a tenant namespace.
func restartGateway(namespace string) string {
	return fmt.Sprintf("kubectl -n %s rollout restart deployment -l %s=%s",
		namespace, networkingv1beta1.LabelComponent, networkingv1beta1.ComponentGateway)
}

func plural(n int, what string) string {
	if n == 1 {
		return what
	}
	return what + "s"
}
