package kube

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/sts"
	"drydock.dev/test/kit/build"
)

type list = []metav1.Object

// serve makes a client of a server that has the lists.
func serve(t *testing.T, some build.Lists) *Client {
	t.Helper()
	all := build.Plurals()
	maps.Copy(all, some)
	return NewClient(all.Serve(t))
}

// names renders what was observed, kind by kind.
func names(o *sts.Observed) string {
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
	return strings.Join(all, ", ")
}

func TestObserve(t *testing.T) {
	claim, other := build.Claim("data-web-0", "64Mi"), build.Claim("data-api-0", "64Mi")
	target := build.Target("drydock-x", "data-web-0", "128Mi", 1)
	elsewhere := build.With(build.Claim("data-web-0", "64Mi"), build.Edit(func(c *corev1.PersistentVolumeClaim) { c.Namespace = "payroll" }))
	copying := build.Operation(api.Copying, build.Parts(api.ClaimVerified, "data-web-0"))
	hostile := build.Operation(api.Copying, build.Parts(api.ClaimVerified, "data-web-0"), func(s *api.Resize) { s.Claims[0].NewVolume = "pv-payroll" })
	set := build.Set("web", build.Template("data", "64Mi", "fixed"))
	with := func(status *api.Resize) metav1.Object {
		return build.Set("web", build.Template("data", "64Mi", "fixed"), build.Status(status))
	}
	foreign := build.Edit(func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.Namespace = "payroll" })
	job := build.Job("data-web-0", 1)
	digits := strings.TrimPrefix(job.Name, "drydock-")
	for name, row := range map[string]struct {
		in   build.Lists
		want string
	}{
		"nothing": {nil, ""},
		"the set's claims, their volumes, and the pods that name them": {build.Lists{
			"statefulsets": list{set}, "persistentvolumeclaims": list{claim, other, elsewhere},
			"persistentvolumes": list{build.VolumeOf(claim), build.VolumeOf(other)},
			"pods":              list{build.PodOf("web", 0, "data"), build.PodOf("api", 0, "data"), build.Pod("debug", []string{"data-web-0"})},
		}, "claim data-web-0, volume pv-data-web-0, pod web-0, pod debug"},
		"what is linked to the operation": {build.Lists{
			"statefulsets": list{set}, "persistentvolumeclaims": list{claim, target}, "jobs": list{job}, "controllerrevisions": list{build.Journal(copying)},
			"persistentvolumes": list{build.VolumeOf(claim), build.VolumeOf(target), build.Volume("pv-x", claim, build.Held(api.RoleTarget, "data-web-0"))},
			"pods":              list{build.Mover(job)},
		}, "claim data-web-0, claim drydock-x, volume pv-data-web-0, volume pv-new-data-web-0, volume pv-x, pod " + job.Name + "-x, job " + digits + ", journal"},
		"the set is gone: claims that the journal names, also one that lost its link": {build.Lists{
			"persistentvolumeclaims": list{claim, other}, "controllerrevisions": list{build.Journal(copying)},
			"persistentvolumes": list{build.VolumeOf(claim)},
		}, "claim data-web-0, volume pv-data-web-0, journal"},
		"a volume that only the status names": {build.Lists{
			"statefulsets": list{with(copying)}, "persistentvolumes": list{build.Volume("pv-new-data-web-0", target)},
		}, "volume pv-new-data-web-0"},
		"a volume of another namespace is nobody's business, whatever the status names": {build.Lists{
			"statefulsets": list{with(hostile)}, "persistentvolumes": list{build.Volume("pv-payroll", claim, foreign)},
		}, ""},
		"nor is one with a forged link": {build.Lists{
			"statefulsets": list{set}, "persistentvolumes": list{build.Volume("pv-payroll", claim, build.Held(api.RoleTarget, "data-web-0"), foreign)},
		}, ""},
		"attachments matter until the set was seen to be quiet": {build.Lists{
			"statefulsets": list{with(copying)}, "volumeattachments": list{build.Attachment("pv-data-web-0")},
		}, "attachment csi-pv-data-web-0"},
		"attachments do not matter any more": {build.Lists{
			"statefulsets": list{with(build.Operation(api.Copying, build.Quiet(5)))}, "volumeattachments": list{build.Attachment("pv-data-web-0")},
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := serve(t, row.in).Observe(t.Context(), events.Ref{Namespace: build.Namespace, Name: "web"})
			if err != nil {
				t.Fatal(err)
			}
			if got := names(o); got != row.want {
				t.Errorf("observes %s\nwant     %s", got, row.want)
			}
		})
	}
}

// TestObserveIsWholeOrAnError: a list that fails must not look like an empty one.
func TestObserveIsWholeOrAnError(t *testing.T) {
	set := build.Set("web", build.Template("data", "64Mi", "fixed"), build.Status(build.Operation(api.Copying)))
	for _, plural := range []string{"statefulsets", "persistentvolumeclaims", "persistentvolumes", "controllerrevisions", "jobs", "pods", "volumeattachments"} {
		lists := build.Plurals()
		lists["statefulsets"], lists["persistentvolumeclaims"] = list{set}, list{build.Claim("data-web-0", "64Mi")}
		delete(lists, plural)
		if _, err := NewClient(lists.Serve(t)).Observe(t.Context(), events.Ref{Namespace: build.Namespace, Name: "web"}); err == nil {
			t.Errorf("%s cannot be read, and that is no error", plural)
		}
	}
}

func TestPages(t *testing.T) {
	var claims list
	for i := range 2*pageSize + 1 {
		claims = append(claims, build.Claim(fmt.Sprintf("data-web-%d", i), "64Mi"))
	}
	seen := map[string]bool{}
	pages := 0
	err := Pages(t.Context(), serve(t, build.Lists{"persistentvolumeclaims": claims}), plan.Claims, build.Namespace, "", &corev1.PersistentVolumeClaimList{},
		func(l *corev1.PersistentVolumeClaimList) {
			pages++
			for _, c := range l.Items {
				seen[c.Name] = true
			}
		})
	if err != nil || len(seen) != len(claims) || pages != 3 {
		t.Errorf("%d claims on %d pages (%v), want %d on 3", len(seen), pages, err, len(claims))
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
		"the namespace allows them":  {named(build.Label(api.RootMoverLabel, "allow")), true},
		"any other value is no":      {named(build.Label(api.RootMoverLabel, "true")), false},
		"nothing is said":            {named(), false},
		"the namespace is not there": {nil, false},
	} {
		if got, err := serve(t, row.in).RootMovers(t.Context(), build.Namespace); got != row.want || err != nil {
			t.Errorf("%s: %t, %v", name, got, err)
		}
	}
}
