package main

import (
	"fmt"
	"strings"
)

// zoneFile returns the records as a zone file for CoreDNS, which reads it again when the serial number increases.
func zoneFile(s settings, records []record, serial uint32) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s. %d IN SOA %s. hostmaster.%s. %d 60 60 86400 5\n", s.Zone, defaultTTL, s.nameServer(s.GeoTag), s.EdgeZone, serial)
	for _, r := range append([]record{nameServers(s)}, records...) {
		for _, target := range r.Targets {
			if r.Type == "NS" {
				target += "."
			}
			fmt.Fprintf(&b, "%s. %d IN %s %s\n", r.Name, r.TTL, r.Type, target)
		}
	}
	return b.String()
}
