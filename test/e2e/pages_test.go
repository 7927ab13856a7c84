//go:build cluster

package e2e

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"drydock.dev/test/kit"
	"drydock.dev/test/kit/stage"
	"drydock.dev/test/page"
)

// tutorial is a page whose marked commands a test runs.
type tutorial struct {
	// replace are texts of the commands and of the examples, and what takes their place on this cluster: the names of StorageClasses.
	// Everything else runs as it is written.
	replace []string
	// settings are those of Drydock.
	settings []string
}

// tutorials are the pages with marked parts, by path. examples/hook-function has none: it needs Knative and a registry.
var tutorials = map[string]tutorial{
	"README.md":                    {},
	"docs/getting-started.md":      {},
	"docs/sleep.md":                {},
	"docs/cleanup.md":              {},
	"docs/scaler.md":               {},
	"docs/apply.md":                {},
	"docs/operations.md":           {},
	"examples/drain/README.md":     {},
	"examples/shards/README.md":    {},
	"examples/autoscale/README.md": {},
	"docs/grow.md": {
		replace:  []string{"accessModes: [ReadWriteOnce]", "accessModes: [ReadWriteOnce]\n        storageClassName: " + stage.GrowingClass},
		settings: growing,
	},
	"docs/resize.md": {
		replace: []string{"@fast", "@" + stage.OtherClass, "-> fast", "-> " + stage.OtherClass,
			"@gp3", "@" + stage.CloudClass, "%gold", "%read-ahead-large",
			"@cephfs", "@" + stage.OtherClass, "-> cephfs", "-> " + stage.OtherClass},
	},
}

// TestEveryMarkedPageRuns: no page has a marked part that TestPagesRunAsWritten leaves out.
func TestEveryMarkedPageRuns(t *testing.T) {
	t.Parallel()
	root := kit.Root(t)
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			name, err := filepath.Rel(root, path)
			if err != nil {
				t.Fatal(err)
			}
			name = filepath.ToSlash(name)
			_, err = page.Steps(fileOf(t, name))
			if _, runs := tutorials[name]; runs != (err == nil) {
				t.Errorf("%s: it runs: %v; its marked part: %v", name, runs, err)
			}
		}
	}
}

// TestPagesRunAsWritten runs the commands of the pages that take a reader by the hand, and compares their output. Each page has a namespace
// of its own, which takes the place of namespace shop.
func TestPagesRunAsWritten(t *testing.T) {
	t.Parallel()
	for name, its := range tutorials {
		t.Run(strings.ReplaceAll(strings.TrimSuffix(name, ".md"), "/", "-"), func(t *testing.T) {
			t.Parallel()
			s := stage.New(t)
			s.StartDrydock(t, its.settings, "--tick", "2s")
			reader := newReader(t, s, its)
			steps, err := page.Steps(fileOf(t, name))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for _, step := range steps {
				output := reader.run(t, step)
				if missing := page.Missing(reader.here.Replace(step.Output), output); len(missing) > 0 {
					t.Errorf("%s:%d: the output has no line\n%s\nthe output is\n%s", name, step.Line, strings.Join(missing, "\n"), output)
				}
			}
		})
	}
}

// reader has a checkout, kubectl, and a namespace as the default of the kubeconfig.
type reader struct {
	folder, kubeconfig, path string
	here                     *strings.Replacer
}

// newReader makes a folder with the examples; their images are those of the cluster.
func newReader(t *testing.T, s *stage.Stage, its tutorial) reader {
	t.Helper()
	r := reader{folder: t.TempDir(), kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	r.here = strings.NewReplacer(append(its.replace, "-n shop", "-n "+s.Namespace, "namespace shop", "namespace "+s.Namespace,
		"busybox:1.37", stage.WorkloadImage)...)
	config, err := clientcmd.LoadFromFile(s.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.Contexts[config.CurrentContext].Namespace = s.Namespace
	if err := clientcmd.WriteToFile(*config, r.kubeconfig); err != nil {
		t.Fatal(err)
	}
	r.copyFolder(t, "examples")
	r.copyFolder(t, "test/e2e/testdata")
	r.path = filepath.Dir(kit.Kubectl(t)) + ":" + filepath.Join(kit.Root(t), "bin") + ":" + os.Getenv("PATH")
	return r
}

// copyFolder copies the files below a folder of the project into that of the reader.
func (r reader) copyFolder(t *testing.T, folder string) {
	t.Helper()
	root := kit.Root(t)
	err := filepath.WalkDir(filepath.Join(root, filepath.FromSlash(folder)), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(r.folder, filepath.Dir(name)), 0o750); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(r.folder, name), []byte(r.here.Replace(fileOf(t, filepath.ToSlash(name)))), 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// run runs the commands of a step in one shell, which ends with the first that fails.
func (r reader) run(t *testing.T, step page.Step) string {
	t.Helper()
	shell := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", r.here.Replace(step.Commands))
	shell.Dir = r.folder
	shell.Env = append(os.Environ(), "KUBECONFIG="+r.kubeconfig, "PATH="+r.path)
	var output bytes.Buffer
	shell.Stdout, shell.Stderr = &output, &output
	if err := shell.Run(); err != nil {
		t.Fatalf("line %d: %s\n%v\n%s", step.Line, step.Commands, err, output.String())
	}
	t.Logf("line %d\n%s\n%s", step.Line, step.Commands, output.String())
	return output.String()
}

func fileOf(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(kit.Root(t), filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
