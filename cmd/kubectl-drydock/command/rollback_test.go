package command

import (
	"bytes"
	"strings"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/world"
	"drydock.dev/test/kit/build"
)

// regretting is a world of set web with one claim of 128Mi, and what is given.
func regretting(status *api.Resize, objects ...metav1.Object) resize.Input {
	claim := build.Claim("data-web-0", "128Mi")
	options := []build.Option{build.Replicas(2), build.Template("data", "128Mi", "fixed")}
	if status != nil {
		options = append(options, build.Status(status))
	}
	return resize.Input{Observed: build.World(append(objects, build.Set("web", options...), claim, build.VolumeOf(claim))...),
		Cluster: &world.Cluster{Classes: map[string]*storagev1.StorageClass{"fixed": {}}}}
}

// leftBy is a volume that the operation has left behind of the claim.
func leftBy(operation, volume string, options ...build.Option) metav1.Object {
	link := api.Link{Operation: operation, Role: api.RoleRetired, Namespace: build.Namespace, Set: api.SetRef{Name: "web"},
		Claim: "data-web-0"}
	return build.Volume(volume, build.Claim("data-web-0", "64Mi"), append([]build.Option{build.Released(), build.LinkOf(link),
		build.Annotation(api.RetainedUntilAnnotation, "2026-03-02T12:00:00Z")}, options...)...)
}

func TestWhichRollback(t *testing.T) {
	const other = "ba9876543210"
	for name, row := range map[string]struct {
		in          resize.Input
		named, want string
	}{
		"the only one":          {regretting(nil, leftBy(build.ID, "pv-a")), "", build.ID},
		"the one that is named": {regretting(nil, leftBy(build.ID, "pv-a"), leftBy(other, "pv-b")), other, other},
		"of several one is named": {regretting(nil, leftBy(build.ID, "pv-a"), leftBy(other, "pv-b")), "",
			"0123456789ab, ba9876543210 have left volumes behind; say which one with --operation"},
		"nothing is left": {regretting(nil), "", "no resize has left volumes behind"},
		"what is in use again": {regretting(nil, leftBy(build.ID, "pv-a", build.TakenBy("debug", "uid-debug"))), "",
			"no resize has left volumes behind"},
		"what is about to come back": {regretting(nil, leftBy(build.ID, "pv-a", build.Link(api.RoleReturning, "data-web-0"))), "",
			"no resize has left volumes behind"},
	} {
		got, err := chosen(row.in, row.named)
		if err != nil {
			got = err.Error()
		}
		if got != row.want && !(err != nil && strings.Contains(got, row.want)) {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}

// TestWhatIsInTheWayOfARollback: it is said before anything is written.
func TestWhatIsInTheWayOfARollback(t *testing.T) {
	old := leftBy(build.ID, "pv-a")
	for name, row := range map[string]struct {
		in   resize.Input
		want string
	}{
		"nothing":                   {regretting(nil, old), ""},
		"an operation runs":         {regretting(build.Operation(api.Moving), old), "another operation runs"},
		"two volumes for one claim": {regretting(nil, old, leftBy(build.ID, "pv-b")), "volumes pv-a and pv-b behind of claim data-web-0"},
		"somebody else's pod": {regretting(nil, old, build.Pod("reports", []string{"data-web-0"})), "claim data-web-0 is in use by pod " +
			"reports"},
		"nothing is kept": {regretting(nil), "has left no volume behind"},
	} {
		_, err := judged(row.in, build.ID)
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", name, err, row.want)
		}
	}
}

func TestRollbackIsShown(t *testing.T) {
	for name, row := range map[string]struct {
		status *api.Resize
		since  string
	}{
		"the document tells when": {build.Operation(api.Succeeded, func(s *api.Resize) { s.Finished = operation.Moment(build.Now) }),
			"2026-03-01 12:00:00 UTC"},
		"it is of another operation": {nil, "operation 0123456789ab ended"},
	} {
		in := regretting(row.status, leftBy(build.ID, "pv-a"))
		wish, err := judged(in, build.ID)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		o := &rollingBack{tool: &tool{IOStreams: genericiooptions.IOStreams{Out: &out}}}
		if err := o.show(in, wish, build.ID); err != nil {
			t.Fatal(err)
		}
		want := `CLAIM        IS ON           SIZE    GETS BACK   SIZE   KEPT UNTIL
data-web-0   pv-data-web-0   128Mi   pv-a        64Mi   2026-03-02T12:00:00Z

1 members are stopped together, and started on these volumes. Data that was written since ` + row.since + ` is not on them: it stays on the volumes that the set has now, which are kept from then on.
`
		if out.String() != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, out.String(), want)
		}
	}
}
