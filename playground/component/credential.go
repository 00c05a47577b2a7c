package component

// Certificate describes a key and a certificate to create, as Name.key and Name.crt.
type Certificate struct {
	Name          string
	CommonName    string
	Organizations []string
	// Hosts are the DNS names and IP addresses of a server.
	Hosts []string
	// Authority is the Name of the certificate that signs this one. If it is empty, the certificate becomes a new certificate authority.
	Authority string
}

// Kubeconfig describes a kubeconfig file to create with the named certificate and its key.
type Kubeconfig struct {
	Name, Cluster, User, Server string
	Certificate                 string
}

// Certificates returns all certificates of the cluster. Each authority precedes the certificates that it signs.
func (c Cluster) Certificates() []Certificate {
	const masters = "system:masters"
	apiServer := []string{
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "localhost",
		c.ControlPlane().Name, "127.0.0.1", c.ControlPlane().Address.String(), c.API().String(),
	}
	if c.APIServerName != "" {
		apiServer = append(apiServer, c.APIServerName)
	}
	list := []Certificate{
		{Name: "ca", CommonName: c.Name + "-ca"},
		{Name: "front-proxy-ca", CommonName: c.Name + "-front-proxy-ca"},
		{Name: "front-proxy-client", CommonName: "front-proxy-client", Authority: "front-proxy-ca"},
		{Name: "apiserver", CommonName: "kube-apiserver", Authority: "ca", Hosts: apiServer},
		{Name: "apiserver-kubelet-client", CommonName: "kube-apiserver-kubelet-client", Organizations: []string{masters}, Authority: "ca"},
		{Name: "admin", CommonName: "kubernetes-admin", Organizations: []string{masters}, Authority: "ca"},
		{Name: "controller-manager", CommonName: "system:kube-controller-manager", Authority: "ca"},
		{Name: "scheduler", CommonName: "system:kube-scheduler", Authority: "ca"},
	}
	if c.ControlPlaneOnly {
		return list
	}
	list = append(list, Certificate{Name: "proxy", CommonName: "system:kube-proxy", Authority: "ca"})
	for _, n := range c.List() {
		user, groups := "system:node:"+n.Name, []string{"system:nodes"}
		list = append(list,
			Certificate{Name: "kubelet-client-" + n.Name, CommonName: user, Organizations: groups, Authority: "ca"},
			Certificate{Name: "kubelet-" + n.Name, CommonName: user, Organizations: groups, Authority: "ca",
				Hosts: []string{n.Name, n.Address.String(), "127.0.0.1"}},
		)
	}
	return list
}

// Kubeconfigs returns all kubeconfig files of the cluster. "external" is for programs that run on this machine outside all nodes.
func (c Cluster) Kubeconfigs() []Kubeconfig {
	list := []Kubeconfig{
		{Name: "external", User: c.Name + "-admin", Server: c.ForwardServer(), Certificate: "admin"},
		{Name: "admin", User: c.Name + "-admin", Server: c.Server(), Certificate: "admin"},
		{Name: "controller-manager", User: "system:kube-controller-manager", Server: c.Server(), Certificate: "controller-manager"},
		{Name: "scheduler", User: "system:kube-scheduler", Server: c.Server(), Certificate: "scheduler"},
	}
	if !c.ControlPlaneOnly {
		list = append(list, Kubeconfig{Name: "proxy", User: "system:kube-proxy", Server: c.Server(), Certificate: "proxy"})
		for _, n := range c.List() {
			client := "kubelet-client-" + n.Name
			list = append(list, Kubeconfig{Name: client, User: "system:node:" + n.Name, Server: c.Server(), Certificate: client})
		}
	}
	for i := range list {
		list[i].Cluster = c.Name
	}
	return list
}
