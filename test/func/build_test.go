package functest

import (
	"archive/tar"
	"debug/buildinfo"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// TestBuiltImageRunsEachFunction builds the image with func, and runs its binary as Knative would.
func TestBuiltImageRunsEachFunction(t *testing.T) {
	dir := scratch(t)
	build := []string{"build", "--path", dir, "--builder", "host", "--image", "example.com/drydock:test", "--push=false"}
	if out, err := callFunc(t, environment(t, "GOFLAGS="), build...); err == nil || !strings.Contains(out, "go mod tidy") {
		t.Errorf("without GOFLAGS=-mod=mod: %v\n%s\nGOFLAGS is not needed any more: update docs/func.md", err, out)
	}
	if out, err := callFunc(t, environment(t), build...); err != nil {
		t.Fatalf("func build: %v\n%s", err, out)
	}
	index, err := layout.ImageIndexFromPath(filepath.Join(dir, ".func/builds/last/oci"))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil { // checks every digest and size
		t.Error(err)
	}
	images := imagesOf(t, index)
	for _, platform := range []string{"linux/amd64", "linux/arm64", "linux/arm/v7"} {
		if images[platform] == nil {
			t.Fatalf("no image for %s", platform)
		}
		checkImage(t, platform, images[platform])
	}
	own := images["linux/"+runtime.GOARCH]
	if own == nil {
		t.Fatalf("there is no image for linux/%s, so none can run here", runtime.GOARCH)
	}
	exe := filepath.Join(t.TempDir(), "f")
	unpack(t, own, "/func/f", exe)
	checkBinary(t, exe)
	runImage(t, exe, configOf(t, own).Env)
}

// imagesOf returns the images of the index by platform.
func imagesOf(t *testing.T, index v1.ImageIndex) map[string]v1.Image {
	t.Helper()
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	images := map[string]v1.Image{}
	for _, m := range manifest.Manifests {
		image, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		images[m.Platform.String()] = image
	}
	return images
}

func configOf(t *testing.T, image v1.Image) v1.Config {
	t.Helper()
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return file.Config
}

// checkImage checks the command, user and files of the image. By default it runs the function of func.yaml, and not as root.
func checkImage(t *testing.T, platform string, image v1.Image) {
	t.Helper()
	config := configOf(t, image)
	if !slices.Equal(config.Cmd, []string{"/func/f"}) || config.User != "1000" || !slices.Contains(config.Env, "FUNCTION=detect-resize") {
		t.Errorf("image for %s: command %q, user %q, environment %q", platform, config.Cmd, config.User, config.Env)
	}
	names := filesOf(t, image)
	for _, want := range []string{"/func/f", "/func/func.yaml", "/etc/ssl/certs/ca-certificates.crt"} {
		if !slices.Contains(names, want) {
			t.Errorf("image for %s has no %s", platform, want)
		}
	}
}

// eachFile calls the function for every file of the image, until it returns false.
func eachFile(t *testing.T, image v1.Image, call func(name string, content io.Reader) bool) {
	t.Helper()
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, layer := range layers {
		content, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		defer content.Close()
		for r := tar.NewReader(content); ; {
			header, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if !call(header.Name, r) {
				return
			}
		}
	}
}

func filesOf(t *testing.T, image v1.Image) []string {
	var names []string
	eachFile(t, image, func(name string, _ io.Reader) bool { names = append(names, name); return true })
	return names
}

// unpack writes a file of the image to a path.
func unpack(t *testing.T, image v1.Image, name, to string) {
	t.Helper()
	eachFile(t, image, func(found string, content io.Reader) bool {
		if found != name {
			return true
		}
		file, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(file, content); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		return false
	})
}

// checkBinary checks that the binary contains func's server and this module, for linux/amd64 and without a C library.
func checkBinary(t *testing.T, exe string) {
	t.Helper()
	info, err := buildinfo.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{}
	for _, setting := range info.Settings {
		settings[setting.Key] = setting.Value
	}
	if settings["GOOS"] != "linux" || settings["GOARCH"] != runtime.GOARCH || settings["CGO_ENABLED"] != "0" {
		t.Errorf("built with %v", settings)
	}
	linked := map[string]bool{}
	for _, dep := range info.Deps {
		linked[dep.Path] = true
	}
	if !linked[renamed] || !linked["knative.dev/func-go"] {
		t.Errorf("the binary does not link the function and func's server. It links %v", linked)
	}
}

// runImage runs the image's command with the image's environment and Knative's.
func runImage(t *testing.T, exe string, env []string) {
	for name, row := range map[string]struct {
		env   []string
		ready string
		check func(t *testing.T, url string, api *recorder)
	}{
		"the function of func.yaml": {nil, "READY", expectReadsTheSet},
		"another function":          {[]string{"FUNCTION=pause-owner"}, "READY", expectReadsTheSet},
		"a function that sends events": {[]string{"FUNCTION=sift", "K_SINK=http://127.0.0.1:1"}, "READY",
			func(t *testing.T, url string, _ *recorder) { expectSifts(t, url) }},
		"a function without the Broker's URL": {[]string{"FUNCTION=sift"}, "set K_SINK to the Broker's URL", nil},
		"a function that does not exist":      {[]string{"FUNCTION=sieve"}, "Set FUNCTION to one of: backup, cleanup-pod", nil},
	} {
		t.Run(name, func(t *testing.T) {
			api, port := fakeAPIServer(t), freePort(t)
			url := "http://127.0.0.1:" + port
			all := append(slices.Clone(env), "KUBECONFIG="+kubeconfig(t, api.URL), "ADDRESS=127.0.0.1", "PORT="+port)
			start(t, append(all, row.env...), exe)
			eventually(t, "the function is alive", 15*time.Second, func() bool {
				code, text := get(url + "/health/liveness")
				return code == http.StatusOK && text == "ALIVE"
			})
			code, text := get(url + "/health/readiness")
			if ready := code == http.StatusOK; ready != (row.ready == "READY") || !strings.Contains(text, row.ready) {
				t.Fatalf("readiness %d, %q; want %q", code, text, row.ready)
			}
			if row.check != nil {
				row.check(t, url, api)
			}
		})
	}
}

// expectReadsTheSet sends an event for a StatefulSet that does not exist. The function reads it, and answers without an event.
func expectReadsTheSet(t *testing.T, url string, api *recorder) {
	code, header, text := post(t, url, "dev.drydock.object.changed", map[string]string{}, "kind=StatefulSet", "namespace=shop", "name=web")
	if code/100 != 2 || text != "" || header.Get("ce-type") != "" {
		t.Errorf("answered %d, %v, %s", code, header, text)
	}
	if _, read := api.find(http.MethodGet, "/apis/apps/v1/namespaces/shop/statefulsets/web"); !read {
		t.Errorf("it did not read the set. Its requests were:\n%s", api.requests())
	}
}
