package image

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

var sample = Image{Program: "drydock", Description: "A sample", Version: "v1.2.3", Commit: "abc", Created: time.Unix(1764000000, 0)}

func indexOf(t *testing.T, i Image) v1.ImageIndex {
	t.Helper()
	index, err := i.Index([]Binary{{"amd64", []byte("program")}, {"arm64", []byte("another")}})
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func TestIndexHasBothArchitectures(t *testing.T) {
	index := indexOf(t, sample)
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for n, arch := range []string{"amd64", "arm64"} {
		if got := manifest.Manifests[n].Platform; got.String() != "linux/"+arch {
			t.Errorf("manifest %d is for %s", n, got)
		}
		image, err := index.Image(manifest.Manifests[n].Digest)
		if err != nil {
			t.Fatal(err)
		}
		file, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if file.Architecture != arch || file.Config.User != "65532:65532" || strings.Join(file.Config.Entrypoint, " ") != "/drydock" ||
			file.Config.Labels["org.opencontainers.image.version"] != "v1.2.3" || !file.Created.Equal(sample.Created) {
			t.Errorf("%s: got %+v", arch, file)
		}
	}
}

func TestLayoutHasOneTagWithTheDigest(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "drydock")
	written := indexOf(t, sample)
	if err := Write(folder, "v1.2.3", written); err != nil {
		t.Fatal(err)
	}
	digest, err := written.Digest()
	if err != nil {
		t.Fatal(err)
	}
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	only := manifest.Manifests[0]
	tag := only.Annotations[nameAnnotation]
	if len(manifest.Manifests) != 1 || only.Digest != digest || tag != "v1.2.3" || !only.MediaType.IsIndex() {
		t.Errorf("digest %s, got %+v", digest, manifest)
	}
	if _, err := os.Stat(filepath.Join(folder, "oci-layout")); err != nil {
		t.Error(err)
	}
}

func TestDigestDependsOnContentOnly(t *testing.T) {
	digest := func(i Image) string {
		digest, err := indexOf(t, i).Digest()
		if err != nil {
			t.Fatal(err)
		}
		return digest.String()
	}
	other := sample
	other.Commit = "def"
	if digest(sample) != digest(sample) || digest(sample) == digest(other) {
		t.Error("the digest does not depend on the content only")
	}
}
