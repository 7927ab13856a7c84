package statuspage

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"drydock.dev/shared/text"
	"drydock.dev/shared/token"
)

// Problem is an error with its own HTTP answer (RFC 7807).
type Problem struct {
	Type     string `json:"type"`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail"`
	Instance string `json:"instance,omitempty"` // the path of the request

	retry int // seconds before the next try, or 0 if a retry cannot succeed without a change
}

// Error returns the detail.
func (p *Problem) Error() string { return p.Detail }

// problem returns a problem whose title is the name of the status (RFC 9110).
func problem(status int, detail string, args ...any) *Problem {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(detail, args...)}
}

// retryAfter is the number of seconds before the next try if the cause may pass.
const retryAfter = 5

func unavailable(detail string) *Problem {
	p := problem(http.StatusServiceUnavailable, "%s", detail)
	p.retry = retryAfter
	return p
}

func wrongMethod(method string) error {
	return problem(http.StatusMethodNotAllowed, "method %.20q is not allowed. Use GET", method)
}

func unknownPath() error { return problem(http.StatusNotFound, "this page does not exist. Open /") }

func invalidQuery() error {
	return problem(http.StatusBadRequest, "the query cannot be read. Open / and choose from there")
}

// setNotFound is the same for a set that does not exist, has not opted in, or is in a namespace that this Drydock does not serve.
func setNotFound(namespace, name string) error {
	return problem(http.StatusNotFound, "StatefulSet %s/%s does not exist, or has not opted in with the label drydock.dev/managed=true. "+
		"While a resize creates the set again, it is missing for moments", namespace, name)
}

func tooManyRequests() error {
	return unavailable("too many pages are being read at the moment. Reload the page in some seconds")
}

func tooManyViewers() error {
	return unavailable("too many browsers are kept up to date. Reload the page by hand, or set DRYDOCK_STATUS_VIEWERS")
}

// tokenRecipe says how to create the token.
const tokenRecipe = "The status page shows names and messages of all namespaces, so it needs a token. Create it, then restart the page: " +
	`kubectl -n drydock create secret generic drydock-status --from-literal=token="$(openssl rand -hex 24)"`

func noToken() error { return problem(http.StatusForbidden, "%s", tokenRecipe) }

func wrongToken() error {
	return problem(http.StatusUnauthorized,
		"this page requires a token. Send it as Authorization: Bearer TOKEN, or as the password, with any user name")
}

// problemOf returns the problem of an error. Errors of the API server are only for the log.
func problemOf(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	return unavailable("the API server cannot be read at the moment. The log of the status page says why")
}

// encode returns the problem as JSON.
func (p *Problem) encode() []byte {
	raw, err := json.Marshal(p)
	if err != nil {
		panic("marshalling a problem: " + err.Error()) // unreachable: plain fields
	}
	return append(raw, '\n')
}

// checkToken returns a problem if the request does not have the token. Without a configured token, no request has it.
func (p *Page) checkToken(r *http.Request) error {
	if !p.token.Required() {
		return noToken()
	}
	err := p.token.Check(r)
	switch {
	case errors.Is(err, token.ErrWrong):
		return wrongToken()
	case err != nil:
		p.warn("reading the token of the status page failed", err)
		return unavailable("the token cannot be read. The log of the status page says why")
	}
	return nil
}

// refuse answers with the problem of the error: as a page for a browser, else as JSON.
func (p *Page) refuse(w http.ResponseWriter, r *http.Request, err error) {
	answer := *problemOf(err)
	answer.Instance = text.Line(r.URL.Path, 200)
	if answer.Status >= http.StatusInternalServerError {
		p.warn("answering a request failed", err)
	}
	h := w.Header()
	switch answer.Status {
	case http.StatusMethodNotAllowed:
		h.Set("Allow", http.MethodGet)
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Basic realm="Drydock", charset="UTF-8"`) // a browser asks its user for the password
	}
	if answer.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(answer.retry))
	}
	kind, body := "application/problem+json", answer.encode()
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		kind, body = htmlKind, renderProblem(answer)
	}
	h.Set("Content-Type", kind)
	w.WriteHeader(answer.Status)
	_, _ = w.Write(body) // the caller may have disconnected
}
