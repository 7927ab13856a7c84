package probe

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
)

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
