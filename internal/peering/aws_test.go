package peering

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
)

func awsOfMilan() *authv1beta1.AwsConfig {
	return &authv1beta1.AwsConfig{
		AwsAccessKeyID: "AKIAIOSFODNN7EXAMPLE", AwsSecretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", AwsRegion: "eu-west-1",
		AwsClusterName: "milan-eks", AwsUserArn: "arn:aws:iam::111122223333:user/rome",
	}
}

func identityOnEKS() *authv1beta1.Identity {
	return &authv1beta1.Identity{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tnm", Name: "controlplane-milan"},
		Spec: authv1beta1.IdentitySpec{ClusterID: "milan", Namespace: "liqo-tenant-rome", AuthParams: authv1beta1.AuthParams{
			APIServer: "https://0123.gr7.eu-west-1.eks.amazonaws.com", AwsConfig: awsOfMilan(),
		}},
	}
}

// TestKubeconfigForEKS: the kubeconfig is the one that "aws eks update-kubeconfig" writes, with the access key in it, and has no key of this cluster.
func TestKubeconfigForEKS(t *testing.T) {
	want := `apiVersion: v1
kind: Config
clusters:
- name: "milan"
  cluster:
    server: "https://0123.gr7.eu-west-1.eks.amazonaws.com"
users:
- name: "controlplane-milan"
  user:
    exec:
      apiVersion: "client.authentication.k8s.io/v1beta1"
      interactiveMode: Never
      command: "aws"
      args:
      - "--region"
      - "eu-west-1"
      - "eks"
      - "get-token"
      - "--cluster-name"
      - "milan-eks"
      - "--output"
      - "json"
      env:
      - name: "AWS_ACCESS_KEY_ID"
        value: "AKIAIOSFODNN7EXAMPLE"
      - name: "AWS_SECRET_ACCESS_KEY"
        value: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
      - name: "AWS_SESSION_TOKEN"
        value: ""
contexts:
- name: "milan"
  context:
    cluster: "milan"
    user: "controlplane-milan"
    namespace: "liqo-tenant-rome"
current-context: "milan"
`
	got, err := Kubeconfig(identityOnEKS(), []byte("key"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRefusedAwsConfigs: a refusal names the field and the cure, and no refusal has the secret key in it.
func TestRefusedAwsConfigs(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*authv1beta1.AuthParams)
		want   string
	}{
		"key ID":  {func(p *authv1beta1.AuthParams) { p.AwsConfig.AwsAccessKeyID = "rome" }, "authParams.awsConfig.awsAccessKeyID (4 characters)"},
		"keys":    {func(p *authv1beta1.AuthParams) { p.AwsConfig.AwsAccessKeyID = p.AwsConfig.AwsSecretAccessKey }, "authParams.awsConfig.awsAccessKeyID (40 characters)"},
		"secret":  {func(p *authv1beta1.AuthParams) { p.AwsConfig.AwsSecretAccessKey += " " }, "authParams.awsConfig.awsSecretAccessKey (41 characters)"},
		"region":  {func(p *authv1beta1.AuthParams) { p.AwsConfig.AwsRegion = "Ireland" }, `authParams.awsConfig.awsRegion is "Ireland", want the region of the EKS cluster`},
		"cluster": {func(p *authv1beta1.AuthParams) { p.AwsConfig.AwsClusterName = "--debug" }, `authParams.awsConfig.awsClusterName is "--debug", want the name`},
		"user":    {func(p *authv1beta1.AuthParams) { p.AwsConfig.AwsUserArn = "rome" }, `authParams.awsConfig.awsUserArn is "rome", want the ARN of an IAM user`},
		"certificate": {func(p *authv1beta1.AuthParams) { p.SignedCRT = []byte("c") },
			"authParams has signedCRT and awsConfig, want one of them: remove the others"},
	} {
		params := identityOnEKS().Spec.AuthParams.DeepCopy()
		c.change(params)
		err := CheckAuthParams(params)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "wJalr") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestAccessKeysAreNotRenewed: an access key has no end that this cluster knows of. Nothing asks the provider for another one, warns of its end, or
// waits for it. A wrong one is reported.
func TestAccessKeysAreNotRenewed(t *testing.T) {
	identity := identityOnEKS()
	identity.Status.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: "s"}
	params := &identity.Spec.AuthParams
	credential, err := CredentialOf(params)
	if err != nil || credential.Kind != KindAccessKey || credential.Expires() {
		t.Errorf("credential %+v, %v", credential, err)
	}
	now := at(1000 * time.Hour)
	if !Granted(params) || CheckCredentialHolder(params, newHolder(t, Ed25519).key) != nil {
		t.Error("it grants nothing, or is bound to a key of this cluster")
	}
	rome := newHolder(t, Ed25519)
	certificate := &authv1beta1.AuthParams{SignedCRT: rome.certificate(t, ControlPlaneSubject("rome"), 3000*time.Hour)}
	renew := &authv1beta1.Renew{Status: authv1beta1.RenewStatus{AuthParams: certificate}}
	for _, renew := range []*authv1beta1.Renew{nil, renew} {
		if plan, err := PlanRenewal(identity, renew, now.Time); err != nil || plan != (Renewal{}) {
			t.Errorf("plan %+v, %v", plan, err)
		}
	}
	if trouble := identityTrouble(identity, &Probe{Up: true}, now) + renewalTrouble(identity, now); trouble != "" {
		t.Errorf("trouble %q", trouble)
	}
	if again := (&Facts{Identity: identity}).Again(then); again != 0 {
		t.Errorf("the ForeignCluster is compiled again after %s", again)
	}
	if Newer(certificate, params) || !Newer(params, certificate) || Newer(params, params) || !Newer(params, &authv1beta1.AuthParams{}) {
		t.Error("which of two is newer is wrong")
	}
	adopted := certificate.DeepCopy()
	Adopt(adopted, params)
	if adopted.APIServer = params.APIServer; CheckAuthParams(adopted) != nil {
		t.Errorf("adopted: %v", CheckAuthParams(adopted))
	}
	Adopt(adopted, certificate)
	if err := CheckAuthParams(adopted); err != nil || adopted.AwsConfig != nil {
		t.Errorf("back to a certificate: %v", err)
	}
	params.AwsConfig.AwsRegion = ""
	if _, err := PlanRenewal(identity, nil, now.Time); err == nil || !strings.HasPrefix(err.Error(), "spec: authParams.awsConfig.awsRegion is ") {
		t.Errorf("without a region: %v", err)
	}
}

// TestEKSThatGrantsNothing: the condition names the cluster of AWS, the user and the cures, for both answers that EKS gives, and no key.
func TestEKSThatGrantsNothing(t *testing.T) {
	identity := identityOnEKS()
	identity.Status.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: "s"}
	for _, probe := range []*Probe{{Up: true, Refused: "forbidden"}, {Message: "asking https://x/livez: 401 Unauthorized", Unauthorized: true}} {
		got := identityTrouble(identity, probe, at(0))
		for _, want := range []string{
			"Identity tnm/controlplane-milan grants nothing: " + probe.Refused + probe.Message, "milan-eks", "arn:aws:iam::111122223333:user/rome",
			"aws eks list-access-entries", "spec.authParams.awsConfig",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("no %q in %q", want, got)
			}
		}
		if strings.Contains(got, "wJalr") {
			t.Errorf("the secret key is in %q", got)
		}
	}
	for _, probe := range []*Probe{nil, {Up: true}, {Message: "connection refused"}} {
		if got := identityTrouble(identity, probe, at(0)); got != "" {
			t.Errorf("%+v: %q", probe, got)
		}
	}
}
