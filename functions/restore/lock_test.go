package restore

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

// oneRunsOneRemoved is a set with one replica, whose members 0 and 1 stop together. Member 1 was removed by a scale-down, so its name is
// locked.
func oneRunsOneRemoved(phase api.MemberPhase, options ...func(*api.Resize)) objects {
	record := build.Operation(api.Moving, append([]func(*api.Resize){build.Members(phase, web0, web1),
		build.EditMember(1, func(m *api.Member) { m.Pod, m.Locked = "", phase != api.MemberWaiting })}, options...)...)
	all := append(setWith(record, build.Replicas(1)), journalOf(web0, web1)...)
	return append(append(all, append(source(web0), target(web0)...)...), append(source(web1), target(web1)...)...)
}

const tooStrict = `pods "web-1" is forbidden: failed quota: compute: must specify limits.cpu for: lock`

// TestRefusedLockStopsNobody: the namespace may not admit the lock. No other step has asked: the preflight tries the pod of a mover only.
// A refusal must be known before running members are stopped for nothing, four times.
func TestRefusedLockStopsNobody(t *testing.T) {
	for name, row := range map[string]struct {
		rejected string
		made     objects
		want     string
	}{
		"the lock is refused": {tooStrict, nil, "create web-1"},
		"no lock is made yet": {"", nil, "create web-1"},
		"the lock exists":     {"", lock(1), "delete web-0"},
	} {
		in := with(situation(oneRunsOneRemoved(api.MemberStopping, build.MemberDue(0, time.Minute), build.MemberDue(1, time.Minute)),
			pod(0, build.Held(0)), row.made), func(in *Input) { in.Rejected = row.rejected })
		p, got := Decide(in), []string(nil)
		for _, a := range p.Actions {
			if a.Resource == plan.Pods && a.Verb != plan.VerbPatch {
				got = append(got, string(a.Verb)+" "+a.Name)
			}
		}
		if strings.Join(got, ", ") != row.want {
			t.Errorf("%s: got %q, want %q: %s", name, got, row.want, p)
		}
	}
}

// TestRefusedLockIsExplained: the message has to name the cause and the remedy.
func TestRefusedLockIsExplained(t *testing.T) {
	late := build.MemberDue(1, -time.Second)
	for name, options := range map[string][]func(*api.Resize){
		"first try": {late}, "last try": {late, stops(0, maxStops), stops(1, maxStops)},
	} {
		p := Decide(with(situation(oneRunsOneRemoved(api.MemberStopping, options...), heldPodOf(0)), func(in *Input) { in.Rejected = tooStrict }))
		next := build.Stored(p)
		if next == nil {
			t.Errorf("%s: no record is stored: %s", name, p)
		} else if !strings.Contains(next.Message, "limits.cpu") {
			t.Errorf("%s: nothing says why the name cannot be locked: %s", name, next.Message)
		}
	}
}

// TestLockRunsAsNoFixedUser: OpenShift admits only users of the namespace's range (SCC restricted-v2, MustRunAsRange), for example from
// 1000660000. Movers follow it. The level "restricted" needs no runAsUser, only runAsNonRoot, and the lock never runs.
func TestLockRunsAsNoFixedUser(t *testing.T) {
	lock := resources.MakeLock(build.Set("web"), id, 0, build.Settings())
	for _, c := range []*corev1.PodSecurityContext{lock.Spec.SecurityContext} {
		if c.RunAsUser != nil {
			t.Errorf("the lock wants to run as user %d, which OpenShift refuses", *c.RunAsUser)
		}
	}
}
