package workload

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/cli/session"
)

// ImageBeside returns the image with the given name from the registry, path and tag of the controller manager's image.
func ImageBeside(ctx context.Context, c *session.Cluster, name string) (string, error) {
	var deployment appsv1.Deployment
	if err := c.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: session.ControllerManager}, &deployment); err != nil {
		return "", fmt.Errorf("reading Deployment %s in namespace %s: %w", session.ControllerManager, c.Namespace, err)
	}
	return siblingImage(deployment.Spec.Template.Spec.Containers[0].Image, name, c.Version)
}

// siblingImage replaces the last part of an image's path and keeps its tag. If the image has no tag, it uses the version as the tag. An image with a digest has no
// sibling: a tag can be changed in the registry, and the administrator chose an installation that does not change with it.
func siblingImage(image, name, version string) (string, error) {
	path, last := "", image
	if i := strings.LastIndex(image, "/"); i >= 0 {
		path, last = image[:i+1], image[i+1:]
	}
	if strings.Contains(last, "@") {
		return "", fmt.Errorf("image %s of Deployment %s is pinned by digest, and the digest of image %s is not known: name it with --image %s%s@sha256:DIGEST. "+
			"File oci/images/index.json of the release and make push list the digests", image, session.ControllerManager, name, path, name)
	}
	if _, tag, tagged := strings.Cut(last, ":"); tagged {
		version = tag
	}
	if version == "" {
		return path + name, nil
	}
	return path + name + ":" + version, nil
}
