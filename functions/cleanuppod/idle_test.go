package cleanuppod

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/functions/idletimeout"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// idleTimeout returns the plan of idle-timeout for a set of the group, without answers of probes and without records of its own.
func idleTimeout(now time.Time, about string, group ...*appsv1.StatefulSet) plan.Plan {
	in := idletimeout.Input{Now: now, Name: about, Settings: build.SleepSettings(), Probes: map[string]idletimeout.ProbeResult{},
		Records: map[string][]idletimeout.Record{}}
	for _, set := range group {
		in.Group = append(in.Group, idle.MemberOf(set))
	}
	return idletimeout.Decide(in)
}
