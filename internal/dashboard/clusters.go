package dashboard

import (
	"cmp"
	"fmt"

	"liqo.io/liqo/api"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/doctor"
)

// clusterDocument describes a cluster: either its kubeconfig was given, or it is a peer of a cluster whose kubeconfig was given.
type clusterDocument struct {
	ID string `json:"id"`
	// Local is true for the local cluster. Given means that the kubeconfig of the cluster was given.
	Local bool `json:"local,omitempty"`
	Given bool `json:"given,omitempty"`
	// Reading means that the cluster was not read completely yet.
	Reading bool   `json:"reading,omitempty"`
	Version string `json:"version,omitempty"`
	Server  string `json:"server,omitempty"`
	// Message describes the problem; empty if there is none.
	Message string `json:"message,omitempty"`
	Health  Health `json:"health"`
	// Nodes and Pods count the nodes of the cluster itself, and the unfinished pods on them.
	Nodes int `json:"nodes"`
	Pods  int `json:"pods"`
}

func (d Documents) clusters(state *State) {
	found := map[string]clusterDocument{}
	for i := range state.Clusters {
		c := &state.Clusters[i]
		for _, peer := range byAge(c.Peers) {
			id := peer.Spec.ClusterID
			if state.cluster(id) != nil || doctor.Former(peer) {
				continue
			}
			document := found[id]
			document.ID = id
			document.Health = cmp.Or(document.Health, None)
			document.observe(c, peer)
			found[id] = document
		}
		document := clusterDocument{
			ID: c.ID, Local: i == 0, Given: true, Reading: !c.Complete, Version: c.Version, Server: c.Server, Message: c.Failure, Health: None,
		}
		if c.Failure != "" {
			document.Health = Bad
		}
		document.count(c)
		found[c.ID] = document
	}
	for id, document := range found {
		for i := range state.Findings {
			if finding := &state.Findings[i]; finding.Cluster == id {
				document.Health = worse(document.Health, healthOfLevel(finding.Level))
			}
		}
		d.add(document, "cluster", id)
	}
}

// observe adds the report of a cluster about its peer. An earlier report stays, unless the new one reports a failure.
func (d *clusterDocument) observe(c *Cluster, peer *corev1beta1.ForeignCluster) {
	d.Server = cmp.Or(d.Server, peer.Status.APIServerURL)
	for _, condition := range peer.Status.Conditions {
		if condition.Type != corev1beta1.APIServerStatus {
			continue
		}
		switch condition.Status {
		case corev1beta1.StatusEstablished, corev1beta1.StatusReady:
			d.Health = worse(d.Health, Good)
		case corev1beta1.StatusError, corev1beta1.StatusNotReady:
			d.Health = Bad
			d.Message = cmp.Or(d.Message, fmt.Sprintf("its API server does not respond to cluster %s: %s", c.ID, condition.Message))
		}
	}
}

// count counts the real nodes of the cluster, and the unfinished pods on them. It does not count virtual nodes.
func (d *clusterDocument) count(c *Cluster) {
	real := map[string]bool{}
	for i := range c.Nodes {
		if c.Nodes[i].Labels[api.LabelType] != api.TypeVirtualNode {
			real[c.Nodes[i].Name] = true
		}
	}
	d.Nodes = len(real)
	for i := range c.Pods {
		if pod := &c.Pods[i]; real[pod.Spec.NodeName] && !api.PodFinished(pod) {
			d.Pods++
		}
	}
}
