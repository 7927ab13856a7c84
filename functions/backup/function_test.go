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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// countingRequests counts the requests to the API server.
type countingRequests struct {
	lists build.Lists
	count int
}

func (c *countingRequests) RoundTrip(r *http.Request) (*http.Response, error) {
	c.count++
	answer := httptest.NewRecorder()
	c.lists.ServeHTTP(answer, r)
	return answer.Result(), nil
}

// TestOneReadShowsThatNothingIsToDo: many events of an operation concern other functions. backup also reads only the set then.
func TestOneReadShowsThatNothingIsToDo(t *testing.T) {
	unnamed := build.Operation(api.Moving)
	unnamed.Set.UID = ""
	for name, row := range map[string]struct {
		sets    []metav1.Object
		hasWork bool
	}{
		"the set does not exist":        {nil, false},
		"there is no operation":         {set(nil), false},
		"the operation is planned":      {set(build.Operation(api.Planned)), false},
		"restore has deleted the set":   {set(build.Operation(api.Moving), build.Deleting()), false},
		"restore has created the set":   {set(unnamed), false},
		"the members are being copied":  {set(build.Operation(api.Moving)), true},
		"the operation has been undone": {set(build.Operation(api.Failed)), false},
	} {
		requests := &countingRequests{lists: build.EmptyLists()}
		requests.lists["statefulsets"] = row.sets
		client := kube.NewClient(&rest.Config{Host: "http://api.example.com", Transport: requests})
		_, err := New(client, build.Settings(), slog.New(slog.DiscardHandler)).observe(t.Context(),
			events.Ref{Namespace: build.Namespace, Name: "web"})
		if err != nil || (requests.count > 1) != row.hasWork {
			t.Errorf("%s: %d requests, %v", name, requests.count, err)
		}
	}
}
