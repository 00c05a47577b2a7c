package scenario

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"helm.sh/helm/v4/pkg/action"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/kube"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/install"
	"liqo.io/liqo/internal/install/installer"
	"liqo.io/liqo/test/playground"
)

// helmWait is the --timeout of Helm's commands, all of which use --wait.
const helmWait = 2 * time.Minute

// helm returns Helm's configuration for a cluster, as the helm command uses it, without any code of liqoctl.
func helm(c *playground.Cluster) (*action.Configuration, error) {
	namespace := api.Namespace
	getter := genericclioptions.NewConfigFlags(false)
	getter.KubeConfig, getter.Namespace = &c.Kubeconfig, &namespace
	config := action.NewConfiguration(action.ConfigurationSetLogger(slog.NewTextHandler(io.Discard, nil)))
	if err := config.Init(getter, namespace, "secret"); err != nil {
		return nil, fmt.Errorf("initializing Helm for %s: %w", c.ID, err)
	}
	return config, nil
}

// packed returns the chart of a build with a version, as "helm package" creates it.
func packed(ctx context.Context, built playground.Machine) (*chartv2.Chart, error) {
	version, err := built.Version(ctx)
	if err != nil {
		return nil, err
	}
	chart, err := installer.Chart(filepath.Join(built.Root, "charts", "liqo"))
	if err != nil {
		return nil, err
	}
	chart.Metadata.Version, chart.Metadata.AppVersion = version, version
	return chart, nil
}

// helmInstall runs "helm install" with the values that liqoctl of that build generates.
func helmInstall(ctx context.Context, built playground.Machine, c *playground.Cluster) error {
	file := filepath.Join(built.Dir, c.ID+"-values.yaml")
	if _, err := built.Liqoctl(ctx, "install", "--kubeconfig", c.Kubeconfig, "--cluster-id", c.ID, "--only-output-values", "--dump-values-path", file); err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var values map[string]any
	if err := yaml.Unmarshal(text, &values); err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	chart, err := packed(ctx, built)
	if err != nil {
		return err
	}
	config, err := helm(c)
	if err != nil {
		return err
	}
	run := action.NewInstall(config)
	run.ReleaseName, run.Namespace, run.CreateNamespace, run.ServerSideApply = install.Release, api.Namespace, true, true
	run.WaitStrategy, run.Timeout = kube.StatusWatcherStrategy, helmWait
	_, err = run.RunWithContext(ctx, chart, values)
	return err
}

// helmUpgrade runs "helm upgrade --reset-then-reuse-values" with additional values.
func helmUpgrade(ctx context.Context, built playground.Machine, c *playground.Cluster, values map[string]any) error {
	chart, err := packed(ctx, built)
	if err != nil {
		return err
	}
	config, err := helm(c)
	if err != nil {
		return err
	}
	run := action.NewUpgrade(config)
	run.Namespace, run.ResetThenReuseValues, run.ServerSideApply = api.Namespace, true, "auto"
	run.WaitStrategy, run.Timeout = kube.StatusWatcherStrategy, helmWait
	_, err = run.RunWithContext(ctx, install.Release, chart, values)
	return err
}

// helmRollback runs "helm rollback".
func helmRollback(c *playground.Cluster) error {
	config, err := helm(c)
	if err != nil {
		return err
	}
	run := action.NewRollback(config)
	run.ServerSideApply, run.WaitStrategy, run.Timeout = "auto", kube.StatusWatcherStrategy, helmWait
	return run.Run(install.Release)
}

// helmUninstall runs "helm uninstall".
func helmUninstall(c *playground.Cluster) error {
	config, err := helm(c)
	if err != nil {
		return err
	}
	run := action.NewUninstall(config)
	run.WaitStrategy, run.Timeout = kube.StatusWatcherStrategy, helmWait
	_, err = run.Run(install.Release)
	return err
}
