package sift

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit/build"
)

// cleaned is a set of two replicas with a cleanup pod template. The document is to be the last option.
func cleaned(options ...build.Option) *appsv1.StatefulSet {
	return build.Set("web", append([]build.Option{build.Replicas(2), build.Template("data", "64Mi", "fixed"),
		build.Annotation(api.CleanupTemplateAnnotation, `{"spec":{"containers":[{"name":"drain"}]}}`)}, options...)...)
}

// tells stores the document of a cleanup on the set, with the set's own digest, identity and count.
func tells(phase api.Phase, options ...func(*api.Cleanup)) build.Option {
	return build.Edit(func(set *appsv1.StatefulSet) {
		doc := &api.Cleanup{
			Header:   api.Header{Version: api.RecordVersion, Operation: build.ID, Kind: api.KindCleanup, Phase: phase, Request: cleanup.Digest(set), Attempt: 1, Set: api.SetRef{Name: set.Name, UID: set.UID}},
			Replicas: statefulset.Replicas(set), Generation: set.Generation, Span: &api.Span{Start: statefulset.Start(set), End: statefulset.Span(set).End},
		}
		for _, option := range options {
			option(doc)
		}
		build.Annotation(api.CleanupAnnotation, doc.Encode())(set)
	})
}

func finished(ago time.Duration) func(*api.Cleanup) {
	return func(s *api.Cleanup) { s.Finished = operation.Moment(build.Now.Add(-ago)) }
}

func TestWhoIsWokenByASetThatIsCleanedUp(t *testing.T) {
	const wakes = "cleanup-pod"
	ready, active := tells(api.Succeeded), tells(api.Cleaning)
	refused, failed := tells(api.Refused), tells(api.Failed, finished(time.Minute))
	older := func(s *api.Cleanup) { s.Request = "older" }
	retry, abort, optOut := build.Annotation(api.RetryAnnotation, ""), build.Annotation(api.AbortAnnotation, ""), build.Label(api.ManagedLabel, "")
	none := build.Annotation(api.CleanupTemplateAnnotation, "")
	onDelete, held := build.Annotation(api.CleanupOnDeleteAnnotation, "true"), build.Finalizers("a", api.CleanupFinalizer)
	resizing := build.Status(build.Operation(api.Moving, build.Members(api.MemberPending, "data-web-0")))
	zero := build.Replicas(0)
	going := opts(onDelete, held, build.Deleting())
	goes := func(options ...build.Option) []build.Option { return append(slices.Clone(going), options...) }
	since := func(ago time.Duration) build.Option {
		return func(o metav1.Object) { o.SetDeletionTimestamp(&metav1.Time{Time: build.Now.Add(-ago)}) }
	}
	for name, row := range map[string]struct {
		change  string
		options []build.Option
		want    string
	}{
		"a new template":                           {updated, nil, wakes},
		"all is accounted for":                     {updated, opts(ready), ""},
		"the same, the set was added":              {added, opts(ready), ""},
		"the set was scaled, or up and down again": {updated, opts(tells(api.Succeeded, func(s *api.Cleanup) { s.Generation = 3 })), wakes},
		"a replica came":                           {updated, opts(tells(api.Succeeded, func(s *api.Cleanup) { s.Span.End = 1 })), wakes},
		"a replica is to come":                     {updated, opts(build.Counting(1, 1), tells(api.Succeeded, func(s *api.Cleanup) { s.Span.End = 1 })), ""},
		"more are there than are wanted":           {updated, opts(build.Counting(5, 5), ready), ""},
		"the start has moved":                      {updated, opts(tells(api.Succeeded, func(s *api.Cleanup) { s.Span.Start = 1 })), wakes},
		"a claim was not bound": {updated, opts(tells(api.Succeeded, func(s *api.Cleanup) {
			s.Ordinals = []api.OrdinalStatus{{Ordinal: 4, Reason: api.ClaimUnbound}}
		})), wakes},
		"a claim was never used": {updated, opts(tells(api.Succeeded, func(s *api.Cleanup) {
			s.Ordinals = []api.OrdinalStatus{{Ordinal: 4, Reason: api.NeverUsed}}
		})), ""},
		"nobody has counted":                          {updated, opts(tells(api.Succeeded, func(s *api.Cleanup) { s.Span = nil })), wakes},
		"another template":                            {updated, opts(tells(api.Succeeded, older)), wakes},
		"no template":                                 {updated, opts(none), ""},
		"no template, and it had one":                 {updated, opts(none, tells(api.Succeeded, older)), ""},
		"no template, but a cleanup runs":             {updated, opts(none, active), wakes},
		"no claims":                                   {updated, opts(build.Edit(func(s *appsv1.StatefulSet) { s.Spec.VolumeClaimTemplates = nil })), ""},
		"a cleanup runs":                              {updated, opts(active), wakes},
		"a cleanup runs, and a retry":                 {updated, opts(retry, active), wakes},
		"I3: the document is another set's":           {updated, opts(tells(api.Succeeded, func(s *api.Cleanup) { s.Set.UID = "uid-2" })), wakes},
		"a document that nobody can read":             {updated, opts(build.Annotation(api.CleanupAnnotation, "{")), wakes},
		"the template was refused":                    {updated, opts(refused), ""},
		"it was refused, the set was scaled":          {updated, opts(tells(api.Refused, func(s *api.Cleanup) { s.Replicas, s.Span = 7, nil })), ""},
		"it was refused, and a retry":                 {updated, opts(retry, refused), wakes},
		"another one was refused":                     {updated, opts(tells(api.Refused, older)), wakes},
		"a cleanup has failed":                        {updated, opts(failed), ""},
		"a cleanup has failed, and a retry":           {updated, opts(retry, failed), wakes},
		"a retry, but nothing failed":                 {updated, opts(retry, ready), ""},
		"a cleanup has failed, the set was scaled":    {updated, opts(tells(api.Failed, func(s *api.Cleanup) { s.Generation = 7 })), wakes},
		"aborted, but nothing runs":                   {updated, opts(abort, ready), ""},
		"it is not opted in":                          {updated, opts(optOut), ""},
		"it is not opted in any more, a cleanup runs": {updated, opts(optOut, active), wakes},
		"it left the watch":                           {deleted, opts(optOut, active), wakes},
		"it left the watch, nothing ran":              {deleted, opts(optOut, ready), ""},
		"I6: a resize runs":                           {updated, opts(resizing, zero), "backup"},
		"I6: a resize is given up":                    {updated, opts(build.Status(build.Operation(api.Reverting)), zero), "restore"},
		"a resize that nobody can read":               {updated, opts(build.Annotation(api.StatusAnnotation, "{")), "detect-resize"},
		"I6: it sleeps":                               {updated, opts(build.WithSleep(build.Sleep(api.Asleep, build.Because("paused"))), build.Paused(), zero), ""},
		"a sleep that nobody can read":                {updated, opts(build.Annotation(api.SleepAnnotation, "{")), "idle-timeout"},
		"the finalizer is missing":                    {updated, opts(onDelete, ready), wakes},
		"the finalizer is there":                      {updated, opts(onDelete, held, ready), ""},
		"the finalizer is there for nothing":          {updated, opts(held, ready), wakes},
		"the finalizer of one that is not opted in":   {updated, opts(onDelete, held, optOut, ready), wakes},
		"the finalizer is missing, it sleeps":         {updated, opts(onDelete, build.WithSleep(build.Sleep(api.Asleep, build.Because("paused"))), build.Paused(), zero), wakes},
		"it goes, nothing holds it":                   {updated, opts(build.Deleting(), ready), ""},
		"it goes, nothing holds it, a cleanup runs":   {updated, opts(build.Deleting(), active), wakes},
		"it goes, and is to be held: too late":        {updated, opts(build.Deleting(), onDelete, ready), ""},
		"it is gone":                                  {deleted, opts(ready), ""},
		"it is gone, a cleanup ran":                   {deleted, opts(active), wakes},
		"it is gone, somebody took our finalizer":     {deleted, goes(active), ""},
		"held":                                       {updated, goes(ready), wakes},
		"held, without a document":                   {updated, goes(), wakes},
		"held, a cleanup runs":                       {updated, goes(active), wakes},
		"held, refused":                              {updated, goes(refused), wakes},
		"held, without the label":                    {updated, goes(optOut, failed), wakes},
		"held, failed before it was deleted":         {updated, goes(failed), wakes},
		"held, failed in the second of the deletion": {updated, goes(tells(api.Failed, finished(0))), wakes},
		"held, failed, nobody knows when":            {updated, goes(tells(api.Failed)), wakes},
		"held, failed since":                         {updated, goes(since(time.Hour), failed), ""},
		"held, failed since, and a retry":            {updated, goes(since(time.Hour), retry, failed), wakes},
		"held, failed since, aborted":                {updated, goes(since(time.Hour), abort, failed), wakes},
		"held, failed since, it is not asked for":    {updated, goes(since(time.Hour), build.Annotation(api.CleanupOnDeleteAnnotation, ""), failed), wakes},
		"held, failed since, another template":       {updated, goes(since(time.Hour), tells(api.Failed, finished(time.Minute), older)), wakes},
	} {
		t.Run(name, func(t *testing.T) {
			got := wakenBy(t, row.change, cleaned(row.options...))
			if row.want == "|" { // who looks after the other operation
				if strings.Contains(got, wakes) {
					t.Errorf("wakes %q", got)
				}
				return
			}
			if got != row.want {
				t.Errorf("wakes %q, want %q", got, row.want)
			}
		})
	}
}

// cleanerOf is the running cleanup pod of web-2.
func cleanerOf(options ...build.Option) *corev1.Pod {
	link := api.Link{Operation: build.ID, Role: api.RoleCleaner, Namespace: build.Namespace, Set: api.SetRef{Name: "web", UID: "uid-web"}}
	return build.Pod("web-2", []string{"data-web-2"}, append([]build.Option{build.LinkOf(link)}, options...)...)
}

func TestWhoIsWokenByACleanupPod(t *testing.T) {
	container := func(init bool, restarts int32, last *corev1.ContainerStateTerminated) build.Option {
		return build.Edit(func(p *corev1.Pod) {
			all := []corev1.ContainerStatus{{Name: "first"}, {Name: "drain", RestartCount: restarts, LastTerminationState: corev1.ContainerState{Terminated: last}}}
			if init {
				p.Status.InitContainerStatuses = all
			} else {
				p.Status.ContainerStatuses = all
			}
		})
	}
	failed, well := &corev1.ContainerStateTerminated{ExitCode: 1}, &corev1.ContainerStateTerminated{}
	for name, row := range map[string]struct {
		change string
		pod    *corev1.Pod
		want   string
	}{
		"it is made":                        {added, cleanerOf(build.InPhase(corev1.PodPending)), ""},
		"it runs":                           {updated, cleanerOf(), ""},
		"it has succeeded":                  {updated, cleanerOf(build.InPhase(corev1.PodSucceeded)), "cleanup-pod"},
		"it has failed":                     {updated, cleanerOf(build.InPhase(corev1.PodFailed)), "cleanup-pod"},
		"a container was started again":     {updated, cleanerOf(container(false, 1, failed)), "cleanup-pod"},
		"a container has failed":            {updated, cleanerOf(container(false, 0, failed)), "cleanup-pod"},
		"an init container has failed":      {updated, cleanerOf(container(true, 0, failed)), "cleanup-pod"},
		"a container has ended well":        {updated, cleanerOf(container(true, 0, well)), ""},
		"it ends":                           {updated, cleanerOf(build.Deleting()), "cleanup-pod"},
		"it is gone":                        {deleted, cleanerOf(), "cleanup-pod"},
		"forged: a link elsewhere":          {deleted, cleanerOf(build.Edit(func(p *corev1.Pod) { p.Namespace = "payroll" })), ""},
		"its label names another operation": {deleted, cleanerOf(build.Label(api.OperationLabel, "other")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := woken(t, row.change, "Pod", row.pod); got != row.want {
				t.Errorf("wakes %q, want %q", got, row.want)
			}
		})
	}
}

// TestI6SweepFindsCleanups that no event tells of.
// Invariants: I6.
func TestI6SweepFindsCleanups(t *testing.T) {
	type list = []metav1.Object
	ready, active := tells(api.Succeeded), tells(api.Cleaning)
	optOut := build.Label(api.ManagedLabel, "")
	held, label := build.Finalizers(api.CleanupFinalizer), build.Label(api.FinalizerLabel, api.FinalizerForCleanup)
	other := build.MemberLink(api.RoleMover, 0)
	for name, row := range map[string]struct {
		in   cluster
		want string
	}{
		"a set that was looked at":                     {cluster{"statefulsets": list{cleaned(ready)}}, ""},
		"a set that was not":                           {cluster{"statefulsets": list{cleaned()}}, "web: cleanup-pod"},
		"a cleanup runs":                               {cluster{"statefulsets": list{cleaned(active)}, "pods": list{cleanerOf()}}, "web: cleanup-pod"},
		"a pod whose set is gone":                      {cluster{"pods": list{cleanerOf()}}, "web: cleanup-pod"},
		"I4: a pod whose set has lost its document":    {cluster{"statefulsets": list{cleaned(ready)}, "pods": list{cleanerOf()}}, "web: cleanup-pod"},
		"I3: a pod whose set is another one":           {cluster{"statefulsets": list{cleaned(build.UID("uid-2"), ready)}, "pods": list{cleanerOf()}}, "web: cleanup-pod"},
		"a pod whose set has lost its label":           {cluster{"statefulsets": list{cleaned(optOut, active)}, "pods": list{cleanerOf()}}, "web: cleanup-pod"},
		"pods of others":                               {cluster{"pods": list{build.Pod("x", nil), build.Pod("y", nil, other), cleanerOf(build.Label(api.OperationLabel, "other"))}}, ""},
		"a set with our finalizer that lost its label": {cluster{"statefulsets": list{cleaned(optOut, held, label, ready)}}, "web: cleanup-pod"},
		"it goes":                                       {cluster{"statefulsets": list{cleaned(optOut, held, label, build.Deleting(), ready)}}, "web: cleanup-pod"},
		"our finalizer on one that is opted in":         {cluster{"statefulsets": list{cleaned(held, label, build.Annotation(api.CleanupOnDeleteAnnotation, "true"), ready)}}, ""},
		"a set that lost its label, without finalizer":  {cluster{"statefulsets": list{cleaned(optOut, ready)}}, ""},
		"a set that lost its label, the finalizer gone": {cluster{"statefulsets": list{cleaned(optOut, label, ready)}}, ""},
		"a document that nobody can read":               {cluster{"statefulsets": list{cleaned(build.Annotation(api.CleanupAnnotation, "{"))}}, "web: cleanup-pod"},
	} {
		t.Run(name, func(t *testing.T) {
			to := &sent{}
			if err := sweep(t, row.in, to); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(to.events, ", "); got != row.want {
				t.Errorf("sends %q, want %q", got, row.want)
			}
		})
	}
	lists := build.Plurals()
	delete(lists, "pods")
	if err := sweepLists(t, lists, &sent{}); err == nil {
		t.Error("the list of pods fails, and that is no error")
	}
}
