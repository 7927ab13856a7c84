package backup

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestForgedStatusTouchesNoVolume: whoever may edit a set can write its status. Every row ends with the refusal alone.
func TestForgedStatusTouchesNoVolume(t *testing.T) {
	const (
		invalid = "do StatusInvalid: patch statefulsets web {+status}"
		lost    = "do ClaimLost: patch statefulsets web {+status}"
	)
	forged := func(changes ...func(*api.Resize)) objects {
		return set(copyOperation(api.ClaimPending, changes...), build.Replicas(3))
	}
	own := func(options ...build.Option) objects { // claims whose first one is as the options say
		first, second := build.Claim(names[0], "64Mi", options...), build.Claim(names[1], "64Mi")
		return objects{first, build.Volume("pv-data-web-0", build.Claim(names[0], "64Mi")), second, build.VolumeOf(second)}
	}
	retained := build.Volume("pv-evidence", build.Claim(names[0], "64Mi", build.UID("uid-deleted")), build.Released())
	names := func(volume string) func(*api.Resize) { return func(s *api.Resize) { s.Claims[0].OldVolume = volume } }
	for name, row := range map[string]struct {
		in   Input
		want string
	}{
		"an id that is not the set's": {world(forged(), claims()), invalid},
		"the id of another attempt":   {world(forged(build.Genuine, func(s *api.Resize) { s.Attempt = 7 }), claims()), invalid},
		"the id of another set":       {world(forged(func(s *api.Resize) { s.Operation = api.OperationID("uid-other", s.Request, s.Attempt) }), claims()), invalid},
		"a claim that was switched before there was a journal": {
			world(forged(build.Genuine, names("pv-evidence"), func(s *api.Resize) { s.Claims[0].Phase = api.ClaimSwitched }), claims(), objects{retained}), invalid},
		"a released volume that the claim's name had before": {
			world(forged(build.Genuine, names("pv-evidence")), claims(), objects{retained}), lost},
		"the claim does not exist":              {world(forged(build.Genuine, names("pv-evidence")), objects{retained}), lost},
		"the claim is bound to another volume":  {world(forged(build.Genuine), own(build.On("pv-x"))), lost},
		"the volume is bound to another claim":  {world(forged(build.Genuine), own(build.UID("uid-data-web-0b"))), lost},
		"the journal does not name the volume":  {world(forged(names("pv-evidence")), journal(), claims(), objects{retained}), invalid},
		"the journal does not name the claim":   {world(set(copyOperation(api.ClaimPending, build.Parts(api.ClaimPending, "data-web-7")), build.Replicas(3)), held()), invalid},
		"the journal is of another operation":   {world(set(copyOperation(api.ClaimPending, build.Genuine, names("pv-evidence")), build.Replicas(3)), held(), objects{retained}), lost},
		"the journal cannot be read":            {world(forged(), unreadable(), claims()), invalid},
		"the journal belongs to another set":    {world(forged(), revision(func(r *appsv1.ControllerRevision) { r.Name = "evil-5c9f" }), claims()), invalid},
		"a controller owns the journal":         {world(forged(), revision(controlled), claims()), invalid},
		"a volume that the journal brings back": {world(set(regretted(api.ClaimPending), build.Replicas(3)), journal(), claims(), behind(nil)), invalid},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Decide(row.in).String(); got != row.want {
				t.Errorf("plan\n got  %s\n want %s", got, row.want)
			}
		})
	}
}

func revision(change func(*appsv1.ControllerRevision)) objects {
	made := journal()[0].(*appsv1.ControllerRevision)
	change(made)
	return objects{made}
}

func unreadable() objects {
	return revision(func(r *appsv1.ControllerRevision) { r.Data.Raw = []byte(`{"version":99}`) })
}

func controlled(r *appsv1.ControllerRevision) {
	r.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "evil", UID: "uid-evil", Controller: ptr.To(true)}}
}

// TestForeignMoverLinkDoesNotHideAPod: a pod that no copy Job controls uses the claim, whatever its annotations say.
func TestForeignMoverLinkDoesNotHideAPod(t *testing.T) {
	forged := build.Pod("debug", []string{"data-web-0"}, build.Link(api.RoleMover, "data-web-0", 1))
	in := world(held(), targets(1), objects{forged})
	if users := in.Users("data-web-0"); len(users) != 1 {
		t.Errorf("the claim has users %v", users)
	}
	if movers := in.Movers(build.ID); len(movers) != 0 {
		t.Errorf("the operation has movers %v", podNames(movers))
	}
}

func podNames(pods []*corev1.Pod) []string {
	var all []string
	for _, p := range pods {
		all = append(all, p.Name)
	}
	return all
}
