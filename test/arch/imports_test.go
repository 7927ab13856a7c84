package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

// listed is the description of a package by go list.
type listed struct {
	ImportPath string
	Imports    []string
	Deps       []string
	// EmbedPatterns are the patterns of the package's go:embed directives.
	EmbedPatterns []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,Deps,EmbedPatterns", module+"/...").Output()
	if err != nil {
		t.Fatalf("listing the module's packages: %v", err)
	}
	var all []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func TestPackagesObeyTheirImportLaws(t *testing.T) {
	all := packages(t)
	if len(all) < len(laws) {
		t.Fatalf("go list found only %d packages", len(all))
	}
	for _, p := range all {
		for _, broken := range breaches(p.ImportPath, p.Imports, p.Deps) {
			t.Error(broken)
		}
	}
}

// TestBreachesOfImportLawsAreFound shows that the check can fail.
func TestBreachesOfImportLawsAreFound(t *testing.T) {
	for name, row := range map[string]struct {
		path    string
		imports string
		linked  string
		want    int
	}{
		"the schema imports another package":    {"drydock.dev/shared/api", "fmt drydock.dev/shared/events", "", 1},
		"the schema links the client":           {"drydock.dev/shared/api", "fmt k8s.io/api/core/v1", "k8s.io/client-go/rest", 1},
		"a plan takes a context":                {"drydock.dev/shared/plan", "context drydock.dev/shared/api", "", 1},
		"a plan reads the environment":          {"drydock.dev/shared/plan", "os", "", 1},
		"a builder uses random numbers":         {"drydock.dev/shared/resources", "math/rand/v2", "", 1},
		"the event contract imports HTTP":       {"drydock.dev/shared/events", "net/http", "", 1},
		"the mover imports a library":           {"drydock.dev/cmd/drydock/mover", "golang.org/x/sys/unix github.com/klauspost/compress", "", 1},
		"the mover imports the schema":          {"drydock.dev/cmd/drydock/mover", "drydock.dev/shared/api", "", 1},
		"a step of the mover imports the mover": {"drydock.dev/cmd/drydock/mover/write", "drydock.dev/cmd/drydock/mover", "", 1},
		"the verification imports the writer":   {"drydock.dev/cmd/drydock/mover/verify", "drydock.dev/cmd/drydock/mover/write", "", 1},
		"the writer imports a library":          {"drydock.dev/cmd/drydock/mover/write", "github.com/klauspost/compress", "", 1},
		"the HTTP server links the client":      {"drydock.dev/shared/serve", "net/http", "k8s.io/client-go/rest", 1},
		"telemetry imports an SDK":              {"drydock.dev/shared/telemetry", "go.opentelemetry.io/otel/sdk/trace", "", 1},
		"an exporter links the client":          {"drydock.dev/shared/telemetry/export", "", "k8s.io/client-go/rest", 1},
		"the executor imports a function":       {"drydock.dev/shared/apply", "drydock.dev/functions/backup", "", 1},
		"a function imports another":            {"drydock.dev/functions/backup", "drydock.dev/functions/restore", "", 1},
		"a function imports the HTTP server":    {"drydock.dev/functions/backup", "drydock.dev/shared/serve", "", 1},
		"a function imports its own subpackage": {"drydock.dev/functions/backup", "drydock.dev/functions/backup/parts", "", 0},
		"the event source imports a function":   {"drydock.dev/eventsource/engine", "drydock.dev/functions/backup", "", 1},
		"the event source imports the root":     {"drydock.dev/eventsource/engine", "drydock.dev", "", 1},
		"a command imports any library":         {"drydock.dev/cmd/drydock", "drydock.dev drydock.dev/functions/backup github.com/x/y", "", 0},
		"a command imports test code":           {"drydock.dev/cmd/drydock", "drydock.dev/test/kit", "", 1},
		"kubectl drydock links a function":      {"drydock.dev/cmd/kubectl-drydock/command", "fmt", "drydock.dev/functions/backup", 1},
		"kubectl drydock links Knative":         {"drydock.dev/cmd/kubectl-drydock", "fmt", "knative.dev/eventing/pkg/apis/eventing/v1", 1},
		"kubectl drydock imports the root":      {"drydock.dev/cmd/kubectl-drydock/command", "drydock.dev", "", 1},
		"kubectl drydock imports plans": {"drydock.dev/cmd/kubectl-drydock/command",
			"github.com/spf13/cobra drydock.dev/shared/plan", "", 0},
		"the root imports the engine":            {"drydock.dev", "drydock.dev/eventsource/engine", "", 1},
		"a package has no law":                   {"drydock.dev/shared/new", "fmt", "", 1},
		"a path only begins like an allowed one": {"drydock.dev/functions/backup", "drydock.dev/shared/apiextra", "", 1},
		"all imports are allowed": {"drydock.dev/functions/backup", "fmt context drydock.dev/shared/plan k8s.io/api/core/v1",
			"k8s.io/client-go/rest", 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := breaches(row.path, strings.Fields(row.imports), strings.Fields(row.linked))
			if len(got) != row.want {
				t.Errorf("%d breaches, want %d: %q", len(got), row.want, got)
			}
		})
	}
}
