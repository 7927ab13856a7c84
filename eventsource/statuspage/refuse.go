package statuspage

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"drydock.dev/shared/text"
	"drydock.dev/shared/token"
)

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
