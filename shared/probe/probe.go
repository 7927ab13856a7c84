// Package probe reads the probes that annotations ask for: whether a set is in use, and whether a member has caught up. It sends nothing;
// package podprobe does.
package probe

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"drydock.dev/shared/api"
)

// Kind is the protocol of a probe.
type Kind string

const (
	// HTTP asks each pod of the set: 200 means in use, 204 idle.
	HTTP Kind = "http"
	// HTTPS is HTTP over TLS. Like the kubelet's probes it does not verify certificates, because none contains a pod's address.
	HTTPS Kind = "https"
	// TCP counts the connections to a port that each pod of the set has established.
	TCP Kind = "tcp"
	// Prometheus queries Prometheus. The set is in use if a value of the result is above zero.
	Prometheus Kind = "prometheus"
)

// Probe is a way to ask whether a set is in use. Its target is a pod of the set or the administrator's Prometheus, never a host from
// the annotation.
type Probe struct {
	Kind  Kind
	Port  int
	Path  string // for HTTP and HTTPS
	Host  string // for the same: header Host and TLS server name; if empty, the pod's address
	Query string // for Prometheus
}

const probeFormat = `write "http:PORT/PATH", "http:PORT/PATH host=NAME", the same with https, "tcp:PORT" or "prometheus:QUERY"`

// maxQueryBytes limits a query, in bytes.
const maxQueryBytes = 2048

// Parse reads a probe:
//
//	http:8080/in-use                    GET on every pod: 200 is in use, 204 is idle
//	https:8443/in-use host=shop.example the same over TLS, with that Host
//	tcp:5432                            in use if a pod has established connections to the port
//	prometheus:sum(x) > 0               an instant query: in use if a value of the result is above zero
func Parse(text string) (*Probe, error) {
	probe, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%w; %s", err, probeFormat)
	}
	return probe, nil
}

func parse(text string) (*Probe, error) {
	kind, rest, _ := strings.Cut(text, ":")
	switch Kind(kind) {
	case HTTP, HTTPS:
		return parseHTTP(Kind(kind), rest)
	case TCP:
		n, err := parsePort(rest)
		return &Probe{Kind: TCP, Port: n}, err
	case Prometheus:
		query := strings.TrimSpace(rest)
		if query == "" || len(query) > maxQueryBytes {
			return nil, fmt.Errorf("a query needs 1 to %d bytes", maxQueryBytes)
		}
		return &Probe{Kind: Prometheus, Query: query}, nil
	}
	return nil, fmt.Errorf("%.20q is no kind of probe", kind)
}

func parseHTTP(kind Kind, text string) (*Probe, error) {
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
	case HTTP, HTTPS:
		text := fmt.Sprintf("%s:%d%s", p.Kind, p.Port, p.Path)
		if p.Host != "" {
			text += " host=" + p.Host
		}
		return text
	case TCP:
		return fmt.Sprintf("tcp:%d", p.Port)
	}
	return string(p.Kind) + ":" + p.Query
}

const checkFormat = `write "http:PORT/PATH", "http:PORT/PATH host=NAME", the same with https, or "tcp:PORT"`

// maxCheckBytes limits a member check, in bytes.
const maxCheckBytes = 1024

// ParseMemberCheck returns the probe that tells whether a member of the set has caught up, or nil if the set has none. The format is that
// of an activity probe, without Prometheus, because the check is sent to a pod:
//
//	http:8008/readiness                    GET on a pod: 200 to 299 means that the member has caught up
//	https:8443/ready host=shop.example     the same over TLS, with that Host
//	tcp:5432                               the pod accepts connections on the port
func ParseMemberCheck(set *appsv1.StatefulSet) (*Probe, error) {
	text, asked := set.Annotations[api.MemberCheckAnnotation]
	if !asked {
		return nil, nil
	}
	if len(text) > maxCheckBytes {
		return nil, fmt.Errorf("it has more than %d bytes; %s", maxCheckBytes, checkFormat)
	}
	probe, err := parse(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w; %s", err, checkFormat)
	case probe.Kind == Prometheus:
		return nil, fmt.Errorf("%q does not check a pod; %s", probe.Kind, checkFormat)
	}
	return probe, nil
}
