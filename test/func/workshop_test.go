package functest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// root is the folder of the func project, seen from this package.
const root = "../.."

// tool is the func command. TestMain builds it, once for all tests.
var tool string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "drydock-func-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	tool = filepath.Join(dir, "func")
	build := exec.Command("go", "build", "-o", tool, "knative.dev/func/cmd/func")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building func: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// ours are the beginnings of the variables that decide what func, or a function, does: a test sets them all itself.
var ours = []string{
	"FUNC", "DRYDOCK_", "OTEL_", "K_SINK", "KUBE", "PORT=", "ADDRESS=", "LISTEN_ADDRESS=", "XDG_CONFIG_HOME=", "GOFLAGS=", "GOWORK=",
}

// environment is that of a user of func v0.44 who has no cluster.
func environment(t *testing.T, more ...string) []string {
	t.Helper()
	var env []string
	for _, variable := range os.Environ() {
		mine := false
		for _, prefix := range ours {
			mine = mine || strings.HasPrefix(variable, prefix)
		}
		if !mine {
			env = append(env, variable)
		}
	}
	env = append(env,
		"XDG_CONFIG_HOME="+t.TempDir(), // the user's own configuration of func
		"KUBECONFIG="+kubeconfig(t, "http://127.0.0.1:1"),
		"FUNC_ENABLE_HOST_BUILDER=true", // v0.44 hides it otherwise
		"GOWORK=off",
		// v0.44 writes a module around the function and does not add what the function requires; newer ones do.
		"GOFLAGS=-mod=mod",
	)
	return append(env, more...)
}

// kubeconfig writes one for an API server without users.
func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := "{apiVersion: v1, kind: Config, current-context: x, users: [{name: x, user: {}}], clusters: [{name: x, cluster: {server: '" +
		server + "'}}], contexts: [{name: x, context: {cluster: x, user: x}}]}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// callFunc runs func to its end, and everything that it has started.
func callFunc(t *testing.T, env []string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, tool, args...)
	cmd.Env = env
	out := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	grouped(cmd)
	// v0.44 leaves a function running that did not become ready.
	defer func() { _ = cmd.Cancel() }()
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	return out.String(), err
}

// grouped makes the process the first of a group of its own, which ends as a whole.
func grouped(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
