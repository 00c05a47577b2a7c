package node

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// electionDuration is how long the lease of a dead virtual kubelet stays valid. electionDeadline is how long a live one tries to
// renew its lease, and electionRetry is the interval of the attempts.
const (
	electionDuration = 15 * time.Second
	electionDeadline = 10 * time.Second
	electionRetry    = 2 * time.Second
)

// errDeposed ends a process that could not renew its lease, because another process may be the leader by now.
var errDeposed = errors.New("the leadership was lost")

// WhenElected waits until this process holds the Lease with the given name, with identity as its holder, and then calls run. It releases the Lease
// after run has returned, so that the next leader need not wait for the expiry. It calls observed once it has read the current leader, possibly after
// it called run. observed must not block.
func WhenElected(ctx context.Context, cfg *rest.Config, namespace, name, identity string, observed func(), run func(context.Context) error) error {
	leases, err := typedcoordinationv1.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("creating a client for leases: %w", err)
	}
	electing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var leading atomic.Bool
	var result error
	ended := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: name},
			Client:     leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		LeaseDuration: electionDuration, RenewDeadline: electionDeadline, RetryPeriod: electionRetry, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leads context.Context) {
				defer close(ended)
				leading.Store(true)
				working, cancel := context.WithCancel(ctx)
				defer cancel()
				defer context.AfterFunc(leads, cancel)()
				result = run(working)
				if leads.Err() != nil && ctx.Err() == nil {
					result = errors.Join(errDeposed, result)
				}
				stop()
			},
			OnStoppedLeading: func() {},
			OnNewLeader:      func(string) { observed() },
		},
	})
	if err != nil {
		return fmt.Errorf("preparing an election: %w", err)
	}
	// As long as this process is not the leader, it can leave the election at once, because there is no work to end first.
	defer context.AfterFunc(ctx, func() {
		if !leading.Load() {
			stop()
		}
	})()
	elector.Run(electing)
	if !leading.Load() {
		return nil
	}
	<-ended
	return result
}
