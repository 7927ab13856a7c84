package gateway

import (
	"net/http"
	"strconv"
)

// headers returns the headers of the answer.
func (a answer) headers() map[string]string {
	h := map[string]string{
		statusHeader: isNotReady, "Content-Type": a.kind, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
	}
	if a.stream != nil {
		h["X-Accel-Buffering"] = "no" // nginx would buffer events
	} else {
		h["Content-Length"] = strconv.Itoa(len(a.body)) // the plugin for Caddy always copies it
	}
	if a.ready {
		h[statusHeader] = isReady
	}
	if a.kind == pageKind {
		h["Content-Security-Policy"] = pagePolicy + "; frame-ancestors 'self'"
		h["Referrer-Policy"] = "no-referrer"
	}
	if a.problem != nil && a.problem.Retry > 0 {
		h["Retry-After"] = strconv.Itoa(a.problem.Retry)
	}
	if a.code == http.StatusMethodNotAllowed {
		h["Allow"] = "GET"
	}
	if a.code == http.StatusUnauthorized {
		h["WWW-Authenticate"] = `Bearer realm="drydock"`
	}
	return h
}
