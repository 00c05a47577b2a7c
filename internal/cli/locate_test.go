package cli

import (
	"cmp"
	"context"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
)

// TestTheInstallationIsFound: a command works with the installation in whatever namespace it is, unless the user names another one.
func TestTheInstallationIsFound(t *testing.T) {
	const custom = "liqo-system"
	for name, test := range map[string]struct {
		installed, named, context string
		// readable is the only namespace in which the user may list ConfigMaps; empty: everywhere.
		readable  string
		id, where string
		err       string
	}{
		"the usual namespace":         {installed: api.Namespace, id: "rome", where: api.Namespace},
		"another one":                 {installed: custom, id: "rome", where: custom},
		"another one, named":          {installed: custom, named: custom, id: "rome", where: custom},
		"not the named one":           {installed: custom, named: api.Namespace, err: "liqo is installed in namespace liqo-system, not in liqo: pass --namespace"},
		"nowhere":                     {where: api.Namespace},
		"nowhere, named":              {named: custom, where: custom},
		"only that of the kubeconfig": {installed: custom, context: custom, readable: custom, id: "rome", where: custom},
		"none that may be read":       {installed: custom, context: "shop", readable: "shop", err: "forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			builder := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithInterceptorFuncs(interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					options := (&client.ListOptions{}).ApplyOptions(opts)
					if test.readable != "" && options.Namespace != test.readable {
						return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", nil)
					}
					return c.List(ctx, list, opts...)
				},
			})
			if test.installed != "" {
				builder = builder.WithObjects(&corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Namespace: test.installed, Name: "id", Labels: map[string]string{"app.kubernetes.io/name": "clusterid-configmap"}},
					Data:       map[string]string{api.ClusterIDKey: "rome"},
				})
			}
			c := &session.Cluster{
				WithWatch: builder.Build(), Console: console.New(io.Discard, io.Discard, false), Namespace: cmp.Or(test.named, api.Namespace), NamespaceGiven: test.named != "",
				ContextNamespace: test.context,
			}
			id, err := c.Locate(t.Context())
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error %v, want %q", err, test.err)
				}
				return
			}
			if err != nil || id != test.id || c.Namespace != test.where {
				t.Errorf("%q in namespace %s, error %v, want %q in %s", id, c.Namespace, err, test.id, test.where)
			}
		})
	}
}
