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

// listed is what go list says of a package.
type listed struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,Deps", module+"/...").Output()
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

func TestImportLaw(t *testing.T) {
	all := packages(t)
	if len(all) < len(laws) {
		t.Fatalf("go list found %d packages only", len(all))
	}
	for _, p := range all {
		for _, broken := range breaches(p.ImportPath, p.Imports, p.Deps) {
			t.Error(broken)
		}
	}
}

// TestImportLawCanBeBroken: a law that nothing breaks says nothing.
func TestImportLawCanBeBroken(t *testing.T) {
	for name, row := range map[string]struct {
		path    string
		imports string
		linked  string
		want    int
	}{
		"the schema imports one of ours":               {"drydock.dev/shared/api", "fmt drydock.dev/shared/events", "", 1},
		"the schema links the client":                  {"drydock.dev/shared/api", "fmt k8s.io/api/core/v1", "k8s.io/client-go/rest", 1},
		"a plan takes a context":                       {"drydock.dev/shared/plan", "context drydock.dev/shared/api", "", 1},
		"a plan reads the environment":                 {"drydock.dev/shared/plan", "os", "", 1},
		"a builder rolls dice":                         {"drydock.dev/shared/resources", "math/rand/v2", "", 1},
		"the wire contract speaks HTTP":                {"drydock.dev/shared/events", "net/http", "", 1},
		"the mover takes a library":                    {"drydock.dev/cmd/drydock/mover", "golang.org/x/sys/unix github.com/klauspost/compress", "", 1},
		"the mover takes one of ours":                  {"drydock.dev/cmd/drydock/mover", "drydock.dev/shared/api", "", 1},
		"HTTP links the client":                        {"drydock.dev/shared/serve", "net/http", "k8s.io/client-go/rest", 1},
		"telemetry knows an SDK":                       {"drydock.dev/shared/telemetry", "go.opentelemetry.io/otel/sdk/trace", "", 1},
		"an exporter of telemetry links the client":    {"drydock.dev/shared/telemetry/export", "", "k8s.io/client-go/rest", 1},
		"the executor knows a function":                {"drydock.dev/shared/apply", "drydock.dev/functions/backup", "", 1},
		"a function knows another":                     {"drydock.dev/functions/backup", "drydock.dev/functions/restore", "", 1},
		"a function knows HTTP":                        {"drydock.dev/functions/backup", "drydock.dev/shared/serve", "", 1},
		"a function knows its own parts":               {"drydock.dev/functions/backup", "drydock.dev/functions/backup/parts", "", 0},
		"the event source knows a function":            {"drydock.dev/eventsource/engine", "drydock.dev/functions/backup", "", 1},
		"the event source knows the root":              {"drydock.dev/eventsource/engine", "drydock.dev", "", 1},
		"a command is wiring":                          {"drydock.dev/cmd/drydock", "drydock.dev drydock.dev/functions/backup github.com/x/y", "", 0},
		"a command takes test code along":              {"drydock.dev/cmd/drydock", "drydock.dev/test/kit", "", 1},
		"the plugin of kubectl takes a function along": {"drydock.dev/cmd/kubectl-drydock/command", "fmt", "drydock.dev/functions/backup", 1},
		"the plugin of kubectl links Knative":          {"drydock.dev/cmd/kubectl-drydock", "fmt", "knative.dev/eventing/pkg/apis/eventing/v1", 1},
		"the plugin of kubectl imports the functions":  {"drydock.dev/cmd/kubectl-drydock/command", "drydock.dev", "", 1},
		"the plugin of kubectl uses plans":             {"drydock.dev/cmd/kubectl-drydock/command", "github.com/spf13/cobra drydock.dev/shared/plan", "", 0},
		"the root takes the engine along":              {"drydock.dev", "drydock.dev/eventsource/engine", "", 1},
		"a package that nobody has thought about":      {"drydock.dev/shared/new", "fmt", "", 1},
		"a name that only begins like another's":       {"drydock.dev/functions/backup", "drydock.dev/shared/apiextra", "", 1},
		"what is allowed":                              {"drydock.dev/functions/backup", "fmt context drydock.dev/shared/plan k8s.io/api/core/v1", "k8s.io/client-go/rest", 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := breaches(row.path, strings.Fields(row.imports), strings.Fields(row.linked))
			if len(got) != row.want {
				t.Errorf("%d breaches: %q, want %d", len(got), got, row.want)
			}
		})
	}
}
