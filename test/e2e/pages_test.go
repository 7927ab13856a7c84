//go:build cluster

package e2e

import (
	"bytes"
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

// TestPagesRunAsWritten runs the commands of the pages that take a reader by the hand, and compares their output.
func TestPagesRunAsWritten(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"docs/getting-started.md"} {
		t.Run(filepath.Base(name), func(t *testing.T) {
			s := stage.New(t)
			drydock(t, s)
			reader := newReader(t, s)
			steps, err := page.Steps(fileOf(t, name))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for _, step := range steps {
				output := reader.run(t, step)
				if missing := page.Missing(step.Output, output); len(missing) > 0 {
					t.Errorf("%s:%d: the output has no line\n%s\nthe output is\n%s", name, step.Line, strings.Join(missing, "\n"), output)
				}
			}
		})
	}
}

// reader has a checkout, kubectl, and a namespace as the default of the kubeconfig.
type reader struct {
	folder, kubeconfig, path string
}

// newReader makes a folder with the examples; their images are those of the cluster.
func newReader(t *testing.T, s *stage.Stage) reader {
	t.Helper()
	r := reader{folder: t.TempDir(), kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	config, err := clientcmd.LoadFromFile(s.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.Contexts[config.CurrentContext].Namespace = s.Namespace
	if err := clientcmd.WriteToFile(*config, r.kubeconfig); err != nil {
		t.Fatal(err)
	}
	manifest := strings.ReplaceAll(fileOf(t, "examples/first/web.yaml"), "busybox:1.37", stage.WorkloadImage)
	if err := os.MkdirAll(filepath.Join(r.folder, "examples", "first"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.folder, "examples", "first", "web.yaml"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	r.path = filepath.Dir(kit.Kubectl(t)) + ":" + filepath.Join(kit.Root(t), "bin") + ":" + os.Getenv("PATH")
	return r
}

// run runs the commands of a step in one shell, which ends with the first that fails.
func (r reader) run(t *testing.T, step page.Step) string {
	t.Helper()
	shell := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", step.Commands)
	shell.Dir = r.folder
	shell.Env = append(os.Environ(), "KUBECONFIG="+r.kubeconfig, "PATH="+r.path)
	var output bytes.Buffer
	shell.Stdout, shell.Stderr = &output, &output
	if err := shell.Run(); err != nil {
		t.Fatalf("line %d: %s\n%v\n%s", step.Line, step.Commands, err, output.String())
	}
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
