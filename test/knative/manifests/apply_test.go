package manifests

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const digest = "@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

// apply runs deploy/apply with the kubectl of the variable KUBECTL, or of the local cluster, and returns its output.
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

// TestApplySetsTheImageOfFunctionAndMover: both run the same image.
func TestApplySetsTheImageOfFunctionAndMover(t *testing.T) {
	for _, image := range []string{"example.com/team/drydock" + digest, "example.com:5000/drydock:v1"} {
		output, err := apply(t, "--render", "--allow-tags", image, "backup", "restore", "scale")
		if err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		// The containers of the three functions, the data mover of backup, and the container that scale starts to call a URL.
		if n := strings.Count(output, ": "+image+"\n"); n != 5 {
			t.Errorf("%s is named %d times, want 5:\n%s", image, n, output)
		}
		if strings.Contains(output, "image: drydock\n") {
			t.Errorf("an image was not replaced:\n%s", output)
		}
	}
	if left, err := filepath.Glob(filepath.Join(root, "deploy", ".apply-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestApplyRefusesAmbiguousImagesAndUnknownFunctions(t *testing.T) {
	for name, row := range map[string]struct {
		args []string
		want string
	}{
		"an image without digest and tag":    {[]string{"--render", "example.com/drydock", "backup"}, "has no digest"},
		"a registry with a port, and no tag": {[]string{"--render", "example.com:5000/drydock", "backup"}, "has no digest"},
		"an unknown function": {[]string{"--render", "--allow-tags", "example.com/drydock:v1", "backup", "sieve"},
			"The functions are: backup cleanup-pod dead-letter detect-resize"},
		"no function":                    {[]string{"drydock:v1"}, "deploy/apply IMAGE FUNCTION"},
		"an image without a registry":    {[]string{"--render", "drydock" + digest, "backup"}, "names no registry"},
		"a folder instead of a registry": {[]string{"--render", "team/drydock" + digest, "backup"}, "names no registry"},
		"a tag without --allow-tags":     {[]string{"--render", "example.com/drydock:v1", "backup"}, "has a tag"},
	} {
		t.Run(name, func(t *testing.T) {
			output, err := apply(t, row.args...)
			if err == nil || !strings.Contains(output, row.want) {
				t.Errorf("%v: %s", err, output)
			}
		})
	}
}

// TestApplyKeepsThePreviousMoverImageAllowed: the old revision of backup creates movers until the new one is ready.
func TestApplyKeepsThePreviousMoverImageAllowed(t *testing.T) {
	applied := filepath.Join(t.TempDir(), "applied")
	kubectl := filepath.Join(t.TempDir(), "kubectl")
	const script = `#!/bin/sh
case "$*" in
  *"get role drydock-mover-image"*) printf '%s' "$ALLOWED" ;;
  *apply*) cat >>"$APPLIED" ;;
esac
`
	if err := os.WriteFile(kubectl, []byte(script), 0o700); err != nil { // the test runs it
		t.Fatal(err)
	}
	t.Setenv("KUBECTL", kubectl)
	t.Setenv("APPLIED", applied)
	const image, before = "example.com/drydock" + digest, "example.com/drydock@sha256:before"
	t.Setenv("ALLOWED", before)
	if output, err := apply(t, image, "scale"); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	if text, err := os.ReadFile(applied); err != nil || strings.Contains(string(text), "drydock-mover-image") {
		t.Errorf("the deployment of scale changes the image of movers: %v\n%s", err, text)
	}
	for name, row := range map[string]struct{ allowed, want string }{
		"first deployment":                         {"", image + " " + image},
		"another image":                            {before, image + " " + before},
		"another image, after two deployments":     {before + " example.com/older", image + " " + before},
		"the same image, after one deployment":     {image, image + " " + image},
		"the same image, after an interrupted run": {image + " " + before, image + " " + before},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("ALLOWED", row.allowed)
			if err := os.Remove(applied); err != nil {
				t.Fatal(err)
			}
			if output, err := apply(t, image, "backup"); err != nil {
				t.Fatalf("%v\n%s", err, output)
			}
			manifests, err := os.ReadFile(applied)
			if err != nil {
				t.Fatal(err)
			}
			var allowed []string
			for _, match := range regexp.MustCompile(`      - "(.*)"\n`).FindAllStringSubmatch(string(manifests), -1) {
				allowed = append(allowed, match[1])
			}
			if got := strings.Join(allowed, " "); got != row.want {
				t.Errorf("movers may use %s, want %s\n%s", got, row.want, manifests)
			}
		})
	}
}
