package gateway

import (
	"errors"
	"fmt"
	"net/http"

	"drydock.dev/shared/api"
)

// Problem is an error with its own HTTP answer (RFC 7807). Its statuses and members follow Sablier (sablierapp/sablier
// internal/api/problemdetail.go and start_blocking_test.go): 400 for an invalid query, 404 for a set that does not exist or is not
// managed, 504 for a session that is not ready in time.
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

	// Retry is the number of seconds before the next try, or 0 if a retry cannot succeed without a change.
	Retry int `json:"-"`
	// cause is only for the log, so that anonymous callers cannot tell several causes apart.
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

// problem returns a problem whose title is the name of the status (RFC 9110).
func problem(status int, detail string, args ...any) *Problem {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(detail, args...)}
}

func invalid(detail string, args ...any) error {
	return problem(http.StatusBadRequest, detail, args...)
}

func unknownPath() error {
	return problem(http.StatusNotFound, "this path does not exist. Use %s, %s or %s", pathDynamic, pathBlocking, pathPoke)
}

func wrongMethod(method string) error {
	return problem(http.StatusMethodNotAllowed, "method %.20q is not allowed. Use GET", method)
}

func unauthorized() error {
	return problem(http.StatusUnauthorized,
		"this gateway requires a token. Send it as Authorization: Bearer TOKEN, or as the password in the plugin's URL")
}

func tokenUnreadable(cause error) error {
	p := problem(http.StatusServiceUnavailable, "the gateway cannot read its token. The log of the wake gateway says why")
	p.Retry, p.cause = retryAfter, cause.Error()
	return p
}

func streamNeedsToken() error {
	return problem(http.StatusForbidden,
		"events of all StatefulSets require a token. Set DRYDOCK_GATEWAY_TOKEN_FILE, or name sets or a group")
}

func metricsNeedToken() error {
	return problem(http.StatusForbidden,
		"metrics name StatefulSets, so they require the gateway's token. Create the Secret drydock-gateway, or set OTEL_METRICS_EXPORTER=otlp")
}

// optIn describes how to opt in.
const optIn = `Create it, give it label ` + api.ManagedLabel + `=true and annotation ` + api.IdleTimeoutAnnotation + `, for example "30m"`

// setNotFound returns the same problem for a set that does not exist, is not opted in, or is in another namespace, so that anonymous
// callers do not learn which sets exist.
func setNotFound(ref Ref, cause string) error {
	p := problem(http.StatusNotFound, "StatefulSet %s does not exist or is not opted in. %s", ref, optIn)
	p.cause = cause
	return p
}

func groupNotFound(group Ref, available []string, cause string) error {
	p := problem(http.StatusNotFound, "no StatefulSet of group %s exists and is opted in. %s", group, optIn)
	p.RequestGroup, p.AvailableGroups, p.cause = group.String(), available, cause
	return p
}

func tooManyRequests() error {
	p := problem(http.StatusServiceUnavailable, "too many requests are waiting at this gateway. Try again")
	p.Retry = retryAfter
	return p
}

func tooManyStreams() error {
	p := problem(http.StatusServiceUnavailable, "too many event streams are open at this gateway. Close one, or raise DRYDOCK_GATEWAY_WAITERS")
	p.Retry = retryAfter
	return p
}

func shuttingDown() error {
	p := problem(http.StatusServiceUnavailable, "this gateway is shutting down. Try again; another gateway answers")
	p.Retry = 1
	return p
}

// callerGone is only for the log.
func callerGone() error { return problem(http.StatusServiceUnavailable, "the caller disconnected") }

// retryAfter is the number of seconds before the next try if the cause may pass.
const retryAfter = 5

// problemOf returns the problem of an error. Errors of the API server are only for the log, because every visitor of the site may see
// the answer.
func problemOf(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	p = problem(http.StatusServiceUnavailable,
		"the StatefulSets cannot be read or written at the moment. The log of the wake gateway says why")
	p.Retry = retryAfter
	return p
}

// isProblem reports whether the error is a problem, so a retry cannot succeed without a change.
func isProblem(err error) bool {
	var p *Problem
	return errors.As(err, &p)
}
