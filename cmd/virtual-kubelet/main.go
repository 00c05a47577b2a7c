// Command virtual-kubelet represents a provider as a virtual node of this cluster and runs the pods of that node in the provider.
package main

import (
	"os"

	"liqo.io/liqo/internal/app"
)

func main() {
	os.Exit(app.Run("virtual-kubelet", app.VirtualKubelet))
}
