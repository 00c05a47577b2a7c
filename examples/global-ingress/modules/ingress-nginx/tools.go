//go:build tools

package ingressnginx

import _ "k8s.io/ingress-nginx/cmd/nginx"
