// Command fabric runs on every node. It routes traffic between the pods of the node and the gateways to other clusters.
package main

import (
	"os"

	"liqo.io/liqo/internal/app"
)

func main() {
	os.Exit(app.Run("fabric", app.Fabric))
}
