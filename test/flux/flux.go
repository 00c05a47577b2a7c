package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/strvals"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/internal/install/installer"
)

// release contains the fields of a HelmRelease that this program supports. Any other field is an error, so that no example uses a field that has no
// effect here.
type release struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	Spec struct {
		Interval    metav1.Duration `json:"interval"`
		ReleaseName string          `json:"releaseName"`
		Timeout     metav1.Duration `json:"timeout"`
		Chart       struct {
			Spec struct {
				Chart     string `json:"chart"`
				Version   string `json:"version"`
				SourceRef struct {
					Kind string `json:"kind"`
					Name string `json:"name"`
				} `json:"sourceRef"`
			} `json:"spec"`
		} `json:"chart"`
		Install struct {
			CRDs string `json:"crds"`
		} `json:"install"`
		Upgrade struct {
			CRDs string `json:"crds"`
		} `json:"upgrade"`
		Values map[string]any `json:"values"`
	} `json:"spec"`
}

func run(ctx context.Context, chart, set string, in io.Reader, out io.Writer) error {
	releases, others, err := split(in)
	if err != nil {
		return err
	}
	if len(releases) == 0 {
		return errors.New("the standard input has no HelmRelease")
	}
	for _, r := range releases {
		if err := install(ctx, chart, set, r); err != nil {
			return fmt.Errorf("installing HelmRelease %s/%s: %w", r.Metadata.Namespace, r.Metadata.Name, err)
		}
	}
	_, err = out.Write(others)
	return err
}

// split separates the HelmReleases in a stream of manifests from the other manifests, which it returns as a stream. It drops HelmRepositories,
// because this program downloads no charts.
func split(in io.Reader) (releases []release, others []byte, err error) {
	repositories := map[string]bool{}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(in))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, fmt.Errorf("reading manifests: %w", err)
		}
		var kind struct {
			metav1.TypeMeta   `json:",inline"`
			metav1.ObjectMeta `json:"metadata"`
		}
		if err := yaml.Unmarshal(document, &kind); err != nil {
			return nil, nil, fmt.Errorf("reading a manifest: %w", err)
		}
		switch kind.APIVersion + " " + kind.Kind {
		case "source.toolkit.fluxcd.io/v1 HelmRepository":
			repositories[kind.Name] = true
		case "helm.toolkit.fluxcd.io/v2 HelmRelease":
			var r release
			if err := yaml.UnmarshalStrict(document, &r); err != nil {
				return nil, nil, fmt.Errorf("reading HelmRelease %s: %w", kind.Name, err)
			}
			releases = append(releases, r)
		default:
			others = append(append(others, "---\n"...), bytes.TrimLeft(document, "\n")...)
		}
	}
	for _, r := range releases {
		if from := r.Spec.Chart.Spec.SourceRef; from.Kind != "HelmRepository" || !repositories[from.Name] {
			return nil, nil, fmt.Errorf("HelmRelease %s takes its chart from %s %q, which is not there", r.Metadata.Name, from.Kind, from.Name)
		}
	}
	return releases, others, nil
}

func install(ctx context.Context, folder, set string, r release) error {
	chart, err := installer.Chart(folder)
	if err != nil {
		return err
	}
	if chart.Name() != r.Spec.Chart.Spec.Chart {
		return fmt.Errorf("folder %s has chart %s, want %s", folder, chart.Name(), r.Spec.Chart.Spec.Chart)
	}
	values := r.Spec.Values
	if values == nil {
		values = map[string]any{}
	}
	if err := strvals.ParseInto(set, values); err != nil {
		return fmt.Errorf("reading -set %s: %w", set, err)
	}
	getter := genericclioptions.NewConfigFlags(false)
	getter.Namespace = &r.Metadata.Namespace
	config := action.NewConfiguration(action.ConfigurationSetLogger(slog.NewTextHandler(io.Discard, nil)))
	if err := config.Init(getter, r.Metadata.Namespace, "secret"); err != nil {
		return fmt.Errorf("initializing Helm: %w", err)
	}
	timeout := r.Spec.Timeout.Duration
	if timeout == 0 {
		timeout = 5 * time.Minute // Flux's default
	}
	if _, err := action.NewHistory(config).Run(r.Spec.ReleaseName); err == nil {
		run := action.NewUpgrade(config)
		run.Namespace, run.ServerSideApply, run.WaitStrategy, run.Timeout = r.Metadata.Namespace, "auto", kube.StatusWatcherStrategy, timeout
		_, err := run.RunWithContext(ctx, r.Spec.ReleaseName, chart, values)
		return err
	}
	run := action.NewInstall(config)
	// Flux applies the Namespace before the HelmRelease in it. Here, the Namespace is applied later, with the other manifests.
	run.ReleaseName, run.Namespace, run.CreateNamespace, run.ServerSideApply = r.Spec.ReleaseName, r.Metadata.Namespace, true, true
	run.WaitStrategy, run.Timeout = kube.StatusWatcherStrategy, timeout
	_, err = run.RunWithContext(ctx, chart, values)
	return err
}
