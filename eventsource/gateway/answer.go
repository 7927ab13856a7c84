package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"

	"drydock.dev/shared/text"
)

// statusHeader tells a plugin whether to forward a request to the site. Every answer has it, even a problem: without the header the
// plugin for Envoy, Istio, APISIX and nginx forwards the request (sablierapp/sablier-proxywasm-plugin main.go), and the site may be
// asleep.
const (
	statusHeader = "X-Sablier-Session-Status"
	isReady      = "ready"
	isNotReady   = "not-ready"
)

// answer is an HTTP answer before it is written.
type answer struct {
	code    int
	ready   bool
	kind    string // media type of the body
	body    []byte
	problem *Problem
	err     error  // for the log
	subject string // names of the requested sets, for the log
	wrote   bool   // the request wrote a session to a set
	// stream writes the body over time. It is nil if body is complete.
	stream streamer
}

func plainText(body string) answer {
	return answer{code: http.StatusOK, kind: "text/plain; charset=utf-8", body: []byte(body)}
}

func asJSON(body any) answer {
	return answer{code: http.StatusOK, kind: "application/json", body: encode(body)}
}

// refuse answers with a problem. It copies the problem, because several requests share a cached error.
func refuse(path string, err error) answer {
	shared := problemOf(err)
	p := *shared
	p.Instance = text.Line(path, 200)
	return answer{code: p.Status, kind: "application/problem+json", body: encode(p), problem: &p, err: err}
}

func encode(body any) []byte {
	raw, err := json.Marshal(body)
	if err != nil {
		panic(fmt.Sprintf("marshalling %T: %v", body, err)) // unreachable: plain structs
	}
	return append(raw, '\n')
}

// withSubject adds the subject of the request for the log.
func (a answer) withSubject(query Query, wrote bool) answer {
	a.subject, a.wrote = query.String(), wrote
	return a
}

// outcome returns the word for the log.
func (a answer) outcome() string {
	switch {
	case a.err != nil && a.code < http.StatusServiceUnavailable:
		return "refused"
	case a.err != nil:
		return "failed"
	case a.ready:
		return isReady
	case a.subject != "":
		return isNotReady
	}
	return "done"
}

// version returns the module's version from the build information.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

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
