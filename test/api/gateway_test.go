package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"drydock.dev/functions/wakegateway"
	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/kube"
	"drydock.dev/test/kit"
)

const gatewayAccount = "system:serviceaccount:drydock:wake-gateway"

// newGateway makes a gateway with its account's rights in the world's namespace, and no other.
func newGateway(t *testing.T, w *kit.World, wrap *kit.Saboteur) *wakegateway.Gateway {
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
	config.Impersonate = rest.ImpersonationConfig{UserName: gatewayAccount, Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	if wrap != nil {
		config.Wrap(wrap.Wrap)
	}
	settings := w.Settings
	settings.Namespaces = []string{w.Namespace}
	g := wakegateway.New(kube.NewClient(config), settings, wakegateway.Options{}, slog.New(slog.DiscardHandler))
	t.Cleanup(g.Stop)
	// Rights come into force some moments after they are written.
	w.Eventually("the gateway may read", func() string {
		if code := visit(t, g, "poke?names=%s/nobody", w.Namespace); code.Code != http.StatusNotFound {
			return code.Body.String()
		}
		return ""
	})
	return g
}

// visit asks for a strategy.
func visit(t *testing.T, g *wakegateway.Gateway, query string, args ...any) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRecorder()
	g.ServeHTTP(r, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/strategies/"+fmt.Sprintf(query, args...), nil))
	return r
}

func sessionStatus(r *httptest.ResponseRecorder) string {
	return r.Header().Get("X-Sablier-Session-Status")
}

// siteSet is a set of two replicas that a clock puts to sleep.
func siteSet(name, group string) *appsv1.StatefulSet {
	set := kit.WorldSet(name, 2, "64Mi")
	set.Annotations[api.IdleTimeoutAnnotation] = "30m"
	if group != "" {
		set.Labels[api.GroupLabel] = group
	}
	return set
}

// napping writes the document of a sleep as idle-timeout does.
func napping(w *kit.World, name string, phase api.Phase) {
	set := w.Set(name)
	doc := &api.Status{Version: api.StatusVersion, Operation: "0123456789ab", Kind: api.KindSleep, Phase: phase, Request: idle.ForIdle,
		Set: api.SetRef{Name: set.Name, UID: set.UID}, Replicas: 2, Started: metav1.NewTime(time.Now().Add(-time.Hour))}
	w.Annotate(name, map[string]string{api.SleepAnnotation: doc.Encode()})
}

// putToSleep has the set asleep, by hand.
func putToSleep(w *kit.World, name string) {
	w.T.Helper()
	w.Scale(name, 0)
	w.Eventually(name+" is at zero", func() string {
		if set := w.Set(name); set.Status.Replicas > 0 || set.Status.ObservedGeneration < set.Generation {
			return fmt.Sprintf("it has %d replicas", set.Status.Replicas)
		}
		return ""
	})
	napping(w, name, api.Asleep)
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

func TestGatewayWritesASessionOnceAndNeverShortensIt(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(siteSet("web", ""))
	writes := &kit.Saboteur{}
	g := newGateway(t, w, writes)
	start := time.Now()
	for _, length := range []string{"20m", "20m", "20m", "1m", "10s", "19m"} {
		if r := visit(t, g, "poke?names=statefulset_%s_web_1&session_duration=%s", w.Namespace, length); r.Code != 200 || sessionStatus(r) != "ready" {
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

func TestGatewaysAtOnceAgree(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(siteSet("web", ""))
	one, other := &kit.Saboteur{}, &kit.Saboteur{}
	gateways := []*wakegateway.Gateway{newGateway(t, w, one), newGateway(t, w, other)}
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
		t.Errorf("%d writes for what is written already", after-before)
	}
}

func TestGatewayLooksAgainAfterAConflict(t *testing.T) {
	t.Parallel()
	for _, what := range []kit.Sabotage{kit.Answer409, kit.Answer500} {
		w := kit.NewWorld(t)
		w.CreateSet(siteSet("web", ""))
		g := newGateway(t, w, &kit.Saboteur{At: 1, What: what})
		r := visit(t, g, "poke?names=%s/web", w.Namespace)
		_, written := w.Set("web").Annotations[api.AwakeUntilAnnotation]
		if want := what == kit.Answer409; (r.Code == 200) != want || written != want {
			t.Errorf("it %s the write: %d, written %t: %s", what, r.Code, written, r.Body)
		}
	}
}

func TestGatewayRefusesWhatHasNotOptedIn(t *testing.T) {
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
		"poke?names=" + w.Namespace + "/nobody":                         404,
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

func TestGatewayWakesAGroupByOneOfIt(t *testing.T) {
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
	awakeUntil(t, w, "web")
	if r := visit(t, g, "poke?group=%s/site", w.Namespace); r.Code != 200 || sessionStatus(r) != "not-ready" {
		t.Errorf("%d %s", r.Code, r.Body)
	}
	if n := writes.Writes(); len(n) != 1 {
		t.Errorf("one write wakes the group, not %v", n)
	}
}

func TestGatewayBlocksUntilTheSetIsReady(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(siteSet("web", ""))
	putToSleep(w, "web")
	g := newGateway(t, w, nil)
	if r := visit(t, g, "blocking?names=%s/web&timeout=300ms", w.Namespace); r.Code != http.StatusGatewayTimeout {
		t.Fatalf("%d %s", r.Code, r.Body)
	}
	answered := make(chan *httptest.ResponseRecorder, 1)
	go func() { answered <- visit(t, g, "blocking?names=%s/web&timeout=1m", w.Namespace) }()
	select {
	case r := <-answered:
		t.Fatalf("it answers while the set sleeps: %d %s", r.Code, r.Body)
	case <-time.After(500 * time.Millisecond):
	}
	napping(w, "web", api.Waking) // as idle-timeout does for the deadline that the gateway wrote
	w.Scale("web", 2)
	select {
	case r := <-answered:
		if r.Code != 200 || sessionStatus(r) != "ready" || w.Set("web").Status.ReadyReplicas != 2 {
			t.Errorf("%d %s", r.Code, r.Body)
		}
	case <-time.After(time.Minute):
		t.Error("no answer")
	}
	awakeUntil(t, w, "web")
}

func TestGatewayEndsAWaitWithItsCaller(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(siteSet("web", ""))
	putToSleep(w, "web")
	g := newGateway(t, w, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	start := time.Now()
	g.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/strategies/blocking?names="+w.Namespace+"/web", nil))
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it waited on for %s", took)
	}
}

// TestI4AVisitWakesASet: from asleep to ready, by a visitor and the functions, with as many replicas as there were.
func TestI4AVisitWakesASet(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	idleSet(w, "web", 3, nil)
	drive := w.Drive(nil)
	w.UntilSleep(drive, "web", api.Asleep)
	g := newGateway(t, w, nil)
	if r := visit(t, g, "dynamic?names=statefulset_%s_web_1&session_duration=10m", w.Namespace); r.Code != 200 || sessionStatus(r) != "not-ready" {
		t.Fatalf("%d %s", r.Code, r.Body)
	}
	w.UntilSleep(drive, "web", api.Succeeded)
	if r := visit(t, g, "dynamic?names=statefulset_%s_web_1&session_duration=10m", w.Namespace); r.Code != 200 || sessionStatus(r) != "ready" {
		t.Errorf("%d %s", r.Code, r.Body)
	}
	if err := drive.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	expectAwake(t, w, drive, "web", 3)
	if nap := w.Sleep("web"); nap.Phase != api.Succeeded {
		t.Errorf("it sleeps again within its session: %+v", nap)
	}
}
