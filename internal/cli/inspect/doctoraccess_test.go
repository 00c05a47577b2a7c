package inspect

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/doctor"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/test/clitest/fakecluster"
)

// accessServer is the API server of a peer. It answers /version with a status code and denies the rights to some resources.
type accessServer struct {
	version int
	denied  []string
	// refusal is the text with which it refuses dry runs of claims.
	refusal string
	// hangs is how long it waits for a webhook that does not respond, before it refuses those dry runs.
	hangs time.Duration
	// asked are the rights that the client asked about: verb, resource and namespace.
	asked []string
}

func (s *accessServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.Header.Get("Authorization") != "Bearer granted" {
		http.Error(w, "another credential", http.StatusTeapot)
		return
	}
	if r.URL.Path == "/version" {
		w.WriteHeader(s.version)
		_, _ = w.Write([]byte("{}"))
		return
	}
	body, err := io.ReadAll(r.Body)
	if r.URL.Query().Get("dryRun") == metav1.DryRunAll {
		s.dryRun(w, r, string(body))
		return
	}
	var review authorizationv1.SelfSubjectAccessReview
	if err == nil {
		err = runtime.DecodeInto(scheme.Codecs.UniversalDeserializer(), body, &review)
	}
	if err != nil || !strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews") {
		http.Error(w, fmt.Sprint(r.URL.Path, err), http.StatusBadRequest)
		return
	}
	right := review.Spec.ResourceAttributes
	s.asked = append(s.asked, right.Verb+" "+right.Resource+" in "+right.Namespace)
	review.Status.Allowed = !slices.Contains(s.denied, right.Resource)
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(review)
}

// dryRun answers a dry run of a creation: it refuses claims, if there is a refusal.
func (s *accessServer) dryRun(w http.ResponseWriter, r *http.Request, body string) {
	path := strings.Split(r.URL.Path, "/")
	s.asked = append(s.asked, "dry run of "+path[len(path)-1]+" in "+path[len(path)-2])
	if !strings.Contains(body, api.LabelOrigin) || r.Method != http.MethodPost {
		http.Error(w, body, http.StatusBadRequest)
	} else if s.refusal != "" && path[len(path)-1] == "persistentvolumeclaims" {
		time.Sleep(s.hangs)
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Message: s.refusal})
	} else {
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(body))
	}
}

// accessKubeconfig returns a kubeconfig for the server, as a provider grants it.
func accessKubeconfig(t *testing.T, server *httptest.Server, change func(*clientcmdapi.Config)) []byte {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["milan"] = &clientcmdapi.Cluster{
		Server: server.URL, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}
	config.AuthInfos["rome"] = &clientcmdapi.AuthInfo{Token: "granted"}
	config.Contexts["milan"] = &clientcmdapi.Context{Cluster: "milan", AuthInfo: "rome"}
	config.CurrentContext = "milan"
	if change != nil {
		change(config)
	}
	data, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestAccessToAPeer: with the kubeconfig of an Identity, doctor finds out whether the peer answers, accepts the credential, and grants the rights that the
// Identity needs there.
func TestAccessToAPeer(t *testing.T) {
	const tenant = "liqo-tenant-milan"
	controlPlane := []string{"create resourceslices in liqo-tenant-rome", "create renews in liqo-tenant-rome", "create namespacemaps in liqo-tenant-rome"}
	kubelet := []string{"create shadowpods in blog-rome", "create shadowpods in shop-rome"}
	for what, row := range map[string]struct {
		kind       authv1beta1.IdentityType
		depth      Depth
		classes    []string
		server     accessServer
		kubeconfig func(*clientcmdapi.Config)
		identity   func(*authv1beta1.Identity)
		noSecret   bool
		want       *doctor.Access
		failure    string
		asked      []string
	}{
		"a control plane with all rights": {
			kind: authv1beta1.IdentityControlPlane, server: accessServer{version: http.StatusOK}, want: &doctor.Access{}, asked: controlPlane,
		},
		"a control plane without one": {
			kind: authv1beta1.IdentityControlPlane, server: accessServer{version: http.StatusOK, denied: []string{"renews"}}, asked: controlPlane,
			want: &doctor.Access{Denied: []string{"create renews in namespace liqo-tenant-rome"}},
		},
		"a virtual kubelet, in the accepted namespaces only": {
			kind: authv1beta1.IdentityResourceSlice, server: accessServer{version: http.StatusOK, denied: []string{"shadowpods"}},
			asked: kubelet,
			want:  &doctor.Access{Denied: []string{"create shadowpods in namespace blog-rome", "create shadowpods in namespace shop-rome"}},
		},
		"a virtual kubelet whose claims a policy refuses": {
			kind: authv1beta1.IdentityResourceSlice, server: accessServer{version: http.StatusOK, refusal: "policy x"}, classes: []string{"fast"},
			asked: append(slices.Clone(kubelet), "dry run of shadowpods in blog-rome", "dry run of persistentvolumeclaims in blog-rome"),
			want:  &doctor.Access{DryRuns: []doctor.DryRun{{Namespace: "blog-rome", Kind: "ShadowPod"}, {Namespace: "blog-rome", Kind: "PersistentVolumeClaim", Refusal: "policy x"}}},
		},
		"a virtual kubelet whose claims wait for a webhook that does not respond": {
			kind: authv1beta1.IdentityResourceSlice, server: accessServer{version: http.StatusOK, refusal: "failed calling webhook", hangs: AccessTimeout + time.Second/2}, classes: []string{"fast"},
			asked: append(slices.Clone(kubelet), "dry run of shadowpods in blog-rome", "dry run of persistentvolumeclaims in blog-rome"),
			want:  &doctor.Access{DryRuns: []doctor.DryRun{{Namespace: "blog-rome", Kind: "ShadowPod"}, {Namespace: "blog-rome", Kind: "PersistentVolumeClaim", Refusal: "failed calling webhook"}}},
		},
		"a virtual kubelet without storage": {
			kind: authv1beta1.IdentityResourceSlice, server: accessServer{version: http.StatusOK}, asked: append(slices.Clone(kubelet), "dry run of shadowpods in blog-rome"),
			want: &doctor.Access{DryRuns: []doctor.DryRun{{Namespace: "blog-rome", Kind: "ShadowPod"}}},
		},
		"a virtual kubelet, of the dashboard": {
			kind: authv1beta1.IdentityResourceSlice, server: accessServer{version: http.StatusOK}, depth: AskPeers, asked: kubelet, want: &doctor.Access{},
		},
		"a revoked credential":     {server: accessServer{version: http.StatusUnauthorized}, want: &doctor.Access{Refused: true}, failure: "provide credentials"},
		"a forbidden request":      {server: accessServer{version: http.StatusForbidden}, want: &doctor.Access{Refused: true}, failure: "unknown"},
		"a peer that fails":        {server: accessServer{version: http.StatusInternalServerError}, want: &doctor.Access{}, failure: "error"},
		"no kubeconfig yet":        {identity: func(i *authv1beta1.Identity) { i.Status.KubeconfigSecretRef = nil }},
		"a kubeconfig that is not": {noSecret: true, want: &doctor.Access{Unusable: true}, failure: "Secret " + tenant + "/kubeconfig, can not be read"},
		"a kubeconfig that runs a program": {
			kubeconfig: func(c *clientcmdapi.Config) {
				c.AuthInfos["rome"] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{Command: "/bin/true", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}}
			},
			want: &doctor.Access{Unusable: true}, failure: "can not be used: programs and plugins are not run",
		},
		"a peer behind a proxy is not asked": {
			identity: func(i *authv1beta1.Identity) { i.Spec.AuthParams.ProxyURL = new("http://10.70.0.5:8118") }, want: &doctor.Access{Proxy: "http://10.70.0.5:8118"},
		},
	} {
		t.Run(what, func(t *testing.T) {
			peer := row.server
			server := httptest.NewTLSServer(&peer)
			defer server.Close()
			secret := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "kubeconfig"},
				Data:       map[string][]byte{authv1beta1.KubeconfigSecretKey: accessKubeconfig(t, server, row.kubeconfig)},
			}
			mapping := &offloadingv1beta1.NamespaceMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "milan", Labels: map[string]string{api.LabelRemoteID: "milan"}},
				Status: offloadingv1beta1.NamespaceMapStatus{CurrentMapping: map[string]offloadingv1beta1.RemoteNamespaceStatus{
					"shop": {RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingAccepted},
					"blog": {RemoteNamespace: "blog-rome", Phase: offloadingv1beta1.MappingAccepted},
					"wiki": {RemoteNamespace: "wiki-rome", Phase: offloadingv1beta1.MappingCreationLoopBackOff},
				}},
			}
			objects := []client.Object{mapping, secret}
			if row.noSecret {
				objects = objects[:1]
			}
			identity := &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "milan"}}
			identity.Spec.ClusterID, identity.Spec.Type, identity.Spec.Namespace = "milan", row.kind, "liqo-tenant-rome"
			identity.Spec.AuthParams.APIServer = server.URL
			identity.Status.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: secret.Name}
			if row.identity != nil {
				row.identity(identity)
			}
			p := &collector{
				cluster: &session.Cluster{WithWatch: fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(objects...).Build()}, Cluster: &doctor.Cluster{ID: "rome"}, ctx: t.Context(), depth: MakeDryRuns,
			}
			if row.depth != 0 {
				p.depth = row.depth
			}
			for _, class := range row.classes {
				p.VirtualNodes = append(p.VirtualNodes, offloadingv1beta1.VirtualNode{Spec: offloadingv1beta1.VirtualNodeSpec{
					ClusterID: "milan", StorageClasses: []authv1beta1.StorageType{{StorageClassName: class}},
				}})
			}
			got := p.access(identity)
			if row.want == nil {
				if got != nil {
					t.Fatalf("%+v, want nothing", got)
				}
				return
			}
			want := *row.want
			want.Peer, want.Identity, want.Server = "milan", "milan", server.URL
			want.Failure, want.Took = got.Failure, got.Took
			if fmt.Sprintf("%+v", *got) != fmt.Sprintf("%+v", want) || !strings.Contains(got.Failure, row.failure) || (row.failure == "") != (got.Failure == "") {
				t.Errorf("%+v, want %+v with a failure that contains %q", *got, want, row.failure)
			}
			if fmt.Sprint(peer.asked) != fmt.Sprint(row.asked) {
				t.Errorf("the peer was asked about %q, want %q", peer.asked, row.asked)
			}
			if answered := got.Failure == "" && got.Proxy == ""; answered != (got.Took > 0) {
				t.Errorf("the answer took %v", got.Took)
			}
		})
	}
}

// TestDryRunsOfConsumersObjects: doctor asks the own API server, without a write, whether it admits the objects of each consumer, in one of its remote namespaces. It
// reports what it could not check, on one line.
func TestDryRunsOfConsumersObjects(t *testing.T) {
	namespace := func(name, consumer string, more ...string) client.Object {
		labels := map[string]string{api.LabelRemoteClusterID: consumer}
		for _, key := range more {
			labels[key] = api.True
		}
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	}
	c := fakecluster.New("milan", namespace("shop-rome", "rome"), namespace("blog-rome", "rome"), namespace("blog-turin", "turin"), namespace("liqo-tenant-pisa", "pisa", api.LabelTenantNamespace),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "local"}})
	kinds, denied := map[string][]string{}, ""
	var mu sync.Mutex
	c.WithWatch = interceptor.NewClient(c.WithWatch, interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, object client.Object, options ...client.CreateOption) error {
			mu.Lock()
			defer mu.Unlock()
			if review, asks := object.(*authorizationv1.SelfSubjectAccessReview); asks {
				review.Status.Allowed = review.Spec.ResourceAttributes.Resource != denied
				return nil
			}
			if len((&client.CreateOptions{}).ApplyOptions(options).DryRun) == 0 {
				t.Errorf("it creates %T", object)
			}
			kind := strings.TrimPrefix(fmt.Sprintf("%T", object), "*v1.")
			kinds[object.GetNamespace()] = append(kinds[object.GetNamespace()], kind)
			switch {
			case object.GetNamespace() == "blog-rome" && kind == "PersistentVolumeClaim":
				return apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumeclaims"}, "", errors.New("ValidatingAdmissionPolicy 'x' denied request: failed to configure policy"))
			case object.GetNamespace() == "blog-turin" && kind == "Pod":
				return context.DeadlineExceeded
			}
			return nil
		},
	})
	all := []string{"Service", "ConfigMap", "Secret", "Pod", "PersistentVolumeClaim"}
	facts := DoctorFacts(t.Context(), c, MakeDryRuns)
	if diff := cmp.Diff(map[string][]string{"blog-rome": all, "blog-turin": all[:4]}, kinds); diff != "" {
		t.Error(diff)
	}
	refused := slices.DeleteFunc(facts.DryRuns, func(run doctor.DryRun) bool { return run.Refusal == "" })
	if len(refused) != 1 || refused[0].Namespace != "blog-rome" || !strings.Contains(refused[0].Refusal, "failed to configure policy") {
		t.Errorf("refused: %+v", refused)
	}
	want := []string{"there was no reply, or no time left, in namespaces blog-turin: context deadline exceeded"}
	if diff := cmp.Diff(want, facts.Unchecked); diff != "" || len(facts.Unread) > 0 {
		t.Errorf("it could not check: %s, and could not read %v", diff, facts.Unread)
	}
	denied = "secrets"
	facts = DoctorFacts(t.Context(), c, MakeDryRuns)
	want = append([]string{"you may not create secrets in namespaces blog-rome, blog-turin"}, want...)
	if diff := cmp.Diff(want, facts.Unchecked); diff != "" || len(facts.Unread) > 0 {
		t.Errorf("without a right it could not check: %s, and could not read %v", diff, facts.Unread)
	}
	kinds = map[string][]string{}
	if DoctorFacts(t.Context(), c, AskPeers); len(kinds) > 0 {
		t.Errorf("the dashboard makes dry runs: %v", kinds)
	}
}
