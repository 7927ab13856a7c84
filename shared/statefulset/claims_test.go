package statefulset_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit/build"
)

func set(options ...build.Option) *appsv1.StatefulSet {
	return build.Set("web", append([]build.Option{build.Template("data", "64Mi", "fixed"), build.Template("logs", "32Mi", "fixed")},
		options...)...)
}

func TestParseClaimName(t *testing.T) {
	for name, want := range map[string]string{
		"data-web-0":                    "data 0",
		"logs-web-17":                   "logs 17",
		"data-web-2147483648":           "data 2147483648",
		"data-web-00":                   "",
		"data-web-007":                  "",
		"data-web-+1":                   "",
		"data-web--1":                   "",
		"data-web-0x1":                  "",
		"data-web-1e3":                  "",
		"data-web-١":                    "", // an Arabic digit
		"data-web-":                     "",
		"data-web":                      "",
		"data-web-0-1":                  "",
		"data-web-99999999999999999999": "",
		"data-webb-0":                   "",
		"data-we-0":                     "",
		"mydata-web-0":                  "",
		"tmp-web-0":                     "",
		"-web-0":                        "",
		"":                              "",
	} {
		template, ordinal, ok := statefulset.ParseClaimName(set(), name)
		got := ""
		if ok {
			got = fmt.Sprintf("%s %d", template, ordinal)
		}
		if got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	ab := build.Set("test", build.Template("a", "1Gi", "fixed"), build.Template("ab", "1Gi", "fixed"))
	if template, _, _ := statefulset.ParseClaimName(ab, "ab-test-0"); template != "ab" {
		t.Errorf("ab-test-0 belongs to template %q", template)
	}
	nested := build.Set("b-test", build.Template("a", "1Gi", "fixed"))
	if template, _, _ := statefulset.ParseClaimName(nested, "a-b-test-0"); template != "a" {
		t.Errorf("a-b-test-0 belongs to template %q of set b-test", template)
	}
}

func TestClaimsOf(t *testing.T) {
	elsewhere := build.With(build.Claim("data-web-1", "1Gi"), build.Edit(func(c *corev1.PersistentVolumeClaim) { c.Namespace = "payroll" }))
	var got []string
	claims := []*corev1.PersistentVolumeClaim{
		build.Claim("logs-web-3", "1Gi"), build.Claim("data-web-0", "1Gi"), elsewhere, build.Claim("data-api-0", "1Gi"),
	}
	for _, c := range statefulset.ClaimsOf(set(), claims) {
		got = append(got, fmt.Sprintf("%s/%d", c.Template, c.Ordinal))
	}
	if want := []string{"logs/3", "data/0"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestBelongs(t *testing.T) {
	none := set()
	none.Spec.Selector = nil
	for name, row := range map[string]struct {
		claim *corev1.PersistentVolumeClaim
		set   *appsv1.StatefulSet
		want  bool
	}{
		"the selector's labels":          {build.Claim("data-web-0", "1Gi"), set(), true},
		"the selector's labels and more": {build.Claim("data-web-0", "1Gi", build.Label("team", "x")), set(), true},
		"other labels":                   {build.Claim("data-web-0", "1Gi", build.Label("app", "api")), set(), false},
		"no labels":                      {build.Claim("data-web-0", "1Gi", build.Label("app", "")), set(), false},
		"owned by the set":               {build.Claim("data-web-0", "1Gi", build.ControlledBy("StatefulSet", "web")), set(), true},
		"owned by another set":           {build.Claim("data-web-0", "1Gi", build.ControlledBy("StatefulSet", "web-old")), set(), false},
		"owned by its pod":               {build.Claim("data-web-0", "1Gi", build.ControlledBy("Pod", "web-0")), set(), true},
		"a set that selects nothing":     {build.Claim("data-web-0", "1Gi"), none, false},
	} {
		if got := statefulset.Belongs(row.claim, row.set); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestConsumers(t *testing.T) {
	pods := []*corev1.Pod{
		build.PodOf("web", 0, "data", "logs"), build.PodOf("web", 1, "data"),
		build.Pod("pending", []string{"data-web-0"}, build.InPhase(corev1.PodPending)),
		build.Pod("unknown", []string{"x", "data-web-0"}, build.InPhase(corev1.PodUnknown)),
		build.Pod("done", []string{"data-web-0"}, build.InPhase(corev1.PodSucceeded)),
		build.Pod("failed", []string{"data-web-0"}, build.InPhase(corev1.PodFailed)),
		build.Pod("going", []string{"data-web-0"}, build.Deleting()),
		build.Pod("none", nil),
	}
	var got []string
	for _, p := range statefulset.Consumers(pods, "data-web-0") {
		got = append(got, p.Name)
	}
	if want := []string{"web-0", "pending", "unknown", "going"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestIsPodOf: the UID of the controlling set decides.
// Invariants: I3.
func TestIsPodOf(t *testing.T) {
	orphan := build.With(build.PodOf("web", 0, "data"), build.Edit(func(p *corev1.Pod) { p.OwnerReferences = nil }))
	everything := set()
	everything.Spec.Selector = &metav1.LabelSelector{}
	for name, row := range map[string]struct {
		pod  *corev1.Pod
		set  *appsv1.StatefulSet
		want bool
	}{
		"controlled by the set":                   {build.PodOf("web", 0, "data"), set(), true},
		"controlled by another set with the name": {build.PodOf("web", 0, "data"), set(build.UID("uid-2")), false},
		"controlled by a Job": {
			build.Pod("web-0", nil, build.Label("app", "web"), build.ControlledBy("Job", "x")), set(), false,
		},
		"orphaned and selected":             {orphan, set(), true},
		"orphaned and not selected":         {build.With(orphan.DeepCopy(), build.Label("app", "api")), set(), false},
		"an empty selector selects nothing": {orphan, everything, false},
	} {
		if got := statefulset.IsPodOf(row.pod, row.set); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestLagsAndDiffers(t *testing.T) {
	target := func(size, class string) api.Target { return api.Target{Size: resource.MustParse(size), Class: class} }
	for name, row := range map[string]struct {
		target        api.Target
		lags, differs bool
	}{
		"the same":                             {target("64Mi", "fixed"), false, false},
		"the same, in another unit":            {target("65536Ki", ""), false, false},
		"larger":                               {target("65Mi", ""), true, true},
		"smaller, and the target is not exact": {target("63Mi", ""), false, false},
		"smaller, and the target is exact":     {api.Target{Size: resource.MustParse("63Mi"), Exact: true}, true, true},
		"another class":                        {target("64Mi", "fast"), true, true},
		"no class keeps the present class":     {target("64Mi", ""), false, false},
	} {
		if got := statefulset.NeedsChange(build.Claim("data-web-0", "64Mi"), row.target); got != row.lags {
			t.Errorf("%s: lags %t", name, got)
		}
		if got := statefulset.TemplateNeedsChange(set(), "data", row.target); got != row.differs {
			t.Errorf("%s: differs %t", name, got)
		}
	}
	if statefulset.TemplateNeedsChange(set(), "none", target("1Gi", "")) {
		t.Error("a template that does not exist differs")
	}
}

func TestDefaultsOfAStatefulSetAreThoseOfKubernetes(t *testing.T) {
	bare := &appsv1.StatefulSet{}
	if statefulset.Replicas(bare) != 1 || statefulset.WhenScaled(bare) != statefulset.Retain ||
		statefulset.GracePeriod(bare) != 30*time.Second || statefulset.Managed(bare) || statefulset.Controller(bare) != nil {
		t.Error("absent values have other defaults in Kubernetes")
	}
	full := set(build.Replicas(0), build.WhenScaled("Delete"), build.ControlledBy("Database", "main"), build.Edit(func(s *appsv1.StatefulSet) {
		s.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](5)
	}))
	if statefulset.Replicas(full) != 0 || statefulset.WhenScaled(full) != "Delete" || statefulset.GracePeriod(full) != 5*time.Second ||
		!statefulset.Managed(full) || statefulset.Controller(full).Name != "main" {
		t.Error("present values do not count")
	}
}

func TestReadyAndAtZero(t *testing.T) {
	for name, row := range map[string]struct {
		set           *appsv1.StatefulSet
		ready, atZero bool
	}{
		"three of three":                   {set(build.Replicas(3)), true, false},
		"two of three ready":               {set(build.Replicas(3), build.ReplicaCounts(3, 2)), false, false},
		"one replica too many":             {set(build.Replicas(3), build.ReplicaCounts(4, 3)), false, false},
		"spec not observed":                {set(build.Replicas(3), build.NotObserved()), false, false},
		"zero of zero":                     {set(build.Replicas(0)), true, true},
		"one replica left of zero":         {set(build.Replicas(0), build.ReplicaCounts(1, 0)), false, false},
		"zero replicas, spec not observed": {set(build.Replicas(0), build.NotObserved()), false, false},
	} {
		if got := statefulset.Ready(row.set); got != row.ready {
			t.Errorf("%s: ready %t", name, got)
		}
		if got := statefulset.AtZero(row.set); got != row.atZero {
			t.Errorf("%s: at zero %t", name, got)
		}
	}
}

// has gives a claim's volume the capacity.
func has(size string) build.Option {
	return build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	})
}

func inModes(modes ...corev1.PersistentVolumeAccessMode) build.Option {
	return build.Edit(func(c *corev1.PersistentVolumeClaim) { c.Spec.AccessModes = modes })
}

// TestLag compares a claim's request and capacity with its target.
func TestLag(t *testing.T) {
	exactly := func(size string) api.Target { return api.Target{Size: resource.MustParse(size), Exact: true} }
	atLeast := func(size string) api.Target { return api.Target{Size: resource.MustParse(size)} }
	claim := func(requested string, options ...build.Option) *corev1.PersistentVolumeClaim {
		return build.Claim("data-web-0", requested, options...)
	}
	const rwo, rwx = corev1.ReadWriteOnce, corev1.ReadWriteMany
	for name, row := range map[string]struct {
		claim                   *corev1.PersistentVolumeClaim
		target                  api.Target
		grows, shrinks, changes bool
	}{
		"the same size":                           {claim("64Mi", has("64Mi")), exactly("64Mi"), false, false, false},
		"the same size in another unit":           {claim("64Mi", has("64Mi")), exactly("65536Ki"), false, false, false},
		"a larger target":                         {claim("64Mi", has("64Mi")), exactly("65Mi"), true, false, false},
		"a larger target within the capacity":     {claim("64Mi", has("1Gi")), exactly("128Mi"), true, false, false},
		"a larger target, at least":               {claim("64Mi", has("64Mi")), atLeast("65Mi"), true, false, false},
		"a smaller target":                        {claim("64Mi", has("64Mi")), exactly("63Mi"), false, true, false},
		"a smaller target, at least":              {claim("64Mi", has("64Mi")), atLeast("63Mi"), false, false, false},
		"a smaller target, unknown capacity":      {claim("64Mi"), exactly("63Mi"), false, true, false},
		"the capacity, requested a byte more":     {claim("67108865", has("64Mi")), exactly("64Mi"), false, false, false},
		"less than it has, requested a byte more": {claim("67108865", has("64Mi")), exactly("63Mi"), false, true, false},
		"less than requested, more than it has":   {claim("1Gi", has("64Mi")), exactly("128Mi"), false, true, false},
		"the capacity, requested more":            {claim("1Gi", has("64Mi")), exactly("64Mi"), false, true, false},
		"less than requested, at least":           {claim("1Gi", has("64Mi")), atLeast("128Mi"), false, false, false},
		"between request and capacity":            {claim("64Mi", has("1Gi")), exactly("63Mi"), false, true, false},
		"another class": {claim("64Mi", has("64Mi")), api.Target{Size: resource.MustParse("64Mi"), Class: "fast"}, false, false,
			true},
		"its own class": {claim("64Mi", has("64Mi")), api.Target{Size: resource.MustParse("64Mi"), Class: "fixed"}, false, false,
			false},
		"a class, and the claim names none": {claim("64Mi", has("64Mi"), build.OfClass("")),
			api.Target{Size: resource.MustParse("64Mi"), Class: "fast"}, false, false, true},
		"another mode": {claim("64Mi", has("64Mi")), api.Target{Size: resource.MustParse("64Mi"),
			Modes: []corev1.PersistentVolumeAccessMode{rwx}}, false, false, true},
		"one more mode": {claim("64Mi", has("64Mi")), api.Target{Size: resource.MustParse("64Mi"),
			Modes: []corev1.PersistentVolumeAccessMode{rwo, rwx}}, false, false, true},
		"one mode less": {claim("64Mi", has("64Mi"), inModes(rwo, rwx)),
			api.Target{Size: resource.MustParse("64Mi"), Modes: []corev1.PersistentVolumeAccessMode{rwo}}, false, false, true},
		"its modes in another order": {claim("64Mi", has("64Mi"), inModes(rwo, rwx)),
			api.Target{Size: resource.MustParse("64Mi"), Modes: []corev1.PersistentVolumeAccessMode{rwx, rwo}}, false, false, false},
		"its mode twice": {claim("64Mi", has("64Mi")), api.Target{Size: resource.MustParse("64Mi"),
			Modes: []corev1.PersistentVolumeAccessMode{rwo, rwo}}, false, false, false},
	} {
		if got := [3]bool{statefulset.Grows(row.claim, row.target), statefulset.Shrinks(row.claim, row.target),
			statefulset.ChangesKind(row.claim, row.target)}; got != [3]bool{row.grows, row.shrinks, row.changes} {
			t.Errorf("%s: grows, shrinks, changes %v", name, got)
		}
		if lags := statefulset.NeedsChange(row.claim, row.target); lags != (row.grows || row.shrinks || row.changes) {
			t.Errorf("%s: lags %t", name, lags)
		}
	}
}

func TestGrowingClaimRequestsMoreThanItHas(t *testing.T) {
	for name, row := range map[string]struct {
		claim *corev1.PersistentVolumeClaim
		want  bool
	}{
		"it requests more than it has": {build.Claim("data-web-0", "128Mi", has("64Mi")), true},
		"it requests a byte more":      {build.Claim("data-web-0", "67108865", has("64Mi")), false},
		"it requests two bytes more":   {build.Claim("data-web-0", "67108866", has("64Mi")), true},
		"it has its request":           {build.Claim("data-web-0", "64Mi", has("64Mi")), false},
		"it has more":                  {build.Claim("data-web-0", "64Mi", has("1Gi")), false},
		"its capacity is unknown":      {build.Claim("data-web-0", "64Mi"), false},
		"it is not bound":              {build.Claim("data-web-0", "128Mi", build.BoundTo(""), has("64Mi")), false},
	} {
		if got := statefulset.Growing(row.claim); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// attempted gives a claim the status of an attempt of the storage to give it the size.
func attempted(size string, status corev1.ClaimResourceStatus) build.Option {
	return build.Edit(func(c *corev1.PersistentVolumeClaim) {
		if size != "" {
			c.Status.AllocatedResources = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
		}
		c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: status}
	})
}

func TestInfeasible(t *testing.T) {
	for name, row := range map[string]struct {
		option build.Option
		want   bool
	}{
		"it was not attempted":   {has("64Mi"), false},
		"the storage cannot":     {attempted("128Mi", corev1.PersistentVolumeClaimControllerResizeInfeasible), true},
		"the node cannot":        {attempted("128Mi", corev1.PersistentVolumeClaimNodeResizeInfeasible), true},
		"the status has no size": {attempted("", corev1.PersistentVolumeClaimControllerResizeInfeasible), true},
		"it could not, for less": {attempted("100Mi", corev1.PersistentVolumeClaimControllerResizeInfeasible), false},
		"the storage is working": {attempted("128Mi", corev1.PersistentVolumeClaimControllerResizeInProgress), false},
		"the node is working":    {attempted("128Mi", corev1.PersistentVolumeClaimNodeResizeInProgress), false},
		"the node is next":       {attempted("128Mi", corev1.PersistentVolumeClaimNodeResizePending), false},
		"an unknown status":      {attempted("128Mi", "ControllerResizeThoughtAbout"), false},
	} {
		if got := statefulset.Infeasible(build.Claim("data-web-0", "128Mi", row.option), resource.MustParse("128Mi")); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestGrowthOfStorage: the storage is growing the volume to the requested size, or has refused that, or neither.
func TestGrowthOfStorage(t *testing.T) {
	const inProgress, cannot = corev1.PersistentVolumeClaimControllerResizeInProgress, corev1.PersistentVolumeClaimControllerResizeInfeasible
	const onNode, nodeCannot = corev1.PersistentVolumeClaimNodeResizePending, corev1.PersistentVolumeClaimNodeResizeInfeasible
	mount := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimFileSystemResizePending,
			Status: corev1.ConditionTrue}}
	})
	asks := func(size string, options ...build.Option) *corev1.PersistentVolumeClaim {
		return build.Claim("data-web-0", size, append([]build.Option{has("64Mi")}, options...)...)
	}
	for name, row := range map[string]struct {
		claim          *corev1.PersistentVolumeClaim
		grows, refused bool
	}{
		"it works on the size":                      {asks("128Mi", attempted("128Mi", inProgress)), true, false},
		"it has not begun":                          {asks("128Mi"), true, false},
		"it works on an earlier size":               {asks("256Mi", attempted("128Mi", inProgress)), true, false},
		"it has refused an earlier size":            {asks("256Mi", attempted("128Mi", cannot)), true, false},
		"it has refused the size":                   {asks("128Mi", attempted("128Mi", cannot)), false, true},
		"the node has refused the size":             {asks("128Mi", attempted("128Mi", nodeCannot)), false, true},
		"the volume has the size, its files do not": {asks("128Mi", attempted("128Mi", onNode), mount), false, false},
		"the file system cannot have the size":      {asks("128Mi", attempted("128Mi", nodeCannot), mount), false, false},
		"it refused more, and the request is lower": {asks("67108865", attempted("128Mi", cannot)), false, false},
		"it has refused a byte more":                {asks("67108865", attempted("67108865", cannot)), false, false},
		"the volume has the size":                   {asks("64Mi"), false, false},
		"the claim is not bound":                    {asks("128Mi", build.BoundTo("")), false, false},
	} {
		if grows, refused := statefulset.StorageGrows(row.claim), statefulset.GrowthRefused(row.claim); grows != row.grows ||
			refused != row.refused {
			t.Errorf("%s: grows %t, refused %t", name, grows, refused)
		}
	}
}

func TestFileSystemPending(t *testing.T) {
	since := metav1.NewTime(build.Now.Add(-time.Minute))
	pending := corev1.PersistentVolumeClaimCondition{Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue,
		LastTransitionTime: since}
	over, other := pending, pending
	over.Status, other.Type = corev1.ConditionFalse, corev1.PersistentVolumeClaimResizing
	for name, row := range map[string]struct {
		conditions []corev1.PersistentVolumeClaimCondition
		want       *metav1.Time
	}{
		"no condition":                          {nil, nil},
		"it is pending":                         {[]corev1.PersistentVolumeClaimCondition{pending}, &since},
		"it is pending, among other conditions": {[]corev1.PersistentVolumeClaimCondition{other, pending}, &since},
		"it was pending":                        {[]corev1.PersistentVolumeClaimCondition{over}, nil},
		"the volume grows":                      {[]corev1.PersistentVolumeClaimCondition{other}, nil},
	} {
		claim := build.Claim("data-web-0", "128Mi", build.Edit(func(c *corev1.PersistentVolumeClaim) { c.Status.Conditions = row.conditions }))
		got := statefulset.FileSystemPending(claim, statefulset.Requested(claim))
		if (got == nil) != (row.want == nil) || got != nil && !got.Equal(row.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestSmallest: the API server rejects a request that is not above the volume's capacity.
func TestSmallest(t *testing.T) {
	for name, row := range map[string]struct{ has, wants, smallest string }{
		"its former request is its capacity":   {"64Mi", "64Mi", "67108865"},
		"it has more than it requested":        {"1Gi", "64Mi", "1073741825"},
		"it requested more than it has":        {"64Mi", "100Mi", "100Mi"},
		"it requested a byte more than it has": {"64Mi", "67108865", "67108865"},
		"a size in powers of ten":              {"1G", "1G", "1000000001"},
		"its capacity is unknown":              {"0", "64Mi", "64Mi"},
	} {
		claim := build.Claim("data-web-0", "128Mi", has(row.has))
		smallest := statefulset.Smallest(claim, resource.MustParse(row.wants))
		want := resource.MustParse(row.smallest)
		if smallest.Cmp(want) != 0 {
			t.Errorf("%s: %s, want %s", name, &smallest, row.smallest)
		}
		if again, err := resource.ParseQuantity(smallest.String()); err != nil || again.Cmp(want) != 0 {
			t.Errorf("%s: written as %s", name, smallest.String())
		}
		if now := claim.Status.Capacity[corev1.ResourceStorage]; now.String() != row.has {
			t.Errorf("%s: the claim was changed to %s", name, &now)
		}
	}
}
