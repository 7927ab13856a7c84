package kit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"drydock.dev/shared/api"
)

// answers judges at the end of a test what the API server answered to the functions of a world, and whether functions failed. A function
// that fails is called again, so the result of a test does not show that.
type answers struct {
	once sync.Once

	mu        sync.Mutex
	expected  []*refusal
	problems  map[string]int // by text
	conflicts map[string]int // by function and request
}

// refusal declares that the API server refuses requests of a function in a test.
type refusal struct {
	status   int
	function api.Function
	why      string
	came     bool
	byChance bool
}

// mostConflicts is how often one object may refuse a function's writes in a test because it has changed. Functions that write to the same
// object at the same time need up to fifteen.
const mostConflicts = 40

// Expect declares that the API server answers requests of the function with the status, and why. Without it such an answer fails the test.
// So does a declared answer that never comes, unless it is a conflict, which is a matter of chance.
func (w *World) Expect(status int, function api.Function, why string) {
	w.answers.mu.Lock()
	defer w.answers.mu.Unlock()
	w.answers.expected = append(w.answers.expected, &refusal{status: status, function: function, why: why})
}

// Allow declares an answer that may come by chance, and why.
func (w *World) Allow(status int, function api.Function, why string) {
	w.answers.mu.Lock()
	defer w.answers.mu.Unlock()
	w.answers.expected = append(w.answers.expected, &refusal{status: status, function: function, why: why, byChance: true})
}

// ownRead marks the context of a request that the kit itself sends with a function's rights.
type ownRead struct{}

// wrap returns a transport that notes the refusals. It is the innermost, so it does not see the failures of a saboteur.
func (a *answers) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err == nil && response.StatusCode >= http.StatusBadRequest && r.Context().Value(ownRead{}) == nil {
			a.note(r, response)
		}
		return response, err
	})
}

func (a *answers) note(r *http.Request, response *http.Response) {
	body, err := io.ReadAll(response.Body)
	response.Body = io.NopCloser(bytes.NewReader(body))
	if err != nil {
		return
	}
	function := api.Function(strings.TrimPrefix(r.Header.Get("Impersonate-User"), "system:serviceaccount:"+api.HomeNamespace+":"))
	status := &metav1.Status{Message: string(body)}
	if decoded, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil); err == nil {
		if s, ok := decoded.(*metav1.Status); ok {
			status = s
		}
	}
	switch {
	case isRegular(r, response.StatusCode), namespaceEnds(&apierrors.StatusError{ErrStatus: *status}),
		a.isExpected(response.StatusCode, function):
	case isConflict(response.StatusCode, status):
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.conflicts == nil {
			a.conflicts = map[string]int{}
		}
		a.conflicts[string(function)+": "+describe(r)]++
	default:
		a.problem("the API server answers %s on %s with %d: %s", function, describe(r), response.StatusCode, status.Message)
	}
}

// isRegular reports whether functions get the answer in any test: an object is absent, a dry run asks whether a write would be refused, a
// PodDisruptionBudget does not allow an eviction now, an Event exists because its name derives from its content, and the machines of a
// World have no kubelet that reads logs.
func isRegular(r *http.Request, status int) bool {
	switch status {
	case http.StatusNotFound:
		return r.Method == http.MethodGet
	case http.StatusTooManyRequests:
		return true
	case http.StatusConflict:
		return strings.HasSuffix(r.URL.Path, "/events") || r.URL.Query().Has("dryRun")
	case http.StatusInternalServerError:
		return strings.HasSuffix(r.URL.Path, "/log")
	}
	return status < http.StatusInternalServerError && r.URL.Query().Has("dryRun")
}

// namespaceEnds reports whether the API server refused a new object because its namespace is being deleted.
func namespaceEnds(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// isConflict reports whether a write failed because its object has changed or is gone, or because a patch does not fit the object.
func isConflict(code int, s *metav1.Status) bool {
	misfit := s.Reason == metav1.StatusReasonInvalid && s.Details != nil && s.Details.Kind == "" && len(s.Details.Causes) == 0
	return code == http.StatusConflict || code == http.StatusNotFound || misfit
}

// isExpected reports whether the test has declared the answer. The status 0 is any status.
func (a *answers) isExpected(status int, function api.Function) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := false
	for _, r := range a.expected {
		if r.function == function && (status == 0 || r.status == status) {
			r.came, found = r.came || status != 0, true
		}
	}
	return found
}

// failed notes that a function failed. A refusal that the test declares may be the cause, or a saboteur that ended its process.
func (a *answers) failed(ctx context.Context, function api.Function, e event.Event, err error) {
	if ctx.Err() == nil && !errors.Is(err, errDead) && !namespaceEnds(err) && !a.isExpected(0, function) {
		a.problem("%s fails on %s: %v", function, e.Type(), err)
	}
}

func (a *answers) problem(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.problems == nil {
		a.problems = map[string]int{}
	}
	a.problems[fmt.Sprintf(format, args...)]++
}

// judge fails the test for each problem.
func (a *answers) judge(t testing.TB) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, problem := range slices.Sorted(maps.Keys(a.problems)) {
		t.Errorf("%d times %s. If the test provokes that, declare it by World.Expect", a.problems[problem], problem)
	}
	for _, request := range slices.Sorted(maps.Keys(a.conflicts)) {
		if n := a.conflicts[request]; n > mostConflicts {
			t.Errorf("%d conflicts, at most %d are normal: %s", n, mostConflicts, request)
		}
	}
	for _, r := range a.expected {
		if !r.came && !r.byChance && r.status != http.StatusConflict {
			t.Errorf("the API server has never answered %d to %s, although the test expects it: %s", r.status, r.function, r.why)
		}
	}
}
