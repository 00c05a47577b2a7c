package moving

import (
	"context"
	"fmt"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/storage"
	"liqo.io/liqo/internal/storage/move"
)

const (
	// settledAfter is how long the API server must have refused other claims before the claim is deleted. A cluster may have several API servers. Each of them
	// learns by its own watch, usually within milliseconds, that the namespace names the move.
	settledAfter = 3 * time.Second
	// probedFor is how long a command relies on the result of a dry run.
	probedFor = 10 * time.Second
)

// protection is what a command knows about the protection of the claim's name.
type protection struct {
	// refused is when the API server began to refuse other claims, zero if it does not. probed is the time of the last dry run.
	refused, probed time.Time
	// problem is the result of the last dry run, if it was not as needed.
	problem string
}

// readProtection reads the namespace, and whether the API server refuses other claims of the name.
func (v *volumeMove) readProtection(ctx context.Context, s *move.State) error {
	home := &corev1.Namespace{}
	if err := v.Get(ctx, client.ObjectKey{Name: s.Namespace}, home); err != nil {
		return fmt.Errorf("reading namespace %s: %w", s.Namespace, err)
	}
	s.Home = home
	for _, object := range []client.Object{&admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}} {
		object.SetName(storage.PolicyMovingClaims)
		switch err := v.Get(ctx, client.ObjectKey{Name: storage.PolicyMovingClaims}, object); {
		case apierrors.IsNotFound(err):
			s.Unprotected = fmt.Sprintf("this cluster has no %s, which keeps others from creating an empty claim while the claim is replaced: "+
				"upgrade Liqo in this cluster (liqoctl upgrade) with value storage.enabled=true", v.Name(object))
			return nil
		case err != nil:
			return fmt.Errorf("reading %s: %w", v.Name(object), err)
		}
	}
	other, own := s.Probes()
	switch {
	case other == nil:
		v.protection = protection{}
		return nil
	case v.IsDryRun(): // it deletes no claim
		s.Enforced = true
		return nil
	}
	now := time.Now()
	if p := &v.protection; p.refused.IsZero() || now.Sub(p.probed) > probedFor {
		p.probed = now
		if p.problem = v.probe(ctx, other, own); p.problem != "" {
			p.refused = time.Time{}
		} else if p.refused.IsZero() {
			p.refused = now
		}
	}
	s.Unprotected = v.protection.problem
	s.Enforced = !v.protection.refused.IsZero() && now.Sub(v.protection.refused) >= settledAfter
	return nil
}

// probe creates two claims in a dry run, to check policy storage.PolicyMovingClaims: it must refuse other, a claim of another user, and permit own, the claim
// of the move. probe returns what is wrong, empty if nothing is.
func (v *volumeMove) probe(ctx context.Context, other, own *corev1.PersistentVolumeClaim) string {
	dry := client.NewDryRunClient(v.WithWatch)
	switch err := dry.Create(ctx, other); {
	case err == nil || apierrors.IsAlreadyExists(err):
		return "in a dry run, it permits another claim"
	case !ofPolicy(err):
		return fmt.Sprintf("in a dry run, the creation of another claim failed for another reason: %v", err)
	}
	if err := dry.Create(ctx, own); ofPolicy(err) {
		return fmt.Sprintf("in a dry run, it refuses the claim of the move too: %v. The command needs the right to update PersistentVolumes", err)
	}
	return ""
}

// ofPolicy reports whether policy storage.PolicyMovingClaims refused a request.
func ofPolicy(err error) bool {
	return err != nil && strings.Contains(err.Error(), "'"+storage.PolicyMovingClaims+"'")
}
