package cli

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/peering"
)

// doctorWorld is the healthy cluster rome on a bare API server. It provides resources to cluster turin and uses resources of it. No controller and no
// kubelet runs, so the objects hold what these would write.
type doctorWorld struct {
	t          *testing.T // of the current state
	client     client.Client
	kubeconfig string
	// identityKubeconfig is the file with the kubeconfig that rome has for turin. The API server of turin is that of rome.
	identityKubeconfig string
	// healthy holds the objects as they are while nothing is wrong.
	healthy map[client.Object]client.Object

	manager, gateway, kubelet           *appsv1.Deployment
	fabric                              *appsv1.DaemonSet
	hooks                               *admissionregistrationv1.MutatingWebhookConfiguration
	backend                             *discoveryv1.EndpointSlice
	leader, lock, heartbeat             *coordinationv1.Lease
	told                                *corev1.ConfigMap
	pods, otherPods, external, remapped *ipamv1alpha1.Network
	foreign                             *corev1beta1.ForeignCluster
	tenant                              *authv1beta1.Tenant
	identity                            *authv1beta1.Identity
	secret                              *corev1.Secret
	rights                              *rbacv1.RoleBinding
	asked, granted                      *authv1beta1.ResourceSlice
	configuration                       *networkingv1beta1.Configuration
	connection                          *networkingv1beta1.Connection
	virtual                             *offloadingv1beta1.VirtualNode
	node                                *corev1.Node
	shop                                *offloadingv1beta1.NamespaceOffloading
}

// put creates objects and records them as healthy.
func (w *doctorWorld) put(objects ...client.Object) {
	w.t.Helper()
	for _, object := range objects {
		w.healthy[object] = object.DeepCopyObject().(client.Object)
	}
	w.back(objects...)()
}

// back returns a function that writes objects as they are while nothing is wrong. Rows use it for what an administrator, the peer, a controller or a
// kubelet writes once the fault is gone.
func (w *doctorWorld) back(objects ...client.Object) func() {
	return func() {
		w.t.Helper()
		for _, object := range objects {
			want := w.healthy[object].DeepCopyObject().(client.Object)
			err := w.read(object)
			if apierrors.IsNotFound(err) {
				created := want.DeepCopyObject().(client.Object)
				err = w.client.Create(w.t.Context(), created)
				want.SetResourceVersion(created.GetResourceVersion())
			} else {
				want.SetResourceVersion(object.GetResourceVersion())
			}
			if err != nil {
				w.t.Fatal(err)
			}
			w.write(want)
			if err := w.read(object); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// read replaces an object by what the API server has. A plain Get would keep the fields that the API server has not any more.
func (w *doctorWorld) read(object client.Object) error {
	fresh := reflect.New(reflect.TypeOf(object).Elem())
	if err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(object), fresh.Interface().(client.Object)); err != nil {
		return err
	}
	reflect.ValueOf(object).Elem().Set(fresh.Elem())
	return nil
}

// write updates an object and, for a kind that has one, its status.
func (w *doctorWorld) write(object client.Object) {
	w.t.Helper()
	status := object.DeepCopyObject().(client.Object)
	if err := w.client.Update(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
	status.SetResourceVersion(object.GetResourceVersion())
	if err := w.client.Status().Update(w.t.Context(), status); client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
}

// change changes an object, including its status.
func (w *doctorWorld) change(object client.Object, to func()) {
	w.t.Helper()
	if err := w.read(object); err != nil {
		w.t.Fatal(err)
	}
	to()
	w.write(object)
}

// remove deletes an object.
func (w *doctorWorld) remove(object client.Object) {
	w.t.Helper()
	if err := w.client.Delete(w.t.Context(), object, client.GracePeriodSeconds(0)); err != nil {
		w.t.Fatal(err)
	}
}

// liqoctl runs a command on the cluster and returns the exit code and everything that it prints.
func (w *doctorWorld) liqoctl(command string) (int, string) {
	w.t.Helper()
	code, out, errOut := run(w.t, append(strings.Fields(command), "--kubeconfig", w.kubeconfig)...)
	return code, out + errOut
}

// execute runs the command of a cure: any of liqoctl, and the few of kubectl that cures name. Each of the latter changes one object.
func (w *doctorWorld) execute(command string) {
	w.t.Helper()
	program, rest, _ := strings.Cut(command, " ")
	if program == "liqoctl" {
		controllers(w.t, w.client) // the command waits until they have done their part
		if code, said := w.liqoctl(rest + " --skip-confirm --timeout 20s"); code != 0 {
			w.t.Fatalf("the cure %q fails with code %d: %s", command, code, said)
		}
		return
	}
	words, namespace := strings.Fields(rest), ""
	if len(words) > 2 && words[0] == "-n" {
		namespace, words = words[1], words[2:]
	}
	if len(words) > 2 && w.executeOn(namespace, words) {
		return
	}
	if at := len(words) - 2; at > 0 && words[at] == "-l" { // the gateways of turin, of which there is one
		for key, value := range w.healthy[w.gateway].GetLabels() {
			if words[at+1] == key+"="+value {
				words = append(words[:at-1], "deployment/"+w.gateway.Name)
				break
			}
		}
	}
	verb, subject := strings.Join(words[:len(words)-1], " "), words[len(words)-1]
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: strings.TrimPrefix(subject, "deployment/")}}
	switch {
	case program == "kubectl" && verb == "scale --replicas=1":
		one := int32(1)
		w.change(deployment, func() { deployment.Spec.Replicas, deployment.Status = &one, available(one) })
	case program == "kubectl" && verb == "rollout restart":
		w.change(deployment, func() {
			deployment.Spec.Template.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "now"}
		})
	case program == "kubectl" && verb == "uncordon":
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: subject}}
		w.change(node, func() { node.Spec.Unschedulable = false })
	default:
		w.t.Fatalf("the cure %q can not be executed: add the command here, or a function cured to the row", command)
	}
}

// executeOn runs kubectl delete, annotate or patch, in a namespace and with the words after it. It returns false for another command.
func (w *doctorWorld) executeOn(namespace string, words []string) bool {
	w.t.Helper()
	kinds := map[string]client.Object{
		"tenants.authentication.liqo.io": &authv1beta1.Tenant{}, "ips.ipam.liqo.io": &ipamv1alpha1.IP{},
		"virtualnodes.offloading.liqo.io": &offloadingv1beta1.VirtualNode{}, "storageclasses": &storagev1.StorageClass{}, "pv": &corev1.PersistentVolume{},
	}
	object := kinds[words[1]]
	if object == nil {
		return false
	}
	object.SetNamespace(namespace)
	object.SetName(words[2])
	switch words[0] {
	case "delete":
		w.remove(object)
	case "annotate": // TYPE NAME KEY-
		w.change(object, func() {
			annotations := object.GetAnnotations()
			delete(annotations, strings.TrimSuffix(words[3], "-"))
			object.SetAnnotations(annotations)
		})
	case "patch": // TYPE NAME --type=json -p 'PATCH', or TYPE NAME --patch 'PATCH'
		kind := types.StrategicMergePatchType
		if words[3] == "--type=json" {
			kind = types.JSONPatchType
		}
		if err := w.client.Patch(w.t.Context(), object, client.RawPatch(kind, []byte(strings.Trim(words[len(words)-1], "'")))); err != nil {
			w.t.Fatal(err)
		}
	default:
		return false
	}
	return true
}

// restarted fails the test unless the pods of a Deployment were restarted. The next restart is another one.
func (w *doctorWorld) restarted(deployment *appsv1.Deployment) {
	w.t.Helper()
	if err := w.read(deployment); err != nil {
		w.t.Fatal(err)
	}
	if deployment.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] == "" {
		w.t.Fatalf("Deployment %s was not restarted", deployment.Name)
	}
	w.back(deployment)()
}

// mayRenew reports whether the identity of rome has its rights in turin.
func (w *doctorWorld) mayRenew() bool {
	return allowed(w.t, w.identityKubeconfig, "create", authv1beta1.GroupVersion.Group, "renews", w.rights.Namespace)
}

// available is the status of a Deployment whose pods are all available. The generation is beyond that of any change which follows.
func available(replicas int32) appsv1.DeploymentStatus {
	return appsv1.DeploymentStatus{ObservedGeneration: 1000, Replicas: replicas, UpdatedReplicas: replicas, ReadyReplicas: replicas, AvailableReplicas: replicas}
}

func microTime(at time.Time) *metav1.MicroTime {
	out := metav1.NewMicroTime(at)
	return &out
}

// certificateBetween returns a self-signed certificate for a time, from now on.
func (w *doctorWorld) certificateBetween(from, until time.Duration) []byte {
	w.t.Helper()
	now := time.Now()
	return certificateFor(w.t, now.Add(from), now.Add(until))
}

// certificateFor returns a self-signed certificate for a time.
func certificateFor(t *testing.T, from, until time.Time) []byte {
	t.Helper()
	return selfSigned(t, "x", from, until)
}

// selfSigned returns a self-signed certificate, in PEM.
func selfSigned(t *testing.T, name string, from, until time.Time) []byte {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: from, NotAfter: until}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// keyPair returns a key pair in PEM, always the same one for a seed of one character.
func keyPair(t *testing.T, seed string) (private, public []byte) {
	t.Helper()
	private, public, err := peering.NewKey(peering.Ed25519, strings.NewReader(strings.Repeat(seed, 64)))
	if err != nil {
		t.Fatal(err)
	}
	return private, public
}

func (w *doctorWorld) file(path string) []byte {
	w.t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatal(err)
	}
	return data
}
