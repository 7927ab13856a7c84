package functest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// root is the path of the func project, relative to this package.
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

// controlled are the prefixes of the variables that control func or a function. Tests set all of them.
var controlled = []string{
	"FUNC", "DRYDOCK_", "OTEL_", "K_SINK", "KUBE", "PORT=", "ADDRESS=", "LISTEN_ADDRESS=", "XDG_CONFIG_HOME=", "GOFLAGS=", "GOWORK=",
}

// environment returns the environment of a user of func v0.44 without a cluster, and the additional variables.
func environment(t *testing.T, more ...string) []string {
	t.Helper()
	var env []string
	for _, variable := range os.Environ() {
		if !slices.ContainsFunc(controlled, func(prefix string) bool { return strings.HasPrefix(variable, prefix) }) {
			env = append(env, variable)
		}
	}
	env = append(env,
		"XDG_CONFIG_HOME="+t.TempDir(), // func reads the user's configuration there
		"KUBECONFIG="+kubeconfig(t, "http://127.0.0.1:1"),
		"FUNC_ENABLE_HOST_BUILDER=true", // v0.44 hides the host builder otherwise
		"GOWORK=off",
		// v0.44 writes a module around the function without the requirements of the function. Newer versions add them.
		"GOFLAGS=-mod=mod",
	)
	return append(env, more...)
}

// kubeconfig writes a kubeconfig for an API server without authentication, and returns its path.
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

// callFunc runs func, waits for its end, ends every process that it started, and returns the output.
func callFunc(t *testing.T, env []string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, tool, args...)
	cmd.Env = env
	out := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	inNewGroup(cmd)
	// v0.44 leaves a function running if it did not become ready.
	defer func() { _ = cmd.Cancel() }()
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	return out.String(), err
}

// inNewGroup starts the process in a new process group, so that all its processes can be ended together.
func inNewGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
