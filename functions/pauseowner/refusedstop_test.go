package pauseowner

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// TestNoOwnerIsStoppedForARefusedSleep: the operator of a set can be stopped, and something else would give the set replicas. Nothing of
// that is new when the sleep is decided. The sleep is refused, and tried again every ten minutes. The operator must not stop the database
// for it.
func TestNoOwnerIsStoppedForARefusedSleep(t *testing.T) {
	noConsent := kedaScaler(t)
	noConsent.Allowed = false
	for name, row := range map[string]struct {
		others   []Owner
		rejected bool // the API server rejects the writes to the others, and no dry run foresees that
		stops    bool
	}{
		"an autoscaler scales from zero": {[]Owner{{Ref: metav1.OwnerReference{Kind: autoscalerKind, Name: "web"},
			Problem: "its minReplicas is 0, so it also scales the set up from zero; set minReplicas to 1"}}, false, false},
		"KEDA's resource does not allow a pause": {[]Owner{noConsent}, false, false},
		"the pause of KEDA is rejected":          {[]Owner{kedaScaler(t)}, true, false},
		"the pause of KEDA is accepted":          {[]Owner{kedaScaler(t)}, false, true},
		"nothing else scales the set":            {nil, false, true},
	} {
		for operator, first := range map[string]Owner{"it can only stop": ownerWithStop(t), "it can stop and pause": ownerWithBoth(t)} {
			t.Run(name+"/"+operator, func(t *testing.T) {
				sleep := build.Sleep(api.Planned, build.SleepDue(time.Minute))
				in := sleepAsking(sleep, append([]Owner{first}, row.others...))
				stopped := false
				for range 20 {
					p := Decide(in)
					if stored := build.StoredSleep(p); stored != nil {
						sleep = stored
						in = sleepAsking(sleep, in.Owners).withRecords(in.OwnerRecords...)
					}
					for _, a := range p.Actions {
						switch a.Resource {
						case first.Resource:
							in.Owners[0].Object = patched(t, in.Owners[0].Object, []plan.Action{a})
							stopped = stopped || first.Row.Held(owners.ByStop, in.Owners[0].Object)
						case plan.ControllerRevisions:
							in = in.withRecords(in.Owners[0].recorded(owners.ByStop))
						case kedaScaler(t).Resource:
							if row.rejected {
								in.Rejected, in.NotForeseen = errors.New("denied by policy"), true
							} else {
								in.Owners[1].Object = patched(t, in.Owners[1].Object, []plan.Action{a})
							}
						}
					}
				}
				if stopped != row.stops || sleep.Phase.Terminal() == row.stops {
					t.Errorf("the operator is told to stop the set: %t, want %t; the sleep: %s", stopped, row.stops, build.Words(sleep))
				}
			})
		}
	}
}
