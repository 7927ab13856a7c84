package statefulset_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit/build"
)

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
