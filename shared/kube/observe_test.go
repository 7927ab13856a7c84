package kube

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/world"
	"drydock.dev/test/kit/build"
)

type list = []metav1.Object

// serve returns a client of a server with these lists.
func serve(t *testing.T, some build.Lists) *Client {
	t.Helper()
	all := build.EmptyLists()
	maps.Copy(all, some)
	return NewClient(all.Serve())
}

// names returns the names of the observed objects, kind by kind.
func names(o *world.Observed) string {
	var all []string
	for _, c := range o.Claims {
		all = append(all, "claim "+c.Name)
	}
	for _, v := range slices.Sorted(maps.Keys(o.Volumes)) {
		all = append(all, "volume "+v)
	}
	for _, p := range o.Pods {
		all = append(all, "pod "+p.Name)
	}
	for _, j := range o.Jobs {
		all = append(all, "job "+j.Name[len("drydock-"):])
	}
	for range o.Journals {
		all = append(all, "journal")
	}
	for _, a := range o.Attachments {
		all = append(all, "attachment "+a.Name)
	}
	for _, n := range slices.Sorted(maps.Keys(o.Nodes)) {
		all = append(all, "node "+n)
	}
	return strings.Join(all, ", ")
}

func TestObserve(t *testing.T) {
	claim, other := build.Claim("data-web-0", "64Mi"), build.Claim("data-api-0", "64Mi")
	target := build.Target("data-web-0", "128Mi")
	elsewhere := build.With(build.Claim("data-web-0", "64Mi"), build.Edit(func(c *corev1.PersistentVolumeClaim) { c.Namespace = "payroll" }))
	copying := build.Operation(api.Moving, build.Members(api.MemberSwapping, "data-web-0"))
	hostile := build.Operation(api.Moving, build.Members(api.MemberSwapping, "data-web-0"),
		func(s *api.Resize) { s.Move("data-web-0").NewVolume = "pv-payroll" })
	set := build.Set("web", build.Template("data", "64Mi", "fixed"))
	with := func(status *api.Resize) metav1.Object {
		return build.Set("web", build.Template("data", "64Mi", "fixed"), build.Status(status))
	}
	foreign := build.Edit(func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.Namespace = "payroll" })
	job := build.Job(0, 1)
	lock := resources.MakeLock(build.Set("web"), build.ID, 0, build.Settings())
	stopped := build.With(build.PodOf("web", 0, "data"), build.Held(0), build.Stopped())
	digits := strings.TrimPrefix(job.Name, "drydock-")
	growing := build.Operation(api.Moving, build.Members(api.MemberGrowing, "data-web-0"),
		func(s *api.Resize) { s.Move("data-web-0").InPlace = true })
	ofStaging := build.Journal(copying)
	link := ofStaging.Annotations[api.OperationAnnotation]
	ofStaging.Annotations[api.OperationAnnotation] = strings.Replace(link, build.Namespace, "staging", 1)
	for name, row := range map[string]struct {
		in   build.Lists
		want string
	}{
		"no objects": {nil, ""},
		"the set's claims, their volumes, and the pods that name them": {build.Lists{
			"statefulsets": list{set}, "persistentvolumeclaims": list{claim, other, elsewhere},
			"persistentvolumes": list{build.VolumeOf(claim), build.VolumeOf(other)},
			"pods":              list{build.PodOf("web", 0, "data"), build.PodOf("api", 0, "data"), build.Pod("debug", []string{"data-web-0"})},
		}, "claim data-web-0, volume pv-data-web-0, pod debug, pod web-0"},
		"objects linked to the operation": {build.Lists{
			"statefulsets": list{set}, "persistentvolumeclaims": list{claim, target}, "jobs": list{job},
			"controllerrevisions": list{build.Journal(copying)},
			"persistentvolumes": list{build.VolumeOf(claim), build.VolumeOf(target),
				build.Volume("pv-x", claim, build.Retained(api.RoleTarget, "data-web-0"))},
			"pods": list{build.Mover(job)},
		}, "claim data-web-0, claim " + target.Name + ", volume pv-data-web-0, volume pv-new-data-web-0, volume pv-x, " +
			"pod " + job.Name + "-x, job " + digits + ", journal"},
		"the set is gone: claims that the journal names, with or without link": {build.Lists{
			"persistentvolumeclaims": list{claim, other}, "controllerrevisions": list{build.Journal(copying)},
			"persistentvolumes": list{build.VolumeOf(claim)},
		}, "claim data-web-0, volume pv-data-web-0, journal"},
		"a journal that was made for another namespace, for example by a backup of that one": {build.Lists{
			"persistentvolumeclaims": list{claim}, "controllerrevisions": list{ofStaging},
		}, ""},
		"a volume that only the record names": {build.Lists{
			"statefulsets": list{with(copying)}, "persistentvolumes": list{build.Volume("pv-new-data-web-0", target)},
		}, "volume pv-new-data-web-0"},
		"a volume of another namespace is not read, even if the record names it": {build.Lists{
			"statefulsets": list{with(hostile)}, "persistentvolumes": list{build.Volume("pv-payroll", claim, foreign)},
		}, ""},
		"a volume of another namespace is not read, even with a forged link": {build.Lists{
			"statefulsets":      list{set},
			"persistentvolumes": list{build.Volume("pv-payroll", claim, build.Retained(api.RoleTarget, "data-web-0"), foreign)},
		}, ""},
		"attachments are read for a locked member without a pod": {build.Lists{
			"statefulsets": list{set}, "pods": list{lock}, "volumeattachments": list{build.Attachment("pv-data-web-0")},
		}, "pod web-0, attachment csi-pv-data-web-0"},
		"attachments are not read for a member with a pod": {build.Lists{
			"statefulsets": list{set}, "pods": list{build.With(build.PodOf("web", 0, "data"), build.Held(0))},
			"volumeattachments": list{build.Attachment("pv-data-web-0")},
		}, "pod web-0"},
		"attachments are read for a member whose volumes grow while it is stopped": {build.Lists{
			"statefulsets":      list{build.Set("web", build.Template("data", "64Mi", "fixed"), build.Status(growing))},
			"pods":              list{build.With(build.PodOf("web", 0, "data"), build.Held(0))},
			"volumeattachments": list{build.Attachment("pv-data-web-0")},
		}, "pod web-0, attachment csi-pv-data-web-0"},
		"the node of a pod that is being stopped": {build.Lists{
			"statefulsets": list{set}, "pods": list{stopped}, "nodes": list{build.Node()},
		}, "pod web-0, node node-1"},
		"the node of a pod that is being stopped does not exist": {build.Lists{
			"statefulsets": list{set}, "pods": list{stopped}, "nodes": list{},
		}, "pod web-0"},
		"the node of a running pod is not read": {build.Lists{
			"statefulsets": list{set}, "pods": list{build.With(build.PodOf("web", 0, "data"), build.Held(0))}, "nodes": list{build.Node()},
		}, "pod web-0"},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := serve(t, row.in).Observe(t.Context(), events.Ref{Namespace: build.Namespace, Name: "web"})
			if err != nil {
				t.Fatal(err)
			}
			if got := names(o); got != row.want {
				t.Errorf("observed %s\nwant     %s", got, row.want)
			}
		})
	}
}

// TestObserveIsCompleteOrAnError: a list that fails must not count as an empty list.
func TestObserveIsCompleteOrAnError(t *testing.T) {
	set := build.Set("web", build.Template("data", "64Mi", "fixed"), build.Status(build.Operation(api.Moving)))
	lock := resources.MakeLock(set, build.ID, 0, build.Settings())
	stopped := build.With(build.PodOf("web", 1, "data"), build.Held(1), build.Stopped())
	for _, plural := range []string{
		"statefulsets", "persistentvolumeclaims", "persistentvolumes", "controllerrevisions", "jobs", "pods", "volumeattachments", "nodes",
	} {
		lists := build.EmptyLists()
		lists["nodes"], lists["pods"] = list{build.Node()}, list{lock, stopped}
		lists["statefulsets"], lists["persistentvolumeclaims"] = list{set}, list{build.Claim("data-web-0", "64Mi")}
		delete(lists, plural)
		if _, err := NewClient(lists.Serve()).Observe(t.Context(), events.Ref{Namespace: build.Namespace, Name: "web"}); err == nil {
			t.Errorf("%s cannot be read, but that is no error", plural)
		}
	}
}

// order is a transport that records when the reads of a kind begin and end.
type order struct {
	next http.RoundTripper
	mu   sync.Mutex
	seen []string
}

func (o *order) note(when string, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen = append(o.seen, when+" "+path.Base(r.URL.Path))
}

func (o *order) RoundTrip(r *http.Request) (*http.Response, error) {
	o.note("begin", r)
	defer o.note("end", r)
	return o.next.RoundTrip(r)
}

// TestPodsAndVolumesAreReadAfterClaimsAndJobs: the proofs depend on the order. The observation must include a pod that was placed on a
// claim before its deletion. It must include a volume that was reserved before the claim was deleted, because the claim is created on that
// volume. And it must include the report of a mover whose Job has failed, because the report decides about another attempt.
func TestPodsAndVolumesAreReadAfterClaimsAndJobs(t *testing.T) {
	lists := build.EmptyLists()
	lists["statefulsets"] = list{build.Set("web", build.Template("data", "64Mi", "fixed"))}
	config, seen := lists.Serve(), &order{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { seen.next = next; return seen })
	if _, err := NewClient(config).Observe(t.Context(), events.Ref{Namespace: build.Namespace, Name: "web"}); err != nil {
		t.Fatal(err)
	}
	for _, later := range []string{"pods", "persistentvolumes"} {
		for _, earlier := range []string{"persistentvolumeclaims", "jobs", "controllerrevisions"} {
			if slices.Index(seen.seen, "begin "+later) < slices.Index(seen.seen, "end "+earlier) {
				t.Errorf("%s are read before %s: %v", later, earlier, seen.seen)
			}
		}
	}
}

// panics is a transport to an API server that panics at reads of pods.
type panics struct{ next http.RoundTripper }

func (p panics) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/pods") {
		panic("an unexpected pod")
	}
	return p.next.RoundTrip(r)
}

// TestPanicOfAReadFailsOnlyTheEvent: the panic occurs outside of the goroutine that recovers from panics of functions.
func TestPanicOfAReadFailsOnlyTheEvent(t *testing.T) {
	lists := build.EmptyLists()
	lists["statefulsets"] = list{build.Set("web", build.Template("data", "64Mi", "fixed"))}
	config := lists.Serve()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return panics{next} })
	_, err := NewClient(config).Observe(t.Context(), events.Ref{Namespace: build.Namespace, Name: "web"})
	if err == nil || !strings.Contains(err.Error(), "an unexpected pod") {
		t.Errorf("error %v", err)
	}
}

// longLine is the transport of an API server whose only log has one long line. It sends no more of it than the client asks for.
type longLine struct{}

func (longLine) RoundTrip(r *http.Request) (*http.Response, error) {
	line := "2026-11-29T12:00:00Z " + strings.Repeat("x", 1<<20)
	if limit, err := strconv.Atoi(r.URL.Query().Get("limitBytes")); err == nil {
		line = line[:limit]
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(line))}, nil
}

// TestLastLogLineHasLimit: a container can print a line without end.
func TestLastLogLineHasLimit(t *testing.T) {
	client := NewClient(&rest.Config{Host: "http://api.example.com", Transport: longLine{}})
	line, at, err := client.LastLogLine(t.Context(), build.Namespace, "web-0", "first")
	if err != nil || at.IsZero() || len(line) == 0 || len(line) > maxLogLineBytes {
		t.Errorf("%d bytes at %s, %v", len(line), at, err)
	}
}

// TestPages: a namespace with many objects is read in few pages, even if some of the objects are large.
func TestPages(t *testing.T) {
	notes := func(size int) build.Option { return build.Annotation("notes", strings.Repeat("x", size)) }
	for name, row := range map[string]struct {
		claims int
		option func(i int) build.Option
		most   int // pages
	}{
		"one page":                {300, func(int) build.Option { return notes(5 << 10) }, 1},
		"ordinary objects":        {2000, func(int) build.Option { return notes(5 << 10) }, 10},
		"the largest objects":     {20, func(int) build.Option { return notes(1 << 20) }, 20},
		"small and large objects": {400, func(i int) build.Option { return notes(i / 200 * 200 << 10) }, 50},
	} {
		t.Run(name, func(t *testing.T) {
			var claims list
			for i := range row.claims {
				claims = append(claims, build.With(build.Claim(fmt.Sprintf("data-web-%d", i), "64Mi"), row.option(i)))
			}
			seen := map[string]bool{}
			pages := 0
			client := serve(t, build.Lists{"persistentvolumeclaims": claims})
			err := Pages(t.Context(), client, plan.Claims, build.Namespace, "", &corev1.PersistentVolumeClaimList{},
				func(l *corev1.PersistentVolumeClaimList) {
					pages++
					if size := l.Size(); len(l.Items) > 1 && size > jsonBytes {
						t.Errorf("a page of %d objects has %d bytes", len(l.Items), size)
					}
					for _, c := range l.Items {
						seen[c.Name] = true
					}
				})
			if err != nil || len(seen) != row.claims || pages > row.most {
				t.Errorf("%d claims on %d pages (%v), want %d on at most %d", len(seen), pages, err, row.claims, row.most)
			}
		})
	}
}

func TestRootMovers(t *testing.T) {
	named := func(options ...build.Option) build.Lists {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: build.Namespace}}
		return build.Lists{"namespaces": list{build.With(ns, options...)}}
	}
	for name, row := range map[string]struct {
		in   build.Lists
		want bool
	}{
		"the namespace allows them":    {named(build.Label(api.RootMoverLabel, "allow")), true},
		"any other value refuses them": {named(build.Label(api.RootMoverLabel, "true")), false},
		"the label is missing":         {named(), false},
		"the namespace does not exist": {nil, false},
	} {
		if got, err := serve(t, row.in).RootMovers(t.Context(), build.Namespace); got != row.want || err != nil {
			t.Errorf("%s: %t, %v", name, got, err)
		}
	}
}

// TestObjectsOfOtherSetsDoNotCount: pods and claims with similar names must not keep the set from being observed, because its members may
// be held.
func TestObjectsOfOtherSetsDoNotCount(t *testing.T) {
	large := build.Annotation("notes", strings.Repeat("x", 200<<10))
	for name, row := range map[string]struct {
		pods    int // of 200 KiB each
		options []build.Option
	}{
		"more than the limit": {mostKept/(200<<10) + 1, nil},
		"more than half of the limit, with the pods read twice": {mostKept/(200<<10)/2 + 1, []build.Option{build.Deleting()}},
	} {
		t.Run(name, func(t *testing.T) {
			lists := build.EmptyLists()
			lists["statefulsets"] = list{build.Set("web", build.Template("data", "64Mi", "fixed"))}
			lists["persistentvolumeclaims"] = list{build.With(build.Claim("data-web-0", "64Mi"), row.options...)}
			lists["pods"] = list{build.PodOf("web", 0, "data")}
			for i := range row.pods {
				lists["pods"] = append(lists["pods"], build.With(build.PodOf("my-web", i, "data"), large))
			}
			o, err := NewClient(lists.Serve()).Observe(t.Context(), events.Ref{Namespace: build.Namespace, Name: "web"})
			if err != nil {
				t.Fatal(err)
			}
			if got := names(o); got != "claim data-web-0, pod web-0" {
				t.Errorf("observed %s", got)
			}
		})
	}
}

// TestSetHasLargestSize: a tenant decides how large a set is, and functions hold several sets at once.
func TestSetHasLargestSize(t *testing.T) {
	sized := func(size int) *appsv1.StatefulSet {
		set := build.Set("web", build.Template("data", "64Mi", "fixed"), build.Annotation("notes", ""))
		set.APIVersion, set.Kind = "apps/v1", "StatefulSet"
		return build.With(set, build.Annotation("notes", strings.Repeat("x", size-len(build.JSON(set)))))
	}
	observed := func(set *appsv1.StatefulSet, pods int) (*world.Observed, error) {
		lists := build.EmptyLists()
		lists["statefulsets"] = list{set}
		for i := range pods {
			lists["pods"] = append(lists["pods"], build.With(build.PodOf("web", i, "data"),
				build.Annotation("notes", strings.Repeat("x", 256<<10))))
		}
		return serve(t, lists).Observe(t.Context(), events.Ref{Namespace: build.Namespace, Name: "web"})
	}
	small := len(build.JSON(build.Set("web")))
	const half = mostKept / (512 << 10)
	for name, row := range map[string]struct {
		set       *appsv1.StatefulSet
		pods      int
		want, why string
	}{
		"the largest set":          {sized(api.MaxSet), 0, "web", ""},
		"a larger set":             {sized(api.MaxSet + 1), 0, "", "StatefulSet shop/web has 524289 bytes as JSON"},
		"a set with many pods":     {sized(small + 1000), 2*half - 1, "web", ""},
		"a large set with so many": {sized(api.MaxSet), 2*half - 1, "", "the set, its claims, their pods"},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := observed(row.set, row.pods)
			switch {
			case row.why == "" && (err != nil || o.Set == nil || o.Set.Name != row.want):
				t.Errorf("%v", err)
			case row.why != "" && (err == nil || !strings.Contains(err.Error(), row.why) || !fault.IsPermanent(err)):
				t.Errorf("%v, want the permanent error %q", err, row.why)
			}
		})
	}
}

// TestSetIsDecodedOnce: as JSON of any content, a set takes ten times the memory of the typed set. Only its creation needs that.
func TestSetIsDecodedOnce(t *testing.T) {
	set := build.Set("web", build.Template("data", "64Mi", "fixed"), build.Edit(func(s *appsv1.StatefulSet) {
		for range 20_000 {
			env := &s.Spec.Template.Spec.Containers[0].Env
			*env = append(*env, corev1.EnvVar{Name: "A"})
		}
	}))
	client := serve(t, build.Lists{"statefulsets": list{set}})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	o, err := client.Observe(t.Context(), events.Ref{Namespace: build.Namespace, Name: "web"})
	runtime.GC()
	runtime.ReadMemStats(&after)
	if err != nil || len(o.Set.Spec.Template.Spec.Containers[0].Env) != 20_000 {
		t.Fatal(err)
	}
	if most, kept := 12*len(o.SetJSON), int(after.HeapAlloc)-int(before.HeapAlloc); kept > most {
		t.Errorf("a set of %d bytes takes %d", len(o.SetJSON), kept)
	}
	if containers, _, _ := unstructured.NestedSlice(o.Manifest().Object, "spec", "template", "spec", "containers"); len(containers) == 0 {
		t.Error("the manifest has no containers")
	}
}

// TestJournalIsDecodedOnce: a namespace may have thousands of claims of other sets, and the journal of a large set has hundreds of members.
func TestJournalIsDecodedOnce(t *testing.T) {
	var own []string
	for i := range 300 {
		own = append(own, fmt.Sprintf("data-web-%d", i))
	}
	lists := build.EmptyLists()
	lists["statefulsets"] = list{build.Set("web", build.Template("data", "64Mi", "fixed"))}
	lists["controllerrevisions"] = list{build.Journal(build.Operation(api.Moving, build.Members(api.MemberPending, own...)))}
	allocated := func(claims int) float64 {
		lists["persistentvolumeclaims"] = nil
		for i := range claims {
			lists["persistentvolumeclaims"] = append(lists["persistentvolumeclaims"], build.Claim(fmt.Sprintf("data-api-%d", i), "64Mi"))
		}
		o := &observation{Observed: &world.Observed{Name: "web", Set: lists["statefulsets"][0].(*appsv1.StatefulSet)}}
		client := serve(t, lists)
		if err := client.observeJournals(t.Context(), build.Namespace, o); err != nil {
			t.Fatal(err)
		}
		return testing.AllocsPerRun(1, func() {
			if err := client.observeClaims(t.Context(), build.Namespace, o); err != nil {
				t.Fatal(err)
			}
		})
	}
	if few, many := allocated(50), allocated(100); many-few > 50*1000 {
		t.Errorf("each claim of another set costs %.0f allocations", (many-few)/50)
	}
}
