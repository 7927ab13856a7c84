//go:build cluster

package api

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// fullWorld returns a world with a set of two members, claims of 64Mi that are nearly empty, and the rule unless it is
// empty.
func fullWorld(t *testing.T, rule string, change ...func(*appsv1.StatefulSet)) (*kit.World, *kit.Drive, *kit.Prometheus) {
	t.Helper()
	set := growingSet(2, "data")
	for _, c := range change {
		c(set)
	}
	w, _ := growingWorld(t, set)
	usage := w.StartPrometheus()
	for _, name := range []string{"data-web-0", "data-web-1"} {
		usage.SetUsed(name, "1Mi")
	}
	if rule != "" {
		w.Annotate("web", map[string]string{api.GrowAnnotation: rule})
	}
	return w, w.Drive(nil), usage
}

const growRule = "data=below:50%,by:32Mi,max:128Mi"

// untilSize ticks until the claims and the template have the size.
func untilSize(t *testing.T, w *kit.World, drive *kit.Drive, size string, claims ...string) {
	t.Helper()
	w.Eventually("the claims and the template have "+size, func() string {
		ticks(t, drive, 1)
		for _, name := range claims {
			if has := capacity(w.Claim(name)); has != size {
				return name + " has " + has
			}
		}
		if set := w.Set("web"); set == nil || templateSize(set) != size || w.Status("web").Phase != api.Succeeded {
			return "the template has not followed"
		}
		return ""
	})
}

// staysAt lets three ticks pass, and expects no change.
func staysAt(t *testing.T, w *kit.World, drive *kit.Drive, size string, claims ...string) {
	t.Helper()
	before := w.Set("web").ResourceVersion
	ticks(t, drive, 3)
	expectSize(t, w, size, claims...)
	if now := w.Set("web"); now.ResourceVersion != before {
		t.Errorf("the set was written to: %v", now.Annotations)
	}
}

// TestGrowUpToLimit: with enough free space nothing grows. A full volume makes all claims and the template grow,
// without a restart. At the limit nothing grows, and one Event says so. A new member gets the new size.
// Invariants: I7.
func TestGrowUpToLimit(t *testing.T) {
	w, drive, usage := fullWorld(t, growRule)
	pods := podUIDs(t, w)
	usage.SetUsed("data-web-1", "30Mi")
	staysAt(t, w, drive, "64Mi", "data-web-0", "data-web-1")
	asked := usage.Queries()
	usage.SetUsed("data-web-1", "40Mi")
	ticks(t, drive, 1)
	if n := usage.Queries() - asked; n != 1 {
		t.Errorf("Prometheus was asked %d times in a tick", n)
	}
	untilSize(t, w, drive, "96Mi", "data-web-0", "data-web-1")
	if floor := w.Set("web").Annotations[api.GrowToAnnotation]; floor != "data=96Mi" {
		t.Errorf("the floor is %s", floor)
	}
	usage.SetUsed("data-web-0", "90Mi")
	untilSize(t, w, drive, "128Mi", "data-web-0", "data-web-1")
	usage.SetUsed("data-web-0", "120Mi")
	ticks(t, drive, 1)
	expectEvents(t, w, "web", "Normal VolumesGrow", "Warning GrowthLimit")
	staysAt(t, w, drive, "128Mi", "data-web-0", "data-web-1")
	if now := podUIDs(t, w); now != pods {
		t.Errorf("pods %s, were %s", now, pods)
	}
	w.Scale("web", 3)
	untilReady(w, drive, "web", 3)
	expectSize(t, w, "128Mi", "data-web-2")
	expectWhole(t, w, "web", 3, "data-web-0", "data-web-1", "data-web-2")
}

// TestGrowByInodes: a file system without free inodes counts as full.
func TestGrowByInodes(t *testing.T) {
	w, drive, usage := fullWorld(t, "data=inodes:10%,by:32Mi,max:128Mi")
	usage.SetInodes("data-web-0", 1000, 100)
	staysAt(t, w, drive, "64Mi", "data-web-0", "data-web-1")
	usage.SetInodes("data-web-0", 1000, 99)
	untilSize(t, w, drive, "96Mi", "data-web-0", "data-web-1")
}

// TestGrowByNamespaceDefault: the ConfigMap of the namespace has the rules for sets without rules.
func TestGrowByNamespaceDefault(t *testing.T) {
	w, drive, usage := fullWorld(t, "")
	usage.SetUsed("data-web-1", "60Mi")
	staysAt(t, w, drive, "64Mi", "data-web-0", "data-web-1")
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: api.GrowConfigMap},
		Data: map[string]string{api.GrowKey: "*=by:32Mi,max:128Mi"}}
	if _, err := w.Kube.CoreV1().ConfigMaps(w.Namespace).Create(context.Background(), config, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	untilSize(t, w, drive, "96Mi", "data-web-0", "data-web-1")
	w.Annotate("web", map[string]string{api.GrowAnnotation: api.GrowOff})
	usage.SetUsed("data-web-1", "95Mi")
	ticks(t, drive, 1)
	if floor, raised := w.Set("web").Annotations[api.GrowToAnnotation]; raised {
		t.Errorf("growth is off, and the floor is still %s", floor)
	}
	staysAt(t, w, drive, "96Mi", "data-web-0", "data-web-1")
}

// TestGrowthKeepsRequestOfUser: a manifest requests an exact size. The volumes grow beyond it, and the request stays as it is. It shrinks
// nothing, also when growth is turned off. A smaller size does.
func TestGrowthKeepsRequestOfUser(t *testing.T) {
	w, drive, usage := fullWorld(t, growRule)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=64Mi"})
	usage.SetUsed("data-web-1", "40Mi")
	untilSize(t, w, drive, "96Mi", "data-web-0", "data-web-1")
	staysAt(t, w, drive, "96Mi", "data-web-0", "data-web-1")
	if request := w.Set("web").Annotations[api.ResizeAnnotation]; request != "data=64Mi" {
		t.Errorf("the request is %s", request)
	}
	w.Annotate("web", map[string]string{api.GrowAnnotation: api.GrowOff})
	ticks(t, drive, 1)
	staysAt(t, w, drive, "96Mi", "data-web-0", "data-web-1")
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=72Mi"})
	untilSize(t, w, drive, "72Mi", "data-web-0", "data-web-1")
}

// TestGrowMakesClaimsEqual: the full claim is smaller than another claim of its template. A template without a rule
// does not grow, although its claims are as full.
func TestGrowMakesClaimsEqual(t *testing.T) {
	w, drive, usage := fullWorld(t, growRule, func(s *appsv1.StatefulSet) {
		logs := s.Spec.VolumeClaimTemplates[0].DeepCopy()
		logs.Name = "logs"
		s.Spec.VolumeClaimTemplates = append(s.Spec.VolumeClaimTemplates, *logs)
	})
	usage.SetUsed("logs-web-1", "63Mi")
	w.PatchClaim("data-web-0", `{"spec":{"resources":{"requests":{"storage":"112Mi"}}}}`)
	w.Eventually("the claim has grown", func() string {
		if has := capacity(w.Claim("data-web-0")); has != "112Mi" {
			return has
		}
		return ""
	})
	usage.SetUsed("data-web-1", "60Mi")
	untilSize(t, w, drive, "112Mi", "data-web-0", "data-web-1")
	expectSize(t, w, "64Mi", "logs-web-0", "logs-web-1")
}

// TestGrowStopsNoMember: a claim that cannot grow in place is not copied. A pod is not restarted for its file system.
// Events report both.
func TestGrowStopsNoMember(t *testing.T) {
	t.Run("a class without expansion", func(t *testing.T) {
		w, drive, usage := fullWorld(t, growRule, func(s *appsv1.StatefulSet) {
			class := kit.Class
			s.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = &class
		})
		usage.SetUsed("data-web-1", "60Mi")
		ticks(t, drive, 1)
		staysAt(t, w, drive, "64Mi", "data-web-0", "data-web-1")
		expectEvents(t, w, "web", "Warning GrowthBlocked")
	})
	t.Run("a file system that grows when it is mounted", func(t *testing.T) {
		w, _, usage := fullWorld(t, growRule)
		w.Node.Set(func(n *kit.Node) { n.Growth = kit.GrowsWhenMounted })
		w.Settings.ExpandPatience, w.Settings.ExpandTimeout = 1100*time.Millisecond, 8*time.Second
		pods, drive := podUIDs(t, w), w.Drive(nil)
		<-time.After(1100 * time.Millisecond) // timestamps of pods and conditions have whole seconds
		usage.SetUsed("data-web-1", "60Mi")
		w.Eventually("the growth is given up", func() string {
			ticks(t, drive, 1)
			if record := w.Status("web"); record == nil || record.Phase != api.Failed {
				return "it is not"
			}
			return ""
		})
		if now := podUIDs(t, w); now != pods {
			t.Errorf("pods %s, were %s", now, pods)
		}
		expectEvents(t, w, "web", "Warning FileSystemWaits", "Warning DeadlineExceeded")
		staysAt(t, w, drive, "96Mi", "data-web-0", "data-web-1") // they still ask for it
	})
}

// TestGrowPausesAfterRefusalByStorage: the next growth has to wait for the end of the pause.
func TestGrowPausesAfterRefusalByStorage(t *testing.T) {
	w, drive, usage := fullWorld(t, growRule)
	w.Node.Set(func(n *kit.Node) { n.Growth = kit.GrowsNever })
	usage.SetUsed("data-web-1", "60Mi")
	expectPhase(t, w.Finish(drive, "web"), api.Failed)
	ticks(t, drive, 1)
	before := w.Set("web").ResourceVersion
	ticks(t, drive, 3)
	if w.Set("web").ResourceVersion != before || w.Status("web").Attempt != 1 {
		t.Errorf("growth was tried again: %v", w.Set("web").Annotations)
	}
	expectEvents(t, w, "web", "Warning ExpandInfeasible")
}

// TestOldManifestAfterGrowth: a manifest with the old size is applied again, by either kind of kubectl apply. It
// succeeds, does not revert the growth, and its other fields are stored.
func TestOldManifestAfterGrowth(t *testing.T) {
	t.Parallel()
	for name, apply := range map[string][]string{"client-side": clientSide, "server-side": serverSide} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := applyWorld(t, apply, kit.GrowingClass)
			usage := a.StartPrometheus()
			usage.SetUsed("data-web-0", "40Mi")
			a.drive = a.Drive(nil)
			manifest := func(size string) *appsv1.StatefulSet {
				set := deployed(kit.GrowingClass, size)
				if set.Annotations == nil {
					set.Annotations = map[string]string{}
				}
				set.Annotations[api.GrowAnnotation] = growRule
				return set
			}
			a.applySet(manifest("64Mi"))
			untilSize(t, a.World, a.drive, "96Mi", "data-web-0")
			a.applySet(manifest("64Mi")) // kubectl becomes the manager of the templates again
			a.expectNoWriteByApply(manifest("64Mi"))
			if said, err := kubectl(t, a.World, append(append([]string{"diff"}, apply[1:]...), write(t, manifest("64Mi")))...); err != nil {
				t.Errorf("kubectl diff: %v: %s", err, said)
			}
			labelled := manifest("64Mi")
			labelled.Labels["team"] = "storage"
			a.applySet(labelled)
			if set := a.Set("web"); set.Labels["team"] != "storage" || templateSize(set) != "96Mi" ||
				set.Annotations[api.GrowToAnnotation] != "data=96Mi" {
				t.Errorf("labels %v, template %s, annotations %v", set.Labels, templateSize(set), set.Annotations)
			}
			ticks(t, a.drive, 2)
			expectSize(t, a.World, "96Mi", "data-web-0")
			expectWarning(t, a.applySet(manifest("160Mi")), "data=160Mi+")
			expectPhase(t, a.Finish(a.drive, "web"), api.Succeeded)
			expectSize(t, a.World, "160Mi", "data-web-0")
		})
	}
}

// TestGrowUpToLimitWithExponent: the fence of the account accepts the floor for every notation of the limit.
func TestGrowUpToLimitWithExponent(t *testing.T) {
	w, drive, usage := fullWorld(t, "data=below:50%,by:64Mi,max:1e8")
	usage.SetUsed("data-web-1", "40Mi")
	untilSize(t, w, drive, "100M", "data-web-0", "data-web-1")
}
