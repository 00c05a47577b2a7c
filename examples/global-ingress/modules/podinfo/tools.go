//go:build tools

package podinfo

import _ "github.com/stefanprodan/podinfo/cmd/podinfo"
