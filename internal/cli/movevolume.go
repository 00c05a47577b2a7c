package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/crypto/bcrypt"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/storage/move"
)

// volumeMove executes the steps of one move.
type volumeMove struct {
	*cluster
	request *move.Request
	report  *moveReport
	// logs returns the last lines that a pod wrote.
	logs func(ctx context.Context, namespace, pod string) ([]byte, error)
	// first is what the first read found, nil before. Later reads get by name what may change since.
	first *move.State
}

// moveVolume moves a volume. lines prints the progress as JSON instead of text.
func (c *cluster) moveVolume(ctx context.Context, request *move.Request, lines bool) (err error) {
	if request.Image == "" {
		if request.Image, err = c.imageBeside(ctx, moverImage); err != nil {
			return err
		}
	}
	if request.StorageNamespace, err = c.storageNamespace(ctx); err != nil {
		return err
	}
	if request.Credentials, err = moveCredentials(); err != nil {
		return err
	}
	v := &volumeMove{cluster: c, request: request, report: newMoveReport(c.Console, lines, time.Now), logs: c.lastLine}
	defer v.report.end()
	return v.run(ctx)
}

// storageNamespace returns the namespace of the claims with the data in this cluster, from the arguments of the controller manager.
func (c *cluster) storageNamespace(ctx context.Context) (string, error) {
	var deployment appsv1.Deployment
	if err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: deploymentName}, &deployment); err != nil {
		return "", fmt.Errorf("reading Deployment %s in namespace %s: %w", deploymentName, c.namespace, err)
	}
	for _, argument := range deployment.Spec.Template.Spec.Containers[0].Args {
		if namespace, found := strings.CutPrefix(argument, "--storage-namespace="); found {
			return namespace, nil
		}
	}
	return "", errors.New("the Liqo of this cluster has no storage: upgrade it with value storage.enabled=true")
}

// moveCredentials returns the data of a new Secret: the password that encrypts the copy, and that for the access to it.
func moveCredentials() (map[string][]byte, error) {
	random := make([]byte, 64)
	if _, err := rand.Read(random); err != nil {
		return nil, fmt.Errorf("making a password: %w", err)
	}
	encryption, access := hex.EncodeToString(random[:32]), hex.EncodeToString(random[32:])
	hash, err := bcrypt.GenerateFromPassword([]byte(access), bcrypt.DefaultCost)
	if err != nil {
		return nil, fmt.Errorf("making a password: %w", err)
	}
	const user = "liqo"
	return map[string][]byte{
		move.KeyPassword: []byte(encryption), move.KeyUser: []byte(user), move.KeyUserPassword: []byte(access),
		move.KeyHTPasswd: []byte(user + ":" + string(hash) + "\n"),
	}, nil
}

// run executes steps until the move is done, or can't go on.
func (v *volumeMove) run(ctx context.Context) error {
	last := "nothing was read yet"
	for read := false; ; {
		state, err := v.read(ctx)
		if err == nil {
			read = true
			var step move.Step
			step, err = v.step(ctx, state)
			switch {
			case err == nil && (step.Done || step.Err != nil || v.isDryRun()):
				return v.error(step.Err)
			case err == nil && step.Action != move.Nothing:
				continue
			case err == nil:
				last = step.Why
			}
		}
		// A conflict means that somebody else wrote an object since it was read: the next decision takes that into account.
		again := apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || read && transient(err)
		switch {
		case err == nil || ctx.Err() != nil: // an error at the end of the time is only that the time is over
		case !again:
			return v.error(err)
		default:
			last = err.Error()
		}
		select {
		case <-ctx.Done():
			return v.waited(ctx, ctx.Err(), "PersistentVolumeClaim "+v.request.Name+" to be moved", last)
		case <-time.After(patienceBetween):
		}
	}
}

// step decides about the state, and executes the decision.
func (v *volumeMove) step(ctx context.Context, state *move.State) (move.Step, error) {
	step := move.Next(*state)
	if step.Pod != nil {
		v.report.progress(&step, v.progressOf(ctx, step.Pod))
	} else {
		v.report.step(&step)
	}
	if step.Err == nil && !step.Done && v.isDryRun() {
		v.Info("Then the claim would be replaced, its data be copied to node %s, and the old data be deleted once both checksums are equal", v.request.Node)
	}
	return step, v.write(ctx, &step)
}

// write executes the write of a step.
func (v *volumeMove) write(ctx context.Context, step *move.Step) error {
	if step.Action == move.Nothing {
		return nil
	}
	object, ok := step.Object.(client.Object)
	if !ok {
		return fmt.Errorf("%T is not an object", step.Object)
	}
	var err error
	switch step.Action {
	case move.Create:
		addTo(object.GetLabels, object.SetLabels, v.labels)
		addTo(object.GetAnnotations, object.SetAnnotations, v.annotations)
		// The claim is replaced before anything is created, so a quota or an admission policy that refuses a pod cuts the move off.
		if err = v.Create(ctx, object); apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
			err = fmt.Errorf("%w. The data is where it was; cure this and run the command again, or give the move up by moving the claim to where its data is", err)
		}
	case move.Delete:
		return kube.Delete(ctx, v, object)
	default:
		old, ok := step.Old.(client.Object)
		if !ok {
			return fmt.Errorf("%T is not an object", step.Old)
		}
		err = v.Patch(ctx, object, client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{}))
	}
	if err != nil {
		return fmt.Errorf("%s: %s %s: %w", step.Why, step.Action, v.name(object), err)
	}
	return nil
}

// lastLine returns the last line that a pod wrote.
func (c *cluster) lastLine(ctx context.Context, namespace, pod string) ([]byte, error) {
	set, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	one := int64(1)
	return set.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{TailLines: &one}).DoRaw(ctx)
}
