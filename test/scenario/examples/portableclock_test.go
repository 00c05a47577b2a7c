package examples

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// ahead is the difference between the clocks.
const ahead = 10 * time.Minute

// clockAhead makes milan's kubelet report the conditions of an app's pods as if the clock of its node were ahead. All nodes of a machine share a clock, so a
// webhook of milan's API server changes the times that the kubelet writes. It listens in the network of milan's node.
type clockAhead struct {
	*story.Story
	// namespace is the namespace of the pods in milan.
	namespace, app string

	server *httptest.Server
	config *admissionregistrationv1.MutatingWebhookConfiguration
}

func (c *clockAhead) start() error {
	var pods corev1.PodList
	if err := c.Milan.List(c.Context(), &pods, client.InNamespace("liqo")); err != nil {
		return err
	}
	i := slices.IndexFunc(pods.Items, func(pod corev1.Pod) bool { return pod.Spec.HostNetwork && story.Ready(pod) })
	if i < 0 {
		return errors.New("no pod of namespace liqo is in the network of milan's node")
	}
	node, err := playground.In(&pods.Items[i])
	if err != nil {
		return err
	}
	listener, err := node.Listen(c.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	c.server = httptest.NewUnstartedServer(http.HandlerFunc(moveTimes))
	if err := c.server.Listener.Close(); err != nil {
		return err
	}
	c.server.Listener = listener
	c.server.StartTLS()
	c.Cleanup(c.server.Close)
	c.config = &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "portable-clock"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "clock.portable.example.org",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL: new(c.server.URL), CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.server.Certificate().Raw}),
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/status"}},
			}},
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: c.namespace}},
			ObjectSelector:          &metav1.LabelSelector{MatchLabels: map[string]string{"app": c.app}},
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
	return c.Milan.Create(c.Context(), c.config)
}

// seen returns an error unless the time of the pod's readiness in milan is in the future.
func (c *clockAhead) seen(ctx context.Context) error {
	var pods corev1.PodList
	if err := c.Milan.List(ctx, &pods, client.InNamespace(c.namespace), client.MatchingLabels{"app": c.app}); err != nil {
		return err
	}
	for _, pod := range pods.Items {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue && time.Until(condition.LastTransitionTime.Time) > ahead/2 {
				return nil
			}
		}
	}
	return fmt.Errorf("milan has no pod of %s that is Ready in the future", c.app)
}

func (c *clockAhead) end() error { return client.IgnoreNotFound(c.Milan.Delete(c.Context(), c.config)) }

// moveTimes handles an admission request for the status of a pod. It changes only the times of conditions: a kubelet would revert other times that are not its
// own.
func moveTimes(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	var pod corev1.Pod
	err := json.NewDecoder(r.Body).Decode(&review)
	if err == nil {
		err = json.Unmarshal(review.Request.Object.Raw, &pod)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	review.Request = nil
	type change struct {
		Op    string      `json:"op"`
		Path  string      `json:"path"`
		Value metav1.Time `json:"value"`
	}
	var changes []change
	for i, condition := range pod.Status.Conditions {
		if at := condition.LastTransitionTime; time.Until(at.Time) < ahead/2 { // the time has not been changed yet
			changes = append(changes, change{"replace", fmt.Sprintf("/status/conditions/%d/lastTransitionTime", i), metav1.NewTime(at.Add(ahead))})
		}
	}
	if len(changes) > 0 {
		review.Response.PatchType = new(admissionv1.PatchTypeJSONPatch)
		review.Response.Patch, err = json.Marshal(changes)
	}
	if err == nil {
		err = json.NewEncoder(w).Encode(review)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
