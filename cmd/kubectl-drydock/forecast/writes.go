package forecast

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/sts"
)

// Writes are what Drydock, and the controllers on its behalf, would send to the API server on the way, as far as the API server can
// try them before: claims that ask for more, temporary claims, mover Jobs and their pods, the journal, the set with its new
// templates. The checks are of those that it cannot.
func (f *Forecast) Writes() ([]plan.Action, []Check) {
	if f.status == nil || len(f.wish.Problems) > 0 {
		return nil, nil
	}
	var writes []plan.Action
	if len(f.copied()) > 0 || f.status.Recreate {
		writes = append(writes, plan.Create(plan.ControllerRevisions, resources.MakeJournal(f.in.Set, f.status)))
	}
	for i := range f.status.Claims {
		part := &f.status.Claims[i]
		if part.Method == api.MethodExpand {
			writes = append(writes, f.growth(part)...)
		} else {
			writes = append(writes, f.copy(part)...)
		}
	}
	if !f.status.Recreate {
		return writes, nil
	}
	set, unchecked := f.set()
	return append(writes, set...), unchecked
}

// growth has the claim ask for more, as detect-resize does.
func (f *Forecast) growth(part *api.ClaimStatus) []plan.Action {
	claim := f.in.Claim(part.Name)
	if is := sts.Requested(claim); is.Cmp(part.To) >= 0 {
		return nil
	}
	return plan.PatchOf(plan.Claims, claim).Replace(sts.RequestPath, part.To.String(), "request").Actions()
}

// copy makes the temporary claim, the Job, and the pod that the Job's controller would make: much of what may refuse a Job, as
// the namespace's Pod Security level, looks at pods only.
func (f *Forecast) copy(part *api.ClaimStatus) []plan.Action {
	target := resources.MakeTargetClaim(f.in.Claim(part.Name), *part, f.link(part, api.RoleTarget))
	writes := []plan.Action{plan.Create(plan.Claims, target)}
	options, err := resources.MoverOptionsOf(f.in.Set, f.in.Cluster.MoverConfig)
	if err != nil {
		return writes // refused already
	}
	root, err := resources.MoverUser(f.in.Set, options.RootAllowed(f.in.Cluster.RootMovers))
	if err != nil {
		return writes // refused already
	}
	mover := resources.Mover{Set: f.in.Set, Link: f.link(part, api.RoleMover), Source: part.Name, Target: target.Name,
		Device: sts.IsBlock(f.in.Claim(part.Name)), Root: root, Options: options, Settings: f.in.Settings}
	if part.To.Cmp(part.From) < 0 {
		mover.Margin = f.in.Settings.ShrinkMargin
	}
	if f.cold(part) == "" {
		mover.Pass, mover.Link.Round, mover.Node = resources.WarmPass, 0, f.in.Users(part.Name)[0].Spec.NodeName
	}
	job := resources.MakeMover(mover)
	return append(writes, plan.Create(plan.Jobs, job), plan.Create(plan.Pods, podOf(job)))
}

func podOf(job *batchv1.Job) *corev1.Pod {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: *job.Spec.Template.ObjectMeta.DeepCopy(), Spec: *job.Spec.Template.Spec.DeepCopy()}
	pod.Namespace, pod.Name = job.Namespace, job.Name
	return pod
}

func (f *Forecast) link(part *api.ClaimStatus, role api.Role) api.Link {
	return api.Link{Operation: f.status.Operation, Role: role, Namespace: f.in.Set.Namespace, Set: f.status.Set, Claim: part.Name, Round: f.status.Round}
}

// set creates the set with its new templates, as restore does after it has deleted the present one. The API server says that it
// exists only when it has found nothing else against it.
func (f *Forecast) set() ([]plan.Action, []Check) {
	if full := f.countsSets(); full != "" {
		return nil, []Check{{Verb: plan.VerbCreate, Resource: plan.StatefulSets, Name: f.in.Set.Name, Outcome: Unchecked,
			Message: "ResourceQuota " + full + " has no room for one more StatefulSet. The set is deleted before it is created again, so that it takes its own place"}}
	}
	build := resources.MakeHeldSet
	if f.status.Live() {
		build = resources.MakeSet
	}
	set := build(f.in.Set, f.status.Templates, f.status)
	set.UID, set.ResourceVersion = "", ""
	return []plan.Action{plan.Create(plan.StatefulSets, set)}, nil
}

// countsSets is the quota that has no room for a second set, or nothing.
func (f *Forecast) countsSets() string {
	const sets = "count/statefulsets.apps"
	for _, quota := range f.in.Cluster.Quotas {
		hard, counted := quota.Status.Hard[sets]
		used := quota.Status.Used[sets]
		used.Add(*resource.NewQuantity(1, resource.DecimalSI))
		if counted && used.Cmp(hard) > 0 {
			return quota.Name
		}
	}
	return ""
}
