package app

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// The lease of an elected virtual kubelet: how long a dead holder keeps it, how long a living one tries to renew it, and how often.
const (
	electionDuration = 15 * time.Second
	electionDeadline = 10 * time.Second
	electionRetry    = 2 * time.Second
)

// errDeposed ends a process that could not renew its lease: what it does, another one does by now.
var errDeposed = errors.New("the leadership was lost")

// whenElected waits until this process, called identity, holds the Lease of that name, and runs run while it does. The Lease is given
// back after run has ended, so that the next one need not wait for it to expire.
func whenElected(ctx context.Context, cfg *rest.Config, namespace, name, identity string, run func(context.Context) error) error {
	leases, err := coordinationv1.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("making a client for leases: %w", err)
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
		},
	})
	if err != nil {
		return fmt.Errorf("preparing an election: %w", err)
	}
	// While it is not elected there is nothing to end before it leaves the election.
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
