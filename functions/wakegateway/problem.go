package wakegateway

import (
	"errors"
	"fmt"
	"strings"

	"drydock.dev/shared/api"
)

// Statuses of HTTP that the gateway answers with.
const (
	statusOK          = 200
	statusBadRequest  = 400
	statusNotFound    = 404
	statusWrongMethod = 405
	statusConflict    = 409
	statusUnavailable = 503
	statusTimeout     = 504
)

// titles are the statuses' names (RFC 9110), which a problem without a type of its own has for a title.
var titles = map[int]string{
	statusBadRequest: "Bad Request", statusNotFound: "Not Found", statusWrongMethod: "Method Not Allowed",
	statusConflict: "Conflict", statusUnavailable: "Service Unavailable", statusTimeout: "Gateway Timeout",
}

// Problem is an error with an answer of its own (RFC 7807). Its statuses are Sablier's where it has the same problem
// (sablierapp/sablier internal/api/problemdetail.go and start_blocking_test.go: 400 for a query, 404 for what is not there
// or not managed, 504 for a session that is not ready in time).
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// Retry is after how many seconds to try again; 0 for never without a change.
	Retry int `json:"-"`
}

// Error is the detail.
func (p *Problem) Error() string { return p.Detail }

func problem(status int, detail string, args ...any) *Problem {
	return &Problem{Type: "about:blank", Title: titles[status], Status: status, Detail: fmt.Sprintf(detail, args...)}
}

func invalid(detail string, args ...any) error {
	return problem(statusBadRequest, detail, args...)
}

func noRoute() error {
	return problem(statusNotFound, "there is nothing at this path; the strategies are %s, %s and %s", pathDynamic, pathBlocking, pathPoke)
}

func wrongMethod(method string) error {
	return problem(statusWrongMethod, "method %.20q; use GET", method)
}

func notLookedAfter(namespace string) error {
	return problem(statusNotFound, "this Drydock does not look after namespace %s; add it to DRYDOCK_NAMESPACES", namespace)
}

func noSet(ref Ref) error { return problem(statusNotFound, "there is no StatefulSet %s", ref) }

func notManaged(ref Ref) error {
	return problem(statusNotFound, `StatefulSet %s has not opted in; give it label %s=true and annotation %s, as "30m"`,
		ref, api.ManagedLabel, api.IdleTimeoutAnnotation)
}

func noTimeout(ref Ref) error {
	return problem(statusNotFound, `neither StatefulSet %s nor another of its group goes to sleep; give it annotation %s, as "30m"`,
		ref, api.IdleTimeoutAnnotation)
}

func noGroup(group Ref) error {
	where := ""
	if group.Namespace != "" {
		where = " of namespace " + group.Namespace
	}
	return problem(statusNotFound, `no StatefulSet%s with label %s=%s goes to sleep; give one label %s=true and annotation %s, as "30m"`,
		where, api.GroupLabel, group.Name, api.ManagedLabel, api.IdleTimeoutAnnotation)
}

func paused(ref Ref) error {
	return problem(statusConflict, "StatefulSet %s is paused, and no request wakes it; remove annotation %s from it", ref, api.PausedAnnotation)
}

// timedOut names those that are not ready, but not more than a person reads.
func timedOut(ask Ask, session Session) error {
	const most = 5
	var late []string
	for _, set := range session.Sets {
		if set.Needed && set.State != Ready && len(late) < most {
			late = append(late, set.Ref.String()+" is "+set.describe())
		}
	}
	p := problem(statusTimeout, "not ready after %s: %s", ask.Timeout, strings.Join(late, "; "))
	p.Retry = retryAfter
	return p
}

func stopping() error {
	p := problem(statusUnavailable, "this gateway shuts down; ask again, and another one answers")
	p.Retry = 1
	return p
}

// gone is for the log: nobody is there to read it.
func gone() error { return problem(statusUnavailable, "the caller went away") }

// retryAfter is when to try again what may pass, in seconds.
const retryAfter = 5

// problemOf makes a problem of any error. What is wrong with the API server is for the log: the answer may be shown to
// whoever visits the site.
func problemOf(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	p = problem(statusUnavailable, "the StatefulSets cannot be read or written at the moment; the log of the wake gateway says why")
	p.Retry = retryAfter
	return p
}

func isProblem(err error) bool {
	var p *Problem
	return errors.As(err, &p)
}
