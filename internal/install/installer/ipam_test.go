package installer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestNetworksOfTheChart compares the Networks that the chart renders from its values: name, CIDR and labels.
func TestNetworksOfTheChart(t *testing.T) {
	const id = "discovery: {config: {clusterID: rome}}\n"
	defaults := []string{"external-cidr 10.70.0.0/16 external-cidr kept 1", "internal-cidr 10.80.0.0/16 internal-cidr"}
	for name, row := range map[string]struct {
		values string
		want   []string
	}{
		"defaults": {"networking: {enabled: true}", defaults},
		"one range of pods": {
			"networking: {enabled: true}\nipam: {podCIDR: 10.244.0.0/16, serviceCIDR: 10.96.0.0/12, externalCIDR: 10.71.0.0/16, internalCIDR: 10.81.0.0/16}",
			[]string{
				"external-cidr 10.71.0.0/16 external-cidr kept 1", "internal-cidr 10.81.0.0/16 internal-cidr",
				"pod-cidr 10.244.0.0/16 pod-cidr not-remapped shared", "service-cidr 10.96.0.0/12 service-cidr not-remapped",
			},
		},
		"several ranges of pods, one of another family": {
			"networking: {enabled: true}\nipam: {podCIDRs: [10.244.0.0/16, 'fd00:10::/56', 10.245.0.0/16], serviceCIDR: 'fd00:20::/112'}",
			append([]string{
				"pod-cidr-10-244-0-0-16 10.244.0.0/16 pod-cidr not-remapped shared", "pod-cidr-10-245-0-0-16 10.245.0.0/16 pod-cidr not-remapped shared",
			}, defaults...),
		},
		"one of two families is one": {
			"networking: {enabled: true}\nipam: {podCIDRs: ['fd00:10::/56', 10.245.0.0/16]}",
			append([]string{"pod-cidr 10.245.0.0/16 pod-cidr not-remapped shared"}, defaults...),
		},
		"reserved": {
			"networking: {enabled: true}\nipam: {reservedSubnets: [192.168.0.0/16]}",
			append([]string{"reserved-192-168-0-0-16 192.168.0.0/16 reserved not-remapped"}, defaults...),
		},
		"no networking":           {"networking: {enabled: false}\nipam: {podCIDR: 10.244.0.0/16}", nil},
		"somebody else's network": {"networking: {enabled: true, internal: false}\nipam: {podCIDR: 10.244.0.0/16}", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, object := range render(t, id+row.values) {
				if object.GetKind() != "Network" {
					continue
				}
				if object.GetNamespace() != "liqo" || object.GetAnnotations()["liqo.io/preinstalled"] != "true" || object.GetLabels()["liqo.io/managed"] != "true" {
					t.Errorf("%s: %v %v", object.GetName(), object.GetLabels(), object.GetAnnotations())
				}
				spec := object.Object["spec"].(map[string]any)
				text := fmt.Sprint(object.GetName(), " ", spec["cidr"], " ", object.GetLabels()["ipam.liqo.io/network-type"])
				for _, label := range []string{"not-remapped", "shared"} {
					if object.GetLabels()["ipam.liqo.io/network-"+label] == "true" {
						text += " " + label
					}
				}
				if kept, ok := spec["preAllocated"]; ok {
					text += fmt.Sprint(" kept ", kept)
				}
				got = append(got, text)
			}
			slices.Sort(got)
			slices.Sort(row.want)
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for name, values := range map[string]string{
		"pools": "ipam: {pools: []}", "external": "ipam: {externalCIDR: 'fd00::/64'}", "reserved": "ipam: {reservedSubnets: [10.0.0.0]}",
	} {
		chart, err := Chart("")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Render(chart, "liqo", parse(t, id+values)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", values, err)
		}
	}
}
