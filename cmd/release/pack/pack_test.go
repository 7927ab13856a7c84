package pack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

var at = time.Unix(1764000000, 0)

func TestArchiveDependsOnFilesOnly(t *testing.T) {
	files := []File{{"b", Plain, []byte("text")}, {"a", Executable, []byte("program")}}
	turned := slices.Clone(files)
	slices.Reverse(turned)
	for name, write := range map[string]func(io.Writer, time.Time, []File) error{"tar.gz": TarGz, "zip": Zip} {
		var first, second, later bytes.Buffer
		err := errors.Join(write(&first, at, files), write(&second, at.UTC(), turned), write(&later, at.Add(time.Hour), files))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Errorf("%s: the order of the files changes the archive", name)
		}
		if bytes.Equal(first.Bytes(), later.Bytes()) {
			t.Errorf("%s: the archive does not have the time of the commit", name)
		}
	}
}

func TestTarNamesNoUser(t *testing.T) {
	var archive bytes.Buffer
	if err := TarGz(&archive, at, []File{{"a", Executable, []byte("program")}}); err != nil {
		t.Fatal(err)
	}
	uncompressed, err := gzip.NewReader(&archive)
	if err != nil {
		t.Fatal(err)
	}
	header, err := tar.NewReader(uncompressed).Next()
	if err != nil {
		t.Fatal(err)
	}
	if header.Uid != 0 || header.Gid != 0 || header.Uname != "" || header.Gname != "" {
		t.Errorf("the entry names a user: %+v", header)
	}
	if header.Mode != Executable || !header.ModTime.Equal(at) {
		t.Errorf("got mode %o and time %s", header.Mode, header.ModTime)
	}
}

func TestReadSaysWhichFileIsMissing(t *testing.T) {
	if _, err := Read("/nowhere/LICENSE", "LICENSE", Plain); err == nil || !strings.Contains(err.Error(), "reading LICENSE") {
		t.Errorf("got %v", err)
	}
}
