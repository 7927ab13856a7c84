//go:build cluster

package api

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/owners"
	"drydock.dev/test/kit"
)

// rabbitWorld returns a world with a set of a RabbitmqCluster.
func rabbitWorld(t *testing.T) (*kit.World, owners.Row) {
	t.Helper()
	w := kit.NewWorld(t)
	row := rowOf(t, "rabbitmq.com", "RabbitmqCluster")
	w.GrantPause(row.Operator)
	w.DefineKind(row, "RabbitmqCluster")
	w.CreateSet(kit.WorldSet("web", 1, "64Mi"))
	w.SetController("web", w.CreateCustom(row, "RabbitmqCluster", "main", map[string]any{"replicas": int64(1)}, nil))
	return w, row
}

// TestLostLabelIsReported: RabbitMQ's operator removes the label from its StatefulSets, and copies that of the resource. The event source
// reports a set without the label as deleted.
func TestLostLabelIsReported(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		labels map[string]string // of the resource
		want   bool
	}{
		"the resource lacks the label": {nil, true},
		"the resource has the label":   {map[string]string{api.ManagedLabel: "true"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, rabbit := rabbitWorld(t)
			w.UpdateCustom(rabbit, "RabbitmqCluster", "main", func(o *unstructured.Unstructured) { o.SetLabels(row.labels) })
			drive, labelled := w.Drive(nil), w.Set("web")
			w.PatchSet("web", fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, api.ManagedLabel))
			for range 2 { // events may come twice
				if err := drive.Report(context.Background(), events.SourceDelete, labelled); err != nil {
					t.Error(err)
				}
			}
			got, want := w.Events("web"), []string(nil)
			if row.want {
				want = []string{"Warning OptInLost"}
			}
			if !slices.Equal(got, want) {
				t.Errorf("the Events are %v, want %v", got, want)
			}
		})
	}
}

// TestCopyOfPauseIsRemoved: operators copy the annotations of their resource to the StatefulSet during a stop.
func TestCopyOfPauseIsRemoved(t *testing.T) {
	t.Parallel()
	w, row := rabbitWorld(t)
	drive := w.Drive(nil)
	paused := map[string]string{api.OwnerPausedAnnotation: `{"version":1}`}
	w.UpdateCustom(row, "RabbitmqCluster", "main", func(o *unstructured.Unstructured) { o.SetAnnotations(paused) })
	w.Annotate("web", paused)
	has := func(sentence string, want bool) {
		t.Helper()
		if err := drive.Tick(context.Background()); err != nil {
			t.Error(err)
		}
		if _, is := w.Set("web").Annotations[api.OwnerPausedAnnotation]; is != want {
			t.Errorf("%s: the set has a copy: %v", sentence, is)
		}
	}
	has("the resource still has the annotation, so its operator would copy it again", true)
	w.UpdateCustom(row, "RabbitmqCluster", "main", func(o *unstructured.Unstructured) { o.SetAnnotations(nil) })
	has("the resource has no annotation any more", false)
}
