package manifests

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const digest = "@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

// apply runs deploy/apply with KUBECTL, or that of the local cluster.
func apply(t *testing.T, args ...string) (string, error) {
	t.Helper()
	kubectl, err := filepath.Abs(cmp.Or(os.Getenv("KUBECTL"), filepath.Join(root, ".cluster", "bin", "kubectl")))
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), filepath.Join(root, "deploy", "apply"), args...)
	command.Env = append(os.Environ(), "KUBECTL="+kubectl)
	output, err := command.CombinedOutput()
	return string(output), err
}

// TestApplyNamesTheImage: the function and the data mover that it starts are the same image, named by what does not change.
func TestApplyNamesTheImage(t *testing.T) {
	for _, image := range []string{"example.com/team/drydock" + digest, "example.com:5000/drydock:v1"} {
		output, err := apply(t, "--render", "--allow-tags", image, "backup", "restore", "scale-hooks")
		if err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		// The containers of the three, backup's data mover, and the caller of URLs that scale-hooks starts.
		if n := strings.Count(output, ": "+image+"\n"); n != 5 {
			t.Errorf("%s is named %d times, want 5:\n%s", image, n, output)
		}
		if strings.Contains(output, "image: drydock\n") {
			t.Errorf("an image has no name yet:\n%s", output)
		}
	}
	if left, err := filepath.Glob(filepath.Join(root, "deploy", ".apply-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestApplyRefuses(t *testing.T) {
	for name, row := range map[string]struct {
		args []string
		want string
	}{
		"an image that could be any":    {[]string{"--render", "example.com/drydock", "backup"}, "neither a digest nor a tag"},
		"a port that is no tag":         {[]string{"--render", "example.com:5000/drydock", "backup"}, "neither a digest nor a tag"},
		"a function that there is none": {[]string{"--render", "--allow-tags", "example.com/drydock:v1", "backup", "sieve"}, "there are: backup cleanup-pod dead-letter detect-resize"},
		"no function":                   {[]string{"drydock:v1"}, "deploy/apply IMAGE FUNCTION"},
		"an image without a registry":   {[]string{"--render", "drydock" + digest, "backup"}, "names no registry"},
		"a folder that is no registry":  {[]string{"--render", "team/drydock" + digest, "backup"}, "names no registry"},
		"a tag that can change":         {[]string{"--render", "example.com/drydock:v1", "backup"}, "is named by a tag"},
	} {
		t.Run(name, func(t *testing.T) {
			output, err := apply(t, row.args...)
			if err == nil || !strings.Contains(output, row.want) {
				t.Errorf("%v: %s", err, output)
			}
		})
	}
}

// TestApplyKeepsTheMoverImageBefore: backup makes movers of it until its new revision is ready.
func TestApplyKeepsTheMoverImageBefore(t *testing.T) {
	applied := filepath.Join(t.TempDir(), "applied")
	kubectl := filepath.Join(t.TempDir(), "kubectl")
	const script = `#!/bin/sh
case "$*" in
  *"get role drydock-mover-image"*) printf 'example.com/drydock@sha256:before' ;;
  *apply*) cat >>"$APPLIED" ;;
esac
`
	if err := os.WriteFile(kubectl, []byte(script), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	t.Setenv("KUBECTL", kubectl)
	t.Setenv("APPLIED", applied)
	if output, err := apply(t, "example.com/drydock"+digest, "scale-hooks"); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	if text, err := os.ReadFile(applied); err != nil || strings.Contains(string(text), "drydock-mover-image") {
		t.Errorf("scale-hooks changes which image is a mover: %v\n%s", err, text)
	}
	if output, err := apply(t, "example.com/drydock"+digest, "backup"); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	manifests, err := os.ReadFile(applied)
	if err != nil {
		t.Fatal(err)
	}
	for _, image := range []string{"example.com/drydock" + digest, "example.com/drydock@sha256:before"} {
		if !strings.Contains(string(manifests), `      - "`+image+`"`) {
			t.Errorf("%s may not run as a mover:\n%s", image, manifests)
		}
	}
}
