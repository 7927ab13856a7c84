package statuspage

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"drydock.dev/shared/api"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

const secret = "correct horse"

// cluster imitates an API server whose objects a test can replace.
type cluster struct {
	mu    sync.Mutex
	lists build.Lists
	reads atomic.Int64
	fail  atomic.Bool
	seen  map[string]bool // the rights that the requests needed, for example "list pods"
	url   string
}

func newCluster(t *testing.T, objects build.Lists) *cluster {
	t.Helper()
	c := &cluster{seen: map[string]bool{}}
	c.put(objects)
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

// put replaces all objects.
func (c *cluster) put(objects build.Lists) {
	lists := build.EmptyLists()
	lists["events"] = nil
	for kind, list := range objects {
		lists[kind] = list
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lists = lists
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.reads.Add(1)
	if c.fail.Load() {
		http.Error(w, "at 10.0.0.1", http.StatusInternalServerError)
		return
	}
	c.mu.Lock()
	lists := c.lists
	c.seen[rightOf(r)] = true
	c.mu.Unlock()
	lists.ServeHTTP(w, r)
}

// rightOf returns the right that the request needs. Paths are /api/v1/[namespaces/NAMESPACE/]RESOURCE[/NAME], or the same below
// /apis/GROUP/v1.
func rightOf(r *http.Request) string {
	verb, parts := strings.ToLower(r.Method), strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if parts[0] == "apis" {
		parts = parts[1:]
	}
	parts = parts[2:]
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	if verb == "get" && len(parts) == 1 {
		verb = "list"
	}
	return verb + " " + parts[0]
}

// page returns a page that reads the cluster, and needs the token secret.
func (c *cluster) page(t *testing.T, namespaces ...string) *Page {
	t.Helper()
	p := New(kube.NewClient(&rest.Config{Host: c.url}), api.Settings{Namespaces: namespaces}, Access{Token: secret},
		slog.New(slog.DiscardHandler))
	p.live.pause, p.now = 20*time.Millisecond, func() time.Time { return build.Now }
	t.Cleanup(p.Stop)
	return p
}

// get sends a request with the token.
func get(t *testing.T, p http.Handler, url string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	r.Header.Set("Authorization", "Bearer "+secret)
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w
}

// moving returns the record of a rolling resize of three members: one is moved, one is in its final pass, one has yet to be stopped.
func moving(copied int64) *api.Resize {
	record := build.Operation(api.Moving, build.Rolling, build.Members(api.MemberPending, "data-web-0"),
		build.Members(api.MemberFinalPass, "data-web-1"), build.Members(api.MemberMoved, "data-web-2"))
	record.Reason = "Quiescing"
	record.Message = "pod web-1 is stopped (try 1 of at most 4 for each pod) and held until the volumes are replaced"
	record.Deadline = operation.Moment(build.Now.Add(time.Hour))
	for i := range record.Members {
		move := &record.Members[i].Claims[0]
		move.From, move.To = resource.MustParse("10Gi"), resource.MustParse("20Gi")
		move.BytesTotal = 3 << 30
	}
	record.Request = "data=20Gi"
	record.Members[1].Claims[0].BytesDone, record.Members[2].Claims[0].BytesDone = copied, 3<<30
	record.Members[2].ReadyAt = operation.Moment(build.Now.Add(-time.Second))
	return record
}

// event returns an Event about the StatefulSet.
func event(name, kind, reason, message string, ago time.Duration) *corev1.Event {
	e := &corev1.Event{Type: kind, Reason: reason, Message: message, LastTimestamp: metav1.NewTime(build.Now.Add(-ago))}
	e.Namespace, e.Name, e.UID = build.Namespace, name, types.UID("uid-"+name)
	e.InvolvedObject = corev1.ObjectReference{Kind: "StatefulSet", Namespace: build.Namespace, Name: "web"}
	return e
}

// resizing returns the objects of set web, whose resize has copied this many bytes of member 1.
func resizing(copied int64) build.Lists {
	letter := api.UndeliveredEvent{Type: "dev.drydock.object.changed", Source: "drydock.dev/sift", ID: "7", Subject: "/web",
		Destination: "http://backup.drydock.svc", Code: 503, Message: "no capacity", Time: metav1.NewTime(build.Now.Add(-time.Hour))}
	set := build.Set("web", build.Replicas(3), build.Template("data", "10Gi", "fixed"), build.Status(moving(copied)),
		build.Annotation(api.DeadLettersAnnotation, api.EncodeDeadLetters([]api.UndeliveredEvent{letter})))
	claim := build.Claim("data-web-2", "20Gi")
	old := build.Volume("pv-data-web-2", claim, build.Retained(api.RoleOldVolume, "data-web-2"), build.Released(),
		build.Annotation(api.RetainedUntilAnnotation, build.Now.Add(23*time.Hour).Format(time.RFC3339)),
		build.Annotation(api.ReclaimPolicyAnnotation, "Delete"))
	return build.Lists{
		"statefulsets":           {set},
		"persistentvolumeclaims": {build.Claim("data-web-0", "10Gi"), build.Claim("data-web-1", "10Gi"), claim},
		"persistentvolumes":      {old},
		"pods": {build.PodOf("web", 0, "data"), resources.MakeLock(set, build.ID, 1, build.Settings()),
			build.PodOf("web", 2, "data")},
		"events": {event("one", corev1.EventTypeNormal, "ClaimsSwapped", "claim data-web-2 is on its new volume", 30*time.Second),
			event("two", corev1.EventTypeWarning, "CopyWarning",
				"data-web-1: 2 files changed while they were read; the final pass copies them again", 3*time.Minute)},
	}
}

// asleep returns a set that sleeps.
func asleep(name string) *appsv1.StatefulSet {
	sleep := build.Sleep(api.Asleep)
	sleep.Set.Name, sleep.Set.UID = name, types.UID("uid-"+name)
	sleep.Message = "nothing was active for 30m0s"
	sleep.PodsGoneAt = operation.Moment(build.Now.Add(-time.Hour))
	return build.Set(name, build.Replicas(0), build.IdleTimeout("30m"), build.WithSleep(sleep))
}

// hostile is text that a user of a namespace may write.
func hostile() string {
	return `<script>document.body.id="broken"</script>"'><img src=x onerror=alert(1)>` + "\u202Etxt.exe\u2066\r\ndata: forged\n\n" +
		strings.Repeat("A", 24<<10) // all of them together fit into the annotations of an object
}
