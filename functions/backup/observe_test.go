package backup

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/operation"
	"drydock.dev/test/kit/build"
)

// hangingLogs is the transport of an API server that reaches no kubelet.
type hangingLogs struct{ lists build.Lists }

func (h hangingLogs) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/log") {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	answer := httptest.NewRecorder()
	h.lists.ServeHTTP(answer, r)
	return answer.Result(), nil
}

// TestHangingLogsDoNotDelayTheEvent: many members are stopped, and the event must not wait for their logs one by one.
func TestHangingLogsDoNotDelayTheEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		copies := build.Edit(func(p *corev1.Pod) {
			running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: moverreport.FirstContainer, State: running}}
		})
		record := build.Operation(api.Moving)
		lists := build.EmptyLists()
		for i := range 9 {
			member := build.Member(i, api.MemberFinalPass)
			member.StoppedAt = operation.Moment(time.Now().Add(-time.Hour))
			record.Members = append(record.Members, member)
			job := build.Job(i, member.Attempt)
			lists["jobs"], lists["pods"] = append(lists["jobs"], job), append(lists["pods"], build.Mover(job, onNode, copies))
		}
		lists["statefulsets"] = set(record, build.Replicas(9))
		client := kube.NewClient(&rest.Config{Host: "http://api.example.com", Transport: hangingLogs{lists}})
		start := time.Now()
		in, err := New(client, build.Settings(), slog.New(slog.DiscardHandler)).observe(t.Context(),
			events.Ref{Namespace: build.Namespace, Name: "web"})
		if err != nil || len(in.Pods) != 9 {
			t.Fatalf("observed %d mover pods, error %v", len(in.Pods), err)
		}
		if took := time.Since(start); took < oneLogTimeout || took > allLogsTimeout {
			t.Errorf("observing took %s", took)
		}
	})
}
