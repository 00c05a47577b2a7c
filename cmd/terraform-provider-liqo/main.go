// Command terraform-provider-liqo is the Terraform provider of Liqo. Terraform starts it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"liqo.io/liqo/cmd/terraform-provider-liqo/provider"
	"liqo.io/liqo/internal/version"
)

// address names the provider in configurations. No registry has this host: without the mirror, terraform init fails, instead of installing the provider of another project that has
// this name in a public registry.
const address = "liqo.internal/liqotech/liqo"

func main() {
	debug := flag.Bool("debug", false, "Print the settings with which Terraform uses this process, for a debugger")
	flag.Parse()
	options := providerserver.ServeOpts{Address: address, ProtocolVersion: 6, Debug: *debug}
	if err := providerserver.Serve(context.Background(), provider.New(version.Version), options); err != nil {
		fmt.Fprintln(os.Stderr, "serving the provider:", err)
		os.Exit(1)
	}
}
