package functest

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// output collects the output of a process, and is readable while the process runs.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// start starts a process in a new process group. At the end of the test the process gets SIGTERM and must end.
func start(t *testing.T, env []string, name string, args ...string) (*output, <-chan struct{}) {
	t.Helper()
	out, ended := &output{}, make(chan struct{})
	cmd := exec.Command(name, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = env, out, out, 5*time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Errorf("%s still runs 20 seconds after SIGTERM", name)
		}
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-ended
		if t.Failed() {
			t.Logf("%s printed:\n%s", name, out)
		}
	})
	return out, ended
}

// freePort returns a free TCP port of the loopback address.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// eventually waits until the condition holds.
func eventually(t *testing.T, condition string, within time.Duration, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !holds(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", within, condition)
		}
	}
}

// get returns the status and text of a page. The status is 0 if there is no answer.
func get(url string) (int, string) {
	response, err := (&http.Client{Timeout: 5 * time.Second}).Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(text)
}

// post sends an event as a Broker does, and returns the status, header and text of the answer.
func post(t *testing.T, url, eventType string, data any, extensions ...string) (int, http.Header, string) {
	t.Helper()
	body, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	for key, value := range map[string]string{"specversion": "1.0", "id": "1", "source": "https://10.0.0.1:443", "type": eventType} {
		q.Header.Set("ce-"+key, value)
	}
	for _, extension := range extensions {
		key, value, _ := strings.Cut(extension, "=")
		q.Header.Set("ce-"+key, value)
	}
	response, err := (&http.Client{Timeout: time.Minute}).Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header, string(text)
}

// expectSifts posts the change of a StatefulSet to an instance of sift. The answer must be an event that names the function to wake.
func expectSifts(t *testing.T, url string) {
	t.Helper()
	code, header, text := post(t, url, "dev.knative.apiserver.resource.add", setWithRequest(), "kind=StatefulSet")
	if code != http.StatusOK || header.Get("ce-type") != "dev.drydock.object.changed" ||
		header.Get("ce-concerns") != "detect-resize" || header.Get("ce-name") != "web" {
		t.Errorf("sift answered %d, %v, %s", code, header, text)
	}
	if code, _, text := post(t, url, "dev.knative.apiserver.resource.add", "no object",
		"kind=StatefulSet"); code != http.StatusUnprocessableEntity {
		t.Errorf("sift answered invalid data with %d, %s. Want 422, so that a Broker does not retry", code, text)
	}
}
