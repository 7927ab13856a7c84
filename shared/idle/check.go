package idle

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
)

const checkFormat = `write "http:PORT/PATH", "http:PORT/PATH host=NAME", the same with https, or "tcp:PORT"`

// longestCheck bounds a member check in bytes.
const longestCheck = 1024

// MemberCheckOf returns how the set's members are asked whether they have caught up; nil if the set does not say. The format is that of an
// activity probe, without Prometheus, which is not asked of a pod:
//
//	http:8008/readiness                    GET on a pod: 200 to 299 means that the member has caught up
//	https:8443/ready host=shop.example     the same over TLS, with that Host
//	tcp:5432                               the pod takes connections on the port
func MemberCheckOf(set *appsv1.StatefulSet) (*Probe, error) {
	text, asked := set.Annotations[api.MemberCheckAnnotation]
	if !asked {
		return nil, nil
	}
	if len(text) > longestCheck {
		return nil, fmt.Errorf("it has more than %d bytes; %s", longestCheck, checkFormat)
	}
	probe, err := parseProbe(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w; %s", err, checkFormat)
	case probe.Kind == ProbePrometheus:
		return nil, fmt.Errorf("%q is asked of no pod; %s", probe.Kind, checkFormat)
	}
	return probe, nil
}
