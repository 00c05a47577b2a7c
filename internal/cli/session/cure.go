package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
)

// Cured appends a hint for the user to the error of a request. Commands that know a more specific hint append it themselves.
func Cured(err error) error {
	if cure := cureOf(err); cure != "" {
		return fmt.Errorf("%w\n%s", err, cure)
	}
	return err
}

func cureOf(err error) string {
	dial, waiting := (*net.OpError)(nil), (*WaitError)(nil)
	switch {
	case errors.As(err, &dial) && dial.Op == "dial":
		return "Check that the cluster runs, and that the kubeconfig and context given are the right ones"
	case errors.As(err, &waiting):
		return "" // the error says what is missing
	case apierrors.IsUnauthorized(err):
		return "The API server does not know the user of the kubeconfig: log in again, or use another kubeconfig"
	case apierrors.IsForbidden(err):
		return "The user of the kubeconfig lacks this right: use the kubeconfig of an administrator of the cluster, or ask for the right"
	case meta.IsNoMatchError(err), unserved(err):
		return "The cluster does not know this kind of objects: liqoctl doctor lists what is missing, liqoctl install installs it"
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return "Another client changed the object at the same time: run the command again"
	case apierrors.IsTimeout(err), apierrors.IsServerTimeout(err), apierrors.IsServiceUnavailable(err), apierrors.IsTooManyRequests(err), apierrors.IsInternalError(err):
		return "The API server is busy, or just starting: run the command again"
	case errors.Is(err, context.DeadlineExceeded), IsTimeout(err):
		return "The API server did not answer in time: check whether it is healthy, and give it more time (--timeout, --request-timeout)"
	}
	return ""
}

// unserved reports whether the server does not serve the path of the request. It returns false if only the object is missing.
func unserved(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || status.Status().Code != http.StatusNotFound || status.Status().Details == nil {
		return false
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Message == "404 page not found" {
			return true
		}
	}
	return false
}

// IsTimeout reports whether the error is a timeout of the network.
func IsTimeout(err error) bool {
	timeout := net.Error(nil)
	return errors.As(err, &timeout) && timeout.Timeout()
}
