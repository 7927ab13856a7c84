package world_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/world"
	"drydock.dev/test/kit/build"
)

func set(options ...build.Option) *appsv1.StatefulSet {
	return build.Set("web", append([]build.Option{build.Template("data", "64Mi", "fixed"), build.Template("logs", "32Mi", "fixed")},
		options...)...)
}

// TestRecordBelongsToItsSetAlone: a record in a copied manifest says nothing about the new set.
// Invariants: I3.
func TestRecordBelongsToItsSetAlone(t *testing.T) {
	fresh := func(change func(*api.Resize)) *api.Resize {
		return build.Operation(api.Moving, func(s *api.Resize) { s.Set.UID, s.ReplaceSet = "", true }, change)
	}
	nothing := func(*api.Resize) {}
	for name, row := range map[string]struct {
		status  *api.Resize
		options []build.Option
		want    bool
	}{
		"its own":                                  {build.Operation(api.Moving), nil, true},
		"another UID, as in a copied manifest":     {build.Operation(api.Moving), []build.Option{build.UID("uid-2")}, false},
		"another name":                             {build.Operation(api.Moving, func(s *api.Resize) { s.Set.Name = "api" }), nil, false},
		"without UID: created again a moment ago":  {fresh(nothing), []build.Option{build.UID("uid-2")}, true},
		"without UID, but the set is not replaced": {fresh(func(s *api.Resize) { s.ReplaceSet = false }), nil, false},
		"without UID, and finished":                {fresh(func(s *api.Resize) { s.Phase = api.Succeeded }), nil, false},
	} {
		s := set(append(row.options, build.Status(row.status))...)
		got, err := build.World(s).Record()
		if err != nil || (got != nil) != row.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if _, err := build.World(set(build.Annotation(api.StatusAnnotation, "{"))).Record(); err == nil {
		t.Error("an unreadable record is no error")
	}
}

func TestObjectsOfAnOperationAreFoundByNameAndLink(t *testing.T) {
	target, second := build.Target("data-web-0", "1Gi"), build.Target("data-web-0", "1Gi")
	second.Name = api.TargetName(build.ID, "data-web-0", 1)
	// only its annotation makes it a target
	forged := build.With(build.Target("data-web-0", "1Gi"), build.Edit(func(c *corev1.PersistentVolumeClaim) { c.Name = "data-web-1" }))
	other := api.Link{Operation: "other", Role: api.RoleMover, Namespace: build.Namespace, Set: api.SetRef{Name: "web"}, Member: ptr.To(0)}
	otherMember := build.With(build.Job(0, 1), build.MemberLink(api.RoleMover, 1)) // its name and its link have different members
	o := build.World(build.Set("web"), target, second, forged, build.Claim("data-web-0", "1Gi", build.Link(api.RoleSource, "data-web-0")),
		build.Job(0, 1), otherMember, build.With(build.Job(0, 1), build.LinkOf(other)), build.Mover(build.Job(0, 2)),
		build.Pod("x", []string{"data-web-0"}), build.Journal(build.Operation(api.Moving)), build.Attachment("pv-1"))
	if c := o.TargetClaim(build.ID, &api.Move{Claim: "data-web-0", Copies: 1}); c == nil || c.Name != second.Name {
		t.Errorf("target of the second copy: %v", c)
	}
	if o.TargetClaim(build.ID, &api.Move{Claim: "data-web-0", Copies: 2}) != nil ||
		o.TargetClaim("other", &api.Move{Claim: "data-web-0"}) != nil || len(o.TargetClaims(build.ID)) != 2 {
		t.Error("targets of others")
	}
	if len(o.JobsOf(build.ID)) != 1 || len(o.JobsOf("other")) != 0 {
		t.Error("jobs of others")
	}
	movers, _ := o.MoversOfMember(build.ID, 0)
	others, _ := o.MoversOfMember("other", 0)
	if len(movers) != 1 || len(others) != 0 || len(o.Users("data-web-0")) != 1 {
		t.Error("pods of others")
	}
	if o.Journal(build.ID) == nil || o.Journal("other") != nil {
		t.Error("journals of others")
	}
	if !o.Attached("pv-1") || o.Attached("pv-2") {
		t.Error("attachments")
	}
	if o.Claim("none") != nil || o.Volume("") != nil || o.Volume("none") != nil {
		t.Error("an absent object was found")
	}
}

func TestVolumeNames(t *testing.T) {
	status := build.Operation(api.Moving, build.Members(api.MemberSwapping, "data-web-0"))
	journal := build.Operation(api.Moving, build.Members(api.MemberPending, "data-web-1"))
	o := build.World(set(build.Status(status)), build.Claim("data-web-0", "1Gi"), build.Claim("data-web-2", "1Gi", build.BoundTo("")),
		build.Journal(journal))
	if got := strings.Join(o.VolumeNames(), " "); got != "pv-data-web-0 pv-data-web-1 pv-new-data-web-0" {
		t.Error(got)
	}
}

func TestTargets(t *testing.T) {
	auto := world.Targets(set(), api.Request{Auto: true})
	if size := auto["logs"].Size; len(auto) != 2 || size.String() != "32Mi" || auto["data"].Class != "fixed" {
		t.Errorf("%+v", auto)
	}
	asked, err := api.ParseRequest("data=1Gi")
	if err != nil || len(world.Targets(set(), asked)) != 1 {
		t.Errorf("%+v, %v", asked, err)
	}
}

// TestAnsweredRequestHasNoEffect: a request that has succeeded still applies, unless it was rolled back.
func TestAnsweredRequestHasNoEffect(t *testing.T) {
	rolledBack := func(s *api.Resize) { s.Kind = api.KindRollback }
	for name, row := range map[string]struct {
		status *api.Resize
		want   bool
	}{
		"no operation":                {nil, false},
		"it succeeded":                {build.Operation(api.Succeeded), false},
		"it failed":                   {build.Operation(api.Failed), true},
		"it was refused":              {build.Operation(api.Refused), true},
		"it was rolled back":          {build.Operation(api.Succeeded, rolledBack), true},
		"its rollback failed":         {build.Operation(api.Failed, rolledBack), true},
		"another request was refused": {build.Operation(api.Refused, func(s *api.Resize) { s.Request = "data=1Gi" }), false},
	} {
		if got := world.Answered(row.status, "data=128Mi"); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestTargetsOfARequest(t *testing.T) {
	auto := world.Targets(set(), api.Request{Auto: true})
	if data := auto["data"]; len(auto) != 2 || data.Size.String() != "64Mi" || data.Class != "fixed" || data.Exact ||
		!slices.Equal(data.Modes, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}) {
		t.Errorf("the templates are %+v", auto)
	}
	request, err := api.ParseRequest("data=1Gi@fast:RWX")
	if err != nil {
		t.Fatal(err)
	}
	if said := world.Targets(set(), request); len(said) != 1 || !said["data"].Exact || said["data"].Class != "fast" {
		t.Errorf("the targets of the request are %+v", said)
	}
}
