package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// logKeys are the keys of log lines and what they hold. One thing has one name in the logs of all programs.
var logKeys = map[string]string{
	"clusterID":       "cluster ID of the peer, or of this cluster in the first line of the controller manager",
	"namespace":       "namespace of the object",
	"name":            "name of the object",
	"kind":            "kind of the object",
	"node":            "name of the node",
	"remoteNamespace": "name of a remote namespace",
	"originalName":    "name of a remote namespace in the consumer",
	"workload":        "name of a ReplicaSet, StatefulSet or DaemonSet",
	"claimedBy":       "object that claims the host of an Ingress",
	"claim":           "namespace and name of a PersistentVolumeClaim",
	"error":           "error of a failed operation",
	"reason":          "text that says why the program refuses something or waits",
	"failure":         "error of an earlier operation, which now succeeds",
	"failures":        "number of consecutive failures",
	"step":            "step that Liqo takes for an object",
	"why":             "fact that made Liqo take the step",
	"source":          "address of the client",
	"requester":       "user that created a CertificateSigningRequest",
	"method":          "HTTP method",
	"path":            "path of a URL",
	"target":          "address that a client of the proxy asks for",
	"status":          "HTTP status",
	"server":          "address of an API server",
	"url":             "URL of an authentication service",
	"discovery":       "how a cluster was discovered: in the local networks or in a DNS zone",
	"activity":        "part of discovery that the message is about",
	"link":            "name of a network link",
	"implementation":  "WireGuard implementation in use",
	"wanted":          "WireGuard implementation in the configuration",
	"from":            "state before",
	"to":              "state afterwards",
	"session":         "number of a tunnel session",
	"silence":         "time since the last packet of the peer",
	"pause":           "time before a gateway replica takes over",
	"count":           "number of things that the message names",
	"changes":         "changes of the network configuration",
	"expires":         "expiration time of a certificate",
	"ready":           "status of the condition Ready",
	"message":         "message of the condition Ready",
	"program":         "path of a program",
	"after":           "running time of a program",
	"delay":           "time until the next attempt",
	"version":         "version of Liqo",
}

// TestLogLinesHaveConstantMessagesAndKnownKeys: the message of a log line is a string literal, so that one can search for it, and its keys are in
// logKeys.
func TestLogLinesHaveConstantMessagesAndKnownKeys(t *testing.T) {
	used := map[string]bool{}
	for _, folder := range []string{"cmd", "internal"} {
		err := filepath.WalkDir(filepath.Join(root(t), folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(node ast.Node) bool {
				call, is := node.(*ast.CallExpr)
				if !is {
					return true
				}
				keys, message := logLine(call)
				if message != nil && literal(message) == "" {
					t.Errorf("%s: the message is not a string literal", files.Position(call.Pos()))
				}
				for i := 0; i < len(keys); i += 2 {
					key := literal(keys[i])
					if used[key] = true; logKeys[key] == "" {
						t.Errorf("%s: key %s is not in logKeys: use the name that other log lines have for the thing, or add it",
							files.Position(call.Pos()), types.ExprString(keys[i]))
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for key := range logKeys {
		if !used[key] {
			t.Errorf("key %s is in logKeys, and no log line has it", key)
		}
	}
}

var logger = regexp.MustCompile(`(?i)(\blog|(LoggerFrom|FromContext|NewLog)\(\w+\))(\.V\(\d\))?$`)

// logLine returns the message of a call that logs, and its keys with their values. Both are nil for other calls, and the message is nil for With.
func logLine(call *ast.CallExpr) (keys []ast.Expr, message ast.Expr) {
	method, is := call.Fun.(*ast.SelectorExpr)
	if !is || !logger.MatchString(types.ExprString(method.X)) {
		return nil, nil
	}
	switch args := call.Args; {
	case method.Sel.Name == "With":
		return args, nil
	case !slices.Contains([]string{"Debug", "Info", "Warn", "Error"}, method.Sel.Name) || len(args) == 0:
		return nil, nil
	case len(args)%2 == 0 && method.Sel.Name == "Error": // package logr: the error comes first
		return args[2:], args[1]
	default:
		return args[1:], args[0]
	}
}

// literal returns the value of a string literal, and an empty string for other expressions.
func literal(expr ast.Expr) string {
	basic, is := expr.(*ast.BasicLit)
	if !is || basic.Kind != token.STRING {
		return ""
	}
	value, _ := strconv.Unquote(basic.Value)
	return value
}
