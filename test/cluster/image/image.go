// Package image builds container images from files and a configuration, without a base image and without a container engine. The same files
// always produce the same digest.
package image

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Image describes a container image.
type Image struct {
	Name       string // including the tag
	Entries    []Entry
	User       string // numeric, so that the kubelet can check that it is not root; empty means root
	Entrypoint []string
	Command    []string
	Env        []string
}

// Entry is a file, folder or link of an image.
type Entry struct {
	Path    string // without a leading slash
	Mode    int64
	Content []byte
	Link    string // target of a symbolic link
	Folder  bool
}

// nameAnnotation is the annotation for the image's name when containerd imports an OCI layout.
const nameAnnotation = "io.containerd.image.name"

// Build builds the image.
func (i Image) Build() (v1.Image, error) {
	layer, err := archive(i.Entries)
	if err != nil {
		return nil, fmt.Errorf("making the layer of %s: %w", i.Name, err)
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.AppendLayers(image, static.NewLayer(layer, types.OCIUncompressedLayer))
	if err != nil {
		return nil, fmt.Errorf("adding the layer of %s: %w", i.Name, err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("reading the configuration of %s: %w", i.Name, err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", runtime.GOARCH
	file.Config = v1.Config{User: i.User, Entrypoint: i.Entrypoint, Cmd: i.Command, Env: i.Env}
	image, err = mutate.ConfigFile(image, file)
	if err != nil {
		return nil, fmt.Errorf("writing the configuration of %s: %w", i.Name, err)
	}
	return image, nil
}

// archive returns a layer: a tar without times and owners, which would change the digest.
func archive(entries []Entry) ([]byte, error) {
	var layer bytes.Buffer
	writer := tar.NewWriter(&layer)
	byPath := func(a, b Entry) int { return bytes.Compare([]byte(a.Path), []byte(b.Path)) }
	for _, entry := range slices.SortedFunc(slices.Values(entries), byPath) {
		if err := writer.WriteHeader(entry.header()); err != nil {
			return nil, fmt.Errorf("adding %s: %w", entry.Path, err)
		}
		if _, err := writer.Write(entry.Content); err != nil {
			return nil, fmt.Errorf("adding %s: %w", entry.Path, err)
		}
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("completing the layer: %w", err)
	}
	return layer.Bytes(), nil
}

func (e Entry) header() *tar.Header {
	header := &tar.Header{Name: e.Path, Mode: e.Mode, Format: tar.FormatUSTAR}
	switch {
	case e.Folder:
		header.Typeflag, header.Name = tar.TypeDir, e.Path+"/"
	case e.Link != "":
		header.Typeflag, header.Linkname = tar.TypeSymlink, e.Link
	default:
		header.Typeflag, header.Size = tar.TypeReg, int64(len(e.Content))
	}
	return header
}

// WriteArchive writes the image as a tar of an OCI layout. Unlike the older archive format it preserves the digest. The layout is first
// written to a temporary folder below scratch.
func WriteArchive(name string, image v1.Image, scratch string, to io.Writer) error {
	folder, err := os.MkdirTemp(scratch, "layout-")
	if err != nil {
		return fmt.Errorf("making a temporary folder: %w", err)
	}
	defer os.RemoveAll(folder)
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return fmt.Errorf("writing the layout of %s: %w", name, err)
	}
	if err := path.AppendImage(image, layout.WithAnnotations(map[string]string{nameAnnotation: name})); err != nil {
		return fmt.Errorf("writing the layers of %s: %w", name, err)
	}
	writer := tar.NewWriter(to)
	if err := writer.AddFS(os.DirFS(folder)); err != nil {
		return fmt.Errorf("archiving %s: %w", name, err)
	}
	if err := writer.Close(); err != nil {
		return fmt.Errorf("archiving %s: %w", name, err)
	}
	return nil
}

// File returns an executable of this machine as an entry of an image.
func File(source, path string) (Entry, error) {
	content, err := os.ReadFile(source)
	if err != nil {
		return Entry{}, fmt.Errorf("reading %s: %w", filepath.Base(source), err)
	}
	return Entry{Path: path, Mode: 0o755, Content: content}, nil
}
