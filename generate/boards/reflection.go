package main

// reflection is the board of the virtual kubelets: what they reflect, how fast, and what fails.
func reflection() board {
	const chosen = `{node_name=~"$node_name"}`
	const written, failed = `liqo_virtual_kubelet_reflection_item_counter` + chosen, `liqo_virtual_kubelet_reflection_error_counter` + chosen
	const now = `max without (instance, pod) (liqo_virtual_kubelet_reflected_items` + chosen + `)`
	columns := func(by string) []query {
		return []query{
			{`sum by (` + by + `) (` + now + `)`, "reflected now"},
			{`sum by (` + by + `) (increase(` + written + `[$__range]))`, "written"},
			{`sum by (` + by + `) (increase(` + failed + `[$__range]))`, "errors"},
		}
	}
	return board{
		name: "reflection", title: "Liqo / Virtual kubelet", description: "The resources that the virtual kubelets reflect to the providers.",
		variable: "node_name", from: "liqo_virtual_kubelet_reflected_items", label: "Virtual node",
		rows: []row{
			{title: "Overview", panels: panels(
				number("Reflected resources", "Resources that the providers have at this moment.", "short", `sum(`+now+`)`),
				number("Written", "Resources that were created or changed in the chosen time.", "short", `sum(increase(`+written+`[$__range]))`),
				number("Average rate", "Resources that were created or changed per second, on average over the chosen time.", "ops", `sum(rate(`+written+`[$__range]))`),
				trouble("Errors", "Writes that failed and were tried again in the chosen time.", `round(sum(increase(`+failed+`[$__range])))`),
				number("Average rate of errors", "Failed writes per second, on average over the chosen time.", "ops", `sum(rate(`+failed+`[$__range]))`),
				number("Pods", "Pods of this cluster on the virtual nodes.", "short", `sum(max without (instance, pod) (liqo_virtual_node_pods`+chosen+`))`),
				graph("Written by kind", "Resources that were created or changed per second.", "ops",
					query{`sum by (reflector_resource) (rate(` + written + `[$__rate_interval]))`, "{{reflector_resource}}"}),
				graph("Errors by kind", "Writes per second that failed and were tried again.", "ops",
					query{`sum by (reflector_resource) (rate(` + failed + `[$__rate_interval]))`, "{{reflector_resource}}"}),
			)},
			{title: "Details", panels: panels(
				graph("Delay", "Time from a change in one cluster to its reflection in the other one: 95% of the changes took less. Outgoing changes go to the provider.", "s",
					query{`histogram_quantile(0.95, sum by (le, direction) (rate(liqo_virtual_kubelet_reflection_duration_seconds_bucket` + chosen + `[$__rate_interval])))`,
						"{{direction}}"}),
				list("Kinds", "Resources by kind: present, and written and failed in the chosen time.", "short", columns("reflector_resource")...),
				list("Namespaces", "Resources by namespace of this cluster: present, and written and failed in the chosen time.", "short", columns("namespace")...),
				list("Virtual nodes", "Resources by virtual node: present, and written and failed in the chosen time.", "short", columns("node_name, cluster_id")...),
				graph("Pods by phase", "Pods of this cluster on the virtual nodes.", "short",
					query{`sum by (phase) (max without (instance, pod) (liqo_virtual_node_pods` + chosen + `))`, "{{phase}}"}),
			)},
		},
	}
}
