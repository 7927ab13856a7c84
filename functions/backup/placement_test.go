package backup

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// TestMoverOfMemberWithoutPodFollowsItsOtherClaims: the set is at zero. Of the member's two claims only data is copied; logs stays on a
// volume that only node-a reaches. The new volume waits for its first consumer, so the mover's node decides where it is provisioned.
func TestMoverOfMemberWithoutPodFollowsItsOtherClaims(t *testing.T) {
	record := moving(api.MemberFinalPass)
	record.Members[0].Pod, record.Members[0].Node, record.Members[0].Locked = "uid-lock", "", true
	two := build.Set("web", build.Template("data", "128Mi", "fixed"), build.Template("logs", "1Gi", "fixed"), build.Replicas(0),
		build.Status(record))
	lock := build.With(build.PodOf("web", 0), build.Held(0), build.UID("uid-lock"))
	lock.Spec.NodeName, lock.Spec.Volumes = "", nil
	logs := build.Claim("logs-web-0", "1Gi")
	local := build.VolumeOf(logs)
	local.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "kubernetes.io/hostname", Operator: corev1.NodeSelectorOpIn,
			Values: []string{"node-a"}}}}}}}
	in := given(objects{two, lock, logs, local}, journal(web0), source(web0), pending(web0))
	p := Decide(in)
	for _, a := range p.Actions {
		if job, ok := a.Object.(*batchv1.Job); ok && a.Verb == plan.VerbCreate {
			text, _ := json.Marshal(job.Spec.Template.Spec)
			if !strings.Contains(string(text), "node-a") {
				t.Errorf("the new volume may be on any node: %v", job.Spec.Template.Spec.Affinity)
			}
			return
		}
	}
	t.Fatalf("no mover: %s", p)
}

// TestParallelismHoldsForSetAtZero: a set at zero misses no member, so only four are copied at once. If the set wants one of
// them, that member is down until all are copied.
func TestParallelismHoldsForSetAtZero(t *testing.T) {
	const members = 10
	for replicas, want := range map[int32]int{0: 4, 1: members} {
		var claims []string
		for i := range members {
			claims = append(claims, fmt.Sprintf("data-web-%d", i))
		}
		record := build.Operation(api.Moving, build.Members(api.MemberFinalPass, claims...))
		all := objects{}
		for i := range record.Members {
			all = append(all, slices.Concat(source(claims[i]), target(claims[i]))...)
			if i < int(replicas) {
				all = append(all, heldPod(i)...)
				continue
			}
			m := &record.Members[i]
			m.Locked, m.Node = true, ""
			lock := build.With(build.PodOf("web", m.Ordinal), build.Held(m.Ordinal))
			lock.Spec.NodeName, lock.Spec.Volumes = "", nil
			all = append(all, lock)
		}
		all = append(all, build.Set("web", build.Template("data", "128Mi", "fixed"), build.Replicas(replicas), build.Status(record),
			build.Annotation(api.ResizeParallelismAnnotation, "4")))
		jobs := 0
		for _, a := range Decide(given(all, journal(claims...))).Actions {
			if _, ok := a.Object.(*batchv1.Job); ok && a.Verb == plan.VerbCreate {
				jobs++
			}
		}
		if jobs != want {
			t.Errorf("%d replicas: %d movers are created, want %d", replicas, jobs, want)
		}
	}
}
