package command

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// changing is an API server on which another user changes set web after the reads of a command and before its write.
type changing struct {
	build.Lists
	reads, change int // the number of reads of the set, and the read before which it changes
	changed       *appsv1.StatefulSet
	wrote         []string
}

// ServeHTTP answers like an API server.
func (c *changing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	isSet := path.Base(r.URL.Path) == "web"
	switch {
	case r.Method == http.MethodPatch:
		body, _ := io.ReadAll(r.Body)
		c.wrote = append(c.wrote, string(body))
		answer(w, http.StatusOK, c.Lists["statefulsets"][0])
		return
	case isSet && r.Method == http.MethodGet:
		if c.reads++; c.reads == c.change {
			c.Lists["statefulsets"] = []metav1.Object{c.changed}
		}
	}
	c.Lists.ServeHTTP(w, r)
}

// run runs kubectl drydock on the server.
func (c *changing) run(t *testing.T, args string) (string, error) {
	t.Helper()
	server := httptest.NewTLSServer(c)
	defer server.Close()
	useServer(t, server.URL)
	var out bytes.Buffer
	root := newAt(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &out}, func() time.Time { return build.Now })
	root.SetArgs(append(strings.Fields(args), "-n", "shop"))
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// TestNothingIsRequestedOnAnotherSetThanShown: between the plan and the answer, another user can delete the set and create it again, change
// it, or begin an operation. The plan is then wrong.
func TestNothingIsRequestedOnAnotherSetThanShown(t *testing.T) {
	set := func(options ...build.Option) *appsv1.StatefulSet {
		return build.Set("web", append([]build.Option{build.Template("data", "64Mi", "fixed")}, options...)...)
	}
	generation := build.Edit(func(s *appsv1.StatefulSet) { s.Generation++ })
	for _, row := range []struct {
		situation string
		changed   *appsv1.StatefulSet
		written   bool
	}{
		{"the set is the same", set(), true},
		{"a controller wrote the status", set(build.ReplicaCounts(1, 0)), true},
		{"the set was deleted and created again", set(build.Edit(func(s *appsv1.StatefulSet) { s.UID = types.UID("uid-new") })), false},
		{"its spec changed", set(generation), false},
		{"another resize was requested", set(build.Resize("data=1Gi")), false},
		{"an operation began", set(build.Status(build.Operation(api.Moving))), false},
	} {
		claim := build.Claim("data-web-0", "64Mi", build.OfClass("fixed"))
		for args, objects := range map[string][]metav1.Object{
			"resize web data=128Mi --yes": {build.VolumeOf(claim)},
			"rollback web --yes": {build.VolumeOf(claim), oldVolume(build.ID, "pv-a",
				build.Annotation(api.RetainedUntilAnnotation, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))},
		} {
			c := &changing{Lists: build.EmptyLists(), change: 3, changed: row.changed}
			c.Lists["statefulsets"] = []metav1.Object{set()}
			c.Lists["persistentvolumeclaims"] = []metav1.Object{claim}
			c.Lists["persistentvolumes"] = objects
			c.Lists["storageclasses"] = []metav1.Object{&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fixed"},
				Provisioner: "csi.example.com", AllowVolumeExpansion: ptr.To(true)}}
			c.Lists["namespaces"] = []metav1.Object{&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}}
			out, err := c.run(t, args)
			if written := len(c.wrote) > 0; written != row.written || (err == nil) != row.written {
				t.Errorf("%s: %s wrote %q: %v\n%s", row.situation, args, c.wrote, err, out)
			}
		}
	}
}

// TestResizeRetriesNoCleanup: the annotation retry means a failed cleanup first, which deletes claims when its pods succeed.
func TestResizeRetriesNoCleanup(t *testing.T) {
	cleanup := &api.Cleanup{Header: build.Operation(api.Failed).Header}
	cleanup.Kind = api.KindCleanup
	set := build.Set("web", build.Template("data", "64Mi", "fixed"), build.Status(build.Operation(api.Failed)),
		build.Annotation(api.CleanupAnnotation, cleanup.Encode()),
		build.Annotation(api.CleanupTemplateAnnotation, "{}"))
	o := &resizing{}
	o.overrides.Request = "data=128Mi" // the request of build.Operation
	if patch, err := o.patch(set); err == nil {
		t.Errorf("writes %v", patch.Actions())
	}
}
