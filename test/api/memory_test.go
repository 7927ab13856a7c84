//go:build cluster

package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/serve"
	"drydock.dev/test/kit"
	"drydock.dev/test/kit/build"
)

// TestLargeClaimsStayWithinMemoryOfFunction: only the API server's limit of an object bounds labels, and any user may
// create claims with a set's claim names. Without a bound the function would be killed while it serves other tenants.
func TestLargeClaimsStayWithinMemoryOfFunction(t *testing.T) {
	w := kit.NewWorld(t)
	set := w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	createLargeClaims(w, 50, set.Spec.VolumeClaimTemplates[0].Spec)
	detect := kit.StartFunction(t, "detect-resize", kit.APIPath(t), "DRYDOCK_IMAGE="+kit.Settings().Image, "DRYDOCK_ALLOW_TAGS=true")
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	e := events.NewChanged(events.Ref{Namespace: w.Namespace, Name: "web", UID: set.UID}, "x", api.DetectResize)
	w.Eventually("the function refuses the event", func() string { // the function may not serve yet, and a busy API server may be too slow
		err := serve.NewSender(detect.Address, nil).Send(t.Context(), e)
		if err == nil || !mentions(detect.Output.String(), "16 MiB") {
			return fmt.Sprintf("%v: %s", err, detect.Output)
		}
		return ""
	})
	expectMemory(t, detect, "the event")
}

// createLargeClaims creates claims of set web, each near the size limit of the API server.
func createLargeClaims(w *kit.World, count int, spec corev1.PersistentVolumeClaimSpec) {
	w.T.Helper()
	labels := map[string]string{}
	for i := range 3800 {
		labels[fmt.Sprintf("%s.%05d/%s", strings.Repeat("a", 200), i, strings.Repeat("k", 40))] = strings.Repeat("v", 60)
	}
	failed := newResults(count)
	for i := range count {
		go func() {
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("data-web-%d", i+1), Labels: labels},
				Spec: *spec.DeepCopy()}
			_, err := w.Kube.CoreV1().PersistentVolumeClaims(w.Namespace).Create(context.Background(), claim, metav1.CreateOptions{})
			failed <- err
		}()
	}
	for range count {
		if err := <-failed; err != nil {
			w.T.Fatalf("creating the claims: %v", err)
		}
	}
}

// hostile is what a tenant, a node and a sender of events do to exhaust the memory of a program.
type hostile struct {
	w        *kit.World
	node     *hostileNode
	binaries map[string]string
}

const (
	hostileRecords = 20  // sets whose records are lists of nulls
	hostileSets    = 4   // sets with 80,000 tolerations, 1.4 MB in etcd and 1.9 MB as JSON
	largeSets      = 200 // sets with annotations near the limit of 256 KiB
	viewerToken    = "secret"
)

// hostileLoads are the loads of each program in deploy. A load fails the test if it does not reach the program.
var hostileLoads = []struct {
	name, program string
	variables     []string
	send          func(t *testing.T, h *hostile, f *victim)
}{
	{"an event with a list of null containers", "sift", nil, func(t *testing.T, _ *hostile, f *victim) {
		postObject(t, f, `{"spec":{"template":{"spec":{"containers":[`+nulls(1020<<10)+`]}}}}`, http.StatusUnprocessableEntity)
	}},
	{"an event with a record of nulls", "sift", nil, func(t *testing.T, _ *hostile, f *victim) {
		postObject(t, f, eventOf(recordOfNulls("s", "members", 1000<<10)), http.StatusOK, http.StatusAccepted, http.StatusNoContent,
			http.StatusUnprocessableEntity)
	}},
	{"20 events of 250 KiB at once", "sift", nil, func(t *testing.T, _ *hostile, f *victim) {
		together(20, func(int) {
			postObject(t, f, eventOf(recordOfNulls("s", "members", 250<<10)), http.StatusOK, http.StatusAccepted, http.StatusNoContent,
				http.StatusUnprocessableEntity)
		})
	}},
	{"sweep of all hostile sets", "sift", nil, func(t *testing.T, _ *hostile, f *victim) { f.Tick(t, "hostile") }},
	{"8 events at once for sets with records of nulls", "detect-resize", nil, func(t *testing.T, h *hostile, f *victim) {
		h.changed(t, f, api.DetectResize, "record", 8)
	}},
	{"8 events at once for sets with 80,000 tolerations", "detect-resize", nil, func(t *testing.T, h *hostile, f *victim) {
		h.refused(t, f, api.DetectResize, "tolerations", 8)
	}},
	{"20 requests at once for sets with records of nulls", "wake-gateway", nil, func(t *testing.T, h *hostile, f *victim) {
		h.poke(t, f, "record", hostileRecords)
	}},
	{"20 requests at once for sets with 80,000 tolerations", "wake-gateway", nil, func(t *testing.T, h *hostile, f *victim) {
		h.poke(t, f, "tolerations", 20)
	}},
	{"pods that print 16 MiB as their connections", "idle-timeout", nil, func(t *testing.T, h *hostile, f *victim) {
		for i := range hostileSets {
			h.letSleep(fmt.Sprintf("web-%d", i))
		}
		h.changed(t, f, api.IdleTimeout, "web", hostileSets)
		expectAsked(t, &h.node.execs)
	}},
	{"a Prometheus that answers a probe with 4 MiB of nulls", "idle-timeout", []string{"DRYDOCK_PROMETHEUS_NAMESPACES=*"},
		func(t *testing.T, h *hostile, f *victim) {
			h.letSleep("queried")
			h.changed(t, f, api.IdleTimeout, "queried", 1)
			expectAsked(t, &h.node.queries)
		}},
	{"kubelets with 16 MiB of null volumes, four at once", "grow-volumes", []string{"DRYDOCK_GROW_KUBELET_INSECURE=true"},
		func(t *testing.T, h *hostile, f *victim) {
			h.node.summary.Store(`{"pods":[{"volume":[` + nulls(16<<20-100) + `]}]}`)
			h.grow(t, f)
		}},
	{"kubelets with a text of 16 MiB, four at once", "grow-volumes", []string{"DRYDOCK_GROW_KUBELET_INSECURE=true"},
		func(t *testing.T, h *hostile, f *victim) {
			h.node.summary.Store(`{"node":"` + strings.Repeat("x", 16<<20-100) + `","pods":[]}`)
			h.grow(t, f)
		}},
	{"a Prometheus with 4 MiB of nulls for four sets at once", "grow-volumes", []string{"DRYDOCK_GROW_USAGE=prometheus"},
		func(t *testing.T, h *hostile, f *victim) {
			h.changed(t, f, api.GrowVolumes, "web", hostileSets)
			expectAsked(t, &h.node.queries)
		}},
	{"four views at once of 200 sets with 244 KiB of annotations", "status-page", nil, func(t *testing.T, h *hostile, f *victim) {
		together(4, func(int) { view(t, f, "/") })
	}},
	{"all hostile sets, requests and views at once", "standalone", []string{"DRYDOCK_TICK=2s"}, func(t *testing.T, h *hostile, f *victim) {
		together(3, func(n int) {
			h.poke(t, f, []string{"record", "tolerations", "large"}[n], 20)
			view(t, f, "/")
		})
	}},
}

// TestProgramsStayWithinMemory runs the programs that read what others send, each as a process of its own, with the settings and the memory
// limit of its manifest. Its usual work takes less than half of the limit. Under the worst loads that a tenant, a node, a Prometheus or a
// pod can make, it takes at most four fifths, and then does its work.
func TestProgramsStayWithinMemory(t *testing.T) {
	h := newHostile(t)
	measure := func(t *testing.T, f *victim) {
		t.Logf("limit %d MiB, resident %d MiB, cgroup %d MiB", f.Limit>>20, f.PeakMemory(t)>>20, f.Peak(t)>>20)
		if excess := f.Excess(t); excess != "" {
			t.Errorf("%s: %.2000s", excess, f.Output)
		}
	}
	for _, program := range []string{"sift", "detect-resize", "wake-gateway", "idle-timeout", "grow-volumes", "status-page", "standalone"} {
		t.Run("usual work/"+program, func(t *testing.T) {
			f := h.run(t, program)
			work(t, h, f, program)
			measure(t, f)
			if f.PeakMemory(t) > f.Limit/2 {
				t.Error("the work takes more than half of the limit")
			}
		})
	}
	h.createHostileSets()
	for _, load := range hostileLoads {
		t.Run(load.program+"/"+load.name, func(t *testing.T) {
			f := h.run(t, load.program, load.variables...)
			load.send(t, h, f)
			work(t, h, f, load.program)
			measure(t, f)
		})
	}
}

// TestExcessOfMemoryIsDetected: a process that takes more than its share of the limit fails a test, and so does one that is killed.
func TestExcessOfMemoryIsDetected(t *testing.T) {
	for mebibytes, want := range map[int]string{16: "", 56: "more than 80 %", 256: "killed the process at its limit of 64 MiB"} {
		m := kit.NewCgroup(t, 64<<20)
		// tail keeps all that it reads, and then waits for the end of its input
		command := m.Command("tail", "-c", fmt.Sprint(mebibytes<<20))
		in, err := command.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		_, _ = in.Write(make([]byte, mebibytes<<20))
		got := m.Excess(t)
		if got == "" != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%d MiB: %q, want %q", mebibytes, got, want)
		}
		_ = in.Close()
		_ = command.Wait()
	}
}

// victim is a running program with the addresses of its events, its wake gateway and its status page.
type victim struct {
	*kit.Program
	gateway, page string
}

// newHostile returns a namespace with ordinary sets, one of which runs on a hostile machine.
func newHostile(t *testing.T) *hostile {
	t.Helper()
	h := &hostile{w: kit.NewWorld(t), binaries: map[string]string{}}
	h.w.UseMachine()
	h.node = startHostileNode(h.w)
	for _, program := range []string{"drydock", "drydock-standalone"} {
		h.binaries[program] = kit.Build(t, program)
	}
	const longAgo = "2026-01-01T00:00:00Z"
	quiet := kit.WorldSet("quiet", 1, "64Mi", "data")
	quiet.Annotations = map[string]string{api.IdleTimeoutAnnotation: "24h"}
	h.w.CreateSet(quiet)
	want := map[string]int32{"quiet": 1, "queried": 1}
	for i := range hostileSets {
		web := kit.WorldSet(fmt.Sprintf("web-%d", i), 2, "64Mi", "data")
		web.Annotations = map[string]string{api.GrowAnnotation: growRule, api.LastActivityAnnotation: longAgo,
			api.ActivityProbeAnnotation: "tcp:5432"}
		h.w.CreateSet(web)
		want[web.Name] = 2
	}
	queried := kit.WorldSet("queried", 1, "64Mi", "data")
	queried.Annotations = map[string]string{api.LastActivityAnnotation: longAgo, api.ActivityProbeAnnotation: "prometheus:sum(up) > 0"}
	h.w.CreateSet(queried)
	h.w.Eventually("the sets are ready", func() string {
		for name, replicas := range want {
			if set := h.w.Set(name); set.Status.ReadyReplicas != replicas {
				return fmt.Sprintf("%s has %d ready replicas", name, set.Status.ReadyReplicas)
			}
		}
		return ""
	})
	pods, err := h.w.Kube.CoreV1().Pods(h.w.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items { // a kubelet gives a pod its address
		patch := []byte(`{"status":{"podIP":"192.0.2.1","podIPs":[{"ip":"192.0.2.1"}]}}`)
		if _, err := h.w.Kube.CoreV1().Pods(h.w.Namespace).Patch(t.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{},
			"status"); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// run starts the program for the namespace.
func (h *hostile) run(t *testing.T, program string, variables ...string) *victim {
	t.Helper()
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	t.Cleanup(sink.Close)
	binary, listen, gateway, page := "drydock", kit.FreeAddress(t), kit.FreeAddress(t), kit.FreeAddress(t)
	if program == "standalone" {
		binary = "drydock-standalone"
	}
	settings := []string{"KUBECONFIG=" + kit.APIPath(t), "DRYDOCK_NAMESPACES=" + h.w.Namespace, "K_SINK=" + sink.URL,
		"DRYDOCK_IMAGE=" + kit.Settings().Image, "DRYDOCK_ALLOW_TAGS=true", "DRYDOCK_STATUS_TOKEN=" + viewerToken,
		"DRYDOCK_PROMETHEUS=" + h.node.prometheus.URL, "DRYDOCK_LISTEN=" + listen, "DRYDOCK_BROKER=none", "DRYDOCK_GATEWAY=" + gateway,
		"DRYDOCK_STATUS_PAGE=" + page, "DRYDOCK_LEASE_NAMESPACE=" + h.w.Namespace, "DRYDOCK_LEADER_ELECT=false"}
	f := kit.StartProgram(t, h.binaries[binary], program, append(settings, variables...)...)
	v := &victim{Program: f, gateway: f.Address, page: f.Address}
	ready := f.Address
	if program == "standalone" {
		ready, v.gateway, v.page = "http://"+listen+"/", "http://"+gateway+"/", "http://"+page+"/"
	}
	h.w.Eventually("the program is ready", func() string {
		response, err := http.Get(ready + "health/readiness")
		if err != nil {
			return err.Error()
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusOK {
			return response.Status
		}
		return ""
	})
	return v
}

// work has the program do its usual work, and fails the test if it does not.
func work(t *testing.T, h *hostile, f *victim, program string) {
	t.Helper()
	switch program {
	case "sift":
		postObject(t, f, eventOf(build.Set("quiet")), http.StatusOK, http.StatusNoContent, http.StatusAccepted)
		f.Tick(t, "work")
	case "wake-gateway":
		h.pokeSet(t, f, "quiet", http.StatusOK)
	case "status-page":
		view(t, f, "sets/"+h.w.Namespace+"/quiet")
	case "standalone":
		h.pokeSet(t, f, "quiet", http.StatusOK)
		view(t, f, "sets/"+h.w.Namespace+"/quiet")
	default:
		e := events.NewChanged(events.Ref{Namespace: h.w.Namespace, Name: "quiet"}, "work", api.Function(program))
		if err := serve.NewSender(f.Address, nil).Send(t.Context(), e); err != nil {
			t.Errorf("%s no longer works: %v: %s", program, err, f.Output)
		}
	}
}

// createHostileSets creates the sets that the API server accepts from a tenant.
func (h *hostile) createHostileSets() {
	h.w.T.Helper()
	create := func(name string, count int, change func(*appsv1.StatefulSet)) {
		createSets(h.w, count, func(i int) *appsv1.StatefulSet {
			set := build.Set(fmt.Sprintf("%s-%d", name, i), build.Replicas(0), build.Template("data", "64Mi", "fixed"))
			set.Annotations = map[string]string{}
			change(set)
			return set
		})
	}
	create("record", hostileRecords, func(set *appsv1.StatefulSet) {
		set.Annotations = recordOfNulls(set.Name, "members", 250<<10).Annotations
	})
	create("tolerations", hostileSets, func(set *appsv1.StatefulSet) {
		set.Annotations[api.ResizeAnnotation] = "data=128Mi"
		set.Spec.Template.Spec.Tolerations = slices.Repeat([]corev1.Toleration{{Operator: corev1.TolerationOpExists}}, 80_000)
	})
	create("large", largeSets, func(set *appsv1.StatefulSet) {
		for _, key := range []string{api.PausedAnnotation, api.IdleTimeoutAnnotation, api.LastActivityAnnotation, api.SleepRequestedAnnotation,
			api.AwakeUntilAnnotation, api.KeepWarmAnnotation, api.MinUptimeAnnotation, api.DependsOnAnnotation, api.WakeReplicasAnnotation,
			api.ActivityProbeAnnotation, api.WakeReadyAnnotation} {
			set.Annotations[key] = strings.Repeat("\x01", 4<<10)
		}
		set.Annotations[api.Prefix+"notes"] = strings.Repeat("x", 200<<10)
	})
}

// changed posts an event of the function about each of the sets, all at once. The function answers with success.
func (h *hostile) changed(t *testing.T, f *victim, name api.Function, sets string, count int) {
	t.Helper()
	h.post(t, f, name, sets, count, func(err error) bool { return err == nil })
}

// refused does the same as changed, for sets that the function refuses because of their size.
func (h *hostile) refused(t *testing.T, f *victim, name api.Function, sets string, count int) {
	t.Helper()
	h.post(t, f, name, sets, count, func(err error) bool {
		return err != nil && strings.Contains(err.Error(), "422 Unprocessable Entity: StatefulSet") &&
			strings.Contains(err.Error(), "bytes as JSON")
	})
}

// letSleep gives an idle set a timeout. Before, no other program of the test may have asked its probe: idle-timeout would wait after a
// failure.
func (h *hostile) letSleep(set string) {
	h.w.Annotate(set, map[string]string{api.IdleTimeoutAnnotation: "10m"})
}

func (h *hostile) post(t *testing.T, f *victim, name api.Function, sets string, count int, answered func(error) bool) {
	t.Helper()
	together(count, func(i int) {
		ref := events.Ref{Namespace: h.w.Namespace, Name: sets}
		if count > 1 {
			ref.Name = fmt.Sprintf("%s-%d", sets, i%hostileSets)
		}
		if err := serve.NewSender(f.Address, nil).Send(t.Context(), events.NewChanged(ref, "x", name)); !answered(err) {
			t.Errorf("%s: unexpected answer: %.300v", ref.Name, err)
		}
	})
}

// grow has grow-volumes ask four kubelets at once.
func (h *hostile) grow(t *testing.T, f *victim) {
	t.Helper()
	h.changed(t, f, api.GrowVolumes, "web", hostileSets)
	expectAsked(t, &h.node.summaries)
}

// poke asks the wake gateway for the state of the sets, with 20 requests at once.
func (h *hostile) poke(t *testing.T, f *victim, sets string, requests int) {
	t.Helper()
	together(requests, func(i int) { h.pokeSet(t, f, fmt.Sprintf("%s-%d", sets, i%hostileSets), 0) })
}

// pokeSet asks for the state of a set. A status of 0 means any.
func (h *hostile) pokeSet(t *testing.T, f *victim, set string, status int) {
	t.Helper()
	get(t, f.gateway+"api/strategies/poke?names="+h.w.Namespace+"/"+set, status)
}

func view(t *testing.T, f *victim, path string) {
	t.Helper()
	get(t, f.page+strings.TrimPrefix(path, "/"), http.StatusOK)
}

func get(t *testing.T, address string, status int) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Error(err)
		return
	}
	request.Header.Set("Authorization", "Bearer "+viewerToken)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Errorf("no answer: %v", err)
		return
	}
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(response.Body)
	if status != 0 && response.StatusCode != status {
		t.Errorf("%s: %s: %.500s", address, response.Status, body)
	}
}

// postObject posts an event of the event source about a set, and expects one of the statuses.
func postObject(t *testing.T, f *victim, body string, statuses ...int) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.Address, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return
	}
	for key, value := range map[string]string{"specversion": "1.0", "id": "1", "source": "x", "type": events.SourceUpdate,
		"kind": "StatefulSet", "apiversion": "apps/v1", "namespace": "a", "name": "a"} {
		request.Header.Set("ce-"+key, value)
	}
	request.Header.Set("Content-Type", event.ApplicationJSON)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Errorf("no answer: %v: %s", err, f.Output)
		return
	}
	defer func() { _ = response.Body.Close() }()
	for _, status := range statuses {
		if response.StatusCode == status {
			return
		}
	}
	text, _ := io.ReadAll(response.Body)
	t.Errorf("%s: %.500s", response.Status, text)
}

// together runs do for 0 to count-1 at the same time.
func together(count int, do func(i int)) {
	var all sync.WaitGroup
	for i := range count {
		all.Go(func() { do(i) })
	}
	all.Wait()
}

// nulls returns the elements of a JSON list, in all about size bytes.
func nulls(size int) string { return strings.TrimSuffix(strings.Repeat("null,", size/5), ",") }

// recordOfNulls returns a set whose record of a resize is a list of nulls.
func recordOfNulls(name, list string, size int) *appsv1.StatefulSet {
	set := build.Set(name)
	set.Annotations = map[string]string{api.StatusAnnotation: fmt.Sprintf(
		`{"version":2,"operation":"0123456789ab","kind":"Resize","phase":"Expanding","replaceSet":true,"set":{"name":%q},`+
			`%q:[{"phase":"Pending","claims":[%s]}]}`, name, list, nulls(size))}
	return set
}

func eventOf(set *appsv1.StatefulSet) string {
	text, _ := json.Marshal(set)
	return string(text)
}

func expectAsked(t *testing.T, requests *atomic.Int64) {
	t.Helper()
	if requests.Swap(0) == 0 {
		t.Error("the load did not reach the program: it asked nothing")
	}
}

// TestSweepOfLargeSetsStaysWithinMemory runs sift as a separate process, like a deployment. Its memory limit is 128
// MiB. A sweep beyond it is killed, and so is every later sweep.
func TestSweepOfLargeSetsStaysWithinMemory(t *testing.T) {
	const (
		sets  = 300
		large = 250 << 10 // the limit for all annotations of an object is 256 KiB
	)
	w := kit.NewWorld(t)
	texts := []map[string]string{
		{"example.com/notes": strings.Repeat("x", large)},
		{api.SleepAnnotation: claimsBomb(large)},
		{api.StatusAnnotation: claimsBomb(large)},
		{api.ResizeAnnotation: strings.Repeat("a=1Gi,", large/6)},
		{api.DependsOnAnnotation: strings.Repeat("web,", large/4)},
	}
	createSets(w, sets, func(i int) *appsv1.StatefulSet {
		set := build.Set(fmt.Sprintf("web-%d", i), build.Replicas(0), build.Template("data", "64Mi", "fixed"),
			build.Label(api.GroupLabel, "shop"))
		set.Annotations = texts[i%len(texts)]
		return set
	})
	expectSweeps(t, w, sets)
}

// TestSweepOfSetsWithLargeTemplatesStaysWithinMemory: annotations have a limit. All other fields are bounded only by
// the API server's limit of an object.
func TestSweepOfSetsWithLargeTemplatesStaysWithinMemory(t *testing.T) {
	const (
		sets  = 60 // more than a page
		large = 1200 << 10
	)
	w := kit.NewWorld(t)
	createSets(w, sets, func(i int) *appsv1.StatefulSet {
		set := build.Set(fmt.Sprintf("web-%d", i), build.Replicas(0), build.Template("data", "64Mi", "fixed"))
		set.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "NOTES", Value: strings.Repeat("x", large)}}
		return set
	})
	expectSweeps(t, w, sets)
}

// TestConcurrentTicksStayWithinMemory: if Knative authenticates no sender, every pod can send ticks.
func TestConcurrentTicksStayWithinMemory(t *testing.T) {
	const (
		ticks = 20 // Knative gives a pod that many events at once
		sets  = 100
		large = 200 << 10
	)
	w := kit.NewWorld(t)
	createSets(w, sets, func(i int) *appsv1.StatefulSet {
		return build.Set(fmt.Sprintf("web-%d", i), build.Replicas(0), build.Template("data", "64Mi", "fixed"),
			build.Annotation("example.com/notes", strings.Repeat("x", large)))
	})
	sift := startSift(t, w)
	sift.Tick(t, "first")
	var all sync.WaitGroup
	for n := range ticks {
		all.Go(func() { sift.Tick(t, fmt.Sprint(n)) })
	}
	all.Wait()
	expectMemory(t, sift, fmt.Sprintf("%d ticks at once", ticks))
}

// startSift starts sift for the world's namespace.
func startSift(t *testing.T, w *kit.World) *kit.Program {
	t.Helper()
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	t.Cleanup(sink.Close)
	return kit.StartFunction(t, "sift", kit.APIPath(t), "K_SINK="+sink.URL, "DRYDOCK_NAMESPACES="+w.Namespace)
}

func expectSweeps(t *testing.T, w *kit.World, sets int) {
	t.Helper()
	sift := startSift(t, w)
	for n := range 3 {
		sift.Tick(t, fmt.Sprint(n))
	}
	expectMemory(t, sift, fmt.Sprintf("three sweeps of %d sets", sets))
}

// claimsBomb returns a record of the size that becomes much larger when it is decoded.
func claimsBomb(size int) string {
	const head = `{"version":2,"operation":"0123456789ab","kind":"Sleep","phase":"Asleep","set":{"name":"web"},"claims":[{}`
	return head + strings.Repeat(",{}", (size-len(head))/3) + "]}"
}

func createSets(w *kit.World, count int, make func(i int) *appsv1.StatefulSet) {
	w.T.Helper()
	failed := newResults(count)
	for i := range count {
		go func() {
			set := make(i)
			set.Namespace, set.ResourceVersion, set.UID = w.Namespace, "", ""
			_, err := w.Kube.AppsV1().StatefulSets(w.Namespace).Create(context.Background(), set, metav1.CreateOptions{})
			failed <- err
		}()
	}
	for range count {
		if err := <-failed; err != nil {
			w.T.Fatalf("creating the sets: %v", err)
		}
	}
}

func newResults(count int) chan error { return make(chan error, count) }

func expectMemory(t *testing.T, f *kit.Program, what string) {
	t.Helper()
	t.Logf("%s took %d MiB", what, f.PeakMemory(t)>>20)
	if excess := f.Excess(t); excess != "" {
		t.Error(excess)
	}
}
