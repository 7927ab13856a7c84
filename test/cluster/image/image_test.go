package image

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func sample() Image {
	return Image{
		Name: "dev.local/sample:1", User: "65532", Entrypoint: []string{"/a"},
		Entries: []Entry{{Path: "tmp", Mode: 0o1777, Folder: true}, {Path: "a", Mode: 0o755, Content: []byte("program")}, {Path: "b", Link: "a"}},
	}
}

func TestDigestDependsOnContentOnly(t *testing.T) {
	digest := func(i Image) string {
		built, err := i.Build()
		if err != nil {
			t.Fatal(err)
		}
		digest, err := built.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return digest.String()
	}
	other := sample()
	other.Entries[1].Content = []byte("another")
	if digest(sample()) != digest(sample()) || digest(sample()) == digest(other) {
		t.Error("the digest does not depend on the content only")
	}
}

func TestConfigurationHasUserAndPlatform(t *testing.T) {
	built, err := sample().Build()
	if err != nil {
		t.Fatal(err)
	}
	file, err := built.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if file.OS != "linux" || file.Architecture != runtime.GOARCH || file.Config.User != "65532" || file.Config.Entrypoint[0] != "/a" {
		t.Errorf("got %+v", file)
	}
}

func TestArchiveIsLayoutWithName(t *testing.T) {
	built, err := sample().Build()
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if err := WriteArchive("dev.local/sample:1", built, t.TempDir(), &archive); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for reader := tar.NewReader(&archive); ; {
		header, err := reader.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		found[header.Name] = string(content)
	}
	digest, err := built.Digest()
	if err != nil {
		t.Fatal(err)
	}
	index := found["index.json"]
	if !strings.Contains(index, "dev.local/sample:1") || !strings.Contains(index, digest.String()) || found["oci-layout"] == "" {
		t.Errorf("files %v with the index %s", len(found), index)
	}
}

func TestAppletsAreLinksInOneFolder(t *testing.T) {
	var names []string
	for _, entry := range links("sh\nsbin/losetup\nbusybox\n[\n") {
		names = append(names, entry.Path)
	}
	if got := strings.Join(names, " "); got != "bin bin/sh bin/losetup bin/[" {
		t.Errorf("got %s", got)
	}
}

func TestOnlyStaticProgramsAreAccepted(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Product(script); err == nil || !strings.Contains(err.Error(), "not a program") {
		t.Errorf("a script: got %v", err)
	}
	if _, err := Product("/bin/ls"); err == nil || !strings.Contains(err.Error(), "needs libraries") {
		t.Errorf("a program with libraries: got %v", err)
	}
	if _, err := Product(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a missing file: want an error")
	}
}
