package functest

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// running matches the line that func prints when the function is ready.
var running = regexp.MustCompile(`Running on host port (\d+)`)

// TestRunStartsAFunctionAndInvokeCallsIt uses func run and func invoke.
func TestRunStartsAFunctionAndInvokeCallsIt(t *testing.T) {
	dir := scratch(t)
	run := []string{"run", "--path", dir, "--container=false", "--start-timeout", "2m"}
	t.Run("v0.44 does not pass the environment", func(t *testing.T) { runWithoutEnvironment(t, dir) })

	api, sink := fakeAPIServer(t, setWithRequest()), record(t, func(w http.ResponseWriter,
		_ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
	})
	setEnvironment(t, dir, map[string]string{"FUNCTION": "sift", "K_SINK": sink.URL, "KUBECONFIG": kubeconfig(t, api.URL)})
	env := environment(t)
	out, ended := start(t, env, tool, run...)
	var port string
	eventually(t, "func run reports that the function is ready", 10*time.Minute, func() bool {
		select {
		case <-ended:
			t.Fatal("func run ended")
		default:
		}
		if found := running.FindStringSubmatch(out.String()); found != nil {
			port = found[1]
		}
		return port != ""
	})
	url := "http://127.0.0.1:" + port
	if code, text := get(url + "/health/readiness"); code != http.StatusOK || text != "READY" {
		t.Errorf("readiness %d, %s", code, text)
	}
	expectSifts(t, url)

	// A tick to the instance that func finds: sift sweeps the cluster and sends an event for the set to the Broker.
	if out, err := callFunc(t, env, "invoke", "--path", dir, "--id", "1", "--source", "/tick", "--type",
		"dev.knative.sources.ping"); err != nil {
		t.Errorf("func invoke: %v\n%s", err, out)
	}
	sent, found := sink.find(http.MethodPost, "/")
	if !found || sent.header.Get("ce-type") != "dev.drydock.object.changed" || sent.header.Get("ce-name") != "web" {
		t.Errorf("the Broker got %v. The requests to the API server were\n%s", sent.header, api.requests())
	}
}

// runWithoutEnvironment shows that v0.44 passes no variables to a function without a container: not those of func.yaml, of the command
// line, or of func's own environment. A release that passes them does not need setEnvironment.
func runWithoutEnvironment(t *testing.T, dir string) {
	out, err := callFunc(t, environment(t, "FUNCTION=sift"), "run", "--path", dir, "--container=false", "--start-timeout", "3s", "--verbose",
		"--env", "FUNCTION=sift")
	if err == nil || !strings.Contains(out, `function "" does not exist`) {
		t.Errorf("%v\n%s\nfunc passes variables now: update docs/func.md", err, out)
	}
}

// setEnvironment adds code to the copy that sets the variables, because v0.44 does not pass them.
func setEnvironment(t *testing.T, dir string, env map[string]string) {
	t.Helper()
	text := "package function\n\nimport \"os\"\n\nfunc init() {\n"
	for key, value := range env {
		text += "\t_ = os.Setenv(" + strconv.Quote(key) + ", " + strconv.Quote(value) + ")\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "environment.go"), []byte(text+"}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}
