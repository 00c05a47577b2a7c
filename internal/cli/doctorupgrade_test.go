package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/internal/cli/inspect"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/install"
	"liqo.io/liqo/test/apitest"
	"liqo.io/liqo/test/clitest"
)

// upgradeWorld is an installation on an API server, whose objects are broken.
type upgradeWorld struct {
	t *testing.T
	c client.Client
}

// change changes an object. The pods of the installation are kept running meanwhile, which changes the same objects.
func (u *upgradeWorld) change(object client.Object, to func()) {
	u.t.Helper()
	apitest.Eventually(u.t, 30*time.Second, "the fault", func() error {
		if err := u.c.Get(u.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		to()
		return u.c.Update(u.t.Context(), object)
	})
}

// upgradeState is a fault that liqoctl upgrade cures. brokenStates has one of the same name.
type upgradeState struct {
	name       string
	begin      func(*upgradeWorld)
	says, cure string
	// command is that of the cure.
	command string
}

func upgradeStates() []upgradeState {
	in := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "liqo", Name: name} }
	return []upgradeState{
		{
			"an upgrade stopped halfway",
			func(u *upgradeWorld) {
				fabric := &appsv1.DaemonSet{ObjectMeta: in("liqo-fabric")}
				u.change(fabric, func() { fabric.Spec.Template.Spec.Containers[0].Image = "registry.liqo.io/liqo/fabric:v0.0.1" })
			},
			"-n liqo daemonset/liqo-fabric: component of version v0.0.1, the installation is", "finish the upgrade: liqoctl upgrade", "upgrade",
		},
		{
			"the installation has no version",
			func(u *upgradeWorld) {
				manager := &appsv1.Deployment{ObjectMeta: in(session.ControllerManager)}
				u.change(manager, func() { delete(manager.Labels, session.LabelVersion) })
			},
			"the Deployment of the controller manager has no label with the version", "liqoctl upgrade sets it", "upgrade",
		},
		{
			"a process was killed while it changed the installation",
			func(u *upgradeWorld) {
				holder, lasts, then := "liqoctl-on-a-laptop", int32(1), metav1.NewMicroTime(time.Now().Add(-time.Hour))
				clitest.Create(u.t, u.c, &coordinationv1.Lease{ObjectMeta: in(install.LockName), Spec: coordinationv1.LeaseSpec{
					HolderIdentity: &holder, LeaseDurationSeconds: &lasts, AcquireTime: &then, RenewTime: &then,
				}})
			},
			"liqoctl-on-a-laptop changed the installation in namespace liqo and ended before it was done", "run the interrupted command again", "upgrade",
		},
		{
			"a custom resource definition is missing",
			func(u *upgradeWorld) {
				crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "vkoptionstemplates.offloading.liqo.io"}}
				if err := u.c.Delete(u.t.Context(), crd); err != nil {
					u.t.Fatal(err)
				}
				apitest.Eventually(u.t, 30*time.Second, "the definition to be gone", func() error {
					if err := u.c.Get(u.t.Context(), client.ObjectKeyFromObject(crd), crd.DeepCopy()); !apierrors.IsNotFound(err) {
						return errors.Join(errors.New("it is there"), err)
					}
					return nil
				})
			},
			"custom resource definition vkoptionstemplates.offloading.liqo.io is missing", "liqoctl upgrade brings the definitions of this version", "upgrade",
		},
		{
			"a custom resource definition is of an earlier release",
			func(u *upgradeWorld) {
				crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "namespacemaps.offloading.liqo.io"}}
				if err := u.c.Get(u.t.Context(), client.ObjectKeyFromObject(crd), crd); err != nil {
					u.t.Fatal(err)
				}
				delete(crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties, "releasedMapping")
				if err := u.c.Update(u.t.Context(), crd); err != nil {
					u.t.Fatal(err)
				}
			},
			"custom resource definition namespacemaps.offloading.liqo.io lacks field spec.releasedMapping of version v1beta1", "liqoctl upgrade brings the definitions of this version", "upgrade",
		},
		{
			"the installation has other pod ranges than the cluster",
			func(u *upgradeWorld) {
				told := &corev1.ConfigMap{ObjectMeta: in(inspect.NetworkConfigMap)}
				u.change(told, func() { told.Data["POD_CIDRS"] = "10.9.0.0/16" })
			},
			"the installation is configured with the pod range 10.9.0.0/16, the Networks have 10.244.0.0/16",
			"liqoctl upgrade --pod-cidr 10.244.0.0/16", "upgrade --pod-cidr 10.244.0.0/16",
		},
	}
}

// TestUpgradeCuresOnAPIServer breaks an installation in each of the ways for which doctor prints liqoctl upgrade as the cure. After the upgrade
// doctor prints what it printed before the fault. Nothing runs in the pods, so other findings of doctor stay.
func TestUpgradeCuresOnAPIServer(t *testing.T) {
	t.Parallel()
	kubeconfig, c := bareServer(t)
	keepRunning(t.Context(), t, c)
	liqoctl := func(command string) (int, string) {
		code, out, errOut := run(t, append(strings.Fields(command), "--kubeconfig", kubeconfig)...)
		return code, out + errOut
	}
	if code, said := liqoctl("install --cluster-id rome"); code != 0 {
		t.Fatalf("install, code %d: %s", code, said)
	}
	var networks ipamv1alpha1.NetworkList
	if err := c.List(t.Context(), &networks, client.InNamespace("liqo")); err != nil || len(networks.Items) == 0 {
		t.Fatalf("the installation has %d Networks, %v", len(networks.Items), err)
	}
	for i := range networks.Items { // as the IPAM does
		networks.Items[i].Status.CIDR = networks.Items[i].Spec.CIDR
		if err := c.Status().Update(t.Context(), &networks.Items[i]); err != nil {
			t.Fatal(err)
		}
	}
	_, healthy := liqoctl("doctor")
	u := &upgradeWorld{t, c}
	for _, fault := range upgradeStates() {
		fault.begin(u)
		_, said := liqoctl("doctor")
		_, below, found := strings.Cut(said, fault.says)
		_, cure, _ := strings.Cut(below, "cure: ")
		if !found || !strings.HasPrefix(cure, fault.cure) {
			t.Errorf("%s: no %q with the cure %q in\n%s", fault.name, fault.says, fault.cure, said)
		}
		if code, said := liqoctl(fault.command); code != 0 {
			t.Fatalf("%s: %s ends with code %d: %s", fault.name, fault.command, code, said)
		}
		apitest.Eventually(t, 30*time.Second, "doctor to print what it printed before: "+fault.name, func() error {
			_, said := liqoctl("doctor")
			if diff := cmp.Diff(withoutProgress(healthy), withoutProgress(said)); diff != "" {
				return fmt.Errorf("(-before +after):\n%s", diff)
			}
			return nil
		})
	}
}
