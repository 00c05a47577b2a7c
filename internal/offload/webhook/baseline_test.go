package webhook

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestShadowPodPolicyAllowsTheBaseline: the policy refuses nothing that Pod Security Standard "baseline" allows (Kubernetes 1.35). The lists are
// those of k8s.io/pod-security-admission/policy: check_sysctls.go, check_capabilities_baseline.go and check_seLinuxOptions.go.
func TestShadowPodPolicyAllowsTheBaseline(t *testing.T) {
	var policies []string
	for _, policy := range chart(t, values(), "ValidatingAdmissionPolicy") {
		text, err := json.Marshal(policy.Object)
		if err != nil {
			t.Fatal(err)
		}
		policies = append(policies, strings.NewReplacer(`\"`, "'", `", "`, "','").Replace(string(text)))
	}
	all := strings.Join(policies, "\n")
	for what, items := range map[string][]string{
		"sysctls": {
			"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports", "net.ipv4.ip_unprivileged_port_start",
			"net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes",
			"net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem",
		},
		"capabilities": {
			"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
		},
		"types of SELinux": {"container_t", "container_init_t", "container_kvm_t", "container_engine_t"},
	} {
		for _, item := range items {
			if !strings.Contains(all, "'"+item+"'") {
				t.Errorf("%s: the policies do not allow %s", what, item)
			}
		}
	}
}
