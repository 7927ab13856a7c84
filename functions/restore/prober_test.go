package restore

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

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
