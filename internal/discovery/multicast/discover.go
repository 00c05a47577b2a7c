package multicast

import (
	"context"
	"fmt"
	"sync"
	"time"

	"liqo.io/liqo/internal/discovery"
)

// Discover queries the hosts of the local networks for clusters, and returns the clusters that answer in the given time.
func Discover(ctx context.Context, wait time.Duration) (clusters []discovery.Cluster, problems []error, err error) {
	g, err := Ask()
	if err != nil {
		return nil, nil, err
	}
	defer g.Close()
	query := &discovery.Message{Questions: []discovery.Question{
		{Name: discovery.ServiceName(discovery.LocalDomain), Type: discovery.PTR, Unicast: true},
	}}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if err := g.Send(query); err != nil {
		return nil, nil, fmt.Errorf("querying the local networks: %w", err)
	}
	// Send the query twice, because packets can be lost.
	again := time.AfterFunc(wait/3, func() { _ = g.Send(query) })
	defer again.Stop()
	var cache discovery.Cache
	var mu sync.Mutex
	g.Run(ctx, func(p *Packet) {
		mu.Lock()
		defer mu.Unlock()
		if p.Message.Response {
			cache.Add(discovery.LocalDomain, append(p.Message.Answers, p.Message.Additionals...), time.Now())
		}
	})
	clusters, problems = discovery.Assemble(discovery.LocalDomain, cache.Live(time.Now()), nil)
	return clusters, problems, nil
}
