package krew

import (
	"strings"
	"testing"

	"drydock.dev/cmd/release/build"
	"drydock.dev/test/golden"
)

func TestManifest(t *testing.T) {
	hash := strings.Repeat("0123456789abcdef", 4)
	text, err := Manifest("v1.2.3", "https://example.com/v1.2.3/", []Archive{
		{build.Platform{OS: "linux", Arch: "amd64"}, "kubectl-drydock_v1.2.3_linux_amd64.tar.gz", hash, "kubectl-drydock"},
		{build.Platform{OS: "windows", Arch: "amd64"}, "kubectl-drydock_v1.2.3_windows_amd64.zip", hash, "kubectl-drydock.exe"},
	})
	if err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, string(text))
}
