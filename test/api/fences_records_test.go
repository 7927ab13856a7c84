//go:build cluster

package api

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"drydock.dev/shared/api"
	"drydock.dev/shared/kube"
	operations "drydock.dev/shared/operation"
	"drydock.dev/test/kit"
)

// newRecord returns a record of an operation on the set.
func newRecord(kind api.Kind, id string, phase api.Phase, set api.SetRef) operations.Record {
	head := api.Header{Version: api.RecordVersion, Operation: id, Kind: kind, Phase: phase, Request: "data=1Mi@other", Attempt: 1, Set: set,
		Message: `"phase":"Succeeded"`}
	switch kind {
	case api.KindSleep:
		return &api.Sleep{Header: head, Replicas: 1}
	case api.KindCleanup:
		return &api.Cleanup{Header: head}
	case api.KindScale:
		return &api.Scale{Header: head}
	}
	return &api.Resize{Header: head, Strategy: api.StrategyWhole}
}

// TestFunctionsWriteRecordsOnlyInTheirPhases: each function may write exactly the records that operation.MayWrite allows it: it begins only
// its own operations, and changes those of others only in its phases.
func TestFunctionsWriteRecordsOnlyInTheirPhases(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	web := w.CreateSet(kit.WorldSet("web", 0, "64Mi"))
	ref := api.SetRef{Name: web.Name, UID: web.UID}
	clients := map[api.Function]kubernetes.Interface{}
	for _, f := range []api.Function{api.Backup, api.CleanupPod, api.DetectResize, api.IdleTimeout, api.PauseOwner, api.Restore,
		api.ScaleFunction} {
		config := kube.Impersonate(w.Config, f)
		config.QPS = -1
		clients[f] = kubernetes.NewForConfigOrDie(config)
	}
	var accepted, rejected atomic.Int32
	try := func(f api.Function, kind api.Kind, id string, former, next api.Phase) {
		record := newRecord(kind, id, next, ref)
		record.Head().Message += " again" // the fence judges only changes
		err := annotateWeb(t.Context(), clients[f], w.Namespace, map[string]any{record.Annotation(): record.Encode()}, dry)
		may := operations.MayWrite(f, kind, former, next)
		if err != nil && !apierrors.IsForbidden(err) || may != (err == nil) {
			t.Errorf("%s writes a %s in %s over one in %q: %v, want accepted %t", f, kind, next, former, err, may)
		}
		if err != nil && !saysWho(err.Error(), f, kind, next, record.Annotation()) {
			t.Errorf("%s writes a %s in %s over one in %q: the message is %v", f, kind, next, former, err)
		}
		if may {
			accepted.Add(1)
		} else {
			rejected.Add(1)
		}
	}
	for kind, phases := range api.Phases {
		for _, former := range append([]api.Phase{""}, phases...) {
			records := map[string]any{api.StatusAnnotation: nil, api.SleepAnnotation: nil, api.CleanupAnnotation: nil, api.ScaleAnnotation: nil}
			if former != "" {
				record := newRecord(kind, operation, former, ref)
				records[record.Annotation()] = record.Encode()
			}
			if err := annotateWeb(t.Context(), w.Kube, w.Namespace, records, nil); err != nil {
				t.Fatal(err)
			}
			var functions sync.WaitGroup
			for f := range clients {
				functions.Go(func() {
					for _, next := range phases {
						try(f, kind, operation, former, next)
						if former == phases[0] { // another operation begins
							try(f, kind, another, "", next)
						}
					}
				})
			}
			functions.Wait()
		}
	}
	if accepted.Load() < 50 || rejected.Load() < 500 {
		t.Errorf("only %d writes were accepted, and %d rejected", accepted.Load(), rejected.Load())
	}
}

// saysWho reports whether the message names the function, and the record's kind and phase or the annotation that the function never writes.
func saysWho(message string, f api.Function, kind api.Kind, next api.Phase, annotation string) bool {
	_, what, named := strings.Cut(message, string(f)+" may not ")
	return named && (strings.Contains(what, "write annotation "+annotation) ||
		strings.Contains(what, " a "+string(kind)+" ") && strings.Contains(what, string(next)))
}

// recordThefts are thefts by forged records, which other functions would obey.
var recordThefts = []theft{
	{"begin a resize or a rollback of a StatefulSet that has opted in, to any size and class", func(s *thief) error {
		if err := s.writeRecord("web", api.KindResize, another, api.Planned); err != nil {
			return err
		}
		return s.writeRecord("moving", api.KindRollback, another, api.Planned)
	}, "detect-resize"},
	{"have members copied, moved or released by the record of a resize that has not begun", func(s *thief) error {
		for _, phase := range []api.Phase{api.Moving, api.Finishing, api.Reverting} {
			for _, set := range []string{"web", "planned", "moving", "ended"} {
				if err := s.writeRecord(set, api.KindResize, another, phase); err == nil {
					return nil
				}
			}
			if err := s.writeRecord("ended", api.KindResize, operation, phase); err == nil {
				return nil
			}
		}
		return s.writeRecord("web", api.KindRollback, another, api.Moving)
	}, ""},
	{"change the sizes, classes and members of a resize that waits for its turn or its owner, or start it", func(s *thief) error {
		if err := s.writeRecord("planned", api.KindResize, operation, api.Planned); err != nil {
			return err
		}
		return s.writeRecord("planned", api.KindResize, operation, api.Moving)
	}, "pause-owner"},
	{"change the record of a resize that moves members",
		func(s *thief) error { return s.writeRecord("moving", api.KindResize, operation, api.Moving) }, "backup pause-owner restore"},
	{"end a resize that moves members",
		func(s *thief) error { return s.writeRecord("moving", api.KindResize, operation, api.Reverting) }, "backup restore"},
	{"say that a resize has moved all members",
		func(s *thief) error { return s.writeRecord("moving", api.KindResize, operation, api.Finishing) }, "restore"},
	{"change the record of a resize that has ended",
		func(s *thief) error { return s.writeRecord("ended", api.KindResize, operation, api.Succeeded) }, "detect-resize pause-owner"},
	{"put a StatefulSet that has opted in to sleep, or wake it, by the record of a sleep", func(s *thief) error {
		for _, phase := range []api.Phase{api.Planned, api.Waking} {
			if err := s.writeRecord("web", api.KindSleep, another, phase); err != nil {
				return err
			}
		}
		return s.writeRecord("asleep", api.KindSleep, operation, api.Waking)
	}, "idle-timeout"},
	{"change the record of a sleep, for example how many members the StatefulSet gets back",
		func(s *thief) error { return s.writeRecord("asleep", api.KindSleep, operation, api.Asleep) }, "idle-timeout pause-owner"},
	{"write the record of a cleanup on a StatefulSet that has opted in",
		func(s *thief) error { return s.writeRecord("web", api.KindCleanup, another, api.Cleaning) }, "cleanup-pod"},
	{"write the record of a scaling on a StatefulSet that has opted in",
		func(s *thief) error { return s.writeRecord("web", api.KindScale, another, api.Scaling) }, "scale"},
	{"order a cleanup of the claims of a StatefulSet that has opted in", func(s *thief) error {
		order := &api.Ledger{Count: 3, Orders: 1, Removing: &api.Removal{Span: api.Span{End: api.NoEnd}, Order: 1}}
		return s.patchSet("web", fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, api.LedgerAnnotation, order.Encode()))
	}, "scale"},
	{"have a failed operation tried again by the annotation `drydock.dev/retry`", func(s *thief) error {
		if err := s.annotateSet("web", api.RetryAnnotation); err != nil { // it has no request
			return err
		}
		if err := s.annotateSet("requested", api.RetryAnnotation); err != nil {
			return err
		}
		return s.annotateSet("uncleaned", api.RetryAnnotation)
	}, "detect-resize"},
	{"write a record in another form than Drydock's", func(s *thief) error {
		for _, text := range []string{"stolen", "{}", `{"phase":"Moving"}`, `{ "version": 2, "phase": "Moving" }`} {
			for set, key := range map[string]string{"moving": api.StatusAnnotation, "asleep": api.SleepAnnotation} {
				if err := s.patchSet(set, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, text)); err == nil {
					return nil
				}
			}
		}
		return s.annotateSet("web", api.StatusAnnotation)
	}, ""},
	{"end an operation by removing its record", func(s *thief) error {
		for set, key := range map[string]string{"moving": api.StatusAnnotation, "asleep": api.SleepAnnotation} {
			if err := s.patchSet(set, fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, key)); err == nil {
				return nil
			}
		}
		return s.patchSet("planned", fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, api.StatusAnnotation))
	}, ""},
}

// another is the id of an operation that no set has.
const another = "ba9876543210"

// layRecords creates sets with the records of operations.
func (l *loot) layRecords() {
	for name, made := range map[string]struct {
		kind  api.Kind
		phase api.Phase
	}{"planned": {api.KindResize, api.Planned}, "moving": {api.KindResize, api.Moving}, "ended": {api.KindResize, api.Succeeded},
		"asleep": {api.KindSleep, api.Asleep}} {
		set := kit.WorldSet(name, 0, "64Mi", "data")
		record := newRecord(made.kind, operation, made.phase, api.SetRef{Name: name})
		set.Annotations[record.Annotation()] = record.Encode()
		l.w.CreateSet(set)
	}
	uncleaned := newRecord(api.KindCleanup, operation, api.Failed, api.SetRef{Name: "uncleaned"}).Encode()
	for name, annotations := range map[string]map[string]string{
		"requested": {api.ResizeAnnotation: "data=1Gi+@other"},
		"uncleaned": {api.ResizeAnnotation: "data=1Gi+", api.CleanupAnnotation: uncleaned, api.CleanupTemplateAnnotation: "spec: {}"},
	} {
		set := kit.WorldSet(name, 0, "64Mi", "data")
		maps.Copy(set.Annotations, annotations)
		l.w.CreateSet(set)
	}
}

// writeRecord writes a record with a smaller size, another class and another count.
func (s *thief) writeRecord(name string, kind api.Kind, id string, phase api.Phase) error {
	record := newRecord(kind, id, phase, api.SetRef{Name: name})
	switch r := record.(type) {
	case *api.Resize:
		r.Templates = []api.TemplateTarget{{Name: "data", Size: *kit.Quantity("1Mi"), Class: "other"}}
	case *api.Sleep:
		r.Replicas = 7
	}
	record.Head().Message = "stolen"
	return s.patchSet(name, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, record.Annotation(), record.Encode()))
}

// annotateWeb merges the annotations into those of the set web.
func annotateWeb(ctx context.Context, client kubernetes.Interface, namespace string, annotations map[string]any, dryRun []string) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return err
	}
	_, err = client.AppsV1().StatefulSets(namespace).Patch(ctx, "web", types.MergePatchType, body, metav1.PatchOptions{DryRun: dryRun})
	return err
}
