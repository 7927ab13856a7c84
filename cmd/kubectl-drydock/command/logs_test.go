package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"drydock.dev/shared/api"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// logServer is an API server with objects and logs.
type logServer struct {
	*httptest.Server
	build.Lists
	logs      map[string]string // by namespace/pod/container; previous logs end with /previous
	forbidden map[string]bool   // parts of paths
	queries   []string          // of the requests for logs
	bare      bool              // lists have no kind, so that some clients fail with an error that quotes the whole answer
}

func newLogServer(t *testing.T) *logServer {
	t.Helper()
	s := &logServer{Lists: build.EmptyLists(), logs: map[string]string{}, forbidden: map[string]bool{}}
	s.Lists["events"] = nil
	s.Server = httptest.NewTLSServer(s)
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP answers like an API server.
func (s *logServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fail := func(code int, reason metav1.StatusReason) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(metav1.Status{Status: metav1.StatusFailure, Reason: reason, Code: int32(code), Message: "refused"})
	}
	for part := range s.forbidden {
		if strings.Contains(r.URL.Path, part) {
			fail(http.StatusForbidden, metav1.StatusReasonForbidden)
			return
		}
	}
	parts := strings.Split(r.URL.Path, "/")
	switch {
	case r.URL.Path == "/version":
		_, _ = w.Write([]byte(`{"gitVersion":"v1.35.0","platform":"linux/amd64"}`))
	case path.Base(r.URL.Path) == "log":
		s.queries = append(s.queries, r.URL.RawQuery)
		name := strings.Join([]string{parts[4], parts[6], r.URL.Query().Get("container")}, "/")
		if r.URL.Query().Has("previous") {
			name += "/previous"
		}
		text, found := s.logs[name]
		if !found {
			fail(http.StatusBadRequest, metav1.StatusReasonBadRequest)
			return
		}
		_, _ = w.Write([]byte(text))
	case !slices.ContainsFunc(slices.Collect(maps.Keys(s.Lists)), func(plural string) bool { return slices.Contains(parts, plural) }):
		fail(http.StatusNotFound, metav1.StatusReasonNotFound)
	case s.bare:
		s.Lists.ServeHTTP(w, r)
	default:
		s.serveWithKind(w, r)
	}
}

// listKinds are the kinds of lists that the dynamic client reads.
var listKinds = map[string]string{"statefulsets": "StatefulSet", "storageclasses": "StorageClass", "pods": "Pod", "events": "Event",
	"configmaps": "ConfigMap", "namespaces": "Namespace"}

// serveWithKind adds the kind to a list.
func (s *logServer) serveWithKind(w http.ResponseWriter, r *http.Request) {
	recorder := httptest.NewRecorder()
	s.Lists.ServeHTTP(recorder, r)
	kind, found := listKinds[path.Base(r.URL.Path)]
	var list map[string]any
	if !found || recorder.Code != http.StatusOK || json.Unmarshal(recorder.Body.Bytes(), &list) != nil {
		maps.Copy(w.Header(), recorder.Header())
		w.WriteHeader(recorder.Code)
		_, _ = w.Write(recorder.Body.Bytes())
		return
	}
	version, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/apis/"), "/api/"), "/"+path.Base(r.URL.Path))
	version, _, _ = strings.Cut(version, "/namespaces")
	list["apiVersion"], list["kind"] = version, kind+"List"
	for _, item := range list["items"].([]any) {
		item.(map[string]any)["apiVersion"], item.(map[string]any)["kind"] = version, kind
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(list)
}

// run runs kubectl drydock at build.Now and returns stdout and stderr.
func (s *logServer) run(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	useServer(t, s.URL)
	var out, errOut bytes.Buffer
	root := newAt(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &errOut}, func() time.Time { return build.Now })
	root.SetArgs(append(args, "-n", "shop"))
	err = root.ExecuteContext(t.Context())
	return out.String(), errOut.String(), err
}

// print adds lines to the log of a container, each some seconds before build.Now.
func (s *logServer) print(name string, lines ...string) {
	for i, line := range lines {
		s.logs[name] += build.Now.Add(time.Duration(i-len(lines))*time.Second).Format(time.RFC3339Nano) + " " + line + "\n"
	}
}

// functionPod is a pod of a function on Knative.
func functionPod(function api.Function, age time.Duration) *corev1.Pod {
	pod := build.Pod(string(function)+"-00001-deployment-x", nil)
	pod.Namespace, pod.Labels, pod.Annotations = "drydock", map[string]string{knativeServiceLabel: string(function)}, nil
	pod.CreationTimestamp = metav1.NewTime(build.Now.Add(-age))
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{running("function"), running("queue-proxy")}
	return pod
}

func running(container string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: container, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
}

// newResizeServer has a set whose resize runs, with two functions, a mover, a hook and a member.
func newResizeServer(t *testing.T) *logServer {
	t.Helper()
	s := newLogServer(t)
	set := build.Set("web", build.Template("data", "64Mi", "fast"), build.Status(build.Operation(api.Moving,
		build.Members(api.MemberFinalPass, "data-web-0"))))
	set.TypeMeta = metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"}
	job := build.Job(0, 1)
	mover := build.Mover(job)
	mover.Status.InitContainerStatuses = []corev1.ContainerStatus{running("first"), running("final")}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}
	mover.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "pin", State: waiting}, running("injected")}
	hookJob := build.With(build.Job(0, 2), build.MemberLink(api.RoleHook, 0))
	hookJob.Name, hookJob.UID = "drydock-"+build.ID+"-before-0-1", "uid-hook"
	hook := build.Pod(hookJob.Name+"-x", nil)
	hook.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(hookJob, corev1.SchemeGroupVersion.WithKind("Job"))}
	hook.Status.ContainerStatuses = []corev1.ContainerStatus{running("drain")}
	member := build.PodOf("web", 0, "data")
	member.Status.ContainerStatuses = []corev1.ContainerStatus{running("db")}
	restarted := functionPod(api.Backup, time.Hour)
	restarted.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 2}
	restarted.Status.ContainerStatuses[0].RestartCount = 1
	s.Lists["statefulsets"] = []metav1.Object{set}
	s.Lists["jobs"] = []metav1.Object{job, hookJob}
	s.Lists["pods"] = []metav1.Object{mover, hook, member, restarted, functionPod(api.Restore, time.Second)}
	const subject = `"subject":"/apis/apps/v1/namespaces/shop/statefulsets/web"`
	s.print("drydock/backup-00001-deployment-x/function/previous", `{"level":"ERROR","msg":"function panicked","function":"backup",`+
		`"panic":"index out of range","id":"`+build.ID+`/x"}`)
	s.print("drydock/backup-00001-deployment-x/function", `{"level":"INFO","msg":"serving","function":"backup"}`,
		`{"level":"INFO","msg":"done","function":"backup","set":"shop/web","plan":"do FinalPass: patch statefulsets web {+status}"}`,
		`{"level":"INFO","msg":"event","function":"backup","outcome":"replied","code":200,"took":"12ms","id":"a",`+subject+`}`, "not JSON")
	s.print("drydock/restore-00001-deployment-x/function", `{"level":"INFO","msg":"event","function":"restore","outcome":"done",`+subject+`}`)
	s.print("drydock/restore-00001-deployment-x/queue-proxy", `{"set":"shop/web","msg":"hunter2"}`)
	s.print("shop/"+mover.Name+"/first", `{"phase":"copy","bytesDone":1,"bytesTotal":2,"filesDone":0,"filesTotal":1,"claim":"data","pass":1}`,
		`{"stage":"first","result":"converged","code":0,"reason":"Converged","message":"data: one pass","passes":1}`)
	s.print("shop/"+mover.Name+"/final", "fatal error: out of memory at https://u:hunter2@x")
	s.print("shop/"+mover.Name+"/injected", "hunter2")
	s.print("shop/"+hook.Name+"/drain", "draining with password=hunter2")
	s.print("shop/web-0/db", "hunter2")
	return s
}

func TestLogsMergeFunctionsAndMovers(t *testing.T) {
	file := golden.Open(t)
	for _, row := range []struct{ situation, args string }{
		{"all lines of the running operation", "logs sts/web"},
		{"only functions", "logs sts/web --functions-only"},
		{"only movers, hooks and cleanup pods", "logs web --movers-only"},
		{"as JSON", "logs sts/web --movers-only --since 1h -o json"},
		{"an operation without a record", "logs sts/web --operation ffffffffffff"},
		{"the set of the operation is lost", "logs sts/db --operation " + build.ID + " --functions-only"},
		{"functions in another namespace", "logs sts/web --drydock-namespace elsewhere --functions-only"},
	} {
		out, errOut, err := newResizeServer(t).run(t, strings.Fields(row.args)...)
		if err != nil {
			t.Errorf("%s: %v", row.situation, err)
		}
		if strings.Contains(out+errOut, "hunter2") {
			t.Errorf("%s: a secret is printed: %s", row.situation, out)
		}
		file.Entry(t, row.situation, fmt.Sprintf("kubectl drydock %s\n%s--- stderr\n%s", row.args, out, errOut))
	}
}

// TestRestartedFunctionsExplainMissingLines: Kubernetes keeps no logs of deleted pods, so a restart of the functions removes the lines of
// earlier operations.
func TestRestartedFunctionsExplainMissingLines(t *testing.T) {
	for _, row := range []struct {
		args string
		age  time.Duration
		want string
	}{
		{"logs sts/web", time.Second, "The pods of drydock-standalone started at 2026-03-01T11:59:59Z, after the operation."},
		{"logs sts/web", time.Hour, ""},
		{"logs sts/web --operation ffffffffffff", time.Second,
			"ffffffffffff was found. The oldest pod of the functions started at 2026-03-01T11:59:59Z."},
	} {
		s := newResizeServer(t)
		pod := functionPod("", row.age)
		pod.Labels = map[string]string{nameLabel: "drydock", componentLabel: standalone}
		s.Lists["pods"] = []metav1.Object{pod}
		_, errOut, err := s.run(t, strings.Fields(row.args)...)
		if said := strings.Contains(errOut, " started at "); err != nil || said != (row.want != "") || !strings.Contains(errOut, row.want) {
			t.Errorf("%s, a pod of %s: %v, %q", row.args, row.age, err, errOut)
		}
	}
}

// TestLogsWithoutRightsSayWhatIsMissing: the rest is still shown.
func TestLogsWithoutRightsSayWhatIsMissing(t *testing.T) {
	file := golden.Open(t)
	for _, row := range []struct{ situation, forbidden string }{
		{"the user may not list pods of functions", "/namespaces/drydock/pods"},
		{"the user may not read logs of functions", "-deployment-x/log"},
		{"the user may not list Jobs", "/jobs"},
		{"the user may not read any log", "/log"},
	} {
		s := newResizeServer(t)
		s.forbidden[row.forbidden] = true
		out, errOut, err := s.run(t, "logs", "sts/web")
		if err != nil {
			t.Errorf("%s: %v", row.situation, err)
		}
		file.Entry(t, row.situation, fmt.Sprintf("%d lines\n%s", strings.Count(out, "\n"), errOut))
	}
}

// TestLogsAreReadWithLimits: each request has the times of the API server, a beginning, and limits.
func TestLogsAreReadWithLimits(t *testing.T) {
	s := newResizeServer(t)
	if _, _, err := s.run(t, "logs", "sts/web", "--since", "30s"); err != nil {
		t.Fatal(err)
	}
	if len(s.queries) < 5 {
		t.Fatal(s.queries)
	}
	since := "sinceTime=" + build.Now.Add(-30*time.Second).UTC().Format("2006-01-02T15")
	for _, query := range s.queries {
		for _, want := range []string{"timestamps=true", "limitBytes=", "tailLines=", since} {
			if !strings.Contains(query, want) {
				t.Errorf("%s lacks %s", query, want)
			}
		}
	}
}

func TestLogsRefuseMistakes(t *testing.T) {
	file := golden.Open(t)
	for _, args := range []string{"logs sts/web -o yaml", "logs sts/web --functions-only --movers-only", "logs sts/web --operation web",
		"logs sts/db", "logs deploy/web", "logs sts/web --since -1h", "logs"} {
		out, _, err := newResizeServer(t).run(t, strings.Fields(args)...)
		if err == nil || out != "" {
			t.Errorf("%s: %q, %v", args, out, err)
			continue
		}
		file.Entry(t, args, "error: "+err.Error())
	}
}

// TestLongLinesAndLogsAreCut: memory does not depend on the length of a line.
func TestLongLinesAndLogsAreCut(t *testing.T) {
	var longest, n int
	lines, size, err := eachLine(strings.NewReader("a\n"+strings.Repeat("x", 1<<20)+"\nb"), func(line []byte) {
		n, longest = n+1, max(longest, len(line))
	})
	if err != nil || n != 3 || lines != 3 || size < 1<<20 || longest > 64<<10 {
		t.Errorf("%d calls, %d lines, %d bytes, longest %d, %v", n, lines, size, longest, err)
	}
}
