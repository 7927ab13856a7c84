package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

func get(t *testing.T, h http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	return send(t, h, http.MethodGet, path)
}

func send(t *testing.T, h http.Handler, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
	return w
}

func TestAnswers(t *testing.T) {
	alone := with(api.IdleTimeoutAnnotation, "")
	group := func(name string) func(*appsv1.StatefulSet) { return labelled(api.GroupLabel, name) }
	in := func(namespace string) func(*appsv1.StatefulSet) {
		return func(s *appsv1.StatefulSet) { s.Namespace = namespace }
	}
	c := newCluster(t,
		set("web", in("lab")), set("up"), set("down", asleep()), set("held", pausedSet), set("never", alone), set("off", replicas(0, 0)),
		set("stranger", labelled(api.ManagedLabel, "false")),
		set("db", group("site"), asleep()), set("web", group("site"), alone),
		set("a", group("team")), set("b", group("team"), in("lab")), set("c", group("team"), in("far")),
		set("x", group("quiet"), alone), set("y", group("site"), labelled(api.ManagedLabel, "no")),
	)
	g := c.gateway(t, Options{}, "shop", "lab")
	requests := map[string]struct {
		path, status string
		code         int
	}{
		"dynamic, ready":      {"/api/strategies/dynamic?names=shop/up", "ready", 200},
		"dynamic, asleep":     {"/api/strategies/dynamic?names=shop/down&display_name=Shop", "not-ready", 200},
		"dynamic, paused":     {"/api/strategies/dynamic?names=shop/held", "not-ready", 409},
		"dynamic, unknown":    {"/api/strategies/dynamic?names=shop/none", "not-ready", 404},
		"dynamic, bad query":  {"/api/strategies/dynamic", "not-ready", 400},
		"poke, ready":         {"/api/strategies/poke?names=statefulset_shop_up_7", "ready", 200},
		"poke, asleep":        {"/api/strategies/poke?names=shop/down", "not-ready", 200},
		"poke, paused":        {"/api/strategies/poke?names=shop/held", "not-ready", 409},
		"blocking, ready":     {"/api/strategies/blocking?names=shop/up", "ready", 200},
		"blocking, paused":    {"/api/strategies/blocking?names=shop/held", "not-ready", 409},
		"blocking, too late":  {"/api/strategies/blocking?names=shop/down&timeout=1s", "not-ready", 504},
		"blocking, bad query": {"/api/strategies/blocking?names=shop/up&timeout=x", "not-ready", 400},

		"a named set counts with its group":                   {"/api/strategies/poke?names=shop/web", "not-ready", 200},
		"a whole group without a member that is not opted in": {"/api/strategies/poke?group=shop/site", "not-ready", 200},
		"two names of one group":                              {"/api/strategies/poke?names=shop/web,shop/db", "not-ready", 200},
		"two sets of the same name":                           {"/api/strategies/poke?names=shop/web,lab/web", "not-ready", 200},
		"one set with two names":                              {"/api/strategies/poke?names=shop/up,statefulset_shop_up_1", "ready", 200},
		"an optional set that sleeps":                         {"/api/strategies/poke?names=shop/up,optional:shop/down", "ready", 200},
		"an optional set that does not exist":                 {"/api/strategies/poke?names=shop/up,optional:shop/none", "ready", 200},
		"an optional set that is paused":                      {"/api/strategies/poke?names=shop/up,optional:shop/held", "ready", 200},
		"a group of every namespace":                          {"/api/strategies/poke?group=team", "not-ready", 400},
		"another namespace's group":                           {"/api/strategies/poke?group=far/team", "not-ready", 404},
		"an unknown group":                                    {"/api/strategies/poke?group=shop/none", "not-ready", 404},
		"an unknown group of a namespace":                     {"/api/strategies/poke?group=lab/site", "not-ready", 404},
		"a group without a timeout":                           {"/api/strategies/poke?group=shop/quiet", "not-ready", 404},
		"a set without a timeout":                             {"/api/strategies/poke?names=shop/never", "not-ready", 404},
		"a set that is not managed":                           {"/api/strategies/poke?names=shop/stranger", "not-ready", 404},
		"a set of the group that is not opted in":             {"/api/strategies/poke?names=shop/y", "not-ready", 404},
		"a set of another namespace":                          {"/api/strategies/poke?names=far/c", "not-ready", 404},
		"one of two is unknown":                               {"/api/strategies/poke?names=shop/up,shop/none", "not-ready", 404},
		"a visit does not wake the set":                       {"/api/strategies/poke?names=shop/off", "not-ready", 409},
		"a visit does not wake the set, as a page":            {"/api/strategies/dynamic?names=shop/off", "not-ready", 409},
		"a theme of Sablier's":                                {"/api/strategies/dynamic?names=shop/up&theme=ghost", "ready", 200},
		"an unknown theme":                                    {"/api/strategies/dynamic?names=shop/down&theme=corporate", "not-ready", 404},
		"extra slashes":                                       {"//api/strategies//poke/?names=shop/up", "ready", 200},

		"health":          {"/health", "not-ready", 200},
		"version":         {"/version", "not-ready", 200},
		"themes":          {"/api/themes", "not-ready", 200},
		"themes, older":   {"/api/dynamic/themes", "not-ready", 200},
		"themes, oldest":  {"/api/strategies/dynamic/themes", "not-ready", 200},
		"an unknown path": {"/", "not-ready", 404},
	}
	file := golden.Open(t)
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		row := requests[name]
		t.Run(name, func(t *testing.T) {
			w := get(t, g, row.path)
			if w.Code != row.code || w.Header().Get(statusHeader) != row.status {
				t.Errorf("%d %s, want %d %s in\n%s", w.Code, w.Header().Get(statusHeader), row.code, row.status, w.Body)
			}
			if got := w.Header().Get("Content-Length"); got != fmt.Sprint(w.Body.Len()) {
				t.Errorf("Content-Length is %s, want %d", got, w.Body.Len())
			}
			checkProblem(t, w)
			file.Entry(t, name, fmt.Sprintf("%d %s\n%s", w.Code, w.Header().Get(statusHeader), wording(w.Body.String())))
		})
	}
	for _, name := range []string{"held", "never", "stranger", "x", "y", "off"} {
		if _, written := c.get(name).Annotations[api.AwakeUntilAnnotation]; written {
			t.Errorf("a session is written on %s", name)
		}
	}
}

// wording returns the body of an answer: the visible part of a page, or another body without the version.
func wording(body string) string {
	if _, rest, ok := strings.Cut(body, "</head>"); ok {
		return strings.TrimSuffix(rest, "</html>\n")
	}
	return regexp.MustCompile(`"version":".*?"`).ReplaceAllString(body, `"version":"VERSION"`)
}

// checkProblem checks that an answer other than a page or a success is a problem (RFC 7807).
func checkProblem(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Code == http.StatusOK || strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
		return
	}
	var p Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Header().Get("Content-Type") != "application/problem+json" ||
		p.Status != w.Code || p.Detail == "" || p.Title == "" || p.Type == "" {
		t.Errorf("%s: %+v, %v", w.Header().Get("Content-Type"), p, err)
	}
}

func TestOnlyGETIsAllowed(t *testing.T) {
	c := newCluster(t, set("web", asleep()))
	g := c.gateway(t, Options{})
	for _, path := range []string{pathDynamic, pathBlocking, pathPoke, pathHealth, pathVersion, pathsThemes[0]} {
		for _, method := range []string{"POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"} {
			if w := send(t, g, method, path+"?names=shop/web"); w.Code != 405 || w.Header().Get("Allow") != "GET" ||
				w.Header().Get(statusHeader) != isNotReady {
				t.Errorf("%s %s: %d %v", method, path, w.Code, w.Header())
			}
		}
	}
	if _, writes := c.counts(); writes > 0 {
		t.Error("something was written")
	}
}

func TestHeadersOfPage(t *testing.T) {
	g := newCluster(t, set("web", asleep())).gateway(t, Options{})
	h := get(t, g, "/api/strategies/dynamic?names=shop/web").Header()
	if h.Get("Cache-Control") != "no-store" || h.Get("Content-Type") != pageKind || h.Get("X-Content-Type-Options") != "nosniff" ||
		!strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'none'; style-src 'sha256-") {
		t.Errorf("%v", h)
	}
}

func TestBusySiteWritesOnceAndReadsOncePerSecond(t *testing.T) {
	c := newCluster(t, set("web"))
	g := c.gateway(t, Options{})
	for range 20 {
		if w := get(t, g, "/api/strategies/dynamic?names=shop/web&session_duration=5m"); w.Header().Get(statusHeader) != isReady {
			t.Fatal(w.Body)
		}
	}
	// The first request reads twice: before its write and after it.
	if reads, writes := c.counts(); writes != 1 || reads > 4 {
		t.Errorf("%d reads and %d writes", reads, writes)
	}
}

// TestGroupRequestsWriteToTheSameMember: the member does not depend on the order of the list.
func TestGroupRequestsWriteToTheSameMember(t *testing.T) {
	group := labelled(api.GroupLabel, "site")
	c := newCluster(t, set("b", group), set("a", group), set("c", group))
	get(t, c.gateway(t, Options{}), "/api/strategies/poke?group=shop/site")
	if len(c.writes) != 1 || c.writes[0] != "a" {
		t.Errorf("written on %v", c.writes)
	}
}

func TestConflictIsRetried(t *testing.T) {
	c := newCluster(t, set("web"))
	c.before = func() { c.put(set("web", with("team", "data"))) }
	if w := get(t, c.gateway(t, Options{}), "/api/strategies/poke?names=shop/web"); w.Code != 200 {
		t.Fatal(w.Body)
	}
	if web := c.get("web"); web.Annotations["team"] != "data" || web.Annotations[api.AwakeUntilAnnotation] == "" {
		t.Errorf("%v", web.Annotations)
	}
}

func TestAPIServerErrorIsNotDisclosed(t *testing.T) {
	var log bytes.Buffer
	c := newCluster(t, set("web"))
	c.fails.Store(true)
	g := New(c.client(), api.Settings{}, Options{}, slog.New(slog.NewJSONHandler(&log, nil)))
	for path, kind := range map[string]string{pathDynamic: pageKind, pathPoke: "application/problem+json",
		pathBlocking: "application/problem+json"} {
		w := get(t, g, path+"?names=shop/web&show_details=true")
		if w.Code != 503 || w.Header().Get("Retry-After") != "5" || w.Header().Get(statusHeader) != isNotReady ||
			w.Header().Get("Content-Type") != kind {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
		if strings.Contains(w.Body.String(), "10.0.0.1") {
			t.Errorf("the answer discloses the error: %s", w.Body)
		}
	}
	if !strings.Contains(log.String(), "10.0.0.1") {
		t.Errorf("the log does not say why: %s", &log)
	}
}

func TestLogHasOnlyNamesOfTheQuery(t *testing.T) {
	var log bytes.Buffer
	c := newCluster(t, set("web"))
	g := New(c.client(), api.Settings{}, Options{}, slog.New(slog.NewJSONHandler(&log, nil)))
	get(t, g, "/api/strategies/poke?names=statefulset_shop_web_1&display_name=secret&theme=secret&token=secret")
	get(t, g, "/health")
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	last := lines[len(lines)-1]
	if strings.Contains(log.String(), "secret") || strings.Contains(log.String(), pathHealth) ||
		!strings.Contains(last, `"function":"wake-gateway","outcome":"ready","code":200`) || !strings.Contains(last, `"subject":"shop/web"`) {
		t.Errorf("%s", &log)
	}
}

func TestBlockingWaitsUntilReady(t *testing.T) {
	c := newCluster(t, set("web", asleep()))
	g := c.gateway(t, Options{})
	time.AfterFunc(300*time.Millisecond, func() { c.fails.Store(true) }) // a failure of the API server does not end the wait
	time.AfterFunc(700*time.Millisecond, func() {
		c.fails.Store(false)
		c.put(set("web", sleep(api.Waking, ""), with(api.AwakeUntilAnnotation, c.get("web").Annotations[api.AwakeUntilAnnotation])))
	})
	start := time.Now()
	w := get(t, g, "/api/strategies/blocking?names=shop/web&timeout=10s")
	if w.Code != 200 || w.Header().Get(statusHeader) != isReady || time.Since(start) < 700*time.Millisecond {
		t.Errorf("%d %v after %s: %s", w.Code, w.Header(), time.Since(start), w.Body)
	}
	if _, writes := c.counts(); writes != 1 {
		t.Errorf("%d writes", writes)
	}
}

func TestBlockingEndsWhenSetIsDeleted(t *testing.T) {
	c := newCluster(t, set("web", asleep()))
	time.AfterFunc(300*time.Millisecond, func() { c.remove("web") })
	if w := get(t, c.gateway(t, Options{}), "/api/strategies/blocking?names=shop/web&timeout=20s"); w.Code != 404 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestBlockingEndsWhenCallerDisconnects(t *testing.T) {
	c := newCluster(t, set("web", asleep()))
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	start := time.Now()
	w := httptest.NewRecorder()
	c.gateway(t, Options{}).ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/strategies/blocking?names=shop/web", nil))
	if time.Since(start) > 5*time.Second || w.Code != 503 || w.Header().Get(statusHeader) != isNotReady {
		t.Errorf("%d after %s", w.Code, time.Since(start))
	}
}

func TestStopAnswersWaitingRequests(t *testing.T) {
	c := newCluster(t, set("web", asleep()), set("up"))
	g := c.gateway(t, Options{})
	time.AfterFunc(400*time.Millisecond, g.Stop)
	start := time.Now()
	w := get(t, g, "/api/strategies/blocking?names=shop/web")
	if w.Code != 503 || w.Header().Get("Retry-After") != "1" || time.Since(start) > 5*time.Second {
		t.Errorf("%d %v after %s", w.Code, w.Header(), time.Since(start))
	}
	g.Stop() // a second call has no effect
	if w := get(t, g, "/api/strategies/blocking?names=shop/up"); w.Code != 200 {
		t.Errorf("a request that need not wait gets %d", w.Code)
	}
}

// TestWriteTimeoutOfServerDoesNotEndWait: the servers of functions have a write timeout of seconds.
func TestWriteTimeoutOfServerDoesNotEndWait(t *testing.T) {
	c := newCluster(t, set("web", asleep()))
	server := httptest.NewUnstartedServer(c.gateway(t, Options{}))
	server.Config.WriteTimeout = 200 * time.Millisecond
	server.Start()
	defer server.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		server.URL+"/api/strategies/blocking?names=shop/web&timeout=600ms", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() // read only
	if response.StatusCode != http.StatusGatewayTimeout {
		t.Errorf("%s", response.Status)
	}
}

func TestOptionsHaveDefaults(t *testing.T) {
	g := newCluster(t).gateway(t, Options{})
	if g.options.LongestSession != 24*time.Hour || g.options.DefaultTimeout != time.Minute {
		t.Errorf("%+v", g.options)
	}
	if g = newCluster(t).gateway(t, Options{DefaultTimeout: time.Hour}); g.options.DefaultTimeout != LongestWait {
		t.Errorf("%+v", g.options)
	}
}

func TestSessionIsLimited(t *testing.T) {
	c := newCluster(t, set("web"))
	get(t, c.gateway(t, Options{LongestSession: time.Hour}), "/api/strategies/poke?names=shop/web&session_duration=9000h")
	if at := idle.MemberOf(c.get("web")).Rules.AwakeUntil; time.Until(at) > time.Hour+2*time.Minute || time.Until(at) < time.Hour {
		t.Errorf("awake until %s", at)
	}
}

// TestExtraSlashesAreNotRedirected: a mux would redirect, and the plugin for nginx does not follow redirects.
func TestExtraSlashesAreNotRedirected(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("/", newCluster(t, set("web")).gateway(t, Options{BasePath: "wake/"}))
	for path, code := range map[string]int{
		"//wake//api/strategies/poke/?names=shop/web": 200, "/wake/api/strategies/poke?names=shop/web": 200,
		"/api/strategies/poke?names=shop/web": 404, "/wakeful/api/strategies/poke?names=shop/web": 404, "/wake": 404, "/wake/health": 200,
	} {
		if w := get(t, CleanPaths(mux), path); w.Code != code || w.Header().Get(statusHeader) == "" {
			t.Errorf("%s: %d %v, want %d", path, w.Code, w.Header(), code)
		}
	}
}

// TestOneSiteGetsHalfOfTheWaiters: requests with different queries for one group are requests for one site.
func TestOneSiteGetsHalfOfTheWaiters(t *testing.T) {
	inShop := labelled(api.GroupLabel, "shop")
	c := newCluster(t, set("web", inShop, asleep()), set("db", inShop, asleep()), set("other", asleep()))
	g := c.gateway(t, Options{Waiters: 2}) // one for each site
	answers := make(chan *httptest.ResponseRecorder, 3)
	wait := func(query string) { answers <- get(t, g, pathBlocking+query+"&timeout=5m") }
	go wait("?names=shop/web")
	expectWaiters(t, g, 1)
	for _, query := range []string{"?names=shop/db", "?group=shop/shop", "?names=optional:shop/other,shop/web"} {
		if w := get(t, g, pathBlocking+query+"&timeout=5m"); w.Code != http.StatusServiceUnavailable {
			t.Errorf("%s waits, too: %d %s", query, w.Code, w.Body)
		}
	}
	go wait("?names=shop/other")
	expectWaiters(t, g, 2)
	g.Stop()
	for range 2 {
		<-answers
	}
}

// expectWaiters waits until so many requests wait.
func expectWaiters(t *testing.T, g *Gateway, want int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); g.waiters.InUse() != want; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d requests wait, want %d", g.waiters.InUse(), want)
		}
	}
}

// TestMetricsNeedToken: the page names sets, and visitors can reach the same port.
func TestMetricsNeedToken(t *testing.T) {
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("shop/web")) })
	for situation, row := range map[string]struct {
		options Options
		sent    string
		want    int
	}{
		"no token is set":              {Options{}, "", http.StatusForbidden},
		"no token is set, one is sent": {Options{}, "secret", http.StatusForbidden},
		"the token is missing":         {Options{Token: "secret"}, "", http.StatusUnauthorized},
		"the token is wrong":           {Options{Token: "secret"}, "other", http.StatusUnauthorized},
		"the token is right":           {Options{Token: "secret"}, "secret", http.StatusOK},
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
		if row.sent != "" {
			r.Header.Set("Authorization", "Bearer "+row.sent)
		}
		newCluster(t).gateway(t, row.options).Guard(page).ServeHTTP(w, r)
		if shown := strings.Contains(w.Body.String(), "shop/web"); w.Code != row.want || shown != (row.want == http.StatusOK) {
			t.Errorf("%s: %d %s", situation, w.Code, w.Body)
		}
	}
	if newCluster(t).gateway(t, Options{}).Guard(nil) != nil {
		t.Error("without a page there is a handler")
	}
}

// TestReadySetTakesNoPlaceOfAWaiter: visitors of one site name a set that is ready, too. The place counts for the set that
// they wait for. Otherwise each other set of the cluster would give the visitors another half.
func TestReadySetTakesNoPlaceOfAWaiter(t *testing.T) {
	c := newCluster(t, set("web", labelled(api.GroupLabel, "shop"), asleep()), set("a"), set("other", asleep()))
	g := c.gateway(t, Options{Waiters: 2}) // one for each site
	answers := make(chan *httptest.ResponseRecorder, 3)
	wait := func(query string) { answers <- get(t, g, pathBlocking+query+"&timeout=3s") }
	go wait("?names=shop/web")
	expectWaiters(t, g, 1)
	if w := get(t, g, pathBlocking+"?names=shop/a,shop/web&timeout=1s"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("two requests wait for shop/web: %d %s", w.Code, w.Body)
	}
	g.Stop()
	<-answers
}

// TestSetThatBecameReadyLateHasNotFailed: the latest wake-up took too long, and idle-timeout has stored since when the set is ready. Today
// its pods are replaced, and none is ready for a moment.
func TestSetThatBecameReadyLateHasNotFailed(t *testing.T) {
	late := set("web", replicas(2, 0), sleep(api.Failed, "not ready in time"))
	if m := memberOf(late); m.State != Failed {
		t.Errorf("before it is ready: %s", m.describe())
	}
	record, err := api.LoadSleep(late)
	if err != nil {
		t.Fatal(err)
	}
	record.StartsLate = false
	late.Annotations[api.SleepAnnotation] = record.Encode()
	if m := memberOf(late); m.State == Failed {
		t.Errorf("visitors see the failure of a wake-up that has ended well: %s", m.describe())
	}
}

// TestWaitingVisitorsShareReads: the number of reads does not grow with the number of visitors.
func TestWaitingVisitorsShareReads(t *testing.T) {
	group := labelled(api.GroupLabel, "site")
	c := newCluster(t, set("db", group, asleep()), set("web", group, asleep()))
	g := c.gateway(t, Options{Waiters: 1000})
	var all sync.WaitGroup
	start := time.Now()
	for range 200 {
		all.Go(func() {
			if w := get(t, g, pathBlocking+"?names=shop/web&timeout=2s"); w.Code != 504 {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	all.Wait()
	// An observation is two reads. The first request writes and observes again.
	most := 2 * (3 + int(time.Since(start)/waitingTTL))
	if reads, writes := c.counts(); writes != 1 || reads > most {
		t.Errorf("%d reads, at most %d are due, and %d writes", reads, most, writes)
	}
}

// TestShortSessionsDoNotCauseManyWrites: a caller that requests short sessions at a high rate causes one write.
func TestShortSessionsDoNotCauseManyWrites(t *testing.T) {
	c := newCluster(t, set("web", asleep()))
	g := c.gateway(t, Options{})
	for i := range 100 {
		get(t, g, fmt.Sprintf("%s?names=shop/web&session_duration=%dms", pathPoke, 1+i))
	}
	if reads, writes := c.counts(); writes != 1 || reads > 6 {
		t.Errorf("%d reads and %d writes", reads, writes)
	}
}

func TestFailedReadIsCached(t *testing.T) {
	c := newCluster(t, set("web"))
	c.fails.Store(true)
	var asked atomic.Int64
	c.onRequest = func() { asked.Add(1) }
	g := c.gateway(t, Options{})
	for range 50 {
		if w := get(t, g, pathDynamic+"?names=shop/web"); w.Code != 503 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	if asked.Load() > 10 {
		t.Errorf("it was asked %d times", asked.Load())
	}
}

// TestWaitingRequestsAreLimited: further requests are rejected with Retry-After, and requests for a ready site are still answered.
func TestWaitingRequestsAreLimited(t *testing.T) {
	c := newCluster(t, set("web", asleep()), set("up"))
	g := c.gateway(t, Options{Waiters: 2}) // one for each site
	waits := make(chan *httptest.ResponseRecorder, 1)
	go func() { waits <- get(t, g, pathBlocking+"?names=shop/web&timeout=5m") }()
	for deadline := time.Now().Add(time.Minute); g.waiters.InUse() == 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("no request waits")
		}
	}
	if w := get(t, g, pathBlocking+"?names=shop/web"); w.Code != 503 || w.Header().Get("Retry-After") != "5" ||
		w.Header().Get(statusHeader) != isNotReady {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := get(t, g, pathBlocking+"?names=shop/up"); w.Code != 200 {
		t.Errorf("a request that need not wait gets %d", w.Code)
	}
	if w := get(t, g, pathDynamic+"?names=shop/web"); w.Code != 200 {
		t.Errorf("a page does not wait: %d", w.Code)
	}
	g.Stop()
	<-waits
	if g.waiters.InUse() != 0 {
		t.Error("an ended wait still counts")
	}
}

func TestToken(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "token")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first\n")
	c := newCluster(t, set("web"), set("db", labelled(api.GroupLabel, "site")))
	g := c.gateway(t, Options{TokenFile: file})
	visit := func(path, header string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), "GET", path, nil)
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		return w
	}
	const poke = pathPoke + "?names=shop/web"
	for header, code := range map[string]int{"": 401, "Bearer wrong": 401, "Bearer first": 200, "bearer first": 401, "Bearer ": 401,
		"Basic Og==": 401} {
		if w := visit(poke, header); w.Code != code || code == 401 && w.Header().Get("WWW-Authenticate") == "" || code == 401 &&
			w.Header().Get(statusHeader) != isNotReady {
			t.Errorf("%q: %d %v", header, w.Code, w.Header())
		}
	}
	write("second")
	if visit(poke, "Bearer first").Code != 401 || visit(poke, "Bearer second").Code != 200 {
		t.Error("the new token is not taken")
	}
	if w := visit(pathPoke+"?group=shop/none", "Bearer second"); !strings.Contains(w.Body.String(), `"availableGroups":["shop/site"]`) {
		t.Errorf("%s", w.Body)
	}
	if visit(pathHealth, "").Code != 200 {
		t.Error("a health check needs no token")
	}
	write(" \n")
	if w := visit(poke, "Bearer "); w.Code != 503 || strings.Contains(w.Body.String(), folder) {
		t.Errorf("an empty file: %d %s", w.Code, w.Body)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if w := visit(poke, "Bearer second"); w.Code != 503 || strings.Contains(w.Body.String(), folder) {
		t.Errorf("no file: %d %s", w.Code, w.Body)
	}
}

// TestTokenIsNeverPrinted checks the settings, the log and the answer.
func TestTokenIsNeverPrinted(t *testing.T) {
	var log bytes.Buffer
	o := Options{Token: "s3cret"}
	slog.New(slog.NewJSONHandler(&log, nil)).Info("started", "token", o.Token)
	c := newCluster(t, set("web"))
	g := New(c.client(), api.Settings{}, o,
		slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	r := httptest.NewRequestWithContext(t.Context(), "GET", pathPoke+"?names=shop/web", nil)
	r.Header.Set("Authorization", "Bearer s3cret2")
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	if text := fmt.Sprint(o, log.String(), w.Body); strings.Contains(text, "s3cret") {
		t.Errorf("%s", text)
	}
}

// TestAnswerDoesNotDiscloseWhichSetsExist: the answer is the same for a missing set, a set that is not opted in, and a set in another
// namespace.
func TestAnswerDoesNotDiscloseWhichSetsExist(t *testing.T) {
	c := newCluster(t, set("private", labelled(api.ManagedLabel, "false")),
		set("restless", with(api.IdleTimeoutAnnotation, ""), labelled(api.GroupLabel, "restless")))
	g := c.gateway(t, Options{}, "shop", "lab")
	for _, form := range []string{"%s?names=shop/%s", "%s?group=shop/%s"} {
		for _, path := range []string{pathDynamic, pathBlocking, pathPoke, pathEvents} {
			want := ""
			for _, name := range []string{"private", "restless", "nothing"} {
				w := get(t, g, fmt.Sprintf(form, path, name))
				text := strings.ReplaceAll(fmt.Sprint(w.Code, w.Header(), w.Body), name, "NAME")
				text = strings.ReplaceAll(text, fmt.Sprint(w.Body.Len()), "LENGTH")
				if want == "" {
					want = text
				}
				if text != want || w.Code != 404 {
					t.Errorf("%s of %s gets\n%s\nwant\n%s", path, name, text, want)
				}
			}
		}
	}
}

// TestBusySiteDoesNotFillLog: only the request that writes the session is logged, and one refusal per second.
func TestBusySiteDoesNotFillLog(t *testing.T) {
	var log bytes.Buffer
	c := newCluster(t, set("web"))
	g := New(c.client(), api.Settings{}, Options{}, slog.New(slog.NewJSONHandler(&log, nil)))
	for range 50 {
		get(t, g, pathDynamic+"?names=shop/web")
	}
	if n := strings.Count(log.String(), `"msg":"request"`); n != 1 {
		t.Errorf("%d lines:\n%s", n, &log)
	}
	log.Reset()
	start := time.Now()
	for range 200 {
		get(t, g, pathDynamic+"?names=shop/none")
	}
	if n, most := strings.Count(log.String(), "\n"), 2+int(time.Since(start)/time.Second); n < 1 || n > most {
		t.Errorf("%d refusals are logged, at most %d:\n%s", n, most, &log)
	}
}

// TestReadsAreLimited: a request whose turn does not come before its time is over reads nothing.
func TestReadsAreLimited(t *testing.T) {
	c := newCluster(t, set("web"))
	g := c.gateway(t, Options{})
	for range maxReads {
		g.reads <- struct{}{}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	w := httptest.NewRecorder()
	g.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, pathPoke+"?names=shop/web", nil))
	if reads, _ := c.counts(); w.Code != http.StatusServiceUnavailable || reads > 0 {
		t.Errorf("%d after %d reads: %s", w.Code, reads, w.Body)
	}
	<-g.reads
	if w := get(t, g, pathPoke+"?names=shop/web"); w.Code != http.StatusOK {
		t.Errorf("%d with a free turn: %s", w.Code, w.Body)
	}
}

// TestSetAtZeroByItsScalerIsStopped: the user has set the count of the Scaler to 0, or has paused it. idle-timeout does not wake such a
// set, also not with wake-replicas, because the count of a Scaler is the user's request. So the gateway must not tell visitors that it
// wakes, let them wait, and write awake-until again and again.
func TestSetAtZeroByItsScalerIsStopped(t *testing.T) {
	record := &api.Scale{Header: api.Header{Version: api.RecordVersion, Kind: api.KindScale, Phase: api.Succeeded, Operation: build.ID,
		Set: api.SetRef{Name: "web", UID: "uid-web"}, Started: metav1.NewTime(build.Now)},
		Scaler: api.ScalerRef{Name: "pilot", UID: "uid-pilot"}, Paused: true}
	set := build.Set("web", build.Replicas(0), build.Annotation(api.IdleTimeoutAnnotation, "1h"),
		build.Annotation(api.WakeReplicasAnnotation, "3"), build.Annotation(api.ScaleAnnotation, record.Encode()))
	if loaded, err := api.LoadScale(set); err != nil || loaded == nil {
		t.Fatal(err)
	}
	if m := memberOf(set); m.State.wakes() || m.WakesAlone {
		t.Errorf("visitors see %q and wait, and each request writes awake-until (%v)", m.State, m.WakesAlone)
	}
}
