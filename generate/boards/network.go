package main

// network is the board of the tunnels: all of them together, then each peer by itself.
func network() board {
	const chosen = `{cluster_id=~"$cluster_id"}`
	rate := func(metric string) string { return "rate(" + metric + chosen + "[$__rate_interval])" }
	received, sent := rate("liqo_peer_receive_bytes_total"), rate("liqo_peer_transmit_bytes_total")
	return board{
		name: "network", title: "Liqo / Network", description: "Connectivity, throughput and latency of the tunnels to the peers of this cluster.",
		variable: "cluster_id", from: "liqo_peer_is_connected", label: "Peer",
		rows: []row{
			{title: "Overview", panels: panels(
				number("Connected peers", "Peers that answer through the tunnel.", "short",
					`count(max by (cluster_id) (liqo_peer_is_connected`+chosen+`) == 1) or vector(0)`),
				trouble("Disconnected peers", "Peers that do not answer through the tunnel, although a gateway runs.",
					`count(max by (cluster_id) (liqo_peer_is_connected`+chosen+`) == 0)`),
				number("Received", "Throughput from all peers.", "Bps", "sum("+received+")"),
				number("Transmitted", "Throughput to all peers.", "Bps", "sum("+sent+")"),
				trouble("Replicas missing", "Replicas of gateways that are not available.",
					`sum(max by (cluster_id, gateway) (liqo_gateway_replicas`+chosen+` - liqo_gateway_available_replicas`+chosen+`))`),
				number("Takeovers", "How often a standby replica became the active one, in the chosen time.", "short",
					`sum(increase(liqo_gateway_takeovers_total`+chosen+`[$__range]))`),
				graph("Received by peer", "Throughput from each peer.", "Bps", query{"sum by (cluster_id) (" + received + ")", "{{cluster_id}}"}),
				graph("Transmitted by peer", "Throughput to each peer.", "Bps", query{"sum by (cluster_id) (" + sent + ")", "{{cluster_id}}"}),
			)},
			{title: "Peer $cluster_id", repeat: "cluster_id", panels: panels(
				yesno("Connectivity", "Whether the peer answers through the tunnel.", `max(liqo_peer_is_connected`+chosen+`)`, "Connected", "Disconnected"),
				number("Average latency", "Mean round trip in the chosen time.", "µs",
					`sum(increase(liqo_peer_latency_histogram_us_sum`+chosen+`[$__range])) / sum(increase(liqo_peer_latency_histogram_us_count`+chosen+`[$__range]))`),
				number("Latency", "Last round trip.", "µs", `max(liqo_peer_latency_us`+chosen+` and liqo_peer_is_connected`+chosen+` == 1)`),
				number("Loss", "Fraction of the pings of the active replica that got no answer.", "percentunit",
					`max((1 - `+rate("liqo_peer_ping_answers_total")+` / `+rate("liqo_peer_pings_total")+`) and liqo_gateway_active`+chosen+` == 1)`),
				number("Handshake", "Time since the last handshake of the active replica. WireGuard repeats it every two minutes while there is traffic.", "s",
					`min(liqo_peer_handshake_age_seconds`+chosen+` and liqo_gateway_active`+chosen+` == 1)`),
				number("Replicas", "Replicas of the gateway that are available.", "short",
					`sum(max by (cluster_id, gateway) (liqo_gateway_available_replicas`+chosen+`))`),
				graph("Throughput", "Bytes per second in both directions.", "Bps", query{"sum(" + received + ")", "received"}, query{"sum(" + sent + ")", "transmitted"}),
				graph("Latency", "Round trips through the tunnel.", "µs",
					query{`max(liqo_peer_latency_us` + chosen + ` and liqo_peer_is_connected` + chosen + ` == 1)`, "last"},
					query{`histogram_quantile(0.95, sum by (le) (` + rate("liqo_peer_latency_histogram_us_bucket") + `))`, "95th percentile"}),
			)},
		},
	}
}
