package idle

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// ProbeKind is the protocol of a probe.
type ProbeKind string

const (
	// ProbeHTTP asks each pod of the set: 200 means in use, 204 idle.
	ProbeHTTP ProbeKind = "http"
	// ProbeHTTPS is ProbeHTTP over TLS. Like the kubelet's probes it does not verify certificates, because none contains a pod's address.
	ProbeHTTPS ProbeKind = "https"
	// ProbeTCP counts the connections to a port that each pod of the set has established.
	ProbeTCP ProbeKind = "tcp"
	// ProbePrometheus queries Prometheus. The set is in use if a value of the result is above zero.
	ProbePrometheus ProbeKind = "prometheus"
)

// Probe is a way to ask whether a set is in use. Its target is a pod of the set or the administrator's Prometheus, never a host from
// the annotation.
type Probe struct {
	Kind  ProbeKind
	Port  int
	Path  string // for ProbeHTTP and ProbeHTTPS
	Host  string // for the same: header Host and TLS server name; if empty, the pod's address
	Query string // for ProbePrometheus
}

const probeFormat = `write "http:PORT/PATH", "http:PORT/PATH host=NAME", the same with https, "tcp:PORT" or "prometheus:QUERY"`

// maxQueryBytes limits a query, in bytes.
const maxQueryBytes = 2048

// ParseProbe reads a probe:
//
//	http:8080/in-use                    GET on every pod: 200 is in use, 204 is idle
//	https:8443/in-use host=shop.example the same over TLS, with that Host
//	tcp:5432                            in use if a pod has established connections to the port
//	prometheus:sum(x) > 0               an instant query: in use if a value of the result is above zero
func ParseProbe(text string) (*Probe, error) {
	probe, err := parseProbe(text)
	if err != nil {
		return nil, fmt.Errorf("%w; %s", err, probeFormat)
	}
	return probe, nil
}

func parseProbe(text string) (*Probe, error) {
	kind, rest, _ := strings.Cut(text, ":")
	switch ProbeKind(kind) {
	case ProbeHTTP, ProbeHTTPS:
		return parseHTTP(ProbeKind(kind), rest)
	case ProbeTCP:
		n, err := parsePort(rest)
		return &Probe{Kind: ProbeTCP, Port: n}, err
	case ProbePrometheus:
		query := strings.TrimSpace(rest)
		if query == "" || len(query) > maxQueryBytes {
			return nil, fmt.Errorf("a query needs 1 to %d bytes", maxQueryBytes)
		}
		return &Probe{Kind: ProbePrometheus, Query: query}, nil
	}
	return nil, fmt.Errorf("%.20q is no kind of probe", kind)
}

func parseHTTP(kind ProbeKind, text string) (*Probe, error) {
	target, host, named := strings.Cut(text, " host=")
	port, path, _ := strings.Cut(target, "/")
	n, err := parsePort(port)
	if strings.ContainsAny(path, " \t\r\n#") {
		err = errors.Join(err, fmt.Errorf("path %.100q contains white space or a fragment", path))
	}
	if named && len(validation.IsDNS1123Subdomain(host)) > 0 {
		err = errors.Join(err, fmt.Errorf("host %.100q is not a DNS name in lower case", host))
	}
	return &Probe{Kind: kind, Port: n, Path: "/" + path, Host: host}, err
}

func parsePort(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 65535 {
		return 0, fmt.Errorf("%.20q is not a port", text)
	}
	return n, nil
}

// String returns the probe in the format of the annotation.
func (p Probe) String() string {
	switch p.Kind {
	case ProbeHTTP, ProbeHTTPS:
		text := fmt.Sprintf("%s:%d%s", p.Kind, p.Port, p.Path)
		if p.Host != "" {
			text += " host=" + p.Host
		}
		return text
	case ProbeTCP:
		return fmt.Sprintf("tcp:%d", p.Port)
	}
	return string(p.Kind) + ":" + p.Query
}
