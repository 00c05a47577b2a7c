// Package page holds the built files of the dashboard's page. Its sources are in folder src. `make page` builds them into folder dist, which is
// checked in: a build of liqoctl needs no Node.js. dist/SHA256SUMS lists the sources and the built files, so that a test notices an outdated build.
package page

import (
	"embed"
	"fmt"
	"io/fs"
)

//go:embed dist
var dist embed.FS

// Files returns the files of the page; index.html is the first one.
func Files() fs.FS {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(fmt.Sprintf("the files of the page: %v", err)) // a programming error: the folder is embedded
	}
	return files
}
