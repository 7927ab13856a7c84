package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drydock.dev/test/cluster/config"
)

func TestReportedVersionMatchesGoMod(t *testing.T) {
	text, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "k8s.io/kubernetes "+kubernetesVersion+"\n") {
		t.Errorf("go.mod does not require k8s.io/kubernetes %s, the version that the binary reports", kubernetesVersion)
	}
}

func TestSizeIsReadFromDF(t *testing.T) {
	tests := map[string]struct {
		output string
		want   int
		fails  bool
	}{
		"busybox's format": {
			"Filesystem           1K-blocks      Used Available Use% Mounted on\n" +
				"/dev/loop0               62108      3592     58516   6% /data\n", 62108, false},
		"nothing":      {"", 0, true},
		"not a number": {"/dev/loop0 many 1 1 1% /data", 0, true},
	}
	for name, test := range tests {
		got, err := sizeInDF(test.output)
		if got != test.want || (err != nil) != test.fails {
			t.Errorf("%s: got %d, %v", name, got, err)
		}
	}
}

func TestErrorShowsEndOfLog(t *testing.T) {
	c := config.Cluster{Size: config.Node, State: t.TempDir()}
	log := c.Log("kubelet")
	if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(log, []byte(strings.Repeat("early\n", 10000)+"the reason\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	text := withLog(c, "kubelet", errors.New("kubelet ended")).Error()
	if !strings.Contains(text, log) || !strings.HasSuffix(text, "the reason") || strings.Count(text, "early") != 14 {
		t.Errorf("got %s", text)
	}
}

func TestStepReturnsError(t *testing.T) {
	want := errors.New("no")
	if got := step("trying", func() error { return want }); !errors.Is(got, want) {
		t.Errorf("got %v", got)
	}
}
