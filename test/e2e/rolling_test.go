//go:build cluster

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/stage"
)

const (
	served      = 3 // replicas
	servicePort = 8080
	// serving fills the volume once, then answers requests until its stop.
	serving = `cd /data && if [ ! -e filled ]; then dd if=/dev/urandom of=big bs=1M count=24 2>/dev/null; mkdir -p small
i=0; while [ $i -lt 300 ]; do echo "row $i $HOSTNAME" > small/$i; i=$((i+1)); done; sync; touch filled; fi
httpd -f -p 8080 -h /data & trap "kill $!; exit 0" TERM; wait $!`
	// calling calls the Service every 20 ms, and records the result of each call. Debian's static busybox crashes with
	// wget -T, so timeout limits a call.
	calling = `while :; do if timeout 2 wget -q -O /dev/null http://%s:8080/filled; then echo ok; else echo failed
  fi >> /tmp/calls; usleep 20000; done`
	// contents digests names and contents.
	contents = `cd /data && find . -path ./lost+found -prune -o -type f -print | sort | xargs sha256sum | sha256sum`
)

// service is a set of three replicas behind a Service, with a client and a PodDisruptionBudget that allows one
// unavailable replica.
type service struct {
	*stage.Stage
}

func newService(t *testing.T, drains bool) service {
	t.Helper()
	s := service{stage.New(t)}
	s.Patience = 3 * time.Minute
	set := stage.Workload("64Mi")
	set.Spec.Replicas = ptr.To[int32](served)
	set.Annotations[api.StrategyAnnotation] = string(api.StrategyRolling)
	pod := &set.Spec.Template.Spec
	pod.Containers[0].Command = []string{"sh", "-c", serving}
	pod.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 1,
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/filled", Port: intstr.FromInt32(servicePort)}}}
	if drains { // it keeps serving until it gets no new calls
		stage.WithSlowStop(3, set)
	}
	s.CreateSet(set)
	s.awaitReady()
	s.expose(t, set)
	return s
}

// expose creates the Service, the budget and the client.
func (s service) expose(t *testing.T, set *appsv1.StatefulSet) {
	t.Helper()
	made := s.publish(t, set, servicePort)
	s.Start(t, "client", fmt.Sprintf(calling, made.Spec.ClusterIP))
	s.Eventually("calls get through", func() string {
		if n := s.calls(t, "ok"); n < 10 {
			return fmt.Sprintf("%d did", n)
		}
		return ""
	})
}

// publish creates the Service and the budget.
func (s service) publish(t *testing.T, set *appsv1.StatefulSet, port int32) *corev1.Service {
	t.Helper()
	ctx, labels := t.Context(), set.Spec.Selector.MatchLabels
	made, err := s.Kube.CoreV1().Services(s.Namespace).Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "served"},
		Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: port}}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.budget(t, set, policyv1.PodDisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.FromInt32(1))})
	return made
}

// budget creates a budget for the set.
func (s service) budget(t *testing.T, set *appsv1.StatefulSet, spec policyv1.PodDisruptionBudgetSpec) {
	t.Helper()
	spec.Selector = set.Spec.Selector
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "served"}, Spec: spec}
	if _, err := s.Kube.PolicyV1().PodDisruptionBudgets(s.Namespace).Create(t.Context(), budget, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (s service) awaitReady() {
	s.Eventually("all replicas are ready", func() string {
		if set := s.Set("web"); set == nil || set.Status.ReadyReplicas != served || set.Status.UpdatedReplicas != served {
			return "they are not"
		}
		return ""
	})
}

// calls returns the number of the client's calls with the result.
func (s service) calls(t *testing.T, how string) int {
	t.Helper()
	n, err := strconv.Atoi(s.Exec(t, "client", "grep -c "+how+" /tmp/calls || true"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// sums returns a digest of each replica's data.
func (s service) sums(t *testing.T) []string {
	t.Helper()
	var all []string
	for i := range served {
		all = append(all, s.Exec(t, fmt.Sprintf("web-%d", i), contents))
	}
	return all
}

// during runs act. It returns the number of failed calls and the lowest number of ready replicas.
func (s service) during(t *testing.T, act func()) (failed, least int) {
	t.Helper()
	before := s.calls(t, "failed")
	least = s.leastReady(t, act)
	return s.calls(t, "failed") - before, least
}

// leastReady runs act, waits until all replicas are ready, and returns the lowest number of ready replicas.
func (s service) leastReady(t *testing.T, act func()) int {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	fewest := make(chan int, 1)
	go func() {
		n := served
		for ctx.Err() == nil {
			pods, err := s.Kube.CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
			if err == nil {
				n = min(n, readyPods(slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.Name == "web-3" })))
			}
			<-time.After(20 * time.Millisecond)
		}
		fewest <- n
	}()
	act()
	s.awaitReady()
	stop()
	return <-fewest
}

// TestRollingResizeKeepsServing: a client calls the Service every 20 ms. It has no more failed calls than during an
// eviction of the same pods, and none if the application drains. Two replicas are never unavailable. The data is
// unchanged, on volumes of another class.
func TestRollingResizeKeepsServing(t *testing.T) {
	t.Parallel()
	for name, drains := range map[string]bool{"the application drains": true, "the application just ends": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t, drains)
			before := s.sums(t)
			control, _ := s.during(t, func() { s.evictAll(t) })
			drydock(t, s.Stage)
			var status *api.Resize
			failed, least := s.during(t, func() {
				s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi@" + stage.OtherClass})
				status = s.AwaitEnd(t)
			})
			t.Logf("%d calls failed in the resize, %d in the control run, of %d; %d replicas were ready at the least", failed, control,
				s.calls(t, "ok"), least)
			if status.Phase != api.Succeeded {
				t.Fatalf("%s %s: %s", status.Phase, status.Reason, status.Message)
			}
			if allowed := control + served; !drains && failed > allowed { // one call per pod: some call meets its end
				t.Errorf("%d calls failed, %d when the pods were evicted", failed, control)
			}
			if drains && failed > 0 {
				t.Errorf("%d calls failed", failed)
			}
			if least < served-1 {
				t.Errorf("%d replicas were ready", least)
			}
			s.expectMoved(t, status, before)
		})
	}
}

// TestStopsWaitForApproval: no pod stops before it, and all stop after it.
func TestStopsWaitForApproval(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateSet(stage.Workload("64Mi"))
	before := s.Data(t)
	pods := podsOf(t, s)
	drydock(t, s)
	s.Annotate("web", map[string]string{api.CutoverAnnotation: api.CutoverApprove, api.ResizeAnnotation: "data=160Mi"})
	s.Eventually("both members wait", func() string {
		status := s.Status("web")
		if status == nil || len(status.Members) != 2 || slices.ContainsFunc(status.Members,
			func(m api.Member) bool { return m.Phase != api.MemberWaiting }) {
			return fmt.Sprintf("status %+v", status)
		}
		return ""
	})
	if now := podsOf(t, s); now != pods {
		t.Fatalf("the pods are %s, were %s", now, pods)
	}
	s.Annotate("web", map[string]string{api.ApproveAnnotation: s.Status("web").Operation})
	s.ExpectResized(t, before)
	if _, stays := s.Set("web").Annotations[api.ApproveAnnotation]; stays {
		t.Error("the approval is still there")
	}
}

// BenchmarkResize measures the time from the request to the end of a resize.
func BenchmarkResize(b *testing.B) {
	s := stage.New(b)
	s.CreateSet(stage.Workload("64Mi"))
	drydock(b, s)
	var all time.Duration
	size := 160
	for b.Loop() {
		all += s.Resize(b, quantity(size))
		size += 32
	}
	b.ReportMetric(all.Seconds()/float64(b.N), "s-resize")
}

func restartPods(t testing.TB, s *stage.Stage) {
	t.Helper()
	err := s.Kube.CoreV1().Pods(s.Namespace).DeleteCollection(context.Background(), metav1.DeleteOptions{},
		metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		t.Fatal(err)
	}
}

// outage runs act, and returns how long fewer than all replicas were ready.
func outage(t testing.TB, s *stage.Stage, replicas int, act func()) time.Duration {
	t.Helper()
	began, ended := make(chan time.Time, 1), make(chan time.Time, 1)
	go func() {
		down := false
		for {
			pods, err := s.Kube.CoreV1().Pods(s.Namespace).List(context.Background(), metav1.ListOptions{LabelSelector: "app=web"})
			if err == nil && !down && readyPods(pods.Items) < replicas {
				down = true
				began <- time.Now()
			} else if err == nil && down && readyPods(pods.Items) == replicas {
				ended <- time.Now()
				return
			}
			<-time.After(20 * time.Millisecond)
		}
	}()
	act()
	start, end := <-began, <-ended
	s.Eventually("the set is ready", func() string {
		if set := s.Set("web"); set == nil || int(set.Status.ReadyReplicas) != replicas || int(*set.Spec.Replicas) != replicas {
			return "it is not"
		}
		return ""
	})
	return end.Sub(start)
}

func readyPods(pods []corev1.Pod) int {
	n := 0
	for _, pod := range pods {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil {
				n++
			}
		}
	}
	return n
}

func quantity(mebibytes int) string { return fmt.Sprintf("data=%dMi", mebibytes) }
