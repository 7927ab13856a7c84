package moving

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestForgedRecordContradictsIDOrJournal: in a cluster without the policy, a user can write any record.
func TestForgedRecordContradictsIDOrJournal(t *testing.T) {
	record := func(phase api.MemberPhase, options ...func(*api.Resize)) *api.Resize {
		return build.Operation(api.Moving, append([]func(*api.Resize){build.Members(phase, "data-web-0")}, options...)...)
	}
	foreign := build.EditMember(0, func(m *api.Member) { m.Claims[0].OldVolume = "pv-data-payroll-0" })
	own := build.Journal(record(api.MemberPending))
	damaged := build.Journal(record(api.MemberPending),
		build.Edit(func(r *appsv1.ControllerRevision) { r.Data.Raw = []byte("{}") }))
	for name, row := range map[string]struct {
		record       *api.Resize
		journal      metav1.Object
		forged       string
		contradicted bool // by the journal
	}{
		"it has just begun":                {record(api.MemberPending, build.DerivedID), nil, "", false},
		"its id is that of another set":    {record(api.MemberPending), nil, "0123456789ab is not the id of request", false},
		"its journal was deleted":          {record(api.MemberWaiting, build.DerivedID), nil, "member 0 is in phase Waiting", false},
		"it agrees with its journal":       {record(api.MemberStopping), own, "", false},
		"its journal names another volume": {record(api.MemberStopping, foreign), own, "does not name claim data-web-0 on volume", true},
		"its journal cannot be read":       {record(api.MemberPending), damaged, "cannot be read", true},
		"the journal of another operation": {record(api.MemberWaiting, build.DerivedID), own, "does not exist", false},
		"it changes only templates":        {build.Operation(api.Moving, build.DerivedID), nil, "", false},
	} {
		objects := []metav1.Object{build.Set("web", build.Status(row.record))}
		if row.journal != nil {
			objects = append(objects, row.journal)
		}
		o := build.World(objects...)
		got := Forged(o, row.record)
		if (got == "") != (row.forged == "") || !strings.Contains(got, row.forged) {
			t.Errorf("%s: %q, want %q", name, got, row.forged)
		}
		if conflict := JournalConflict(o, row.record); (conflict != "") != row.contradicted {
			t.Errorf("%s: the journal contradicts it: %q, want %t", name, conflict, row.contradicted)
		}
	}
}
