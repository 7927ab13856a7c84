package idle

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ProbeKind is how somebody is asked whether a set is in use.
type ProbeKind string

const (
	// ProbeHTTP asks each pod of the set: 200 means in use, 204 idle.
	ProbeHTTP ProbeKind = "http"
	// ProbeTCP counts the connections to a port that each pod of the set has established.
	ProbeTCP ProbeKind = "tcp"
	// ProbePrometheus asks Prometheus: in use if a value of the result is above zero.
	ProbePrometheus ProbeKind = "prometheus"
)

// Probe asks whether a set is in use. Its target is never a host that the annotation names: only pods of the set, and the
// administrator's Prometheus.
type Probe struct {
	Kind  ProbeKind
	Port  int
	Path  string // of ProbeHTTP
	Query string // of ProbePrometheus
}

const probeFormat = `write "http:PORT/PATH", "tcp:PORT" or "prometheus:QUERY"`

// longestQuery bounds a query in bytes.
const longestQuery = 2048

// ParseProbe reads a probe:
//
//	http:8080/in-use           GET on every pod: 200 is in use, 204 is idle
//	tcp:5432                   connections to the port that are established in the pods
//	prometheus:sum(x) > 0      an instant query: in use if a value of the result is above zero
func ParseProbe(text string) (*Probe, error) {
	kind, rest, _ := strings.Cut(text, ":")
	switch ProbeKind(kind) {
	case ProbeHTTP:
		port, path, _ := strings.Cut(rest, "/")
		n, err := parsePort(port)
		if strings.ContainsAny(path, " \t\r\n#") {
			err = errors.Join(err, fmt.Errorf("path %q has blanks or a fragment", path))
		}
		return &Probe{Kind: ProbeHTTP, Port: n, Path: "/" + path}, err
	case ProbeTCP:
		n, err := parsePort(rest)
		return &Probe{Kind: ProbeTCP, Port: n}, err
	case ProbePrometheus:
		query := strings.TrimSpace(rest)
		if query == "" || len(query) > longestQuery {
			return nil, fmt.Errorf("a query has 1 to %d bytes; %s", longestQuery, probeFormat)
		}
		return &Probe{Kind: ProbePrometheus, Query: query}, nil
	}
	return nil, errors.New(probeFormat)
}

func parsePort(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 65535 {
		return 0, fmt.Errorf("%q is no port; %s", text, probeFormat)
	}
	return n, nil
}

// String is the probe as it is written.
func (p Probe) String() string {
	switch p.Kind {
	case ProbeHTTP:
		return fmt.Sprintf("http:%d%s", p.Port, p.Path)
	case ProbeTCP:
		return fmt.Sprintf("tcp:%d", p.Port)
	}
	return string(p.Kind) + ":" + p.Query
}
