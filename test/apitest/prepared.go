package apitest

import (
	"bytes"
	"crypto/sha256"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"liqo.io/liqo/internal/kube"
)

// kept are the keys that the prepared etcd keeps, in order: those of the CRDs, and of what every API server creates before it is
// ready.
var kept = []string{
	"/registry/apiextensions.k8s.io/customresourcedefinitions/",
	"/registry/apiregistration.k8s.io/apiservices/",
	"/registry/clusterrolebindings/",
	"/registry/clusterroles/",
	"/registry/rolebindings/",
	"/registry/roles/",
}

// file is a file without the zeros at its end: etcd allocates much more than it writes.
type file struct {
	Path    string
	Content []byte
	Size    int64
}

// prepared are the files of a stopped etcd. The first test of this process that needs them creates them.
//
// A third of the processor time of a start was spent on creating the default roles of Kubernetes and our CRDs. So one server creates these, and the
// etcds of all servers start from copies of its files. All other objects are deleted before. In particular, each server creates its own namespaces,
// because liqoctl distinguishes clusters by the UID of namespace kube-system. All servers share only the UIDs of CRDs, APIServices and default roles.
var prepared struct {
	once  sync.Once
	files []file
}

// writePrepared writes the prepared files to a new folder.
func writePrepared(t testing.TB, programs, folder string) {
	t.Helper()
	prepared.once.Do(func() { prepared.files = load(t, programs) })
	if len(prepared.files) == 0 {
		t.Fatal("the files of etcd were not prepared: see the first test that failed")
	}
	for _, f := range prepared.files {
		path := filepath.Join(folder, f.Path)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, f.Content, 0o600))
		must(t, os.Truncate(path, f.Size))
	}
}

// load returns the prepared files from folder bin of the module. If there are none for these CRDs, programs and this package, it
// prepares them, while other processes wait.
func load(t testing.TB, programs string) []file {
	t.Helper()
	cache := filepath.Join(root(t), "bin", "etcd")
	must(t, os.MkdirAll(cache, 0o755))
	lock, err := os.Create(filepath.Join(cache, "lock"))
	must(t, err)
	defer func() { _ = lock.Close() }() // which unlocks it
	must(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX))

	path := filepath.Join(cache, key(t, programs))
	content, err := os.ReadFile(path)
	if err == nil {
		var files []file
		must(t, gob.NewDecoder(bytes.NewReader(content)).Decode(&files))
		return files
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	files := prepare(t, programs)
	outdated, err := filepath.Glob(filepath.Join(cache, "files-*"))
	must(t, err)
	for _, name := range outdated {
		must(t, os.Remove(name))
	}
	var encoded bytes.Buffer
	must(t, gob.NewEncoder(&encoded).Encode(files))
	must(t, os.WriteFile(path+".new", encoded.Bytes(), 0o600))
	must(t, os.Rename(path+".new", path))
	return files
}

// key returns a text that identifies everything that the prepared files depend on.
func key(t testing.TB, programs string) string {
	t.Helper()
	hash := sha256.New()
	for _, name := range []string{"etcd", "kube-apiserver"} {
		path, err := filepath.EvalSymlinks(filepath.Join(programs, name))
		must(t, err)
		info, err := os.Stat(path)
		must(t, err)
		fmt.Fprintln(hash, path, info.Size(), info.ModTime().UnixNano())
	}
	definitions, err := filepath.Glob(filepath.Join(root(t), "charts", "liqo", "crds", "*"))
	must(t, err)
	code, err := filepath.Glob(filepath.Join(root(t), "test", "apitest", "*.go"))
	must(t, err)
	for _, path := range append(definitions, code...) {
		content, err := os.ReadFile(path)
		must(t, err)
		fmt.Fprintln(hash, path, len(content))
		_, _ = hash.Write(content)
	}
	return fmt.Sprintf("files-%x", hash.Sum(nil)[:8])
}

// must ends the test with an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// prepare starts a server, installs the CRDs, stops the server, and returns the files of its etcd.
func prepare(t testing.TB, programs string) []file {
	t.Helper()
	data := filepath.Join(t.TempDir(), "etcd")
	server := start(t, programs, data)
	if _, err := envtest.InstallCRDs(server.Config, definitions(t)); err != nil {
		t.Fatalf("installing the CRDs of Liqo: %v", err)
	}
	server.apiServer.stop(t, syscall.SIGKILL)
	from := "/registry/"
	for _, prefix := range slices.Concat(kept, []string{"/registry0"}) {
		deleteKeys(t, server.etcdURL, from, prefix)
		from = prefix[:len(prefix)-1] + "0" // follows all keys with the prefix, as 0 follows the slash
	}
	server.etcd.stop(t, syscall.SIGTERM) // etcd first writes its pending data

	var files []file
	must(t, fs.WalkDir(os.DirFS(data), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(data, path))
		files = append(files, file{Path: path, Content: bytes.Clone(bytes.TrimRight(content, "\x00")), Size: int64(len(content))})
		return err
	}))
	return files
}

// deleteKeys deletes keys of etcd, from one to before another.
func deleteKeys(t testing.TB, etcdURL, from, before string) {
	t.Helper()
	body, err := json.Marshal(map[string][]byte{"key": []byte(from), "range_end": []byte(before)})
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.Post(etcdURL+"/v3/kv/deleterange", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatalf("deleting keys of etcd: %v", err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("deleting keys of etcd: %s", response.Status)
	}
}

// definitions are the CRDs of Liqo, and how to wait for them.
func definitions(t testing.TB) envtest.CRDInstallOptions {
	return envtest.CRDInstallOptions{
		Paths: []string{filepath.Join(root(t), "charts", "liqo", "crds")}, ErrorIfPathMissing: true, Scheme: kube.NewScheme(),
		PollInterval: 20 * time.Millisecond, MaxTime: time.Minute,
	}
}

// waitForDefinitions waits until an API server serves the CRDs that its etcd contains.
func waitForDefinitions(t testing.TB, config *rest.Config) {
	t.Helper()
	options := definitions(t)
	if err := envtest.ReadCRDFiles(&options); err != nil {
		t.Fatalf("reading the CRDs of Liqo: %v", err)
	}
	if err := envtest.WaitForCRDs(config, options.CRDs, options); err != nil {
		t.Fatalf("waiting for the CRDs of Liqo to be served: %v", err)
	}
}
