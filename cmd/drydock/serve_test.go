package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"drydock.dev"
	"drydock.dev/shared/api"
)

func TestServeHelp(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"serve", "-h"}, &stdout, &stderr); code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	for _, want := range []string{"dead-letter, detect-resize", "PORT", "K_SINK", "DRYDOCK_COPY_TIMEOUT", "KUBECONFIG"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("help lacks %s:\n%s", want, stdout.String())
		}
	}
}

func TestUsageErrors(t *testing.T) {
	for name, args := range map[string][]string{
		"nothing": nil, "an unknown command": {"sail"}, "serve what": {"serve"}, "serve two": {"serve", "backup", "restore"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), args, &stdout, &stderr); code != exitUsage || !strings.Contains(stderr.String(), "Usage:") {
				t.Errorf("exit code %d and %q, want 2 and the usage", code, stderr.String())
			}
		})
	}
}

// TestServe: a function is served until the context ends. An unusable port is an error that names the setting PORT.
func TestServe(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n" +
		"contexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", kubeconfig)
	log := slog.New(slog.NewJSONHandler(io.Discard, nil))
	settings := api.Settings{Image: "registry.example/drydock:1", AllowTags: true}
	env := environment{Deadline: time.Second, Environment: function.Environment{Settings: settings}}

	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := serveFunction(ctx, "backup", env, log); err != nil {
		t.Errorf("with a cancelled context: %v", err)
	}
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close() // never used
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	if env.Port, err = strconv.Atoi(port); err != nil {
		t.Fatal(err)
	}
	if err := serveFunction(ctx, "backup", env, log); err == nil || !strings.Contains(err.Error(), "PORT") {
		t.Errorf("with a port in use: %v, want an error that names PORT", err)
	}
}
