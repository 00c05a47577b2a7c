package moving

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/crypto/bcrypt"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/workload"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/storage"
	"liqo.io/liqo/internal/storage/move"
)

const (
	// urgentBetween is the interval between two reads while the application is stopped.
	urgentBetween = 100 * time.Millisecond
	// finishTime is how long one request to finish may take, and maxUnheard the number of failures until the pod is replaced.
	finishTime = time.Minute
	maxUnheard = 3
)

// volumeMove executes the steps of one move.
type volumeMove struct {
	*session.Cluster
	request *move.Request
	report  *moveReport
	// alive restarts the time of --timeout, nil if there is none.
	alive func()
	// logs returns the last lines that a pod wrote.
	logs func(ctx context.Context, namespace, pod string) ([]byte, error)
	// exec executes a command in a pod.
	exec func(ctx context.Context, namespace, pod string, command ...string) (string, error)
	// late is the text of the error that ends the command if it waits too long for something, and since is when this wait began.
	late  string
	since time.Time
	// unheard counts consecutive failures of exec.
	unheard int
	// first holds the result of the first read, nil before that. Later reads only get the objects that may have changed, by name.
	first *move.State
	// protection is what the command knows about the protection of the claim's name while the claim is replaced.
	protection protection
	// rehearsed means that the API server has checked the objects that the move will create. refusals are those that it refuses.
	rehearsed bool
	refusals  []move.Refusal
}

// moveVolume moves a volume. lines prints the progress as JSON instead of text.
func moveVolume(ctx context.Context, c *session.Cluster, request *move.Request, lines bool, alive func()) (err error) {
	if request.Image == "" {
		if request.Image, err = workload.ImageBeside(ctx, c, moverImage); err != nil {
			return err
		}
	}
	if request.StorageNamespace, request.RealClass, err = storageOf(ctx, c); err != nil {
		return err
	}
	if request.Credentials, err = moveCredentials(); err != nil {
		return err
	}
	v := &volumeMove{Cluster: c, request: request, alive: alive, report: newMoveReport(c.Console, lines, time.Now), exec: inMover(c)}
	v.logs = func(ctx context.Context, namespace, pod string) ([]byte, error) { // others may have added containers to the pod
		return workload.LastLine(ctx, c, namespace, pod, move.Container)
	}
	v.report.live = request.Live
	defer v.report.end()
	return v.run(ctx)
}

// storageOf returns the namespace of the claims with the data in this cluster, and the StorageClass of their volumes, from the arguments of the controller
// manager. The class is empty for the default class of the cluster.
func storageOf(ctx context.Context, c *session.Cluster) (namespace, class string, err error) {
	var deployment appsv1.Deployment
	if err := c.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: session.ControllerManager}, &deployment); err != nil {
		return "", "", fmt.Errorf("reading Deployment %s in namespace %s: %w", session.ControllerManager, c.Namespace, err)
	}
	for _, argument := range deployment.Spec.Template.Spec.Containers[0].Args {
		if value, found := strings.CutPrefix(argument, "--storage-namespace="); found {
			namespace = value
		} else if value, found := strings.CutPrefix(argument, "--real-storage-class="); found {
			class = value
		}
	}
	if namespace != "" {
		return namespace, class, nil
	}
	return "", "", errors.New("the Liqo of this cluster has no storage: upgrade it with value storage.enabled=true")
}

// moveCredentials returns the data of a new Secret: one password that encrypts the copy, and one that grants access to it.
func moveCredentials() (map[string][]byte, error) {
	random := make([]byte, 64)
	if _, err := rand.Read(random); err != nil {
		return nil, fmt.Errorf("creating a password: %w", err)
	}
	encryption, access := hex.EncodeToString(random[:32]), hex.EncodeToString(random[32:])
	hash, err := bcrypt.GenerateFromPassword([]byte(access), bcrypt.DefaultCost)
	if err != nil {
		return nil, fmt.Errorf("creating a password: %w", err)
	}
	const user = "liqo"
	return map[string][]byte{
		move.KeyPassword: []byte(encryption), move.KeyUser: []byte(user), move.KeyUserPassword: []byte(access),
		move.KeyHTPasswd: []byte(user + ":" + string(hash) + "\n"),
	}, nil
}

// run executes steps until the move is done, or can't go on.
func (v *volumeMove) run(ctx context.Context) error {
	last, pause := "nothing was read yet", session.RetryPause
	for read := false; ; {
		before := v.report.last
		state, err := v.read(ctx)
		if err != nil {
			v.late = "" // while reads fail, the user cannot correct what the step waits for
		} else {
			read = true
			var step move.Step
			step, err = v.step(ctx, state)
			if v.report.last.differs(&before) {
				v.progressed()
			}
			if err == nil && v.isLate(&step) {
				return v.Err(errors.Join(step.Late, v.discard(ctx, step.Unused)))
			}
			if pause = session.RetryPause; step.Urgent {
				pause = urgentBetween
			}
			switch {
			case err == nil && step.Err != nil:
				return v.Err(errors.Join(step.Err, v.discard(ctx, step.Unused)))
			case err == nil && (step.Done || v.endsDryRun(&step)):
				return nil
			case err == nil && step.Action != move.Nothing:
				continue
			case err == nil && step.Stopped != "":
				last = step.Why + ". " + capital(step.Stopped)
			case err == nil:
				last = step.Why
			}
		}
		// A conflict means that another client changed an object since it was read. The next decision reads the changed object.
		again := apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || read && session.Transient(err)
		switch {
		case err == nil || ctx.Err() != nil: // an error after the timeout is only a consequence of the timeout
		case !again:
			return v.Err(err)
		default:
			last = err.Error()
		}
		select {
		case <-ctx.Done():
			return v.Waited(context.Cause(ctx), context.Cause(ctx), "PersistentVolumeClaim "+v.request.Name+" to be moved", last)
		case <-time.After(pause):
		}
	}
}

// progressed restarts the time of --timeout.
func (v *volumeMove) progressed() {
	if v.alive != nil {
		v.alive()
	}
}

// discard deletes the objects that a refused move leaves unused.
func (v *volumeMove) discard(ctx context.Context, unused []storage.Object) error {
	var problems []error
	for _, each := range unused {
		if object, ok := each.(client.Object); ok {
			problems = append(problems, kube.Delete(ctx, v, object))
		}
	}
	return errors.Join(problems...)
}

// endsDryRun reports whether a dry run ends with a step. It executes one step only, because later steps depend on pods that it does not create. A wait that
// can fail only reads, so a dry run waits like a real run, and fails if that fails.
func (v *volumeMove) endsDryRun(step *move.Step) bool { return v.IsDryRun() && step.Late == nil }

// isLate reports whether the command has waited too long for what a step waits for.
func (v *volumeMove) isLate(step *move.Step) bool {
	text := ""
	if step.Late != nil {
		text = step.Late.Error()
	}
	if text != v.late {
		v.late, v.since = text, time.Now()
	}
	return text != "" && time.Since(v.since) > step.Within
}

// finish requests the pods of a step to copy the rest and to end. If a pod cannot be reached, it is deleted. Its replacement copies everything without
// such a request, which takes longer.
func (v *volumeMove) finish(ctx context.Context, step *move.Step) error {
	for _, pod := range step.Pods {
		within, cancel := context.WithTimeout(ctx, finishTime)
		_, err := v.exec(within, pod.Namespace, pod.Name, "/volume-mover", "finish")
		late := within.Err() != nil // the pod is still copying
		cancel()
		switch {
		case err == nil:
			v.unheard = 0
			continue
		case ctx.Err() != nil:
			return ctx.Err()
		case late:
			v.progressed()
			return nil
		}
		if v.unheard++; v.unheard < maxUnheard {
			select {
			case <-ctx.Done():
			case <-time.After(session.RetryPause):
			}
			return nil
		}
		v.unheard = 0
		v.report.failed(step.Phase, "replacing pod %s in namespace %s, because the request to finish failed: %v", pod.Name, pod.Namespace, err)
		return kube.Delete(ctx, v, pod)
	}
	return v.collect(ctx, step.Pods)
}

// collect reads the reports of the pods that it requested to finish, and stores them in annotations. This saves the seconds until the pods have
// ended and their status contains the reports. It asks all pods at the same time, because the application is stopped meanwhile.
func (v *volumeMove) collect(ctx context.Context, pods []*corev1.Pod) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, pod := range pods {
		group.Go(func() error { return v.keepReport(ctx, pod) })
	}
	return group.Wait()
}

// keepReport reads the report of one pod, and stores it in an annotation. If the pod does not respond, nothing is stored: the command asks again, unless the
// status of the pod has the report before that.
func (v *volumeMove) keepReport(ctx context.Context, pod *corev1.Pod) error {
	within, cancel := context.WithTimeout(ctx, finishTime)
	report, err := v.exec(within, pod.Namespace, pod.Name, "/volume-mover", "result")
	cancel()
	var next *corev1.Pod
	if err == nil {
		next, err = move.Reported(pod, report)
	}
	if err != nil {
		select {
		case <-ctx.Done():
		case <-time.After(session.RetryPause):
		}
		return nil
	}
	if err := v.Patch(ctx, next, client.MergeFrom(pod)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("keeping the report of %s: %w", v.Name(pod), err)
	}
	return nil
}

// step decides about the state, and executes the decision.
func (v *volumeMove) step(ctx context.Context, state *move.State) (move.Step, error) {
	step := move.Next(*state)
	if step.Pod != nil {
		line := v.progressOf(ctx, step.Pod)
		if line == nil && step.Pod.Status.Phase == corev1.PodRunning { // it may copy, although its log can't be read
			v.progressed()
		}
		v.report.progress(&step, line)
	} else {
		v.report.step(&step)
	}
	if step.Err == nil && !step.Done && v.endsDryRun(&step) {
		v.Info("Then the command would replace the claim, copy its data to node %s, compare the checksums, and delete the old data", v.request.Node)
	}
	return step, v.write(ctx, &step)
}

// write executes the write of a step.
func (v *volumeMove) write(ctx context.Context, step *move.Step) error {
	if step.Action == move.Nothing {
		return nil
	}
	if step.Action == move.Finish {
		return v.finish(ctx, step)
	}
	object, ok := step.Object.(client.Object)
	if !ok {
		return fmt.Errorf("%T is not an object", step.Object)
	}
	var err error
	switch step.Action {
	case move.Create:
		v.Mark(object)
		// The claim was replaced before, so the move is interrupted if a quota or an admission policy refuses the pod.
		if err = v.Create(ctx, object); apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
			err = fmt.Errorf("%w. The data was not moved. Correct the problem and run the command again, or cancel the move by moving the claim to the node that still has the data", err)
		}
	case move.Delete:
		var options []client.DeleteOption
		if step.Force {
			options = append(options, client.GracePeriodSeconds(0))
		}
		if step.Unchanged {
			return kube.DeleteUnchanged(ctx, v, object, options...)
		}
		return kube.Delete(ctx, v, object, options...)
	default:
		old, ok := step.Old.(client.Object)
		if !ok {
			return fmt.Errorf("%T is not an object", step.Old)
		}
		err = v.Patch(ctx, object, client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{}))
	}
	if err != nil {
		return fmt.Errorf("%s: %s %s: %w", step.Why, step.Action, v.Name(object), err)
	}
	return nil
}

// inMover returns the function that executes a command in a pod of a move.
func inMover(c *session.Cluster) func(ctx context.Context, namespace, pod string, command ...string) (string, error) {
	return func(ctx context.Context, namespace, pod string, command ...string) (string, error) {
		return workload.RunIn(ctx, c, namespace, pod, move.Container, command...)
	}
}
