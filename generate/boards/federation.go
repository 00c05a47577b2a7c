package main

// federation is the board for a first look: what is wrong with any peer, and what the clusters lend each other.
func federation() board {
	const ready = `max by (node_name) (liqo_virtual_node_ready)`
	const reachable = `min by (cluster_id) (liqo_peer_api_server_reachable)`
	const requests = `rate(liqo_peer_api_server_request_duration_seconds_bucket[$__rate_interval])`
	const share = `max by (cluster_id, quota, resource) (liqo_quota_used / (liqo_quota_granted > 0))`
	return board{
		name: "federation", title: "Liqo / Federation", description: "The peers of this cluster, and what the clusters lend each other.",
		rows: []row{
			{title: "Overview", panels: panels(
				number("Peers", "Peers of this cluster, of either direction.", "short", `count(count by (cluster_id) (liqo_peer_condition)) or vector(0)`),
				trouble("Tunnels down", "Peers whose tunnel is not established.",
					`count(count by (cluster_id) (liqo_peer_condition{condition="NetworkConnectionStatus", status!="Established"}))`),
				trouble("Providers unreachable", "Providers whose API server does not respond.", `count(`+reachable+` == 0)`),
				trouble("Virtual nodes not Ready", "Virtual nodes on which no new pods are scheduled.", `count(`+ready+` == 0)`),
				trouble("Quotas exhausted", "Quotas of consumers of which more than 95% is used.", `count(`+share+` > 0.95)`),
				number("Next expiry", "Time until the first certificate or token expires. Liqo renews them when a third of their lifetime is left. Access keys of AWS do not expire.", "s",
					`min(liqo_certificate_expiry_seconds)`),
			)},
			{title: "Peers", panels: panels(
				list("Conditions", "The conditions of the ForeignClusters.", "none", query{expr: `max by (cluster_id, condition, status) (liqo_peer_condition)`}),
				list("Gateways", "Replicas of the gateways.", "short",
					query{`max by (cluster_id, gateway) (liqo_gateway_replicas)`, "wanted"},
					query{`max by (cluster_id, gateway) (liqo_gateway_available_replicas)`, "available"}),
				graph("Requests to providers", "Slowest tenth of the requests to the API server of each provider.", "s",
					query{`histogram_quantile(0.9, sum by (cluster_id, le) (` + requests + `))`, "{{cluster_id}}"}),
				graph("Connections of peers", "Open connections of peers to the API server of this cluster, through the proxy.", "short",
					query{`sum(liqo_proxy_connections)`, "connections"}),
			)},
			{title: "Offloading", panels: panels(
				graph("Pods on virtual nodes", "Pods of this cluster that providers run, or are to run.", "short",
					query{`sum by (node_name) (max without (instance, pod) (liqo_virtual_node_pods))`, "{{node_name}}"}),
				graph("Quotas of consumers", "What consumers use of what this cluster grants them.", "percentunit", query{share, "{{cluster_id}} {{resource}}"}),
				list("Granted to consumers", "What this cluster grants to each consumer, in cores, bytes or pieces.", "short",
					query{`max by (cluster_id, quota, resource) (liqo_quota_granted)`, "granted"},
					query{`max by (cluster_id, quota, resource) (liqo_quota_used)`, "used"}),
				list("Certificates and tokens", "Time until each certificate or token expires. Access keys of AWS do not expire.", "s",
					query{`min by (cluster_id, kind, object_namespace, object_name) (liqo_certificate_expiry_seconds)`, "expires in"}),
			)},
			{title: "Liqo itself", panels: panels(
				list("Versions", "Pods of each program, by version.", "short", query{`count by (program, version) (liqo_build_info)`, "pods"}),
				graph("Network configuration", "Failed changes of the network configuration, and changes by others that were undone, in five minutes.", "short",
					query{`sum(increase(liqo_dataplane_applies_total{result="error"}[5m]))`, "failed"}, query{`sum(increase(liqo_dataplane_drift_total[5m]))`, "undone"}),
			)},
		},
	}
}
