package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drydock.dev/cmd/release/build"
	"drydock.dev/test/golden"
)

// These programs compile fast.
const (
	standIn       = "package main\n\nvar version string\n\nfunc main() { println(version) }\n"
	standInPlugin = "package main\n\nimport \"drydock.dev/cmd/kubectl-drydock/command\"\n\nvar version string\n\n" +
		"func main() { println(version); command.Print() }\n"
	standInCommand = "package command\n\nvar releasedImage, releasedStandaloneImage string\n\n" +
		"func Print() { println(releasedImage); println(releasedStandaloneImage) }\n"
)

// standIns makes a module with the programs of a release. The folder differs in each call.
func standIns(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{
		"go.mod":       "module drydock.dev\n\ngo 1.26.0\n",
		"LICENSE":      "Apache-2.0\n",
		"CHANGELOG.md": "# Changes\n\n## v1.2.3\n- A stand-in.\n",

		"config/gitops/argocd-cm.yaml":         "kind: ConfigMap\n",
		"config/monitoring/kustomization.yaml": "resources: [rules.yaml]\n",
		"config/monitoring/rules.yaml":         "kind: PrometheusRule\n",
		"examples/first/web.yaml":              "kind: StatefulSet\n",
		"examples/drain/scripts/drain.sh":      "#!/bin/sh\n",
		"examples/drain/drain.test":            "a test that Git ignores\n",
	}
	for _, program := range programs {
		files["cmd/"+program.Name+"/main.go"] = standIn
	}
	files["cmd/kubectl-drydock/main.go"] = standInPlugin
	files["cmd/kubectl-drydock/command/install.go"] = standInCommand
	for name, text := range files {
		if err := writeFile(filepath.Join(root, filepath.FromSlash(name)), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// releaseOf writes a release of stand-ins for Linux, and returns its folder.
func releaseOf(t *testing.T) string {
	t.Helper()
	all := programs
	t.Cleanup(func() { programs = all })
	programs = nil
	for _, program := range all {
		programs = append(programs, build.Program{Name: program.Name, Platforms: []build.Platform{amd64Linux, arm64Linux}})
	}
	root := standIns(t)
	to := filepath.Join(t.TempDir(), "v1.2.3")
	err := run(t.Context(), []string{"--version", "v1.2.3", "--root", root, "--to", to, "--commit", "abc", "--time", "1764000000",
		"--registry", "registry.example.com/drydock", "--base-url", "https://example.com/v1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	programs = all
	return to
}

// TestSameCommitGivesSameBytes makes a release twice, from two folders.
func TestSameCommitGivesSameBytes(t *testing.T) {
	first, second := releaseOf(t), releaseOf(t)
	if difference := cmp.Diff(sums(t, first), sums(t, second)); difference != "" {
		t.Errorf("the releases differ\n%s", difference)
	}
	var names []string
	for name := range strings.Lines(sums(t, first)) {
		if _, name, _ = strings.Cut(strings.TrimSpace(name), "  "); !strings.Contains(name, "/blobs/") {
			names = append(names, name)
		}
	}
	golden.Equal(t, strings.Join(names, "\n")+"\n")
	check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--quiet", checksums)
	check.Dir = first
	if output, err := check.CombinedOutput(); err != nil {
		t.Errorf("the checksums are wrong: %v\n%s", err, output)
	}
}

func sums(t *testing.T, folder string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, checksums))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestEverythingNamesTheSameImages: the manifests and the chart name the digests of the layouts.
func TestEverythingNamesTheSameImages(t *testing.T) {
	folder := releaseOf(t)
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	images := strings.Fields(read("images.txt"))
	for n, program := range []string{functions, standalone} {
		name, digest, _ := strings.Cut(images[n], "@")
		if name != "registry.example.com/drydock/"+program || !strings.Contains(read(filepath.Join("images", program, "index.json")), digest) {
			t.Errorf("image %s is not that of the layout", images[n])
		}
		if !strings.Contains(read("drydock-standalone.yaml"), images[n]) {
			t.Errorf("drydock-standalone.yaml does not name %s", images[n])
		}
	}
	if !strings.Contains(read("drydock-knative.yaml"), "image: "+images[0]) {
		t.Errorf("drydock-knative.yaml does not run %s", images[0])
	}
	plugin := filepath.Join(t.TempDir(), "kubectl-drydock")
	archive := filepath.Join(folder, "kubectl-drydock_v1.2.3_linux_"+runtime.GOARCH+".tar.gz")
	extract := exec.CommandContext(t.Context(), "tar", "-xzf", archive, "-C", filepath.Dir(plugin), "kubectl-drydock")
	if output, err := extract.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	said, err := exec.CommandContext(t.Context(), plugin).CombinedOutput()
	if want := "v1.2.3\n" + strings.Join(images, "\n") + "\n"; err != nil || string(said) != want {
		t.Errorf("the plugin says %q (%v), want %q", said, err, want)
	}
	unpack := exec.CommandContext(t.Context(), "tar", "-xzOf", filepath.Join(folder, "drydock-1.2.3.tgz"), "drydock/values.yaml")
	values, err := unpack.Output()
	if err != nil || !strings.Contains(string(values), fmt.Sprintf("image: %q\n", images[0])) ||
		!strings.Contains(string(values), fmt.Sprintf("standaloneImage: %q\n", images[1])) {
		t.Errorf("the chart has other images (%v)\n%s", err, values)
	}
}

// TestExtrasHaveThePathsOfACheckout: the commands of the docs work in the unpacked archive. It has no files that Git ignores.
func TestExtrasHaveThePathsOfACheckout(t *testing.T) {
	root := standIns(t)
	if err := os.Chmod(filepath.Join(root, "examples/drain/scripts/drain.sh"), 0o700); err != nil {
		t.Fatal(err)
	}
	r := release{version: "v1.2.3", root: root, to: t.TempDir(), time: time.Unix(1764000000, 0)}
	if err := r.writeExtras(); err != nil {
		t.Fatal(err)
	}
	list := exec.CommandContext(t.Context(), "tar", "-tvzf", "drydock-extras_v1.2.3.tar.gz")
	list.Dir = r.to
	output, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(output)) {
		fields := strings.Fields(line)
		got = append(got, fields[0]+" "+fields[len(fields)-1])
	}
	want := []string{
		"-rw-r--r-- LICENSE",
		"-rw-r--r-- config/gitops/argocd-cm.yaml",
		"-rw-r--r-- config/monitoring/kustomization.yaml",
		"-rw-r--r-- config/monitoring/rules.yaml",
		"-rwxr-xr-x examples/drain/scripts/drain.sh",
		"-rw-r--r-- examples/first/web.yaml",
	}
	if difference := cmp.Diff(want, got); difference != "" {
		t.Error(difference)
	}
}

// TestExtrasExist: the folders of the archive exist in this module.
func TestExtrasExist(t *testing.T) {
	for _, folder := range extras {
		if files, err := filesBelow(filepath.Join("..", ".."), folder); err != nil || len(files) == 0 {
			t.Errorf("%s has %d files, %v", folder, len(files), err)
		}
	}
}

// TestPluginDeclaresItsVariables: the linker ignores a variable that does not exist.
func TestPluginDeclaresItsVariables(t *testing.T) {
	for file, declaration := range map[string]string{
		"main.go":            "var version string",
		"command/install.go": "var releasedImage, releasedStandaloneImage string",
	} {
		text, err := os.ReadFile(filepath.Join("..", plugin, filepath.FromSlash(file)))
		if err != nil || !strings.Contains(string(text), "\n"+declaration+"\n") {
			t.Errorf("cmd/%s/%s does not declare %q (%v)", plugin, file, declaration, err)
		}
	}
}

func TestIncompleteReleaseIsRefused(t *testing.T) {
	exists := t.TempDir()
	file := golden.Open(t)
	for _, row := range []struct{ situation, args string }{
		{"no version", "--to x --commit abc --time 1"},
		{"a short version", "--version v1.2 --to x --commit abc --time 1"},
		{"a version without v", "--version 1.2.3 --to x --commit abc --time 1"},
		{"no commit", "--version v1.2.3 --to x --time 1"},
		{"a registry without a host", "--version v1.2.3 --to x --commit abc --time 1 --registry drydock"},
		{"a registry with a scheme", "--version v1.2.3 --to x --commit abc --time 1 --registry https://example.com/drydock"},
		{"a registry with a slash at the end", "--version v1.2.3 --to x --commit abc --time 1 --registry example.com/drydock/"},
		{"a registry with a tag", "--version v1.2.3 --to x --commit abc --time 1 --registry example.com/drydock:v1"},
		{"a registry with upper case in its path", "--version v1.2.3 --to x --commit abc --time 1 --registry example.com/Drydock"},
		{"a base URL without a scheme", "--version v1.2.3 --to x --commit abc --time 1 --base-url example.com/v1.2.3"},
		{"a base URL without a host", "--version v1.2.3 --to x --commit abc --time 1 --base-url https:///v1.2.3"},
		{"the folder exists", "--version v1.2.3 --commit abc --time 1 --to " + exists},
		{"an unknown subcommand", "charts x"},
	} {
		err := run(t.Context(), strings.Fields(row.args))
		if err == nil {
			t.Errorf("%s is accepted", row.situation)
			continue
		}
		file.Entry(t, row.situation, strings.ReplaceAll(err.Error(), exists, "FOLDER"))
	}
}

func TestProgramThatDoesNotCompileLeavesNothing(t *testing.T) {
	root, to := standIns(t), filepath.Join(t.TempDir(), "v1.2.3")
	if err := os.WriteFile(filepath.Join(root, "cmd", functions, "main.go"), []byte("package main\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := run(t.Context(), []string{"--version", "v1.2.3", "--root", root, "--to", to, "--commit", "abc", "--time", "1"})
	if err == nil || !strings.Contains(err.Error(), "building drydock for linux_amd64") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(to); !os.IsNotExist(err) {
		t.Errorf("%s exists: %v", to, err)
	}
}

func TestChartAloneIsWritten(t *testing.T) {
	folder := t.TempDir()
	if err := run(t.Context(), []string{"chart", folder}); err != nil {
		t.Fatal(err)
	}
	found, err := fs.Glob(os.DirFS(folder), "drydock/templates/*")
	if err != nil || len(found) != 7 {
		t.Errorf("found %v, %v", found, err)
	}
}
