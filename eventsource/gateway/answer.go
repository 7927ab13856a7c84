package gateway

import (
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strconv"
)

// statusHeader is what the plugins look at; they pass a request on when it is "ready". It is on every answer, problems too:
// the plugin for Envoy, Istio, APISIX and nginx passes a request on to the site when the header is missing
// (sablierapp/sablier-proxywasm-plugin main.go), where nobody may be.
const (
	statusHeader = "X-Sablier-Session-Status"
	isReady      = "ready"
	isNotReady   = "not-ready"
)

// answer is an answer before it is written.
type answer struct {
	code    int
	ready   bool
	kind    string // of the body
	body    []byte
	problem *Problem
	err     error // what went wrong, for the log
	subject string
	wrote   bool // a session was written on a set
	// stream writes the body as it comes; nil for a body that is known.
	stream streamer
}

func text(body string) answer {
	return answer{code: statusOK, kind: "text/plain; charset=utf-8", body: []byte(body)}
}

func asJSON(body any) answer {
	return answer{code: statusOK, kind: "application/json", body: encode(body)}
}

// refuse answers with the problem that the error is. It takes a copy: requests share what they see, errors too.
func refuse(path string, err error) answer {
	shared := problemOf(err)
	p := *shared
	p.Instance = clip(clean(path, 200), 200)
	return answer{code: p.Status, kind: "application/problem+json", body: encode(p), problem: &p, err: err}
}

func encode(body any) []byte {
	raw, err := json.Marshal(body)
	if err != nil {
		panic(fmt.Sprintf("marshalling %T: %v", body, err)) // unreachable: plain structs
	}
	return append(raw, '\n')
}

func (a answer) about(ask Ask, wrote bool) answer {
	a.subject, a.wrote = ask.String(), wrote
	return a
}

// outcome is the word of the log.
func (a answer) outcome() string {
	switch {
	case a.err != nil && a.code < statusUnavailable:
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

// headers are what HTTP gets beside the status.
func (a answer) headers() map[string]string {
	h := map[string]string{
		statusHeader: isNotReady, "Content-Type": a.kind, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
	}
	if a.stream != nil {
		h["X-Accel-Buffering"] = "no" // of nginx, which would hold events back
	} else {
		h["Content-Length"] = strconv.Itoa(len(a.body)) // the plugin for Caddy copies it, also when it is missing
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
	if a.code == statusWrongMethod {
		h["Allow"] = "GET"
	}
	if a.code == statusNoToken {
		h["WWW-Authenticate"] = `Bearer realm="drydock"`
	}
	return h
}

// showSession answers with JSON as Sablier has it (sablierapp/sablier internal/api/responses.go, pkg/sablier/instance.go).
func showSession(path string, ask Ask, s Session, err error) answer {
	if err == nil {
		err = s.refused()
	}
	if err != nil {
		return refuse(path, err)
	}
	out := sessionJSON{Status: isNotReady, Instances: []entryJSON{}}
	if s.Ready() {
		out.Status = isReady
	}
	for _, set := range s.Sets {
		for _, name := range nameOf(ask, set.Ref) {
			entry := entryJSON{Instance: instanceOf(name, set), Optional: set.Optional}
			if set.State == Missing {
				entry.Error = set.Message
			}
			out.Instances = append(out.Instances, entry)
		}
	}
	a := asJSON(map[string]sessionJSON{"session": out})
	a.ready = s.Ready()
	return a
}

// nameOf returns what the answer calls the set: the names that the request has for it.
func nameOf(ask Ask, ref Ref) []string {
	if asked := ask.called(ref); len(asked) > 0 {
		return asked
	}
	return []string{ref.String()}
}

type sessionJSON struct {
	Instances []entryJSON `json:"instances"`
	Status    string      `json:"status"`
}

type entryJSON struct {
	Instance instanceJSON `json:"instance"`
	Error    string       `json:"error,omitempty"`
	Optional bool         `json:"optional,omitempty"`
}

// instanceJSON has the fields of Sablier's that do not tell strangers what runs in a set: no image, and no labels.
type instanceJSON struct {
	Name       string          `json:"name"`
	Current    int32           `json:"currentReplicas"`
	Desired    int32           `json:"desiredReplicas"`
	Status     string          `json:"status"`
	Groups     []string        `json:"groups,omitempty"`
	Enabled    string          `json:"enabled,omitempty"`
	Message    string          `json:"message,omitempty"`
	Provider   string          `json:"provider,omitempty"`
	Kubernetes *kubernetesJSON `json:"kubernetes,omitempty"`
}

type kubernetesJSON struct {
	Namespace string `json:"namespace"`
	Kind      string `json:"kind"`
}

func instanceOf(name string, set Set) instanceJSON {
	out := instanceJSON{Name: name, Current: set.Ready, Desired: set.Want, Status: sablierStatus[set.State], Message: set.Message}
	if set.State == Missing {
		return out
	}
	if set.Group != "" {
		out.Groups = []string{set.Group}
	}
	out.Enabled, out.Provider = "true", "kubernetes"
	out.Kubernetes = &kubernetesJSON{Namespace: set.Namespace, Kind: kindStatefulSet}
	return out
}

// sablierStatus has Sablier's words for our states.
var sablierStatus = map[State]string{
	Asleep: "stopped", Paused: "stopped", Stopped: "stopped", Waking: "starting", Ready: "ready", Failed: "error", Missing: "error",
}

// version is the module's, as the build knows it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
