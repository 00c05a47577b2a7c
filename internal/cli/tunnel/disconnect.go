package tunnel

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
)

// Remains holds the objects of a network in one cluster, in the order of their deletion.
type Remains struct {
	*session.Cluster
	clients, servers, keys, configurations []client.Object
}

// RemainsOf returns the objects of the network with a peer. It returns none if there is no tenant namespace. If the user may not list the
// objects, it fails if insist is true, and otherwise warns and returns none.
func RemainsOf(ctx context.Context, c *session.Cluster, peer string, insist bool) (*Remains, error) {
	out := &Remains{Cluster: c}
	namespace, err := session.FindTenantNamespace(ctx, c, peer)
	if err != nil || namespace == "" {
		return out, err
	}
	for _, part := range []struct {
		kind session.Kind
		to   *[]client.Object
	}{{session.KindClient, &out.clients}, {session.KindServer, &out.servers}, {session.KindPublicKey, &out.keys}, {session.KindConfiguration, &out.configurations}} {
		list := part.kind.List()
		err := session.ListOfPeer(ctx, c, list, namespace, peer)
		if apierrors.IsForbidden(err) && !insist { // a user with the permission to peer only
			c.Warn("The user of the kubeconfig may not read the network with %s: if there is one, it is not deleted", peer)
			return &Remains{Cluster: c}, nil
		}
		if err != nil {
			return nil, err
		}
		if *part.to, err = kube.Items(list); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Remove asks for confirmation and removes the tunnel. If configurations is true, it also removes the Configurations with the address ranges. Otherwise it
// prints their names, and the command in reset that removes them.
func Remove(ctx context.Context, a *session.Session, p *session.Pair, question string, configurations, wait bool, reset string) error {
	local, remote, err := RemainsOfBoth(ctx, p, true)
	if err != nil {
		return err
	}
	objects := 0
	var left []string
	for _, r := range []*Remains{local, remote} {
		if !configurations {
			for _, object := range r.configurations {
				left = append(left, r.Name(object)+" (cluster "+r.ID+")")
			}
			r.configurations = nil
		}
		objects += len(r.InOrder())
	}
	if objects == 0 {
		p.Local.Info("There is no network between %s and %s: nothing to delete", p.Local.ID, p.Remote.ID)
		return nil
	}
	if err := a.Confirm(fmt.Sprintf(question, p.Local.ID, p.Remote.ID)); err != nil {
		return err
	}
	if err := TakeDown(ctx, local, remote, wait); err != nil {
		return err
	}
	if len(left) > 0 {
		p.Local.Info("Kept: %s. With it, every pod gets its former address when the networks are connected again. To delete it, run: %s",
			strings.Join(left, ", "), reset)
	}
	return nil
}

// InOrder returns all these objects in the order of their deletion.
func (r *Remains) InOrder() []client.Object {
	var out []client.Object
	for _, part := range [][]client.Object{r.clients, r.servers, r.keys, r.configurations} {
		out = append(out, part...)
	}
	return out
}

// RemainsOfBoth returns what RemainsOf returns, for both clusters.
func RemainsOfBoth(ctx context.Context, p *session.Pair, insist bool) (local, remote *Remains, err error) {
	err = session.Both(
		func() (err error) { local, err = RemainsOf(ctx, p.Local, p.Remote.ID, insist); return },
		func() (err error) { remote, err = RemainsOf(ctx, p.Remote, p.Local.ID, insist); return },
	)
	return local, remote, err
}

// TakeDown deletes the remaining objects: the clients first, then the servers, then the keys and Configurations.
func TakeDown(ctx context.Context, local, remote *Remains, wait bool) error {
	for _, part := range []func(*Remains) []client.Object{
		func(r *Remains) []client.Object { return r.clients }, func(r *Remains) []client.Object { return r.servers },
		func(r *Remains) []client.Object { return append(r.keys, r.configurations...) },
	} {
		remove := func(r *Remains) error {
			var made []client.Object
			for _, object := range part(r) {
				of, err := r.made(ctx, object)
				if err != nil {
					return err
				}
				made = append(made, of...)
			}
			if err := r.DeleteAll(ctx, part(r), wait); err != nil {
				return err
			}
			if !wait {
				for _, object := range part(r) {
					r.Did("%s deleted", r.Name(object))
				}
				return nil
			}
			return r.WaitAllGone(ctx, made, r.Verbose)
		}
		if err := session.Both(func() error { return remove(local) }, func() error { return remove(remote) }); err != nil {
			return err
		}
	}
	return nil
}

// made returns the objects that controllers created for the owner. Kubernetes' garbage collection deletes them after the owner.
func (r *Remains) made(ctx context.Context, owner client.Object) ([]client.Object, error) {
	var out []client.Object
	for _, list := range []client.ObjectList{
		&appsv1.DeploymentList{}, &corev1.ServiceList{}, &corev1.PodList{}, &networkingv1beta1.ConnectionList{}, &ipamv1alpha1.NetworkList{},
	} {
		if err := r.List(ctx, list, client.InNamespace(owner.GetNamespace())); err != nil {
			if kube.Absent(err) {
				continue
			}
			return nil, r.Err(fmt.Errorf("listing %s in namespace %s: %w", kube.KindsOf(list), owner.GetNamespace(), err))
		}
		objects, err := kube.Items(list)
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			_, pod := object.(*corev1.Pod)
			belongs := pod && object.GetLabels()[networkingv1beta1.LabelGatewayName] == owner.GetName()
			for _, reference := range object.GetOwnerReferences() {
				belongs = belongs || reference.UID == owner.GetUID()
			}
			if belongs {
				out = append(out, object)
			}
		}
	}
	return out, nil
}
