package resize

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// retainedVolume returns an old volume of the claim whose retention ends after the given hours.
func retainedVolume(name, claim, size string, hours int) *corev1.PersistentVolume {
	c := build.Claim(claim, size)
	until := build.Now.Add(time.Duration(hours) * time.Hour).UTC().Format(time.RFC3339)
	return build.Volume(name, c, build.Retained(api.RoleOldVolume, claim), build.Released(),
		build.Annotation(api.RetainedUntilAnnotation, until))
}

func (in Input) withRetainedLimit(retained int) Input {
	in.Settings.RetainedVolumes = retained
	return in
}

// preflight is an input, and the reasons of the problems that are expected.
type preflight struct {
	in   Input
	want string
}

// expectProblems runs the preflight of each row. The messages of the problems are in the golden file.
func expectProblems(t *testing.T, rows map[string]preflight) {
	t.Helper()
	file := golden.Open(t)
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		row := rows[name]
		t.Run(name, func(t *testing.T) {
			found := Preflight(row.in, Compare(row.in))
			if got := reasons(found); got != row.want {
				t.Errorf("the preflight finds %q, want %q: %v", got, row.want, found)
			}
			file.Entry(t, name, describe(found))
		})
	}
}

// describe renders the problems, one a line.
func describe(problems []Problem) string {
	if len(problems) == 0 {
		return "no problem"
	}
	var lines []string
	for _, p := range problems {
		lines = append(lines, string(p.Reason)+": "+p.Message)
	}
	return strings.Join(lines, "\n")
}

func TestOldVolumesOfClaimAreLimited(t *testing.T) {
	kept := objects{retainedVolume("pv-b", "data-web-0", "64Mi", 7), retainedVolume("pv-a", "data-web-0", "64Mi", 3)}
	expectProblems(t, map[string]preflight{
		"the limit is reached":            {input(setAsking("data=128Mi@fast"), twoClaims(), kept).withRetainedLimit(2), "TooManyRetained"},
		"the limit is not reached":        {input(setAsking("data=128Mi@fast"), twoClaims(), kept).withRetainedLimit(3), ""},
		"there is no limit":               {input(setAsking("data=128Mi@fast"), twoClaims(), kept).withRetainedLimit(0), ""},
		"expansion leaves no old volumes": {input(setAsking("data=128Mi"), twoClaims(), kept).withRetainedLimit(2), ""},
		"old volumes of another claim do not count": {input(setAsking("data=128Mi@fast"), expandable("data-web-1", "64Mi"),
			kept).withRetainedLimit(2), ""},
		"no old volume is retained": {input(setAsking("data=128Mi@fast"), twoClaims()).withRetainedLimit(1), ""},
	})
}

func TestOldVolumesCountInStorageQuota(t *testing.T) {
	const storage = "requests.storage"
	other := retainedVolume("pv-other", "data-db-0", "1Gi", 3)
	with := func(in Input) Input {
		in.OthersRetained = append(in.OthersRetained, other)
		return in
	}
	own := objects{retainedVolume("pv-a", "data-web-0", "64Mi", 3)}
	expectProblems(t, map[string]preflight{
		"the set's old volumes: 128 used, 256 more, 64 retained": {quota(input(setAsking("data=128Mi@fast"), twoClaims(), own), storage,
			"447Mi", "128Mi"),
			"QuotaExceeded"},
		"there is room for the old volumes": {quota(input(setAsking("data=128Mi@fast"), twoClaims(), own), storage, "448Mi", "128Mi"), ""},
		"old volumes of another set": {with(quota(input(setAsking("data=128Mi@fast"), twoClaims()), storage, "1Gi", "128Mi")),
			"QuotaExceeded"},
		"old volumes of another class, in a quota for one class": {quota(input(setAsking("data=128Mi@fast"), twoClaims(), own),
			"fast.storageclass.storage.k8s.io/requests.storage", "256Mi", "0"), ""},
		"old volumes of the quota's class": {quota(input(setAsking("data=128Mi@fixed"), twoClaims(), own),
			"fixed.storageclass.storage.k8s.io/requests.storage", "256Mi", "0"), "QuotaExceeded"},
		"expansion does not count old volumes": {quota(input(setAsking("data=128Mi"), twoClaims(), own), storage, "256Mi", "128Mi"), ""},
		"a quota with a scope may not count the claim": {scoped(quota(input(setAsking("data=128Mi@fast"), twoClaims()), storage, "1Mi", "0")),
			""},
	})
}

func scoped(in Input) Input {
	in.Cluster.Quotas[0].Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}
	return in
}

func TestMoversCountInPodQuota(t *testing.T) {
	copies := func(options ...build.Option) Input {
		in := input(setAsking("data=128Mi@fast", options...), twoClaims())
		in.Settings = build.Settings() // two at once
		return in
	}
	one := build.Annotation(api.ResizeParallelismAnnotation, "1")
	rolling := build.Annotation(api.StrategyAnnotation, string(api.StrategyRolling))
	limited := build.Annotation(api.MoverAnnotation, "resources: {limits: {cpu: 300m}}")
	expectProblems(t, map[string]preflight{
		"two movers, room for one mover":                                 {quota(copies(), "pods", "3", "2"), "QuotaExceeded"},
		"two movers, room for both movers":                               {quota(copies(), "pods", "4", "2"), ""},
		"parallelism 1, but both movers wait for the stop":               {quota(copies(one), "pods", "3", "2"), "QuotaExceeded"},
		"parallelism 1, and the set is at zero":                          {quota(copies(one, build.Replicas(0)), "pods", "3", "2"), ""},
		"one member after the other":                                     {quota(copies(rolling), "pods", "3", "2"), ""},
		"one member after the other: both Jobs count, because they stay": {quota(copies(rolling), "count/jobs.batch", "1", "0"), "QuotaExceeded"},
		"requests of the movers":                                         {quota(copies(), "requests.cpu", "199m", "0"), "QuotaExceeded"},
		"requests under the older name":                                  {quota(copies(), "memory", "127Mi", "0"), "QuotaExceeded"},
		"limits of the movers":                                           {quota(copies(), "limits.memory", "2Gi", "1"), "QuotaExceeded"},
		"a limit keeps the mover's own request":                          {quota(copies(limited), "requests.cpu", "199m", "0"), "QuotaExceeded"},
		"a quota for a limit that movers lack is left to the API server": {quota(copies(), "limits.cpu", "1", "1"), ""},
		"expansion needs no movers": {quota(input(setAsking("data=128Mi"), twoClaims()), "pods", "2", "2"),
			""},
		"an exhausted quota for another resource": {quota(copies(), "services", "1", "1"), ""},
		"a pod quota with a scope is skipped":     {scoped(quota(copies(), "pods", "1", "1")), ""},
	})
}

func TestLargeAnnotationsAreRefused(t *testing.T) {
	text := func(bytes int) build.Option { return build.Annotation("example.com/notes", strings.Repeat("x", bytes)) }
	large := func(claimBytes, volumeBytes int) Input {
		c := build.Claim("data-web-0", "64Mi", build.OfClass(expandableClass), text(claimBytes))
		return input(setAsking("data=128Mi@fast"), objects{c, build.VolumeOf(c, text(volumeBytes))})
	}
	expectProblems(t, map[string]preflight{
		"a claim of 250 KiB does not fit on its volume":                      {large(250<<10, 0), "RecordTooLarge"},
		"together with the volume's own annotations, the claim does not fit": {large(150<<10, 100<<10), "RecordTooLarge"},
		"the claim alone fits": {large(150<<10, 0), ""},
		"a set of 250 KiB has no room for the record": {input(setAsking("data=128Mi@fast", text(250<<10)), twoClaims()),
			"TooManyClaims RecordTooLarge"},
		"the set's present record is replaced and does not count": {input(setAsking("data=128Mi@fast",
			build.Annotation(api.StatusAnnotation, strings.Repeat("x", 150<<10))), twoClaims()), ""},
		"a large claim can grow in place":          {input(setAsking("data=128Mi"), expandable("data-web-0", "64Mi", text(250<<10))), ""},
		"many claims need a large record":          {manyClaims(200, text(150<<10)), "RecordTooLarge"},
		"many claims fit beside small annotations": {manyClaims(200, text(10<<10)), ""},
	})
}

// manyClaims returns a set with the given number of claims, which all have to be copied.
func manyClaims(claims int, options ...build.Option) Input {
	var all objects
	for i := range claims {
		all = append(all, expandable(fmt.Sprintf("data-web-%d", i), "64Mi")...)
	}
	return input(setAsking("data=128Mi@fast", options...), all)
}

func TestUnfinishedAttributesChangeIsRefused(t *testing.T) {
	gold := build.Edit(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = ptr.To("gold") })
	infeasible := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{TargetVolumeAttributesClassName: "gold",
			Status: corev1.PersistentVolumeClaimModifyVolumeInfeasible}
	})
	has := build.Edit(func(v *corev1.PersistentVolume) { v.Spec.VolumeAttributesClassName = ptr.To("gold") })
	of := func(request string, volume build.Option, options ...build.Option) Input {
		c := build.Claim("data-web-0", "64Mi", append([]build.Option{build.OfClass(expandableClass),
			build.Edit(func(c *corev1.PersistentVolumeClaim) {
				c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("64Mi")}
			})}, options...)...)
		v := build.VolumeOf(c)
		if volume != nil {
			v = build.VolumeOf(c, volume)
		}
		return input(setAsking(request), objects{c, v})
	}
	expectProblems(t, map[string]preflight{
		"the change is infeasible":                     {of("data=128Mi@fast", nil, gold, infeasible), "ClaimBusy"},
		"the change is done":                           {of("data=128Mi@fast", has, gold), ""},
		"the change has not started":                   {of("data=128Mi@fast", nil, gold), "ClaimBusy"},
		"expansion does not mind an infeasible change": {of("data=128Mi", nil, gold, infeasible), ""},
		"a claim without an attributes class":          {of("data=128Mi@fast", nil), ""},
	})
}

// TestBandwidth: a tenant writes the annotation, and "1e-99999999" would take minutes to parse.
func TestBandwidth(t *testing.T) {
	for text, want := range map[string]int64{"50Mi": 50 << 20, "": 0, "fast": 0, "-1": 0, "1e-99999999": 0} {
		in := input(setAsking("data=128Mi@fast", build.Annotation(api.BandwidthAnnotation, text)))
		if got := bandwidth(in.Observed); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

const snapshotFinalizer = "snapshot.storage.kubernetes.io/pvc-as-source-protection"

func TestForeignFinalizerOnReplacedObjectIsRefused(t *testing.T) {
	const protection = "kubernetes.io/pvc-protection"
	snapshot := build.Finalizers(protection, snapshotFinalizer)
	other := build.Finalizers("example.com/keep")
	expectProblems(t, map[string]preflight{
		"a copied claim with a snapshot that is not ready": {input(setAsking("data=128Mi@fast"), expandable("data-web-0", "64Mi", snapshot)),
			"ForeignFinalizer"},
		"a copied claim that is being cloned": {input(setAsking("data=128Mi@fast"), expandable("data-web-0", "64Mi",
			build.Finalizers("provisioner.storage.kubernetes.io/cloning-protection"))), "ForeignFinalizer"},
		"a copied claim with an unknown finalizer": {input(setAsking("data=128Mi@fast"), expandable("data-web-0", "64Mi", other)),
			"ForeignFinalizer"},
		"a claim that grows in place": {input(setAsking("data=128Mi"), expandable("data-web-0", "64Mi", snapshot)), ""},
		"finalizers of claim protection and of Drydock": {
			input(setAsking("data=128Mi@fast"), expandable("data-web-0", "64Mi", build.Finalizers(protection, api.FreezeFinalizer))), ""},
		"the set is created again": {input(setAsking("data=128Mi", other), twoClaims()), "ForeignFinalizer"},
		"the set is not created again": {input(objects{build.Set("web", build.Template("data", "64Mi", expandableClass), build.Resize("auto"),
			other)},
			expandable("data-web-0", "32Mi")), ""},
		"the set has the finalizer of a cleanup": {input(setAsking("data=128Mi", build.Finalizers(api.CleanupFinalizer)), twoClaims()), ""},
	})
}

// TestClassWithoutProvisionerIsRefusedForCopies: the volumes of such a class may hold data. A claim can still grow in place.
func TestClassWithoutProvisionerIsRefusedForCopies(t *testing.T) {
	for name, row := range map[string]struct{ request, want string }{
		"copied to the class without provisioner": {"data=128Mi@local", "NotProvisioned"},
		"copied to another class":                 {"data=128Mi@fast", ""},
		"grows in place":                          {"data=128Mi", ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(setAsking(row.request), twoClaims())
			in.Cluster.Classes["local"] = &storagev1.StorageClass{Provisioner: noProvisioner}
			if got := reasons(Preflight(in, Compare(in))); got != row.want {
				t.Errorf("found %q, want %q", got, row.want)
			}
		})
	}
}

func inZone(zone string) build.Option {
	return build.Edit(func(v *corev1.PersistentVolume) {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}}}}}}
	})
}

func TestClassWithUnreachableVolumesIsRefused(t *testing.T) {
	c := build.Claim("data-web-0", "64Mi", build.OfClass(expandableClass))
	sources := objects{c, build.VolumeOf(c, inZone("a"))}
	selects := func(zone string) build.Option {
		return build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.NodeSelector = map[string]string{"zone": zone} })
	}
	offering := func(in Input, zones ...string) Input {
		in.Cluster.Classes["fast"] = &storagev1.StorageClass{AllowedTopologies: []corev1.TopologySelectorTerm{{
			MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: "zone", Values: zones}}}}}
		return in
	}
	expectProblems(t, map[string]preflight{
		"no node can mount both volumes":            {offering(input(setAsking("data=128Mi@fast"), sources), "b", "c"), "TopologyConflict"},
		"the class has volumes on those nodes, too": {offering(input(setAsking("data=128Mi@fast"), sources), "b", "a"), ""},
		"the class has no topology":                 {input(setAsking("data=128Mi@fast"), sources), ""},
		"the volume is reachable from anywhere":     {offering(input(setAsking("data=128Mi@fast"), twoClaims()), "b"), ""},
		"the claims only grow":                      {offering(input(setAsking("data=128Mi"), sources), "b"), ""},
		"no pod can use a new volume": {offering(input(setAsking("data=128Mi@fast", selects("a")), twoClaims()), "b"),
			"TopologyConflict"},
	})
}

func TestPodsWithNodeAccessAreRefused(t *testing.T) {
	hostPath := corev1.Volume{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}
	privileged := corev1.Container{Name: "p", SecurityContext: &corev1.SecurityContext{Privileged: ptr.To(true)}}
	with := func(capability corev1.Capability) func(*corev1.PodSpec) {
		return func(p *corev1.PodSpec) {
			p.InitContainers = append(p.InitContainers, corev1.Container{SecurityContext: &corev1.SecurityContext{
				Capabilities: &corev1.Capabilities{Add: []corev1.Capability{capability}}}})
		}
	}
	file := golden.Open(t)
	rows := map[string]struct {
		change  func(*corev1.PodSpec)
		allowed bool
		want    string // a word of the refusal; empty if there is none
	}{
		"ordinary pods":               {func(*corev1.PodSpec) {}, false, ""},
		"hostNetwork":                 {func(p *corev1.PodSpec) { p.HostNetwork = true }, false, "hostNetwork"},
		"hostPID":                     {func(p *corev1.PodSpec) { p.HostPID = true }, false, "hostPID"},
		"hostIPC":                     {func(p *corev1.PodSpec) { p.HostIPC = true }, false, "hostIPC"},
		"hostPath":                    {func(p *corev1.PodSpec) { p.Volumes = append(p.Volumes, hostPath) }, false, "hostPath"},
		"a privileged container":      {func(p *corev1.PodSpec) { p.Containers = append(p.Containers, privileged) }, false, "privileged"},
		"a privileged init container": {func(p *corev1.PodSpec) { p.InitContainers = append(p.InitContainers, privileged) }, false, "privileged"},
		"a flexVolume": {func(p *corev1.PodSpec) {
			p.Volumes = append(p.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{}}})
		}, false, "flexVolume"},
		"a capability equivalent to privileged":              {with("SYS_ADMIN"), false, "SYS_ADMIN"},
		"a capability in the notation of container runtimes": {with("cap_sys_module"), false, "cap_sys_module"},
		"a harmless capability":                              {with("IPC_LOCK"), false, ""},
		"a capability in a user namespace of the pod": {func(p *corev1.PodSpec) { with("SYS_ADMIN")(p); p.HostUsers = ptr.To(false) },
			false, ""},
		"hostPath in a namespace that allows node access": {func(p *corev1.PodSpec) { p.Volumes = append(p.Volumes, hostPath) }, true, ""},
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		row := rows[name]
		t.Run(name, func(t *testing.T) {
			set := build.Edit(func(s *appsv1.StatefulSet) { row.change(&s.Spec.Template.Spec) })
			in := input(setAsking("data=128Mi", set), twoClaims())
			in.Cluster.NodeAccess = row.allowed
			changes, _, _ := NeededChanges(in)
			found := Preflight(in, changes)
			i := slices.IndexFunc(found, func(p Problem) bool { return p.Reason == api.NodeAccessDenied })
			switch {
			case row.want == "" && i >= 0:
				t.Errorf("refused: %v", found[i])
			case row.want != "" && (i < 0 || !strings.Contains(found[i].Message, row.want) ||
				!strings.Contains(found[i].Message, "kubectl label namespace")):
				t.Errorf("got %v, want a refusal for %s", found, row.want)
			}
			file.Entry(t, name, describe(found))
		})
	}
}

// TestUnsupportedRuntimeIsRefusedForCopies: pods on Windows or in guests are refused if a mover would have to copy beside them.
func TestUnsupportedRuntimeIsRefusedForCopies(t *testing.T) {
	pods := func(change func(*corev1.PodSpec)) build.Option {
		return build.Edit(func(s *appsv1.StatefulSet) { change(&s.Spec.Template.Spec) })
	}
	windows := pods(func(p *corev1.PodSpec) { p.OS = &corev1.PodOS{Name: corev1.Windows} })
	selector := pods(func(p *corev1.PodSpec) { p.NodeSelector = map[string]string{corev1.LabelOSStable: "windows"} })
	guests := pods(func(p *corev1.PodSpec) { p.RuntimeClassName = ptr.To("kata-qemu") })
	file := golden.Open(t)
	rows := map[string]struct {
		options []build.Option
		refused bool
	}{
		"Linux":                          {[]build.Option{pods(func(p *corev1.PodSpec) { p.OS = &corev1.PodOS{Name: corev1.Linux} })}, false},
		"Windows":                        {[]build.Option{windows}, true},
		"a node selector for Windows":    {[]build.Option{selector}, true},
		"guests":                         {[]build.Option{guests}, true},
		"guests in a set scaled to zero": {[]build.Option{guests, build.Replicas(0)}, false},
		"another runtime class":          {[]build.Option{pods(func(p *corev1.PodSpec) { p.RuntimeClassName = ptr.To("nvidia") })}, false},
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		row := rows[name]
		t.Run(name, func(t *testing.T) {
			in := input(setAsking("data=128Mi@fast", row.options...), twoClaims())
			found := Preflight(in, Compare(in))
			refused := slices.ContainsFunc(found, func(p Problem) bool { return p.Reason == api.RuntimeUnsupported })
			if refused != row.refused {
				t.Errorf("refused %v, want %v: %v", refused, row.refused, found)
			}
			file.Entry(t, name, describe(found))
		})
	}
	in := input(setAsking("data=128Mi", windows), twoClaims())
	if found := Preflight(in, Compare(in)); len(found) > 0 {
		t.Errorf("claims that grow in place: %v", found)
	}
}
