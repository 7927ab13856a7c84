package backup

import (
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// twoTemplates are the claims of two members with two templates, whose volumes wait for their first consumer.
var twoTemplates = []string{"data-web-0", "wal-web-0", "data-web-1"}

// unplaced is a stopped set with those claims.
func unplaced(options ...func(*api.Resize)) objects {
	status := build.Operation(api.Copying, append([]func(*api.Resize){build.Parts(api.ClaimPending, twoTemplates...), build.Due(time.Hour), build.Quiet(5)}, options...)...)
	all := append(set(status, build.Replicas(0), build.Template("wal", "64Mi", "fixed"), build.Annotation(api.ResizeParallelismAnnotation, "9")), build.Journal(status))
	for _, name := range twoTemplates {
		claim := build.Claim(name, "64Mi", build.Link(api.RoleSource, name, 0))
		all = append(all, claim, build.VolumeOf(claim, build.Held(api.RoleSource, name)),
			build.Target(api.CopyName(build.ID, name, 1), name, "128Mi", 1, build.On("")))
	}
	return all
}

// jobsMade are the Jobs that the plan creates, by the claim that they copy.
func jobsMade(p plan.Plan) map[string]*batchv1.Job {
	made := map[string]*batchv1.Job{}
	for _, a := range p.Actions {
		if job, ok := a.Object.(*batchv1.Job); ok && a.Verb == plan.VerbCreate {
			link, _ := api.LoadLink(job)
			made[link.Claim] = job
		}
	}
	return made
}

// TestFirstMoverOfAMemberChoosesTheNode: the member's other volumes have to be reachable from the same one.
func TestFirstMoverOfAMemberChoosesTheNode(t *testing.T) {
	made := jobsMade(Decide(world(unplaced())))
	if len(made) != 2 || made["wal-web-0"] != nil || made["data-web-0"].Spec.Template.Labels[api.MemberLabel] != "web-0" || made["data-web-1"].Spec.Template.Labels[api.MemberLabel] != "web-1" {
		t.Fatalf("made %v", made)
	}
	first, other := build.Job("data-web-0", 1), build.Job("data-web-1", 1)
	waits := func(pod ...build.Option) plan.Plan {
		begun := func(s *api.Resize) { s.Claims[0].Phase, s.Claims[2].Phase = api.ClaimCopying, api.ClaimCopying }
		return Decide(world(unplaced(begun), objects{first, build.Mover(first, pod...), other, build.Mover(other, node("node-9"))}))
	}
	if p := waits(); p.Kind != plan.KindWait || !p.Soon {
		t.Errorf("the first has no node yet: %s, soon %t", p, p.Soon)
	}
	for name, options := range map[string][]build.Option{"it runs": {node("node-3")}, "its pod has failed, and the next one comes": {node("node-3"), build.InPhase(corev1.PodFailed)}} {
		job := jobsMade(waits(options...))["wal-web-0"]
		if job == nil {
			t.Fatalf("%s: no mover is made", name)
		}
		pinned, prefers := nodesOf(job.Spec.Template.Spec.Affinity)
		if pinned != "node-3" || prefers != "" || job.Spec.Template.Labels[api.MemberLabel] != "" {
			t.Errorf("%s: pinned to %q, prefers %q, labels %v", name, pinned, prefers, job.Spec.Template.Labels)
		}
	}
}

// TestColdMoverPrefersTheNodeOfItsMember: as it was when the set was stopped.
func TestColdMoverPrefersTheNodeOfItsMember(t *testing.T) {
	alone := running(copyOperation(api.ClaimPending, justBegun, cold(0, 1)))
	next := build.Stored(Decide(world(alone, users())))
	if next == nil || next.Stopping == nil || next.Claims[0].Node != "node-0" || next.Claims[1].Node != "node-1" {
		t.Fatalf("the nodes are not remembered: %s", Decide(world(alone, users())))
	}
	remembered := func(s *api.Resize) { s.Claims[0].Node = "node-0" }
	again := build.Stored(Decide(world(running(copyOperation(api.ClaimPending, justBegun, cold(0, 1), build.Stopped(time.Minute), remembered)))))
	if again == nil || again.Claims[0].Node != "node-0" {
		t.Error("a second stop, after the pods have gone, forgets the node")
	}
	for name, in := range map[string]Input{"without a volume": world(unplaced(remembered)), "with one": world(running(copyOperation(api.ClaimPending, build.Quiet(5), remembered), build.Replicas(0)))} {
		job := jobsMade(Decide(in))["data-web-0"]
		if _, prefers := nodesOf(job.Spec.Template.Spec.Affinity); prefers != "node-0" {
			t.Errorf("%s: prefers %q", name, prefers)
		}
		if first := job.Spec.Template.Labels[api.MemberLabel] != ""; first != (name == "without a volume") {
			t.Errorf("%s: chooses the node: %t", name, first)
		}
	}
}

// TestAllMoversStartWhereASourceIsOnANode: a node autoscaler removes a node without pods, and its disk.
func TestAllMoversStartWhereASourceIsOnANode(t *testing.T) {
	term := func(keys ...string) corev1.NodeSelectorTerm {
		made := corev1.NodeSelectorTerm{}
		for _, key := range keys {
			made.MatchExpressions = append(made.MatchExpressions, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{"x"}})
		}
		return made
	}
	required := func(terms ...corev1.NodeSelectorTerm) func(*corev1.PersistentVolume) {
		return func(v *corev1.PersistentVolume) {
			v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: terms}}
		}
	}
	for name, row := range map[string]struct {
		volume func(*corev1.PersistentVolume)
		all    bool
	}{
		"of the network":          {func(*corev1.PersistentVolume) {}, false},
		"a local volume":          {func(v *corev1.PersistentVolume) { v.Spec.Local = &corev1.LocalVolumeSource{} }, true},
		"a directory of the host": {func(v *corev1.PersistentVolume) { v.Spec.HostPath = &corev1.HostPathVolumeSource{} }, true},
		"a host by its name":      {required(term("kubernetes.io/hostname")), true},
		"a driver's node":         {required(term("topology.kubernetes.io/zone", "topology.csi.example.com/node")), true},
		"one of two nodes":        {required(term("csi.example.com/nodename"), term("kubernetes.io/hostname")), true},
		"a node by its field":     {required(corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name"}}}), true},
		"a zone":                  {required(term("topology.kubernetes.io/zone")), false},
		"a node, or a zone":       {required(term("kubernetes.io/hostname"), term("topology.kubernetes.io/zone")), false},
	} {
		t.Run(name, func(t *testing.T) {
			all := running(copyOperation(api.ClaimPending, build.Quiet(5)), build.Replicas(0), build.Annotation(api.ResizeParallelismAnnotation, "1"))
			i := slices.IndexFunc(all, func(o metav1.Object) bool { return o.GetName() == "pv-data-web-1" })
			row.volume(all[i].(*corev1.PersistentVolume))
			if made := len(jobsMade(Decide(world(all)))); (made == 2) != row.all {
				t.Errorf("%d movers", made)
			}
		})
	}
}
