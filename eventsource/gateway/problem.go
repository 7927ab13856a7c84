package gateway

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
	statusNoToken     = 401
	statusForbidden   = 403
	statusNotFound    = 404
	statusWrongMethod = 405
	statusConflict    = 409
	statusUnavailable = 503
	statusTimeout     = 504
)

// titles are the statuses' names (RFC 9110), which a problem without a type of its own has for a title.
var titles = map[int]string{
	statusBadRequest: "Bad Request", statusNoToken: "Unauthorized", statusForbidden: "Forbidden", statusNotFound: "Not Found",
	statusWrongMethod: "Method Not Allowed",
	statusConflict:    "Conflict", statusUnavailable: "Service Unavailable", statusTimeout: "Gateway Timeout",
}

// Problem is an error with an answer of its own (RFC 7807). Its statuses and members are Sablier's where it has the same problem
// (sablierapp/sablier internal/api/problemdetail.go and start_blocking_test.go: 400 for a query, 404 for what is not there
// or not managed, 504 for a session that is not ready in time).
type Problem struct {
	Type     string `json:"type"`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail"`
	Instance string `json:"instance,omitempty"` // the path of the request

	RequestGroup    string            `json:"requestGroup,omitempty"`
	AvailableGroups []string          `json:"availableGroups,omitempty"`
	RequestTheme    string            `json:"requestTheme,omitempty"`
	AvailableTheme  []string          `json:"availableTheme,omitempty"`
	Instances       []problemInstance `json:"instances,omitempty"`

	// Retry is after how many seconds to try again; 0 for never without a change.
	Retry int `json:"-"`
	// cause is for the log: strangers are not told which of several causes it was.
	cause string
}

// problemInstance is a set that was not ready in time.
type problemInstance struct {
	Name    string `json:"name"`
	Status  string `json:"status"`
	Message string `json:"message,omitempty"`
}

// Error returns the detail, with the cause if there is one.
func (p *Problem) Error() string {
	if p.cause != "" {
		return p.Detail + " (" + p.cause + ")"
	}
	return p.Detail
}

func problem(status int, detail string, args ...any) *Problem {
	return &Problem{Type: "about:blank", Title: titles[status], Status: status, Detail: fmt.Sprintf(detail, args...)}
}

func invalid(detail string, args ...any) error {
	return problem(statusBadRequest, detail, args...)
}

func noRoute() error {
	return problem(statusNotFound, "there is nothing at this path. The strategies are %s, %s and %s", pathDynamic, pathBlocking, pathPoke)
}

func wrongMethod(method string) error {
	return problem(statusWrongMethod, "method %.20q is not allowed. Use GET", method)
}

func noToken() error {
	return problem(statusNoToken,
		"this gateway wants a token. Send it as Authorization: Bearer TOKEN, or as the password in the URL of the plugin")
}

func tokenUnreadable(cause error) error {
	p := problem(statusUnavailable, "the gateway cannot read its token. The log of the wake gateway says why")
	p.Retry, p.cause = retryAfter, cause.Error()
	return p
}

func noStreamOfAll() error {
	return problem(statusForbidden,
		"events of every StatefulSet are for callers with a token. Set DRYDOCK_GATEWAY_TOKEN_FILE, or name sets or a group")
}

// optIn says how an owner opts in.
const optIn = `Create it, give it label ` + api.ManagedLabel + `=true and annotation ` + api.IdleTimeoutAnnotation + `, for example "30m"`

// nothing is one answer for a set that does not exist, that is not opted in, and that is not looked after: strangers do not learn
// which sets there are.
func nothing(ref Ref, cause string) error {
	p := problem(statusNotFound, "StatefulSet %s does not exist or is not opted in. %s", ref, optIn)
	p.cause = cause
	return p
}

func noGroup(group Ref, available []string, cause string) error {
	p := problem(statusNotFound, "no StatefulSet of group %s exists and is opted in. %s", group, optIn)
	p.RequestGroup, p.AvailableGroups, p.cause = group.String(), available, cause
	return p
}

func noTheme(theme string) error {
	p := problem(statusNotFound, "there is no theme %.100q. Use one of availableTheme, or none", theme)
	p.RequestTheme, p.AvailableTheme = clip(clean(theme, 100), 100), themes
	return p
}

func paused(ref Ref) error {
	return problem(statusConflict,
		"StatefulSet %s is paused, and no request wakes it. Remove annotation %s from it", ref, api.PausedAnnotation)
}

// stopped is about a set at zero that no visit wakes.
func stopped(set Set) error {
	return problem(statusConflict,
		"StatefulSet %s is stopped, and no request wakes it: %s. Scale it up. For a set without an owner, annotation %s lets a visit wake it",
		set.Ref, set.Message, api.WakeReplicasAnnotation)
}

func full() error {
	p := problem(statusUnavailable, "too many requests wait already. Try again: the StatefulSets wake meanwhile")
	p.Retry = retryAfter
	return p
}

// timedOut names those that are not ready, but not more than a person reads.
func timedOut(ask Ask, session Session) error {
	const most = 5
	var late []string
	var pending []problemInstance
	for _, set := range session.Sets {
		if set.Needed && set.State != Ready && len(late) < most {
			late = append(late, set.Ref.String()+" is "+set.describe())
			pending = append(pending, problemInstance{nameOf(ask, set.Ref)[0], sablierStatus[set.State], set.Message})
		}
	}
	p := problem(statusTimeout, "not ready after %s: %s", ask.Timeout, strings.Join(late, "; "))
	p.Retry, p.Instances = retryAfter, pending
	return p
}

func stopping() error {
	p := problem(statusUnavailable, "this gateway shuts down. Try again, and another one answers")
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
	p = problem(statusUnavailable, "the StatefulSets cannot be read or written at the moment. The log of the wake gateway says why")
	p.Retry = retryAfter
	return p
}

func isProblem(err error) bool {
	var p *Problem
	return errors.As(err, &p)
}
