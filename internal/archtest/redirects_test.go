package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// connectionSources are the functions that return a configuration of an API server, with the packages that they are called in; nil for any function of
// that name.
var connectionSources = map[string][]string{
	"ToRESTConfig": nil, "ClientConfig": nil, "InClusterConfig": nil, "BuildConfigFromFlags": nil, "BuildConfigFromKubeconfigGetter": nil,
	"RESTConfigFromKubeConfig": nil, "GetConfigOrDie": nil, "GetConfigWithContext": nil, "AnonymousClientConfig": nil,
	"Parse": {"remote"}, "Config": {"remote"}, // from the kubeconfig of an Identity, for another cluster
	"GetConfig": {"ctrl", "config"}, // the method of a manager returns the configuration that the manager was created with
}

// refusals are the functions that make redirects errors. remote.Parse calls Tune.
var refusals = []string{"RefuseRedirects", "WithoutRedirects", "Tune", "bounding", "Parse"}

// limits are the functions that limit the responses of another cluster.
var limits = []string{"LimitResponses", "bounding"}

// followsRedirects are the functions that may connect without a refusal.
var followsRedirects = map[string]string{
	"internal/remote/identity.go Config":        "its transport is built from a configuration that was tuned",
	"internal/offload/node/server.go NewServer": "its transport is built from a configuration that was tuned",
	"internal/install/cloud/eks.go rangesOfVPC": "it sends a signed request to AWS, and to no cluster",
}

// TestNoConnectionFollowsRedirects: every function that makes a configuration of an API server, or an HTTP client, also makes redirects errors. A server that
// redirects could otherwise choose the requests of this process, and receive its credentials. Functions of liqoctl also limit the responses: it connects to clusters
// of other administrators, on the machine of its user.
func TestNoConnectionFollowsRedirects(t *testing.T) {
	used, found := map[string]bool{}, 0
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
			relative, err := filepath.Rel(root(t), path)
			if err != nil {
				return err
			}
			for _, declaration := range file.Decls {
				source, calls := connection(declaration)
				if source == nil {
					continue
				}
				found++
				name := filepath.ToSlash(relative)
				if function, is := declaration.(*ast.FuncDecl); is {
					name += " " + function.Name.Name
				}
				if _, allowed := followsRedirects[name]; allowed {
					used[name] = true
				} else if !calls(refusals) {
					t.Errorf("%s: this connection follows redirects: call remote.RefuseRedirects or remote.WithoutRedirects in the same function", files.Position(source.Pos()))
				}
				if strings.HasPrefix(name, "internal/cli/") && !strings.HasPrefix(name, "internal/cli/nettest/probe.go") && !calls(limits) {
					t.Errorf("%s: this connection does not limit responses: call remote.LimitResponses in the same function", files.Position(source.Pos()))
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range followsRedirects {
		if !used[name] {
			t.Errorf("%s needs no exception any more: remove it from the list", name)
		}
	}
	if found < 5 {
		t.Errorf("only %d connections were found: the test looks at the wrong place", found)
	}
}

// connection returns the first place in a declaration that makes a configuration or a client, nil if there is none, and whether the declaration names one of
// some functions.
func connection(declaration ast.Decl) (source ast.Node, calls func([]string) bool) {
	var names []string
	ast.Inspect(declaration, func(node ast.Node) bool {
		var made bool
		switch node := node.(type) {
		case *ast.CompositeLit:
			made = isSelector(node.Type, "rest", "Config") || isSelector(node.Type, "http", "Client")
		case *ast.CallExpr:
			if called, is := node.Fun.(*ast.SelectorExpr); is {
				receivers, is := connectionSources[called.Sel.Name]
				receiver, _ := called.X.(*ast.Ident)
				made = is && (receivers == nil || receiver != nil && slices.Contains(receivers, receiver.Name))
			}
		case *ast.SelectorExpr:
			made = isSelector(node, "http", "DefaultClient") || isSelector(node, "http", "DefaultTransport")
		case *ast.Ident:
			names = append(names, node.Name)
		}
		if made && source == nil {
			source = node
		}
		return true
	})
	return source, func(some []string) bool {
		return slices.ContainsFunc(some, func(name string) bool { return slices.Contains(names, name) })
	}
}

func isSelector(of ast.Expr, pkg, name string) bool {
	selector, is := of.(*ast.SelectorExpr)
	if !is {
		return false
	}
	x, is := selector.X.(*ast.Ident)
	return is && x.Name == pkg && selector.Sel.Name == name
}
