// Package image makes the images of a release: one static program on an empty file system, for several architectures. There is no base
// image to trust, download or update.
package image

import (
	"bytes"
	"fmt"
	"io"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"drydock.dev/cmd/release/pack"
)

// user is not root, and is a number, so that the kubelet can check it.
const user = "65532:65532"

// nameAnnotation is the tag of an image in a layout. skopeo and oras find the image by it.
const nameAnnotation = "org.opencontainers.image.ref.name"

// Image describes an image.
type Image struct {
	Program     string // also the name of the program's file
	Description string
	Version     string
	Commit      string
	Created     time.Time
}

// Binary is the program for one architecture of Linux.
type Binary struct {
	Arch    string
	Content []byte
}

// Index returns the image for all architectures of the binaries.
func (i Image) Index(binaries []Binary) (v1.ImageIndex, error) {
	index := mutate.Annotations(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), i.labels()).(v1.ImageIndex)
	for _, binary := range binaries {
		image, err := i.build(binary)
		if err != nil {
			return nil, fmt.Errorf("making the image %s for %s: %w", i.Program, binary.Arch, err)
		}
		platform := &v1.Platform{OS: "linux", Architecture: binary.Arch}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	return index, nil
}

// build returns the image for one architecture.
func (i Image) build(binary Binary) (v1.Image, error) {
	layer, err := i.layer(binary)
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.AppendLayers(base, layer)
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created = "linux", binary.Arch, v1.Time{Time: i.Created.UTC()}
	file.Config = v1.Config{User: user, Entrypoint: []string{"/" + i.Program}, Labels: i.labels()}
	return mutate.ConfigFile(image, file)
}

// layer returns the file system with the program.
func (i Image) layer(binary Binary) (v1.Layer, error) {
	var files bytes.Buffer
	if err := pack.Tar(&files, i.Created, []pack.File{{Name: i.Program, Mode: pack.Executable, Content: binary.Content}}); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

func (i Image) labels() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       i.Program,
		"org.opencontainers.image.description": i.Description,
		"org.opencontainers.image.version":     i.Version,
		"org.opencontainers.image.revision":    i.Commit,
		"org.opencontainers.image.created":     i.Created.UTC().Format(time.RFC3339),
		"org.opencontainers.image.licenses":    "Apache-2.0",
	}
}

// Write writes the index as an OCI layout with one tag.
func Write(folder, tag string, index v1.ImageIndex) error {
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return fmt.Errorf("writing the layout %s: %w", folder, err)
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{nameAnnotation: tag})); err != nil {
		return fmt.Errorf("writing the layout %s: %w", folder, err)
	}
	return nil
}
