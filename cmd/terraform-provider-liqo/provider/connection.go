package provider

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-log/tflog"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/install/clusterid"
	"liqo.io/liqo/internal/remote"
)

// requestTimeout bounds each request, so that an API server that is unreachable ends a command of Terraform.
const requestTimeout = 30 * time.Second

// settings are the values of attribute kubernetes of the provider.
type settings struct {
	ConfigPath           types.String `tfsdk:"config_path"`
	ConfigContext        types.String `tfsdk:"config_context"`
	Host                 types.String `tfsdk:"host"`
	Token                types.String `tfsdk:"token"`
	ClientCertificate    types.String `tfsdk:"client_certificate"`
	ClientKey            types.String `tfsdk:"client_key"`
	ClusterCACertificate types.String `tfsdk:"cluster_ca_certificate"`
	Insecure             types.Bool   `tfsdk:"insecure"`
}

// config returns the configuration of a client.
func (s *settings) config() (*rest.Config, error) {
	kubeconfig, host := s.ConfigPath.ValueString(), s.Host.ValueString()
	var config *rest.Config
	switch {
	case kubeconfig != "" && host != "":
		return nil, fmt.Errorf("kubernetes.config_path is %q and kubernetes.host is %q: set one of them", kubeconfig, host)
	case host != "":
		config = &rest.Config{Host: host, BearerToken: s.Token.ValueString(), TLSClientConfig: rest.TLSClientConfig{
			CertData: []byte(s.ClientCertificate.ValueString()), KeyData: []byte(s.ClientKey.ValueString()),
			CAData: []byte(s.ClusterCACertificate.ValueString()), Insecure: s.Insecure.ValueBool(),
		}}
	case kubeconfig != "":
		if below, is := strings.CutPrefix(kubeconfig, "~/"); is {
			home, err := os.UserHomeDir()
			if err != nil {
				return nil, fmt.Errorf("kubernetes.config_path is %q: %w", kubeconfig, err)
			}
			kubeconfig = filepath.Join(home, below)
		}
		read, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig},
			&clientcmd.ConfigOverrides{CurrentContext: s.ConfigContext.ValueString()}).ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("kubernetes.config_path is %q: %w", kubeconfig, err)
		}
		config = read
	default:
		return nil, errors.New("kubernetes has neither config_path nor host: set the path to the kubeconfig of the cluster, or the URL of its API server")
	}
	config.QPS, config.UserAgent, config.WarningHandler, config.Timeout = -1, "terraform-provider-liqo", rest.NoWarnings{}, requestTimeout
	remote.RefuseRedirects(config)
	return config, nil
}

// connection is the cluster of an instance of the provider.
type connection struct {
	client.Client
	host             string
	interval, settle time.Duration
}

// installation returns the ID of the cluster and the namespace of the installation.
func (c *connection) installation(ctx context.Context) (id, namespace string, err error) {
	id, namespace, err = clusterid.Find(ctx, c, api.Namespace)
	if err == nil && id == "" {
		err = fmt.Errorf("liqo is not installed in the cluster of %s: install it first (liqoctl install, or a helm_release that this resource depends on)", c.host)
	}
	return id, namespace, err
}

// wait calls check until nothing is left to wait for, check fails, or the timeout ends. check returns what it waits for, empty if it waits for nothing.
func (c *connection) wait(ctx context.Context, timeout time.Duration, check func(context.Context) (waiting string, err error)) error {
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	last := "no response of the API server"
	for {
		waiting, err := check(within)
		if err == nil && waiting == "" || err != nil && within.Err() == nil {
			return err
		}
		if err == nil && waiting != last {
			last = waiting
			tflog.Info(ctx, "Waiting", map[string]any{"message": last})
		}
		select {
		case <-within.Done():
			if ctx.Err() != nil {
				return fmt.Errorf("interrupted while waiting: %s", last)
			}
			return fmt.Errorf("not finished within %s: %s", timeout, last)
		case <-time.After(c.interval):
		}
	}
}

// connected is the part that all resources share.
type connected struct{ c *connection }

// Configure passes the connection of the provider to a resource.
func (r *connected) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	if c, is := req.ProviderData.(*connection); is {
		r.c = c
	}
}

// ready reports whether there is a connection. Without one it adds an error.
func (r *connected) ready(d *diag.Diagnostics) bool {
	if r.c == nil {
		d.AddError("Provider liqo is not configured", "A value of its attribute kubernetes is unknown until other resources are applied: apply those first "+
			"(terraform apply -target), or give the path to the kubeconfig of a cluster that exists")
	}
	return r.c != nil
}
