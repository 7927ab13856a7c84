//go:build cluster

package api

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
	"drydock.dev/test/model"
)

// TestModelCanDoWhatControllersDid: the model can repeat each write of a real API server and its controllers during a
// resize. With DRYDOCK_RECORD_TRACES the traces are stored, for the tests of the model without a cluster.
func TestModelCanDoWhatControllersDid(t *testing.T) {
	t.Parallel()
	for name, r := range model.Recordings() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := kit.NewWorld(t)
			seen := record(t, w)
			w.CreateSet(setOf(r.Scenario))
			w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi@" + kit.OtherClass,
				api.StrategyAnnotation: string(r.Strategy)})
			d := w.Drive(nil)
			if r.Act != "" {
				disturb(t, w, d, r)
			}
			expectPhase(t, w.Finish(d, "web"), api.Succeeded)
			trace, err := model.TraceOf(seen.all(t))
			if err != nil {
				t.Fatal(err)
			}
			if os.Getenv("DRYDOCK_RECORD_TRACES") != "" {
				store(t, filepath.Join(kit.Root(t), "test/model/testdata", name+".trace"), trace)
			}
			expectPossible(t, r, trace)
		})
	}
}

// disturb acts like the user of the recording while the member stays in the phase.
func disturb(t *testing.T, w *kit.World, d *kit.Drive, r model.Recording) {
	t.Helper()
	w.Node.Set(func(n *kit.Node) { n.Hold, n.HoldStops = r.Phase == api.MemberFinalPass, r.Phase == api.MemberStopping })
	w.Eventually("the member is "+string(r.Phase), func() string {
		if err := d.Tick(t.Context()); err != nil {
			return err.Error()
		}
		if record := w.Status("web"); record == nil || len(record.Members) == 0 || record.Members[0].Phase != r.Phase {
			return "it is not"
		}
		return ""
	})
	switch r.Act {
	case model.RemovesHold:
		w.ReleasePod("web-0")
	case model.DeletesByForce:
		w.ForceDeletePod("web-0")
	case model.ScalesDown:
		w.Scale("web", r.Members-1)
	}
	w.Node.Set(func(n *kit.Node) { n.Hold, n.HoldStops = false, false })
}

func setOf(s model.Scenario) *appsv1.StatefulSet {
	set := kit.WorldSet("web", int32(s.Members), "64Mi", "data")
	if !s.Parallel {
		set.Spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement
	}
	return set
}

func store(t *testing.T, path string, trace model.Trace) {
	t.Helper()
	file, err := os.Create(path)
	if err == nil {
		_, err = trace.WriteTo(file)
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func expectPossible(t *testing.T, r model.Recording, trace model.Trace) {
	t.Helper()
	story, err := model.Replay(r, trace, model.ReplayBound)
	if err == nil {
		t.Logf("%d changes, %d steps of the model", len(trace.Changes), len(story))
		return
	}
	for _, line := range story {
		t.Log(line)
	}
	t.Error(err)
}

// recording is every version of the objects of a world.
type recording struct {
	w    *kit.World
	mu   sync.Mutex
	seen []model.WatchEvent
	bad  error
	last map[types.UID]string // resourceVersions of the existing objects
}

// record watches an empty world.
func record(t *testing.T, w *kit.World) *recording {
	t.Helper()
	r := &recording{w: w, last: map[types.UID]string{}}
	ctx, all := context.Background(), metav1.ListOptions{}
	apps, core := w.Kube.AppsV1(), w.Kube.CoreV1()
	for _, begin := range []func(context.Context, metav1.ListOptions) (watch.Interface, error){
		apps.StatefulSets(w.Namespace).Watch, apps.ControllerRevisions(w.Namespace).Watch, core.PersistentVolumeClaims(w.Namespace).Watch,
		core.PersistentVolumes().Watch, w.Kube.BatchV1().Jobs(w.Namespace).Watch, core.Pods(w.Namespace).Watch,
	} {
		watching, err := begin(ctx, all)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(watching.Stop)
		go func() {
			for e := range watching.ResultChan() {
				r.see(e)
			}
		}()
	}
	return r
}

func (r *recording) see(e watch.Event) {
	volume, ok := e.Object.(*corev1.PersistentVolume)
	if ok && (volume.Spec.ClaimRef == nil || volume.Spec.ClaimRef.Namespace != r.w.Namespace) {
		return
	}
	is, err := model.WatchEventOf(e.Object, e.Type == watch.Deleted)
	named, _ := meta.Accessor(e.Object)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.bad = err
		return
	}
	r.seen = append(r.seen, is)
	if r.last[named.GetUID()] = named.GetResourceVersion(); is.Gone {
		delete(r.last, named.GetUID())
	}
}

// all returns the versions after the last write to each object was recorded.
func (r *recording) all(t *testing.T) []model.WatchEvent {
	t.Helper()
	r.w.Eventually("everything is recorded", func() string {
		exists := r.exists(t)
		r.mu.Lock()
		defer r.mu.Unlock()
		for uid, version := range exists {
			if r.last[uid] != version {
				return fmt.Sprintf("the last write to %s is missing", uid)
			}
		}
		if len(exists) != len(r.last) {
			return fmt.Sprintf("%d objects of %d are gone", len(r.last)-len(exists), len(r.last))
		}
		return ""
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bad != nil {
		t.Fatal(r.bad)
	}
	return r.seen
}

// exists returns the existing objects with their resourceVersions.
func (r *recording) exists(t *testing.T) map[types.UID]string {
	t.Helper()
	ctx, all, is := context.Background(), metav1.ListOptions{}, map[types.UID]string{}
	add := func(list runtime.Object, err error) {
		if err != nil {
			t.Fatal(err)
		}
		objects, err := meta.ExtractList(list)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			named, _ := meta.Accessor(o)
			is[named.GetUID()] = named.GetResourceVersion()
		}
	}
	in := r.w.Namespace
	for _, list := range []func() (runtime.Object, error){
		func() (runtime.Object, error) { return r.w.Kube.AppsV1().StatefulSets(in).List(ctx, all) },
		func() (runtime.Object, error) { return r.w.Kube.AppsV1().ControllerRevisions(in).List(ctx, all) },
		func() (runtime.Object, error) { return r.w.Kube.CoreV1().PersistentVolumeClaims(in).List(ctx, all) },
		func() (runtime.Object, error) { return r.w.Kube.BatchV1().Jobs(in).List(ctx, all) },
		func() (runtime.Object, error) { return r.w.Kube.CoreV1().Pods(in).List(ctx, all) },
	} {
		add(list())
	}
	for _, v := range r.w.Volumes() {
		is[v.UID] = v.ResourceVersion
	}
	return is
}
