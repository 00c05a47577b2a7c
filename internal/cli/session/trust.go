package session

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// AllowExecFlag is the name of the flag with which a user trusts the kubeconfigs of remote clusters as much as the user's own.
const AllowExecFlag = "allow-exec"

// checkForeign returns an error if the kubeconfig of a remote cluster names a program or a file for the connection that the flags select. Such a
// kubeconfig often comes from the administrator of that cluster, who could otherwise run programs on this machine, and have the content of its files sent
// to a server. The user's own kubeconfig files are trusted, and so is every file with --allow-exec. checkForeign opens no file but the kubeconfig.
func (s *Session) checkForeign(flags *genericclioptions.ConfigFlags) error {
	path := *flags.KubeConfig
	if s.AllowExec || path == "" || s.isOwn(path) {
		return nil
	}
	raw, err := flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil //nolint:nilerr // the connection reports it
	}
	if found := references(&raw, *flags.Context, *flags.ClusterName, *flags.AuthInfoName); len(found) > 0 {
		return fmt.Errorf("the kubeconfig %s of the remote cluster names %s: liqoctl runs no program and reads no file that the kubeconfig of a remote cluster names, because the author of "+
			"the kubeconfig could run programs on this machine or get its files. If you trust the author, add --%s; otherwise ask for a kubeconfig that contains its credentials, as liqoctl generate peering-user prints it",
			path, strings.Join(found, ", "), AllowExecFlag)
	}
	return nil
}

// isOwn reports whether a path leads to one of the kubeconfig files that kubectl reads for this user, or to the one of the local cluster.
func (s *Session) isOwn(path string) bool {
	file, err := os.Stat(path)
	if err != nil {
		return false
	}
	for _, own := range append(clientcmd.NewDefaultClientConfigLoadingRules().Precedence, *s.Kubeconfig.KubeConfig) {
		if other, err := os.Stat(own); err == nil && os.SameFile(file, other) {
			return true
		}
	}
	return false
}

// references returns the fields of a kubeconfig that name programs and files, with their values, for the selected cluster and user. An empty name
// stands for that of the context, and an empty context for the current one.
func references(raw *clientcmdapi.Config, context, cluster, user string) []string {
	if used := raw.Contexts[cmp.Or(context, raw.CurrentContext)]; used != nil {
		cluster, user = cmp.Or(cluster, used.Cluster), cmp.Or(user, used.AuthInfo)
	}
	var found []string
	add := func(field, value string) {
		if value != "" {
			found = append(found, fmt.Sprintf("%s %q", field, value))
		}
	}
	if u := raw.AuthInfos[user]; u != nil {
		if u.Exec != nil {
			add("exec.command", cmp.Or(u.Exec.Command, "(none)"))
		}
		if u.AuthProvider != nil {
			add("auth-provider", cmp.Or(u.AuthProvider.Name, "(none)"))
		}
		add("tokenFile", u.TokenFile)
		add("client-certificate", u.ClientCertificate)
		add("client-key", u.ClientKey)
	}
	if c := raw.Clusters[cluster]; c != nil {
		add("certificate-authority", c.CertificateAuthority)
	}
	return found
}
