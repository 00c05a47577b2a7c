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

func main() {
	debug := flag.Bool("debug", false, "Print the settings with which Terraform uses this process, for a debugger")
	flag.Parse()
	options := providerserver.ServeOpts{Address: "registry.terraform.io/liqotech/liqo", ProtocolVersion: 6, Debug: *debug}
	if err := providerserver.Serve(context.Background(), provider.New(version.Version), options); err != nil {
		fmt.Fprintln(os.Stderr, "serving the provider:", err)
		os.Exit(1)
	}
}
