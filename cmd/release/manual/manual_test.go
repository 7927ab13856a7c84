package manual

import (
	"strings"
	"testing"
	"time"
)

func TestEachCommandHasManPage(t *testing.T) {
	t.Setenv("HOME", "/home/somebody")
	files, err := Files("v1.2.3", time.Unix(1764000000, 0))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, file := range files {
		found[file.Name] = string(file.Content)
		if strings.Contains(string(file.Content), "/home/somebody") {
			t.Errorf("%s names a folder of this machine", file.Name)
		}
	}
	for name, want := range map[string]string{
		"man/kubectl-drydock.1":               "Drydock v1.2.3",
		"man/kubectl-drydock-install.1":       "standalone-image",
		"completion/kubectl-drydock.bash":     "__start_kubectl-drydock",
		"completion/_kubectl-drydock":         "#compdef kubectl-drydock",
		"completion/kubectl-drydock.fish":     "complete -c kubectl-drydock",
		"completion/kubectl-drydock.ps1":      "Register-ArgumentCompleter",
		"completion/kubectl_complete-drydock": "kubectl-drydock __complete",
	} {
		if !strings.Contains(found[name], want) {
			t.Errorf("%s does not contain %q", name, want)
		}
	}
}
