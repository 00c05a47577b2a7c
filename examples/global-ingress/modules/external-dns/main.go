// Command external-dns is ExternalDNS with one provider, rfc2136. With all providers it would take very long to build. Its flags are those of ExternalDNS.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	log "github.com/sirupsen/logrus"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/external-dns/endpoint"
	"sigs.k8s.io/external-dns/pkg/apis/externaldns"
	"sigs.k8s.io/external-dns/pkg/apis/externaldns/validation"
	"sigs.k8s.io/external-dns/plan"
	"sigs.k8s.io/external-dns/provider"
	"sigs.k8s.io/external-dns/provider/rfc2136"
	"sigs.k8s.io/external-dns/registry"
	"sigs.k8s.io/external-dns/registry/txt"
	"sigs.k8s.io/external-dns/source"
	"sigs.k8s.io/external-dns/source/annotations"
	"sigs.k8s.io/external-dns/source/wrappers"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	cfg := externaldns.NewConfig()
	if err := cfg.ParseFlags(os.Args[1:]); err != nil {
		return err
	}
	if err := validation.ValidateConfig(cfg); err != nil {
		return err
	}
	if cfg.Provider != "rfc2136" || cfg.Registry != "txt" {
		return fmt.Errorf("--provider=%s --registry=%s: this build has provider rfc2136 and registry txt only", cfg.Provider, cfg.Registry)
	}
	crlog.SetLogger(logr.Discard())
	annotations.SetAnnotationPrefix(cfg.AnnotationPrefix)
	sources, err := source.NewSourceConfig(cfg)
	if err != nil {
		return err
	}
	from, err := wrappers.Build(ctx, sources)
	if err != nil {
		return err
	}
	filter := endpoint.NewDomainFilterWithOptions(endpoint.WithDomainFilter(cfg.DomainFilter), endpoint.WithDomainExclude(cfg.DomainExclude))
	dns, err := rfc2136.New(ctx, cfg, filter)
	if err != nil {
		return err
	}
	records, err := txt.New(cfg, dns)
	if err != nil {
		return err
	}
	for {
		if err := sync(ctx, cfg, from, records, filter); err != nil {
			log.Errorf("Failed to do run once: %v", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(cfg.Interval):
		}
	}
}

// sync makes the records of the DNS server those of the source once.
func sync(ctx context.Context, cfg *externaldns.Config, from source.Source, records registry.Registry, filter *endpoint.DomainFilter) error {
	have, err := records.Records(ctx)
	if err != nil {
		return err
	}
	for _, record := range have { // Provider rfc2136 leaves the dot at the end of all targets except the first one, so NS records would change at each interval.
		if record.RecordType == endpoint.RecordTypeNS {
			for i := range record.Targets {
				record.Targets[i] = strings.TrimSuffix(record.Targets[i], ".")
			}
		}
	}
	ctx = context.WithValue(ctx, provider.RecordsContextKey, have)
	want, err := from.Endpoints(ctx)
	if err != nil {
		return err
	}
	if want, err = records.AdjustEndpoints(want); err != nil {
		return err
	}
	p := plan.Plan{
		Policies: []plan.Policy{plan.Policies[cfg.Policy]}, Current: have, Desired: want,
		DomainFilter:   endpoint.MatchAllDomainFilters{filter, records.GetDomainFilter()},
		ManagedRecords: cfg.ManagedDNSRecordTypes, ExcludeRecords: cfg.ExcludeDNSRecordTypes, OwnerID: records.OwnerID(),
	}
	changes := p.Calculate().Changes
	if !changes.HasChanges() {
		return nil
	}
	return records.ApplyChanges(ctx, changes)
}
