package operation

import (
	"testing"

	"drydock.dev/shared/api"
)

// The retry annotation, which is about whatever has failed, begins no rollback, but continues one that is half done.
func TestAskAgain(t *testing.T) {
	rollback := func(phase api.ClaimPhase) *api.Resize {
		return &api.Resize{Header: api.Header{Kind: api.KindRollback}, Claims: []api.ClaimStatus{{Phase: phase}, {Phase: api.ClaimPending}}}
	}
	for _, row := range []struct {
		resize *api.Resize
		want   string
	}{
		{&api.Resize{Method: api.MethodCopy, Claims: []api.ClaimStatus{{Phase: api.ClaimSwitched}}}, "ask again with the annotation drydock.dev/retry"},
		{rollback(api.ClaimVerified), "ask again with kubectl drydock rollback"},
		{rollback(api.ClaimSwitched), "go on with the annotation drydock.dev/retry"},
	} {
		if got := AskAgain(row.resize); got != row.want {
			t.Errorf("%+v: %s", row.resize, got)
		}
	}
}
