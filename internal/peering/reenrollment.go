package peering

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
)

// AnnotationReenroll is an annotation of a control-plane Identity with a credential. It asks this cluster to enroll once more, with the invitation in the
// same namespace, and to replace the credential if the provider does not accept it any more. The value is that of ReenrollmentOf: it stands for this credential and this
// invitation only. The credential is replaced in place, because deleting the Identity would withdraw what this cluster uses of the provider.
const AnnotationReenroll = "liqo.io/reenroll"

// ReenrollmentOf returns the value of AnnotationReenroll, a digest of the credential to be replaced and of the invitation to be used. With another
// credential or a changed invitation the annotation has no effect.
func ReenrollmentOf(present *authv1beta1.AuthParams, invitation *corev1.Secret) string {
	data, err := json.Marshal(struct {
		Present    *authv1beta1.AuthParams
		Invitation map[string][]byte
	}{present, invitation.Data})
	if err != nil { // these types have no value that JSON can't express
		return ""
	}
	sum := sha256.Sum256(data)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// WantsReenrollment reports whether AnnotationReenroll of an Identity is for its present credential and this invitation.
func WantsReenrollment(identity *authv1beta1.Identity, invitation *corev1.Secret) bool {
	wanted := identity.Annotations[AnnotationReenroll]
	return wanted != "" && identity.Spec.Type == authv1beta1.IdentityControlPlane && Granted(&identity.Spec.AuthParams) &&
		wanted == ReenrollmentOf(&identity.Spec.AuthParams, invitation)
}

// NeedsReenrollment reports whether the provider seems not to accept the credential of a granted Identity any more: the credential has expired, or the
// ForeignCluster of the provider (nil if there is none) says so. The controller of Identities finds out by a request before it replaces anything.
func NeedsReenrollment(identity *authv1beta1.Identity, foreign *corev1beta1.ForeignCluster, now time.Time) bool {
	present := &identity.Spec.AuthParams
	if !Granted(present) || present.AwsConfig != nil || identity.Status.KubeconfigSecretRef == nil {
		return false
	}
	if credential, err := CredentialOf(present); err == nil && now.After(credential.Until) {
		return true
	}
	return foreign != nil && slices.ContainsFunc(foreign.Status.Modules.Authentication.Conditions, func(c corev1beta1.Condition) bool {
		return c.Type == corev1beta1.AuthIdentityControlPlaneStatus && c.Status != corev1beta1.StatusReady
	})
}

// Acceptance is the outcome of a request to the API server of a provider with a credential.
type Acceptance int

// The outcomes of a request with a credential.
const (
	// Unanswered means that the API server of the provider gave no response that says anything about the credential.
	Unanswered Acceptance = iota
	// Accepted means that the credential has access to the tenant namespace.
	Accepted
	// Rejected means that the API server does not know the credential, or that the credential has no access.
	Rejected
)

// Errors of replacements of a credential.
var (
	// ErrCredentialWorks means that the provider accepts the present credential, which therefore stays.
	ErrCredentialWorks = errors.New("the provider accepts the present credential, so it is not replaced")
	// ErrCredentialUnknown means that nothing shows whether the provider accepts the present credential.
	ErrCredentialUnknown = errors.New("the API server of the provider does not respond, and the present credential has not expired: so it is unknown whether it has to be replaced")
)

// CheckReplaceable returns nil if another enrollment may replace the present credential of an Identity, and otherwise an error that says why not.
// accepted is the outcome of a request with the present credential.
func CheckReplaceable(present *authv1beta1.AuthParams, accepted Acceptance, now time.Time) error {
	if present.AwsConfig != nil {
		return errors.New("an enrollment does not replace an access key of AWS: a new one belongs into spec.authParams.awsConfig")
	}
	switch accepted {
	case Accepted:
		return ErrCredentialWorks
	case Rejected:
		return nil
	case Unanswered:
	}
	if credential, err := CredentialOf(present); err != nil || (credential.Expires() && now.After(credential.Until)) {
		return nil
	}
	return ErrCredentialUnknown
}

// CheckReplacement returns nil if the parameters that a provider offered in another enrollment belong to the provider that granted the present ones,
// and hold a credential that is valid at the given time. Whether the provider accepts that credential shows only in a request.
//
// A consumer identifies a provider by the CA of its API server, as liqoctl peer does. A token alone does not replace the provider: who has stolen the key of
// an authentication service, or holds a token for a cluster of the same ID, has another CA.
func CheckReplacement(present, offered *authv1beta1.AuthParams, now time.Time) error {
	credential, err := CredentialOf(offered)
	switch {
	case err != nil:
		return err
	case offered.AwsConfig != nil:
		return errors.New("it is an access key of AWS, which no enrollment grants")
	case now.After(credential.Until):
		return fmt.Errorf("its %s has expired too, at %s: check the controller manager of the provider, and the clocks", credential.Kind, credential.Until.UTC().Format(time.RFC3339))
	}
	if len(present.CA) == 0 && len(offered.CA) == 0 { // the CAs of the system vouch for a host only, so it has to be the same
		if had, has := hostOf(present.APIServer), hostOf(offered.APIServer); had != has {
			return fmt.Errorf("its API server is %.253s, and that of the present credential is %.253s: %w", has, had, errOtherProvider)
		}
		return nil
	}
	if !trustsNoMore(present.CA, offered.CA) {
		return fmt.Errorf("its API server has the CA %s, and that of the present credential has the CA %s: %w", fingerprintOf(offered.CA), fingerprintOf(present.CA), errOtherProvider)
	}
	return nil
}

var errOtherProvider = errors.New("a token replaces no provider. If two clusters have the same ID, unpeer the first one, or install one of them with another --cluster-id. " +
	"If it is one cluster with a new CA or address, its administrator or a kubeconfig of it is needed: liqoctl authenticate --remote-kubeconfig FILE --force")

// trustsNoMore reports whether each certificate of the PEM bundle offered is one of the bundle present. A bundle without a certificate makes no certificate trusted.
func trustsNoMore(present, offered []byte) bool {
	known := map[string]bool{}
	for _, certificate := range bundle(present) {
		known[string(certificate)] = true
	}
	certificates := bundle(offered)
	for _, certificate := range certificates {
		if !known[string(certificate)] {
			return false
		}
	}
	return len(certificates) > 0
}

// bundle returns the DER encodings of the PEM blocks in data.
func bundle(data []byte) [][]byte {
	var out [][]byte
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return out
		}
		out = append(out, block.Bytes)
	}
}

func fingerprintOf(ca []byte) string {
	if len(ca) == 0 {
		return "of the system"
	}
	return Fingerprint(ca)
}

func hostOf(server string) string {
	parsed, err := url.Parse(server)
	if err != nil {
		return server
	}
	return strings.ToLower(parsed.Host)
}
