package restore

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/sts"
)

// tidy removes everything that the operation made, but for the terminal status and the old volumes in their window.
// It reports false when nothing is left to do. The journal goes last: as long as it is there, the sweep finds the rest.
func tidy(in Input, operation string, parts []part) (plan.Plan, bool) {
	actions := deleteJobs(in.JobsOf(operation))
	for _, target := range in.TargetClaims(operation) {
		if target.DeletionTimestamp == nil {
			actions = append(actions, plan.Delete(plan.Claims, target))
		}
	}
	for _, p := range parts {
		actions = append(actions, p.tidy(in)...)
	}
	if len(actions) > 0 {
		return plan.Do(api.CleaningUp, actions...), true
	}
	if targets := in.TargetClaims(operation); len(targets) > 0 {
		return plan.WaitSoon(api.CleaningUp, "temporary claim %s is being deleted", targets[0].Name), true
	}
	if jobs := in.JobsOf(operation); len(jobs) > 0 {
		return plan.WaitSoon(api.CleaningUp, "job %s is being deleted", jobs[0].Name), true
	}
	if journal := in.Journal(operation); journal != nil {
		return plan.Do(api.CleaningUp, plan.Delete(plan.ControllerRevisions, journal)), true
	}
	return plan.Plan{}, false
}

// part is one claim with its volumes at the end of an operation.
type part struct {
	operation string
	name      string
	oldVolume string
	newVolume string
}

func partsOf(in Input, status *api.Status) []part {
	var parts []part
	for _, c := range status.Claims {
		parts = append(parts, part{status.Operation, c.Name, c.OldVolume, newVolume(in, status.Operation, c)})
	}
	return parts
}

// newVolume is the volume that the operation had provisioned for the claim: as the status says, or, where the status
// is lost, as the volume's own link does.
func newVolume(in Input, operation string, c api.ClaimStatus) string {
	if c.NewVolume != "" {
		return c.NewVolume
	}
	for name, volume := range in.Volumes {
		if link, err := api.LoadLink(volume); err == nil && link != nil &&
			link.Operation == operation && link.Role == api.RoleTarget && link.Claim == c.Name {
			return name
		}
	}
	for _, target := range in.TargetClaims(operation) {
		if link, _ := api.LoadLink(target); link != nil && link.Claim == c.Name && target.Spec.VolumeName != "" {
			return target.Spec.VolumeName
		}
	}
	return ""
}

// tidy releases the claim and the volume it has, and lets the other one go: the old volume after its window, an unused
// copy at once.
func (p part) tidy(in Input) []plan.Action {
	claim := in.Claim(p.name)
	var actions []plan.Action
	if claim != nil && claim.DeletionTimestamp == nil {
		patch := plan.PatchOf(plan.Claims, claim).RemoveFinalizer(api.SwitchFinalizer)
		if linked(claim.Labels, p.operation) {
			patch.Unlink()
		}
		actions = patch.Actions()
	}
	if old := in.Volume(p.oldVolume); old != nil && linked(old.Labels, p.operation) {
		actions = append(actions, p.tidyOld(in, claim, old).Actions()...)
	}
	if fresh := in.Volume(p.newVolume); fresh != nil {
		actions = append(actions, p.tidyNew(in, claim, fresh).Actions()...)
	}
	return actions
}

func (p part) tidyOld(in Input, claim *corev1.PersistentVolumeClaim, old *corev1.PersistentVolume) *plan.Patch {
	if claim != nil && claim.Spec.VolumeName == p.oldVolume {
		return plan.ReleaseVolume(old)
	}
	return p.keep(in, old)
}

// tidyNew discards a copy only while the claim is known to be on its old volume; in any doubt it keeps it for the
// window, as an old one. A claim that somebody deleted takes its volume along, as its reclaim policy says.
func (p part) tidyNew(in Input, claim *corev1.PersistentVolumeClaim, fresh *corev1.PersistentVolume) *plan.Patch {
	ours := linked(fresh.Labels, p.operation)
	switch {
	case claim != nil && claim.Spec.VolumeName == p.oldVolume && (ours || isCopy(fresh, p.operation)):
		return plan.DiscardVolume(fresh)
	case !ours:
		return plan.PatchOf(plan.Volumes, fresh)
	case claim == nil || claim.Spec.VolumeName == p.newVolume:
		return plan.ReleaseVolume(fresh)
	}
	return p.keep(in, fresh)
}

func linked(labels map[string]string, operation string) bool {
	return labels[api.OperationLabel] == operation
}

// keep retains an old volume for its window.
func (p part) keep(in Input, old *corev1.PersistentVolume) *plan.Patch {
	link, err := api.LoadLink(old)
	if err != nil || link == nil || link.Role == api.RoleRetired {
		return plan.PatchOf(plan.Volumes, old) // already kept
	}
	link.Role = api.RoleRetired
	until := in.Now.Add(in.Settings.Retention).UTC().Truncate(time.Second).Format(time.RFC3339)
	return plan.HoldVolume(old, *link).Annotate(api.RetainedUntilAnnotation, until).Unannotate(api.ClaimManifestAnnotation)
}

// retire gives the old volumes whose window is over back to their own reclaim policy.
func retire(in Input) plan.Plan {
	var actions []plan.Action
	for _, volume := range in.Volumes {
		if sts.Expired(volume, in.Now) {
			actions = append(actions, plan.ReleaseVolume(volume).Actions()...)
		}
	}
	if len(actions) == 0 {
		return plan.Noop(api.NotOurPhase)
	}
	return plan.Do(api.VolumeReleased, actions...)
}
