// Package fakecluster has clusters for tests of commands of liqoctl that need no API server.
package fakecluster

import (
	"io"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
)

// New returns a connection to an API server in memory that has these objects.
func New(id string, objects ...client.Object) *session.Cluster {
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(objects...).Build()
	return &session.Cluster{WithWatch: c, Console: console.New(io.Discard, io.Discard, false), ID: id}
}
