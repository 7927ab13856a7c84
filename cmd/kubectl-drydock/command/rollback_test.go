package command

import (
	"bytes"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/world"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// resized returns a set with one claim of 128Mi, as a resize with the record has left it, and the objects.
func resized(record *api.Resize, objects ...metav1.Object) resize.Input {
	claim := build.Claim("data-web-0", "128Mi")
	options := []build.Option{build.Replicas(2), build.Template("data", "128Mi", "fixed")}
	if record != nil {
		options = append(options, build.Status(record))
	}
	return resize.Input{Observed: build.World(append(objects, build.Set("web", options...), claim, build.VolumeOf(claim))...),
		Cluster: &world.Cluster{Classes: map[string]*storagev1.StorageClass{"fixed": {}}}}
}

// oldVolume returns a volume that the operation replaced, and that is still retained.
func oldVolume(operation, volume string, options ...build.Option) metav1.Object {
	link := api.Link{Operation: operation, Role: api.RoleOldVolume, Namespace: build.Namespace, Set: api.SetRef{Name: "web"},
		Claim: "data-web-0"}
	return build.Volume(volume, build.Claim("data-web-0", "64Mi"), append([]build.Option{build.Released(), build.LinkOf(link),
		build.Annotation(api.RetainedUntilAnnotation, "2026-03-02T12:00:00Z")}, options...)...)
}

func TestRollbackFindsTheOperationToUndo(t *testing.T) {
	const other = "ba9876543210"
	file := golden.Open(t)
	for _, row := range []struct {
		situation string
		in        resize.Input
		flag      string
	}{
		{"one operation has old volumes", resized(nil, oldVolume(build.ID, "pv-a")), ""},
		{"two have, and the flag names one", resized(nil, oldVolume(build.ID, "pv-a"), oldVolume(other, "pv-b")), other},
		{"two have, and the flag is missing", resized(nil, oldVolume(build.ID, "pv-a"), oldVolume(other, "pv-b")), ""},
		{"there are no old volumes", resized(nil), ""},
		{"the old volume is in use again", resized(nil, oldVolume(build.ID, "pv-a", build.TakenBy("debug", "uid-debug"))), ""},
		{"the old volume is being put back", resized(nil, oldVolume(build.ID, "pv-a", build.Link(api.RoleReturning, "data-web-0"))), ""},
	} {
		operation, err := operationToUndo(row.in, row.flag)
		if err != nil {
			file.Entry(t, row.situation, "error: "+err.Error())
			continue
		}
		file.Entry(t, row.situation, "operation "+operation)
	}
}

// TestRollbackIsRefusedBeforeAnythingIsWritten shows each obstacle that can be seen beforehand.
func TestRollbackIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	old := oldVolume(build.ID, "pv-a")
	file := golden.Open(t)
	for _, row := range []struct {
		situation string
		in        resize.Input
		accepted  bool
	}{
		{"nothing is in the way", resized(nil, old), true},
		{"another operation runs", resized(build.Operation(api.Moving), old), false},
		{"a claim has two old volumes", resized(nil, old, oldVolume(build.ID, "pv-b")), false},
		{"another pod uses the claim", resized(nil, old, build.Pod("reports", []string{"data-web-0"})), false},
		{"there are no old volumes", resized(nil), false},
	} {
		_, err := acceptedRollback(row.in, build.ID)
		if (err == nil) != row.accepted {
			t.Errorf("%s: %v", row.situation, err)
		}
		if err != nil {
			file.Entry(t, row.situation, "error: "+err.Error())
		}
	}
}

func TestRollbackShowsTheVolumesThatReturn(t *testing.T) {
	file := golden.Open(t)
	for _, row := range []struct {
		situation string
		record    *api.Resize
	}{
		{"the record has the end of the operation", build.Operation(api.Succeeded,
			func(s *api.Resize) { s.Finished = operation.Moment(build.Now) })},
		{"the set has no record of the operation", nil},
	} {
		in := resized(row.record, oldVolume(build.ID, "pv-a"))
		request, err := acceptedRollback(in, build.ID)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		o := &rollback{tool: &tool{IOStreams: genericiooptions.IOStreams{Out: &out}}}
		if err := o.show(in, request, build.ID); err != nil {
			t.Fatal(err)
		}
		file.Entry(t, row.situation, out.String())
	}
}
