package forecast

import (
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
)

// Writes returns the writes of Drydock, and of controllers on its behalf, that the API server can try beforehand. They are larger requests
// of claims, temporary claims, mover Jobs and their pods, pods of hooks, the journal, and the set with its new templates. The checks are
// for writes that it cannot try.
func (f *Forecast) Writes() ([]plan.Action, []Check) {
	if f.record == nil || len(f.request.Problems) > 0 {
		return nil, nil
	}
	var writes []plan.Action
	if len(f.record.Members) > 0 || f.record.ReplaceSet {
		writes = append(writes, plan.Create(plan.ControllerRevisions, resources.MakeJournal(f.in.Set, f.record)))
	}
	for i := range f.record.Expansions {
		writes = append(writes, f.expansion(&f.record.Expansions[i])...)
	}
	for i := range f.record.Members {
		writes = append(writes, f.copy(&f.record.Members[i])...)
	}
	writes = append(writes, f.hooks()...)
	if !f.record.ReplaceSet {
		return writes, nil
	}
	set, unchecked := f.set()
	return append(writes, set...), unchecked
}

// expansion changes the request of the claim, as detect-resize does.
func (f *Forecast) expansion(e *api.Expansion) []plan.Action {
	claim := f.in.Claim(e.Claim)
	patch := operation.RequestSize(claim, e.To)
	if e.Attributes != nil {
		plan.Set(patch, statefulset.AttributesPath, statefulset.AttributesOf(claim), *e.Attributes, "attributes")
	}
	return patch.Actions()
}

// offlineExpansion raises the requests of the member's claims, as restore does while it holds the member.
func (f *Forecast) offlineExpansion(member *api.Member) []plan.Action {
	var writes []plan.Action
	for i := range member.Claims {
		move := &member.Claims[i]
		writes = append(writes, operation.RequestSize(f.in.Claim(move.Claim), move.To).Actions()...)
	}
	return writes
}

// copy creates the member's temporary claims, the Job of the mover, and the pod that the Job's controller would create. The pod is tried
// too, because many rules, such as the namespace's Pod Security level, apply only to pods.
func (f *Forecast) copy(member *api.Member) []plan.Action {
	if f.record.GrowsWhileStopped() {
		return f.offlineExpansion(member)
	}
	var writes []plan.Action
	for i := range member.Claims {
		move := &member.Claims[i]
		link := api.Link{Operation: f.record.Operation, Role: api.RoleTarget, Namespace: f.in.Set.Namespace, Set: f.record.Set,
			Claim: move.Claim}
		writes = append(writes, plan.Create(plan.Claims, resources.MakeTargetClaim(f.in.Claim(move.Claim), move, link)))
	}
	options, err := resources.MoverOptionsOf(f.in.Set, f.in.Cluster.MoverConfig)
	if err != nil {
		return writes // the preflight refuses this set
	}
	placed := *member
	if pod := f.in.MemberPod(member.Ordinal); pod != nil {
		placed.Pod, placed.Node = pod.UID, pod.Spec.NodeName
	}
	mover, err := resize.MoverOf(f.in.Observed, f.record, &placed, resize.MoverSettings{Options: options, Root: f.in.Cluster.RootMovers,
		Settings: f.in.Settings})
	if err != nil {
		return writes // the preflight refuses this set
	}
	mover.SelectsNode = mover.Node == ""
	job := resources.MakeMover(mover)
	return append(writes, plan.Create(plan.Jobs, job), plan.Create(plan.Pods, resources.MakeMoverPod(job)))
}

// hooks creates the pods of the Jobs before and after each member.
func (f *Forecast) hooks() []plan.Action {
	var writes []plan.Action
	for _, hook := range resources.Hooks {
		if pod := resize.HookPod(f.in.Set, hook, f.in.Settings); pod != nil && len(f.record.Members) > 0 {
			writes = append(writes, plan.Create(plan.Pods, pod))
		}
	}
	return writes
}

// set creates the set with its new templates, as restore does after the deletion of the present one. The API server checks the existing
// name last, so AlreadyExists means that it would accept the set. As in restore, a quota must have room for one more set.
func (f *Forecast) set() ([]plan.Action, []Check) {
	if full := f.fullSetQuota(); full != "" {
		return nil, []Check{{Verb: plan.VerbCreate, Resource: plan.StatefulSets, Name: f.in.Set.Name, Outcome: Denied,
			Message: "ResourceQuota " + full + " has no room for one more StatefulSet. Raise count/statefulsets.apps by one until the resize has " +
				"ended"}}
	}
	set := resources.SetFields(resources.MakeSet(f.in.Manifest(), f.record.Templates, f.record), f.record.Fields)
	set.SetUID("")
	set.SetResourceVersion("")
	return []plan.Action{plan.Create(plan.StatefulSets, set)}, nil
}

// fullSetQuota returns the quota without room for one more StatefulSet; empty if there is none.
func (f *Forecast) fullSetQuota() string {
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
