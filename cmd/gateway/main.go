// Command gateway runs in the containers of gateway pods. Depending on its first argument, it prepares the network namespace, owns
// the tunnel to a peer, or decides how the tunnel is used.
package main

import (
	"os"

	"liqo.io/liqo/internal/app"
)

func main() {
	os.Exit(app.Run("gateway", app.Gateway))
}
