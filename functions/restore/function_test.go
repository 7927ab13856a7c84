package restore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgo "k8s.io/client-go/rest"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// terminatingAPI is an API server that refuses every write with the error for a terminating namespace.
type terminatingAPI struct {
	build.Lists
	written []string
}

func (s *terminatingAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		s.Lists.ServeHTTP(w, r)
		return
	}
	s.written = append(s.written, r.Method+" "+r.URL.Path)
	refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumeclaims"}, web0, errors.New("it is being terminated"))
	refusal.ErrStatus.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	refusal.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	_ = json.NewEncoder(w).Encode(refusal.ErrStatus)
}

// writesInNamespace returns the writes that restore tries for a member whose new claim must be created. The API server refuses each of
// them with the error for a terminating namespace.
func writesInNamespace(t *testing.T, namespace *corev1.Namespace) []string {
	t.Helper()
	lists := build.EmptyLists()
	lists["namespaces"] = []metav1.Object{namespace}
	lists["nodes"] = []metav1.Object{build.Node()}
	record := movingOne(api.MemberSwapping, build.MemberDue(0, time.Hour), build.Due(24*time.Hour*36500))
	all := append(setWith(record), append(journalOf(web0), heldPodOf(0)...)...)
	for _, object := range append(append(all, oldVolume(web0)...), copyVolume(web0, build.Reserved(manifest(web0, new0, "128Mi")))...) {
		switch object.(type) {
		case *appsv1.StatefulSet:
			lists["statefulsets"] = append(lists["statefulsets"], object)
		case *appsv1.ControllerRevision:
			lists["controllerrevisions"] = append(lists["controllerrevisions"], object)
		case *corev1.Pod:
			lists["pods"] = append(lists["pods"], object)
		case *corev1.PersistentVolume:
			lists["persistentvolumes"] = append(lists["persistentvolumes"], object)
		default:
			t.Fatalf("%T", object)
		}
	}
	handler := &terminatingAPI{Lists: lists}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	f := New(kube.NewClient(&clientgo.Config{Host: server.URL}), build.Settings(), slog.New(slog.DiscardHandler))
	_, _ = f.Handle(context.Background(), events.NewFromUser(events.MemberChanged, events.Ref{Namespace: build.Namespace, Name: "web"}, "1"))
	return handler.written
}

// TestRefusalReleasesPodsOnlyInTerminatingNamespace: a webhook may return the error of another, terminating namespace. The pods of this
// namespace must stay held. A released pod would start on an empty volume.
func TestRefusalReleasesPodsOnlyInTerminatingNamespace(t *testing.T) {
	release := fmt.Sprintf("PATCH /api/v1/namespaces/%s/pods/web-0", build.Namespace)
	stays := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: build.Namespace}}
	if written := writesInNamespace(t, stays); len(written) == 0 || slices.Contains(written, release) {
		t.Errorf("the pod is released, or nothing was written: %q", written)
	}
	leaves := stays.DeepCopy()
	leaves.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	if written := writesInNamespace(t, leaves); !slices.Contains(written, release) {
		t.Errorf("the pod blocks the namespace for ever: %q", written)
	}
}

// member returns a pod of set web with the IP address.
func member(ip string) *corev1.Pod {
	return build.With(build.PodOf("web", 1, "data"), build.Edit(func(p *corev1.Pod) { p.Status.PodIP = ip }))
}

func portOf(t *testing.T, server *httptest.Server) string {
	t.Helper()
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}

// answerOf asks a pod with the IP address by the check. It returns why the pod has not caught up, or empty if it has.
func answerOf(t *testing.T, check, ip string, limit time.Duration) string {
	t.Helper()
	pod := member(ip)
	found := askMembers(t.Context(), build.Set("web", build.Annotation(api.MemberCheckAnnotation, check)), []*corev1.Pod{pod}, limit)
	answer, asked := found[pod.UID]
	if !asked {
		return "not asked"
	}
	return answer
}

// TestMemberCheckOverHTTP: a status from 200 to 299 means that the pod has caught up, and any other result gives a reason. A redirect is
// not followed.
func TestMemberCheckOverHTTP(t *testing.T) {
	var strayed atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { strayed.Add(1) }))
	t.Cleanup(elsewhere.Close)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/good":
		case "/empty":
			w.WriteHeader(http.StatusNoContent)
		case "/moved":
			http.Redirect(w, r, elsewhere.URL, http.StatusFound)
		case "/slow":
			<-r.Context().Done()
		case "/header":
			w.Header().Set("X-Long", strings.Repeat("x", 1<<20))
		case "/body":
			for range 1 << 10 {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return // the reader has closed the connection
				}
			}
		case "/cut":
			connection, _, _ := w.(http.Hijacker).Hijack()
			_ = connection.Close()
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte("secret words"))
		}
	}))
	t.Cleanup(server.Close)
	closed := httptest.NewServer(nil)
	closed.Close()
	at := "http:" + portOf(t, server)
	file := golden.Open(t)
	for _, row := range []struct{ says, check, ip string }{
		{"200", at + "/good", "127.0.0.1"},
		{"204", at + "/empty", "127.0.0.1"},
		{"a body without end", at + "/body", "127.0.0.1"},
		{"503", at + "/behind", "127.0.0.1"},
		{"a redirect", at + "/moved", "127.0.0.1"},
		{"no answer", at + "/slow", "127.0.0.1"},
		{"a header that is too long", at + "/header", "127.0.0.1"},
		{"an answer that is cut off", at + "/cut", "127.0.0.1"},
		{"a port that does not speak TLS", "https:" + portOf(t, server), "127.0.0.1"},
		{"a closed port", "http:" + portOf(t, closed), "127.0.0.1"},
		{"a pod without an address", at + "/good", ""},
		{"a name in place of an address", at + "/good", "localhost"},
		{"a check that cannot be read", "ftp:21", "127.0.0.1"},
	} {
		t.Run(row.says, func(t *testing.T) {
			file.Entry(t, row.says, cmp.Or(answerOf(t, row.check, row.ip, 700*time.Millisecond), "(caught up)"))
		})
	}
	if strayed.Load() > 0 {
		t.Error("a redirect was followed")
	}
}

// TestMemberCheckOverTCP: a pod has caught up if its port accepts a connection.
func TestMemberCheckOverTCP(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	if got := answerOf(t, "tcp:"+port, "127.0.0.1", time.Second); got != "" {
		t.Errorf("a port that takes connections: %q", got)
	}
	_ = listener.Close()
	golden.Equal(t, answerOf(t, "tcp:"+port, "127.0.0.1", time.Second)+"\n")
}

// TestMemberCheckNeedsTimeForAnswers: no pod is asked if the event's deadline is too near to wait for all answers.
func TestMemberCheckNeedsTimeForAnswers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), timeForWrites)
	defer cancel()
	set := build.Set("web", build.Annotation(api.MemberCheckAnnotation, "tcp:1"))
	if found := askMembers(ctx, set, []*corev1.Pod{member("127.0.0.1")}, time.Second); len(found) > 0 {
		t.Errorf("asked: %v", found)
	}
}

// TestDecisionReadsLinksOnce: in a set with hundreds of members, every decision costs downtime of stopped members. So the links of all
// claims, Jobs and pods must not be read again for each member. Only one digest of a name remains for each pair of a claim and a volume.
func TestDecisionReadsLinksOnce(t *testing.T) {
	allocations := func(members int, phase api.MemberPhase) float64 {
		var claims []string
		all := objects{}
		for i := range members {
			name, job := fmt.Sprintf("data-web-%d", i), build.Job(i, 1)
			claims = append(claims, name)
			all = append(all, append(append(source(name), target(name)...), job, build.Mover(job, build.FirstPassConverged(), onNode))...)
			all = append(all, heldPodOf(i)...)
		}
		in := situation(setWith(build.Operation(api.Moving, build.Members(phase, claims...)), build.Replicas(int32(members))),
			journalOf(claims...), all)
		return testing.AllocsPerRun(1, func() { Decide(in) })
	}
	const digest = 5.0
	linked := target("data-web-0")[0]
	read := testing.AllocsPerRun(1, func() {
		if link, err := api.LoadLink(linked); err != nil || link == nil {
			t.Errorf("%v, %v", link, err)
		}
	})
	for _, phase := range []api.MemberPhase{api.MemberSwapping, api.MemberStarting} {
		// The digests grow with the square of the members, everything else with their number.
		few, many := allocations(30, phase), allocations(300, phase)
		if pair := (many - 10*few) / (300*300 - 10*30*30); pair > digest || digest >= read/2 {
			t.Errorf("%s: each pair costs %.1f allocations, a digest at most %.0f, and to read a link %.0f", phase, pair, digest, read)
		}
	}
}
