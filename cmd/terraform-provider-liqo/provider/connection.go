package provider

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-log/tflog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// ofHost returns the first attribute that goes with host and is set, empty if there is none.
func (s *settings) ofHost() string {
	for _, a := range []struct {
		name string
		set  bool
	}{
		{"token", s.Token.ValueString() != ""}, {"client_certificate", s.ClientCertificate.ValueString() != ""}, {"client_key", s.ClientKey.ValueString() != ""},
		{"cluster_ca_certificate", s.ClusterCACertificate.ValueString() != ""}, {"insecure", s.Insecure.ValueBool()},
	} {
		if a.set {
			return a.name
		}
	}
	return ""
}

// config returns the configuration of a client.
func (s *settings) config() (*rest.Config, error) {
	kubeconfig, host := s.ConfigPath.ValueString(), s.Host.ValueString()
	var config *rest.Config
	switch {
	case kubeconfig != "" && host != "":
		return nil, fmt.Errorf("kubernetes.config_path is %q and kubernetes.host is %q: set one of them", kubeconfig, host)
	case kubeconfig != "" && s.ofHost() != "":
		return nil, fmt.Errorf("kubernetes.%s goes with kubernetes.host, not with kubernetes.config_path %q, which has credentials", s.ofHost(), kubeconfig)
	case host != "" && !strings.HasPrefix(host, "https://"):
		return nil, fmt.Errorf("kubernetes.host is %q: want https://HOST[:PORT], so that credentials are encrypted", host)
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
	host, namespace  string
	interval, settle time.Duration
}

// errNotInstalled means that Liqo is not installed where the provider looks for it.
var errNotInstalled = errors.New("install it first (liqoctl install, or a helm_release that this resource depends on), or set attribute namespace of the provider")

// installation returns the ID of the cluster and the namespace of the installation, which the user names. So a user who may write ConfigMaps in another
// namespace can't decide where tokens are written and read.
func (c *connection) installation(ctx context.Context) (id, namespace string, err error) {
	id, found, err := clusterid.Find(ctx, c, c.namespace)
	if err == nil && (id == "" || found != c.namespace) {
		err = fmt.Errorf("liqo is not installed in namespace %s of the cluster of %s: %w", c.namespace, c.host, errNotInstalled)
	}
	if err != nil {
		return "", "", err
	}
	return id, found, nil
}

var (
	// errTimeout means that what a resource waits for was not reached in time.
	errTimeout = errors.New("not finished")
	// errInterrupted means that the user ended the command while a resource waited, for example with Ctrl-C.
	errInterrupted = errors.New("interrupted")
)

// unfinished reports whether a wait ended without a failure: what the resource requests is written, and the controllers go on.
func unfinished(err error) bool { return errors.Is(err, errTimeout) || errors.Is(err, errInterrupted) }

// passes reports whether a request may succeed when it is sent again: no API server responded, or the API server is busy or starting.
func passes(err error) bool {
	var network net.Error
	return errors.As(err, &network) || utilnet.IsConnectionReset(err) || utilnet.IsConnectionRefused(err) || utilnet.IsProbableEOF(err) ||
		apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err)
}

// wait calls check until nothing is left to wait for, check fails, or the timeout ends. check returns what it waits for, empty if it waits for nothing. A failed request that may
// succeed later does not end the wait.
func (c *connection) wait(ctx context.Context, timeout time.Duration, check func(context.Context) (waiting string, err error)) error {
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	last := "no response of the API server"
	for {
		waiting, err := check(within)
		if err != nil && within.Err() == nil && passes(err) {
			waiting, err = err.Error(), nil
		}
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
				return fmt.Errorf("%w while waiting: %s", errInterrupted, last)
			}
			return fmt.Errorf("%w within %s: %s", errTimeout, timeout, last)
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
