package explain

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"liqo.io/liqo/internal/kube"
)

// dumpedClusters reads the facts about clusters from a directory with one folder per cluster.
func dumpedClusters(directory, liqoNamespace string) ([]cluster, error) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, fmt.Errorf("reading manifests: %w", err)
	}
	scheme := kube.NewScheme()
	var clusters []cluster
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		objects, err := dumpedObjects(filepath.Join(directory, entry.Name()), scheme)
		if err != nil {
			return nil, err
		}
		c, err := readExplained(entry.Name(), liqoNamespace, func(list client.ObjectList) error { return pick(objects, list, scheme) })
		if err != nil {
			return nil, err
		}
		clusters = append(clusters, c)
	}
	if len(clusters) < 2 {
		return nil, fmt.Errorf("%s has %d folders, and needs one for each cluster, named by its ID: %s/rome/objects.yaml, %s/milan/objects.yaml",
			directory, len(clusters), directory, directory)
	}
	return clusters, nil
}

// dumpedObjects reads all manifests in a folder: YAML or JSON files with single objects, several objects, or lists. It skips unknown kinds.
func dumpedObjects(folder string, scheme *runtime.Scheme) ([]runtime.Object, error) {
	decoder := serializer.NewCodecFactory(scheme).UniversalDeserializer()
	var all []runtime.Object
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
		for {
			document, err := documents.Read()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err == nil {
				all, err = decodeInto(all, document, decoder)
			}
			if err != nil {
				return fmt.Errorf("reading manifest %s: %w", path, err)
			}
		}
	})
	return all, err
}

func decodeInto(all []runtime.Object, document []byte, decoder runtime.Decoder) ([]runtime.Object, error) {
	data, err := yaml.ToJSON(document)
	if err != nil {
		return nil, err
	}
	var list struct {
		Kind  string            `json:"kind"`
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, err
	}
	if list.Items != nil {
		for _, item := range list.Items {
			if all, err = decodeInto(all, item, decoder); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	if list.Kind == "" {
		return all, nil // an empty document
	}
	object, _, err := decoder.Decode(data, nil, nil)
	if runtime.IsNotRegisteredError(err) {
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	return append(all, object), nil
}

// pick fills a list with the objects of its kind.
func pick(objects []runtime.Object, list client.ObjectList, scheme *runtime.Scheme) error {
	want, err := apiutil.GVKForObject(list, scheme)
	if err != nil {
		return err
	}
	var items []runtime.Object
	for _, object := range objects {
		gvk, err := apiutil.GVKForObject(object, scheme)
		if err != nil {
			return err
		}
		if gvk.GroupVersion() == want.GroupVersion() && gvk.Kind+"List" == want.Kind {
			items = append(items, object)
		}
	}
	return meta.SetList(list, items)
}
