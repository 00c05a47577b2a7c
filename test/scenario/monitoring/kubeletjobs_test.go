package monitoring

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// kubeletPaths are the paths of each node that the ServiceMonitor "kubelet" of kube-prometheus scrapes.
var kubeletPaths = []string{"/metrics", "/metrics/cadvisor", "/metrics/probes", "/metrics/slis"}

// kubeletRules are two recording rules of kube-prometheus, from which its boards show the use of CPU and memory.
const kubeletRules = `groups:
- name: kubelets
  rules:
  - record: node_namespace_pod_container:container_memory_working_set_bytes
    expr: |
      container_memory_working_set_bytes{job="kubelet", metrics_path="/metrics/cadvisor", image!=""}
      * on (namespace, pod) group_left (node) topk by (namespace, pod) (1, max by (namespace, pod, node) (kube_pod_info{node!=""}))
  - record: node_namespace_pod_container:container_cpu_usage_seconds_total:sum_irate
    expr: |
      sum by (namespace, pod, container) (irate(container_cpu_usage_seconds_total{job="kubelet", metrics_path="/metrics/cadvisor", image!=""}[5m]))
      * on (namespace, pod) group_left (node) topk by (namespace, pod) (1, max by (namespace, pod, node) (kube_pod_info{node!=""}))
`

// kubeletJobs returns the scrape jobs that the Prometheus Operator generates for the ServiceMonitor "kubelet" of kube-prometheus, and a job for
// kube-state-metrics. There are three differences: targets come from files, the interval is shorter, and the metrics to drop from /metrics, which Kubernetes
// deprecated, are matched by prefix.
func kubeletJobs(folder string) string {
	drops := map[string]string{
		"/metrics": `      - {source_labels: [__name__], regex: (scheduler|apiserver|etcd|transformation|reflector|kubelet_docker)_.+, action: drop}
`,
		"/metrics/cadvisor": `      - {source_labels: [__name__], regex: container_(cpu_load_average_10s|network_(tcp|udp)_usage_total|tasks_state), action: drop}
      - source_labels: [__name__, pod, namespace]
        regex: container_(file_descriptors|last_seen|sockets|spec_.*|start_time_seconds|threads|threads_max);;
        action: drop
      - {source_labels: [__name__, container], regex: container_blkio_device_usage_total;.+, action: drop}
`,
		"/metrics/slis": `      - {source_labels: [__name__], regex: process_start_time_seconds, action: drop}
`,
	}
	var jobs strings.Builder
	for i, path := range kubeletPaths {
		fmt.Fprintf(&jobs, `
  - job_name: serviceMonitor/monitoring/kubelet/%[1]d
    scrape_interval: %[2]s
    scrape_timeout: %[2]s
    metrics_path: %[3]s
    honor_labels: true
    honor_timestamps: %[4]t
    scheme: https
    authorization: {credentials_file: %[5]s}
    tls_config: {insecure_skip_verify: true}
    file_sd_configs: [{files: [%[6]s]}]
    relabel_configs:
      - {source_labels: [__meta_kubernetes_service_label_app_kubernetes_io_name], regex: kubelet, action: keep}
      - {source_labels: [__meta_kubernetes_endpoint_port_name], regex: https-metrics, action: keep}
      - source_labels: [__meta_kubernetes_endpoint_address_target_kind, __meta_kubernetes_endpoint_address_target_name]
        separator: ;
        regex: Node;(.*)
        target_label: node
      - {source_labels: [__meta_kubernetes_namespace], target_label: namespace}
      - {source_labels: [__meta_kubernetes_service_name], target_label: service}
      - {source_labels: [__meta_kubernetes_service_label_app_kubernetes_io_name], target_label: job}
      - {target_label: endpoint, replacement: https-metrics}
      - {source_labels: [__metrics_path__], target_label: metrics_path}
`, i, kubeletInterval, path, path != "/metrics/cadvisor", tokenFile(folder), nodesFile(folder))
		if drops[path] != "" {
			jobs.WriteString("    metric_relabel_configs:\n" + drops[path])
		}
	}
	fmt.Fprintf(&jobs, `
  - job_name: kube-state-metrics
    honor_labels: true
    file_sd_configs: [{files: [%s]}]
`, statesFile(folder))
	return jobs.String()
}

func tokenFile(folder string) string  { return filepath.Join(folder, "token") }
func nodesFile(folder string) string  { return filepath.Join(folder, "nodes.json") }
func statesFile(folder string) string { return filepath.Join(folder, "states.json") }

// guideJob returns the job for kubelets that the guide shows, with targets and token from files.
func guideJob(guide, folder string) (string, error) {
	block := regexp.MustCompile("(?s)\n```yaml\n(  - job_name: kubelets\n.*?)```").FindStringSubmatch(guide)
	if block == nil {
		return "", errors.New("docs/guide/monitoring.md has no job kubelets")
	}
	job := strings.TrimRight(block[1], "\n") + fmt.Sprintf("\n    scrape_interval: %[1]s\n    scrape_timeout: %[1]s\n", kubeletInterval)
	for from, to := range map[string]string{
		"kubernetes_sd_configs: [{role: node}]":               "file_sd_configs: [{files: [" + nodesFile(folder) + "]}]",
		"/var/run/secrets/kubernetes.io/serviceaccount/token": tokenFile(folder),
	} {
		if !strings.Contains(job, from) {
			return "", fmt.Errorf("the job kubelets in docs/guide/monitoring.md has no %s", from)
		}
		job = strings.ReplaceAll(job, from, to)
	}
	return job, nil
}
