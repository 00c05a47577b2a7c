package inspect

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/tunnel"
	"liqo.io/liqo/internal/cli/workload"
	"liqo.io/liqo/internal/doctor"
	"liqo.io/liqo/internal/install/installer"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/network"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/storage"
)

// collector collects the facts about a cluster for the doctor. A fact that cannot be read is recorded in Unread, and the collection
// continues.
type collector struct {
	cluster *session.Cluster
	*doctor.Cluster
	ctx   context.Context
	depth Depth
	mu    sync.Mutex // guards Unread and Unchecked
}

// Depth is which requests DoctorFacts may make.
type Depth int

// The depths, each with the requests of those before it.
const (
	ReadOnly    Depth = iota // reads of the cluster: info and status
	AskPeers                 // also requests to its peers, with the Identities that they granted: dashboard
	MakeDryRuns              // also dry runs in the cluster and in its peers: doctor
)

// DoctorFacts collects all facts about a cluster that requests of this depth find.
func DoctorFacts(ctx context.Context, c *session.Cluster, of Depth) *doctor.Cluster {
	p := &collector{cluster: c, ctx: ctx, depth: of, Cluster: &doctor.Cluster{
		ID: c.ID, Version: c.Version, Namespace: c.Namespace, Defined: map[string]bool{}, Lacked: map[string]string{}, Backends: map[string]int{}, Configured: map[string][]string{},
		Keys: map[string][]byte{}, KnownKeys: map[string][]byte{},
	}}
	p.installation()
	p.Peers = read(p, "ForeignClusters", &corev1beta1.ForeignClusterList{}).Items
	p.Tenants = read(p, "Tenants", &authv1beta1.TenantList{}).Items
	p.Identities = read(p, "Identities", &authv1beta1.IdentityList{}).Items
	p.Slices = read(p, "ResourceSlices", &authv1beta1.ResourceSliceList{}).Items
	p.VirtualNodes = read(p, "VirtualNodes", &offloadingv1beta1.VirtualNodeList{}).Items
	p.Nodes = read(p, "Nodes", &corev1.NodeList{}, client.MatchingLabels{api.LabelType: api.TypeVirtualNode}).Items
	p.Offloadings = read(p, "NamespaceOffloadings", &offloadingv1beta1.NamespaceOffloadingList{}).Items
	p.network()
	p.exposed()
	p.retained()
	p.workloads()
	p.parts()
	if of == ReadOnly {
		return p.Cluster
	}
	// The requests run concurrently, because unreachable peers take until their timeout.
	accesses := make([]*doctor.Access, len(p.Identities))
	var group sync.WaitGroup
	for i := range p.Identities {
		group.Go(func() { accesses[i] = p.access(&p.Identities[i]) })
	}
	if of == MakeDryRuns {
		group.Go(p.dryRuns)
	}
	group.Wait()
	for _, access := range accesses {
		if access != nil {
			p.Accesses = append(p.Accesses, *access)
		}
	}
	return p.Cluster
}

// read fills a list with objects, in all namespaces unless an option selects one, and returns it. It ignores a kind that is not defined, which the check
// of the definitions reports.
func read[L client.ObjectList](p *collector, what string, list L, options ...client.ListOption) L {
	p.unreadable(what, kube.ListPages(p.ctx, p.cluster, list, options...))
	return list
}

// get reads one object and reports whether it could. It ignores an object that does not exist.
func (p *collector) get(kind string, key client.ObjectKey, object client.Object) bool {
	err := p.cluster.Get(p.ctx, key, object)
	p.unreadable(kind+" "+key.String(), err)
	return err == nil
}

// unreadable records the error of a read, unless the object or its kind does not exist.
func (p *collector) unreadable(what string, err error) {
	if err != nil && !kube.Absent(err) {
		p.unread("%s can not be read: %v", what, err)
	}
}

// unread records a fact that could not be read, with the reason.
func (p *collector) unread(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Unread = append(p.Unread, fmt.Sprintf(format, args...))
}

// unchecked records dry runs that were not made or got no reply, with the reason.
func (p *collector) unchecked(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Unchecked = append(p.Unchecked, fmt.Sprintf(format, args...))
}

// installation reads the custom resource definitions, webhooks and endpoints that the chart installs.
func (p *collector) installation() {
	var crds []*apiextensionsv1.CustomResourceDefinition
	if chart, err := installer.Chart(""); err == nil { // the chart embedded in liqoctl
		if crds, err = installer.CRDs(chart); err != nil {
			p.Unread = append(p.Unread, err.Error())
		}
		for _, crd := range crds {
			p.Wanted = append(p.Wanted, crd.Name)
		}
	}
	p.definitions(crds)
	ours := client.MatchingLabels{"liqo.io/webhook": api.True}
	p.Webhooks = read(p, "MutatingWebhookConfigurations", &admissionregistrationv1.MutatingWebhookConfigurationList{}, ours).Items
	for _, configuration := range read(p, "ValidatingWebhookConfigurations", &admissionregistrationv1.ValidatingWebhookConfigurationList{}, ours).Items {
		var same admissionregistrationv1.MutatingWebhookConfiguration
		for _, hook := range configuration.Webhooks {
			same.Webhooks = append(same.Webhooks, admissionregistrationv1.MutatingWebhook{Name: hook.Name, ClientConfig: hook.ClientConfig})
		}
		p.Webhooks = append(p.Webhooks, same)
	}
	for _, slice := range read(p, "EndpointSlices", &discoveryv1.EndpointSliceList{}, client.InNamespace(p.cluster.Namespace)).Items {
		for _, endpoint := range slice.Endpoints {
			if endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready {
				p.Backends[slice.Labels[discoveryv1.LabelServiceName]]++
			}
		}
	}
}

// definitions reads the wanted custom resource definitions by name: a cluster with thousands of others has more of them than fit into a limited response. One
// line is enough if the user may not read them.
func (p *collector) definitions(wanted []*apiextensionsv1.CustomResourceDefinition) {
	var reads sync.WaitGroup
	errs := make([]error, len(p.Wanted))
	for i, name := range p.Wanted {
		reads.Go(func() {
			var crd apiextensionsv1.CustomResourceDefinition
			if errs[i] = p.cluster.Get(p.ctx, client.ObjectKey{Name: name}, &crd); errs[i] == nil {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.Defined[name] = workload.CRDEstablished(&crd).Done
				if lacked := installer.Lacks(&crd, wanted[i]); lacked != "" {
					p.Lacked[name] = lacked
				}
			}
		})
	}
	reads.Wait()
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil && !kube.Absent(err) }); i >= 0 {
		p.unreadable("CustomResourceDefinition "+p.Wanted[i], errs[i])
	}
}

// network reads the address ranges, connections and keys of the cluster.
func (p *collector) network() {
	p.Networks = read(p, "Networks", &ipamv1alpha1.NetworkList{}).Items
	p.Configurations = read(p, "Configurations", &networkingv1beta1.ConfigurationList{}).Items
	p.Connections = read(p, "Connections", &networkingv1beta1.ConnectionList{}).Items
	p.NetworkRequests = read(p, "NetworkRequests", &networkingv1beta1.NetworkRequestList{}).Items
	templates := read(p, "WgGatewayServerTemplates", &networkingv1beta1.WgGatewayServerTemplateList{}).Items
	p.Tunnels = len(templates) > 0 && slices.ContainsFunc(p.Networks, func(n ipamv1alpha1.Network) bool {
		return n.Namespace == p.Namespace && n.Labels[ipamv1alpha1.LabelNetworkType] == ipamv1alpha1.NetworkTypeExternal
	})
	known := read(p, "PublicKeys", &networkingv1beta1.PublicKeyList{}).Items
	for i := range p.Peers {
		id, namespace := p.Peers[i].Spec.ClusterID, p.Peers[i].Status.TenantNamespace.Local
		if namespace == "" {
			continue
		}
		if key := network.PublicKeyInUse(known, namespace, id); key != nil {
			p.KnownKeys[id] = key.Spec.PublicKey
		}
		servers, clients, err := tunnel.ListGateways(p.ctx, p.cluster, namespace, id)
		if err != nil {
			p.Unread = append(p.Unread, err.Error())
			continue
		}
		gateway := tunnel.Gateways{}
		if gateway.Server, gateway.Client = network.GatewayInUse(servers, clients, namespace, id); gateway.Name() == "" {
			continue
		}
		if gateway.Client != nil {
			for _, host := range gateway.Client.Spec.Endpoint.Addresses {
				if _, literal := network.LiteralAddress(host); !literal {
					object := fmt.Sprintf("GatewayClient %s in namespace %s", gateway.Client.Name, namespace)
					p.Names = append(p.Names, doctor.Name{Peer: id, Object: object, Host: host})
				}
			}
		}
		keys := gateway.Keys(namespace)
		p.get("Secret", client.ObjectKeyFromObject(keys), keys)
		p.Keys[id] = keys.Data[networkingv1beta1.SecretPublicKey]
	}
	configured, err := gatherNetwork(p.ctx, p.cluster)
	p.unreadable("The address ranges", err)
	if err == nil {
		p.Configured[ipamv1alpha1.NetworkTypePod] = configured.PodCIDRs
	}
}

// exposed reads the IP objects by which the cluster exposes addresses to its peers, and the addresses of Services if an IP object needs them.
func (p *collector) exposed() {
	p.IPs = read(p, "IPs", &ipamv1alpha1.IPList{}).Items
	if !p.ExposesService() {
		return
	}
	var services corev1.ServiceList
	if err := p.cluster.List(p.ctx, &services); err != nil {
		p.unreadable("Services", err)
		return
	}
	p.ClusterIPs = map[string]string{}
	for i := range services.Items {
		service := &services.Items[i]
		for _, address := range service.Spec.ClusterIPs {
			p.ClusterIPs[address] = service.Namespace + "/" + service.Name
		}
	}
}

// workloads reads the facts about workloads of peers and of offloaded namespaces: the storage classes, and the pods that are Pending.
func (p *collector) workloads() {
	if len(p.Tenants) > 0 {
		p.StorageClasses = read(p, "StorageClasses", &storagev1.StorageClassList{}).Items
	}
	offloaded := map[string]bool{}
	for i := range p.Offloadings {
		offloaded[p.Offloadings[i].Namespace] = p.Offloadings[i].Spec.PodOffloadingStrategy != offloadingv1beta1.PodsLocal
	}
	if len(offloaded) == 0 {
		return
	}
	pods := read(p, "Pods", &corev1.PodList{}, client.MatchingFields{"status.phase": string(corev1.PodPending)})
	for i := range pods.Items {
		if pod := &pods.Items[i]; offloaded[pod.Namespace] && pod.Status.Phase == corev1.PodPending {
			p.Waiting = append(p.Waiting, *pod)
		}
	}
}

// retained reads the volumes of deleted claims whose data is in a provider. Without a remote namespace there is no data.
func (p *collector) retained() {
	all := read(p, "PersistentVolumes of Liqo", &corev1.PersistentVolumeList{}, client.MatchingLabels{storage.LabelVirtual: api.True}).Items
	p.moves(all)
	kept := slices.DeleteFunc(slices.Clone(all), func(v corev1.PersistentVolume) bool { return !storage.Retained(&v, all) })
	if len(kept) == 0 {
		return
	}
	maps := read(p, "NamespaceMaps", &offloadingv1beta1.NamespaceMapList{})
	p.Retained = slices.DeleteFunc(kept, func(v corev1.PersistentVolume) bool {
		return !offload.HasRemoteNamespace(maps.Items, v.Labels[api.LabelRemoteClusterID], storage.DataOf(&v).Namespace)
	})
}

// moves collects the volumes with the data of unfinished moves, and reads their claims.
func (p *collector) moves(volumes []corev1.PersistentVolume) {
	p.Claims = map[types.NamespacedName]bool{}
	for i := range volumes {
		if _, moves := storage.MoveTarget(&volumes[i]); moves {
			p.Moves = append(p.Moves, volumes[i])
			key := storage.ReservedFor(&volumes[i])
			p.Claims[key] = p.get("PersistentVolumeClaim", key, &corev1.PersistentVolumeClaim{})
		}
	}
}

// parts reads the workloads of the installation and of its peerings, and their leases.
func (p *collector) parts() {
	namespaces, peers := []string{p.cluster.Namespace}, map[string]string{}
	for i := range p.Peers {
		if namespace := p.Peers[i].Status.TenantNamespace.Local; namespace != "" {
			namespaces = append(namespaces, namespace)
			peers[namespace] = p.Peers[i].Spec.ClusterID
		}
	}
	for _, namespace := range namespaces {
		components, err := listComponents(p.ctx, p.cluster, namespace)
		if err != nil {
			p.Unread = append(p.Unread, err.Error())
			continue
		}
		for _, of := range components {
			one := doctor.Component{
				Name:    fmt.Sprintf("-n %s %s/%s", namespace, strings.ToLower(of.Kind), of.Name),
				Desired: of.Desired, Available: of.Available, Images: of.Images, Peer: peers[namespace],
			}
			if of.Available < of.Desired {
				one.Trouble = p.trouble(namespace, of.selector)
			}
			p.Components = append(p.Components, one)
		}
		p.Leases = append(p.Leases, read(p, "Leases", &coordinationv1.LeaseList{}, client.InNamespace(namespace)).Items...)
	}
	for i := range p.Nodes {
		var lease coordinationv1.Lease
		if p.get("Lease", client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: p.Nodes[i].Name}, &lease) {
			p.Leases = append(p.Leases, lease)
		}
	}
}

// trouble says why the pods of a workload are not running.
func (p *collector) trouble(namespace string, selector map[string]string) string {
	var pods corev1.PodList
	if err := p.cluster.List(p.ctx, &pods, client.InNamespace(namespace), client.MatchingLabels(selector)); err != nil {
		return err.Error()
	}
	if len(pods.Items) == 0 {
		return "it has no pods: see its conditions, or Kubernetes' own controller manager"
	}
	for i := range pods.Items {
		if why := workload.Unhealthy(&pods.Items[i]); why != "" {
			return why
		}
	}
	return ""
}
