//go:build cluster

package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"drydock.dev/eventsource/gateway"
	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/kube"
	"drydock.dev/test/kit"
)

const gatewayAccount = "system:serviceaccount:drydock:wake-gateway"

// newGateway returns a gateway with the rights of its account in the world's namespace.
func newGateway(t *testing.T, w *kit.World, saboteur *kit.Saboteur) *gateway.Gateway {
	t.Helper()
	if saboteur == nil {
		return gatewayThrough(t, w, nil)
	}
	return gatewayThrough(t, w, saboteur.Wrap)
}

// gatewayThrough is newGateway with a transport wrapper.
func gatewayThrough(t *testing.T, w *kit.World, wrap transport.WrapperFunc) *gateway.Gateway {
	t.Helper()
	_, err := w.Kube.RbacV1().RoleBindings(w.Namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "wake-gateway-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "drydock-wake-gateway"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: gatewayAccount}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(w.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: gatewayAccount,
		Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	if wrap != nil {
		config.Wrap(wrap)
	}
	settings := w.Settings
	settings.Namespaces = []string{w.Namespace}
	g := gateway.New(kube.NewClient(config), settings, gateway.Options{}, slog.New(slog.DiscardHandler))
	t.Cleanup(g.Stop)
	// Rights come into force after a moment.
	w.Eventually("the gateway may read", func() string {
		if code := visit(t, g, "poke?names=%s/missing", w.Namespace); code.Code != http.StatusNotFound {
			return code.Body.String()
		}
		return ""
	})
	return g
}

// visit requests a strategy from the gateway.
func visit(t *testing.T, g *gateway.Gateway, query string, args ...any) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRecorder()
	g.ServeHTTP(r, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/strategies/"+fmt.Sprintf(query, args...), nil))
	return r
}

func sessionStatus(r *httptest.ResponseRecorder) string {
	return r.Header().Get("X-Sablier-Session-Status")
}

// withoutReadiness makes a pod unready, and waits until its set has one ready replica less.
func withoutReadiness(w *kit.World, set string, ordinal int) {
	w.T.Helper()
	before := w.Set(set).Status.ReadyReplicas
	body := `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`
	_, err := w.Kube.CoreV1().Pods(w.Namespace).Patch(w.T.Context(), fmt.Sprintf("%s-%d", set, ordinal), types.StrategicMergePatchType,
		[]byte(body), metav1.PatchOptions{}, "status")
	if err != nil {
		w.T.Fatal(err)
	}
	w.Eventually("one replica less is ready", func() string {
		if ready := w.Set(set).Status.ReadyReplicas; ready != before-1 {
			return fmt.Sprintf("%d are", ready)
		}
		return ""
	})
}

// siteSet returns a set with two replicas and an idle timeout.
func siteSet(name, group string) *appsv1.StatefulSet {
	set := kit.WorldSet(name, 2, "64Mi")
	set.Annotations[api.IdleTimeoutAnnotation] = "30m"
	if group != "" {
		set.Labels[api.GroupLabel] = group
	}
	return set
}

// storeSleep writes the record of a sleep, like idle-timeout.
func storeSleep(w *kit.World, name string, phase api.Phase) {
	set := w.Set(name)
	doc := &api.Sleep{
		Header: api.Header{Version: api.RecordVersion, Operation: "0123456789ab", Kind: api.KindSleep, Phase: phase,
			Request: idle.RequestIdle, Set: api.SetRef{Name: set.Name, UID: set.UID}, Started: metav1.NewTime(time.Now().Add(-time.Hour))},
		Replicas: 2,
	}
	w.Annotate(name, map[string]string{api.SleepAnnotation: doc.Encode()})
}

// putToSleep scales the set to zero and stores the record of a sleep.
func putToSleep(w *kit.World, name string) {
	w.T.Helper()
	w.Scale(name, 0)
	w.Eventually(name+" is at zero", func() string {
		if set := w.Set(name); set.Status.Replicas > 0 || set.Status.ObservedGeneration < set.Generation {
			return fmt.Sprintf("it has %d replicas", set.Status.Replicas)
		}
		return ""
	})
	storeSleep(w, name, api.Asleep)
}

func awakeUntil(t *testing.T, w *kit.World, name string) time.Time {
	t.Helper()
	text := w.Set(name).Annotations[api.AwakeUntilAnnotation]
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatalf("%s of %s is %q: %v", api.AwakeUntilAnnotation, name, text, err)
	}
	return at
}

func TestGatewayWritesSessionOnceAndNeverShortensIt(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(siteSet("web", ""))
	writes := &kit.Saboteur{}
	g := newGateway(t, w, writes)
	start := time.Now()
	for _, length := range []string{"20m", "20m", "20m", "1m", "10s", "19m"} {
		if r := visit(t, g, "poke?names=statefulset_%s_web_1&session_duration=%s", w.Namespace, length); r.Code != 200 ||
			sessionStatus(r) != "ready" {
			t.Fatalf("%d %s", r.Code, r.Body)
		}
	}
	if n := writes.Writes(); len(n) != 1 {
		t.Errorf("written %d times: %v", len(n), n)
	}
	at := awakeUntil(t, w, "web")
	if at.Before(start.Add(20*time.Minute)) || at.After(time.Now().Add(22*time.Minute)) {
		t.Errorf("awake until %s, it is %s", at, start)
	}
	if *w.Set("web").Spec.Replicas != 2 {
		t.Error("a request has chosen the replicas")
	}
}

func TestConcurrentGatewaysKeepLongestSession(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(siteSet("web", ""))
	one, other := &kit.Saboteur{}, &kit.Saboteur{}
	gateways := []*gateway.Gateway{newGateway(t, w, one), newGateway(t, w, other)}
	start := time.Now()
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			length := time.Duration(10+i) * time.Minute
			if r := visit(t, gateways[i%2], "poke?names=%s/web&session_duration=%s", w.Namespace, length); r.Code != 200 {
				t.Errorf("%d %s", r.Code, r.Body)
			}
		})
	}
	all.Wait()
	if at := awakeUntil(t, w, "web"); at.Before(start.Add(21 * time.Minute)) {
		t.Errorf("awake until %s: the longest session, until %s, is lost", at, start.Add(21*time.Minute))
	}
	before := len(one.Writes()) + len(other.Writes())
	for _, g := range gateways {
		visit(t, g, "dynamic?names=%s/web&session_duration=15m", w.Namespace)
	}
	if after := len(one.Writes()) + len(other.Writes()); after != before {
		t.Errorf("%d writes for sessions that are stored already", after-before)
	}
}

func TestGatewayRepeatsWriteAfterConflict(t *testing.T) {
	t.Parallel()
	for _, what := range []kit.Sabotage{kit.Answer409, kit.Answer500} {
		w := kit.NewWorld(t)
		w.CreateSet(siteSet("web", ""))
		g := newGateway(t, w, &kit.Saboteur{At: 1, Failure: what})
		r := visit(t, g, "poke?names=%s/web", w.Namespace)
		_, written := w.Set("web").Annotations[api.AwakeUntilAnnotation]
		if want := what == kit.Answer409; (r.Code == 200) != want || written != want {
			t.Errorf("it %s the write: %d, written %t: %s", what, r.Code, written, r.Body)
		}
	}
}

func TestGatewayRefusesSetsWithoutOptIn(t *testing.T) {
	t.Parallel()
	w, other := kit.NewWorld(t), kit.NewWorld(t)
	stranger := siteSet("stranger", "site")
	delete(stranger.Labels, api.ManagedLabel)
	w.CreateSet(stranger)
	w.CreateSet(kit.WorldSet("restless", 1, "64Mi"))
	held := siteSet("held", "")
	held.Annotations[api.PausedAnnotation] = "true"
	w.CreateSet(held)
	other.CreateSet(siteSet("far", "site"))
	writes := &kit.Saboteur{}
	g := newGateway(t, w, writes)
	for query, code := range map[string]int{
		"poke?names=" + w.Namespace + "/stranger":                       404,
		"poke?names=" + w.Namespace + "/restless":                       404,
		"poke?names=" + w.Namespace + "/missing":                        404,
		"poke?names=" + other.Namespace + "/far":                        404,
		"dynamic?names=" + other.Namespace + "/far":                     404,
		"poke?group=" + other.Namespace + "/site":                       404,
		"poke?group=site":                                               404,
		"poke?group=" + w.Namespace + "/site":                           404,
		"poke?names=" + w.Namespace + "/held":                           409,
		"dynamic?names=" + w.Namespace + "/held":                        409,
		"blocking?names=" + w.Namespace + "/held":                       409,
		"poke?names=deployment_" + w.Namespace + "_web_1":               400,
		"poke?group=site%2Cdrydock.dev%2Fmanaged%21%3Dtrue":             400,
		"poke?names=" + w.Namespace + "/stranger%3FfieldManager%3Dmine": 400,
	} {
		if r := visit(t, g, "%s", query); r.Code != code || sessionStatus(r) != "not-ready" {
			t.Errorf("%s: %d %s, want %d", query, r.Code, r.Body, code)
		}
	}
	if n := writes.Writes(); len(n) > 0 {
		t.Errorf("%v", n)
	}
}

func TestGatewayWakesGroupByOneMember(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	for _, name := range []string{"db", "web"} {
		w.CreateSet(siteSet(name, "site"))
	}
	w.CreateSet(siteSet("other", ""))
	putToSleep(w, "db")
	writes := &kit.Saboteur{}
	g := newGateway(t, w, writes)
	if r := visit(t, g, "dynamic?names=%s/web", w.Namespace); r.Code != 200 || sessionStatus(r) != "not-ready" {
		t.Errorf("a member of the group sleeps: %d %s", r.Code, sessionStatus(r))
	}
	awakeUntil(t, w, "db") // the change of a member that sleeps starts idle-timeout at once
	if r := visit(t, g, "poke?group=%s/site", w.Namespace); r.Code != 200 || sessionStatus(r) != "not-ready" {
		t.Errorf("%d %s", r.Code, r.Body)
	}
	if n := writes.Writes(); len(n) != 1 {
		t.Errorf("one write wakes the group, not %v", n)
	}
}

func TestGatewayBlocksUntilSetIsReady(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(siteSet("web", ""))
	putToSleep(w, "web")
	g := newGateway(t, w, nil)
	if r := visit(t, g, "blocking?names=%s/web&timeout=300ms", w.Namespace); r.Code != http.StatusGatewayTimeout {
		t.Fatalf("%d %s", r.Code, r.Body)
	}
	answered := make(chan *httptest.ResponseRecorder, 1)
	// A busy machine starts pods slowly. The limits only end the test.
	go func() { answered <- visit(t, g, "blocking?names=%s/web&timeout=4m", w.Namespace) }()
	select {
	case r := <-answered:
		t.Fatalf("it answers while the set sleeps: %d %s", r.Code, r.Body)
	case <-time.After(500 * time.Millisecond):
	}
	storeSleep(w, "web", api.Waking) // like idle-timeout after the gateway has written the deadline
	w.Scale("web", 2)
	select {
	case r := <-answered:
		if r.Code != 200 || sessionStatus(r) != "ready" || w.Set("web").Status.ReadyReplicas != 2 {
			t.Errorf("%d %s", r.Code, r.Body)
		}
	case <-time.After(4 * time.Minute):
		t.Error("no answer")
	}
	awakeUntil(t, w, "web")
}

func TestGatewayEndsWaitWithItsCaller(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(siteSet("web", ""))
	putToSleep(w, "web")
	g := newGateway(t, w, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	start := time.Now()
	g.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet,
		"/api/strategies/blocking?names="+w.Namespace+"/web", nil))
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it waited on for %s", took)
	}
}

// TestVisitWakesSet: the visit and the functions wake the set, with its previous replicas.
// Invariants: I4.
func TestVisitWakesSet(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	idleSet(w, "web", 3, nil)
	drive := w.Drive(nil)
	w.UntilSleep(drive, "web", api.Asleep)
	g := newGateway(t, w, nil)
	if r := visit(t, g, "dynamic?names=statefulset_%s_web_1&session_duration=10m", w.Namespace); r.Code != 200 ||
		sessionStatus(r) != "not-ready" {
		t.Fatalf("%d %s", r.Code, r.Body)
	}
	w.UntilSleep(drive, "web", api.Succeeded)
	w.Eventually("the visitor gets to the site", func() string { // the gateway caches its state for a moment
		if r := visit(t, g, "dynamic?names=statefulset_%s_web_1&session_duration=10m", w.Namespace); r.Code != 200 ||
			sessionStatus(r) != "ready" {
			return fmt.Sprintf("%d %s", r.Code, r.Body)
		}
		return ""
	})
	if err := drive.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	expectAwake(t, w, drive, "web", 3)
	if sleep := w.Sleep("web"); sleep.Phase != api.Succeeded {
		t.Errorf("it sleeps again within its session: %+v", sleep)
	}
}

// TestGatewayServesSiteWithUnreadyReplica: visitors reach a site that is awake while one replica is ready.
func TestGatewayServesSiteWithUnreadyReplica(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	for _, name := range []string{"db", "web"} {
		w.CreateSet(siteSet(name, "site"))
	}
	g := newGateway(t, w, nil)
	withoutReadiness(w, "web", 1)
	for _, strategy := range []string{"dynamic", "blocking", "poke"} {
		for _, what := range []string{"names=%s/web", "group=%s/site"} {
			if r := visit(t, g, strategy+"?timeout=1s&"+what, w.Namespace); r.Code != 200 || sessionStatus(r) != "ready" {
				t.Errorf("%s %s: %d %s", strategy, what, r.Code, r.Body)
			}
		}
	}
}

// TestGatewayWaitsForReplicasOfWakeReady: the annotation says how many ready replicas suffice while the set wakes.
func TestGatewayWaitsForReplicasOfWakeReady(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(siteSet("web", ""))
	withoutReadiness(w, "web", 1)
	storeSleep(w, "web", api.Waking)
	g := newGateway(t, w, nil)
	for _, step := range []struct{ wakeReady, want string }{{"all", "not-ready"}, {"first", "ready"}, {"2", "not-ready"}, {"1", "ready"}} {
		w.Annotate("web", map[string]string{api.WakeReadyAnnotation: step.wakeReady})
		w.Eventually(step.wakeReady+" makes it "+step.want, func() string {
			if got := sessionStatus(visit(t, g, "poke?names=%s/web", w.Namespace)); got != step.want {
				return got
			}
			return ""
		})
	}
}

// TestGatewayReportsSetThatNoVisitWakes: the visitor of a set that a user has scaled to zero gets a 409. The other sets
// of the group are served. With wake-replicas a visit wakes the set.
func TestGatewayReportsSetThatNoVisitWakes(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	for _, name := range []string{"batch", "db", "web"} {
		w.CreateSet(siteSet(name, "site"))
	}
	w.Scale("batch", 0)
	w.Eventually("batch is at zero", func() string {
		if n := w.Set("batch").Status.Replicas; n > 0 {
			return fmt.Sprintf("it has %d replicas", n)
		}
		return ""
	})
	g := newGateway(t, w, nil)
	for _, what := range []string{"group=%s/site", "names=%s/web"} {
		if r := visit(t, g, "blocking?timeout=2s&"+what, w.Namespace); r.Code != 200 || sessionStatus(r) != "ready" {
			t.Errorf("%s: %d %s", what, r.Code, r.Body)
		}
	}
	// the page names no annotation
	words := map[string]string{"dynamic": " off", "poke": api.WakeReplicasAnnotation, "blocking": api.WakeReplicasAnnotation}
	for strategy, word := range words {
		if r := visit(t, g, strategy+"?names=%s/batch", w.Namespace); r.Code != 409 || sessionStatus(r) != "not-ready" ||
			!mentions(r.Body.String(), word) {
			t.Errorf("%s: %d %s", strategy, r.Code, r.Body)
		}
	}
	if _, written := w.Set("batch").Annotations[api.AwakeUntilAnnotation]; written {
		t.Error("a session is written on a set that no visit wakes")
	}
	w.Annotate("batch", map[string]string{api.WakeReplicasAnnotation: "1"})
	w.Eventually("a visit wakes it", func() string {
		if r := visit(t, g, "poke?names=%s/batch", w.Namespace); r.Code != 200 || sessionStatus(r) != "not-ready" {
			return fmt.Sprintf("%d %s", r.Code, r.Body)
		}
		return ""
	})
	awakeUntil(t, w, "batch") // its own deadline: the deadline of another member would not wake it
}

// TestGatewayWritesOnlyOneAnnotation: its only write is a patch of awake-until, for every request.
func TestGatewayWritesOnlyOneAnnotation(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(siteSet("web", "site"))
	w.CreateSet(siteSet("down", ""))
	held := siteSet("held", "")
	held.Annotations[api.PausedAnnotation] = "true"
	w.CreateSet(held)
	putToSleep(w, "down")
	writes := &recorder{}
	g := gatewayThrough(t, w, writes.wrap)
	before := w.Set("down").DeepCopy()
	for _, query := range []string{"dynamic?names=%s/web", "poke?group=%[1]s/site&session_duration=5h",
		"blocking?names=%s/down&timeout=1ms",
		"dynamic?names=%s/down&session_duration=1h", "poke?names=%[1]s/held", "poke?names=%[1]s/web&names=optional:%[1]s/none",
		"dynamic?names=%s/web&theme=none"} {
		visit(t, g, query, w.Namespace)
	}
	if len(writes.bodies) < 2 {
		t.Errorf("%q", writes.bodies)
	}
	for _, body := range writes.bodies {
		var ops []struct{ Op, Path string }
		if err := json.Unmarshal([]byte(body), &ops); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		for _, op := range ops {
			if op.Path != "/metadata/resourceVersion" && op.Path != "/metadata/annotations/drydock.dev~1awake-until" {
				t.Errorf("it writes %+v in %s", op, body)
			}
		}
	}
	after := w.Set("down")
	delete(after.Annotations, api.AwakeUntilAnnotation)
	if !reflect.DeepEqual(after.Spec, before.Spec) || !maps.Equal(after.Annotations, before.Annotations) ||
		!maps.Equal(after.Labels, before.Labels) {
		t.Errorf("more has changed than the session:\n%v\n%v", before.ObjectMeta, after.ObjectMeta)
	}
}

// recorder records the bodies of writes.
type recorder struct {
	mu     sync.Mutex
	bodies []string
}

func (r *recorder) wrap(next http.RoundTripper) http.RoundTripper {
	return tripper(func(request *http.Request) (*http.Response, error) {
		if request.Method != http.MethodGet {
			body, err := io.ReadAll(request.Body)
			if err != nil {
				return nil, err
			}
			request.Body = io.NopCloser(bytes.NewReader(body))
			r.mu.Lock()
			defer r.mu.Unlock()
			r.bodies = append(r.bodies, string(body))
			if kind := request.Header.Get("Content-Type"); request.Method != http.MethodPatch || kind != "application/json-patch+json" {
				r.bodies = append(r.bodies, request.Method+" "+kind)
			}
		}
		return next.RoundTrip(request)
	})
}

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestVisitWakesMemberAtZeroOfAwakeGroup: the group's deadline does not wake the member, because it does not sleep with
// the group. A deadline of its own does.
func TestVisitWakesMemberAtZeroOfAwakeGroup(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(siteSet("db", "site"))
	batch := siteSet("batch", "site")
	batch.Annotations[api.WakeReplicasAnnotation] = "1"
	w.CreateSet(batch)
	w.Scale("batch", 0)
	w.Eventually("batch is at zero", func() string {
		if n := w.Set("batch").Status.Replicas; n > 0 {
			return fmt.Sprintf("it has %d replicas", n)
		}
		return ""
	})
	drive := w.Drive(nil)
	g := newGateway(t, w, nil)
	visit(t, g, "poke?names=%s/db&session_duration=1h", w.Namespace)
	visit(t, g, "poke?group=%s/site&session_duration=10m", w.Namespace)
	w.UntilSleep(drive, "batch", api.Succeeded)
	w.Eventually("the visitor gets to the site", func() string {
		if r := visit(t, g, "poke?group=%s/site&session_duration=10m", w.Namespace); sessionStatus(r) != "ready" {
			return fmt.Sprintf("%d %s", r.Code, r.Body)
		}
		return ""
	})
	if n := *w.Set("batch").Spec.Replicas; n != 1 {
		t.Errorf("it has %d replicas", n)
	}
}
