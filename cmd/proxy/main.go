// Command proxy gives peers access to this cluster's API server, and to nothing else, through the tunnel between the clusters.
package main

import (
	"os"

	"liqo.io/liqo/internal/app"
)

func main() {
	os.Exit(app.Run("proxy", app.Proxy))
}
