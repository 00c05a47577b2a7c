// Command program stands for every program of a release in tests. It answers like liqoctl where a release asks that one for its manual.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) == 4 && os.Args[1] == "docs" {
		if err := os.WriteFile(filepath.Join(os.Args[3], "liqoctl.1"), []byte(os.Getenv("SOURCE_DATE_EPOCH")), 0o600); err != nil {
			panic(err)
		}
	}
	fmt.Println(os.Args[1:])
}
