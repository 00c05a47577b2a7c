package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"time"
)

var date = time.Unix(1700000000, 0)

func files() []File {
	return []File{{"b", 0o755, []byte("program")}, {"a", 0o644, []byte("text")}, {"tmp", fs.ModeDir | fs.ModeSticky | 0o777, nil}}
}

func TestTheSameFilesGiveTheSameBytes(t *testing.T) {
	for name, write := range map[string]func([]File, time.Time) ([]byte, error){"tar.gz": TarGz, "zip": Zip} {
		first, err := write(files(), date)
		if err != nil {
			t.Fatal(err)
		}
		shuffled := files()
		shuffled[0], shuffled[1] = shuffled[1], shuffled[0]
		second, err := write(shuffled, date.In(time.FixedZone("elsewhere", 3600)))
		if err != nil || !bytes.Equal(first, second) {
			t.Errorf("%s: other bytes for the same files in another order and time zone: %v", name, err)
		}
		if _, err := write(append(files(), File{Name: "a"}), date); err == nil || !strings.Contains(err.Error(), `"a"`) {
			t.Errorf("%s: a name that is there twice: %v", name, err)
		}
	}
}

func TestTarHasModesAndDates(t *testing.T) {
	data, err := TarGz(files(), date)
	if err != nil {
		t.Fatal(err)
	}
	uncompressed, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for r := tar.NewReader(uncompressed); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got[header.Name] = header.Mode
		if !header.ModTime.Equal(date) || header.Uid != 0 {
			t.Errorf("%s has date %v and owner %d", header.Name, header.ModTime, header.Uid)
		}
	}
	if len(got) != 3 || got["a"] != 0o644 || got["b"] != 0o755 || got["tmp/"] != 0o1777 {
		t.Errorf("modes %v", got)
	}
}

func TestZipHasContents(t *testing.T) {
	data, err := Zip(files()[:2], date)
	if err != nil {
		t.Fatal(err)
	}
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	text, err := fs.ReadFile(r, "b")
	if err != nil || string(text) != "program" || r.File[1].Mode() != 0o755 {
		t.Errorf("%q %v %v", text, r.File[1].Mode(), err)
	}
}
