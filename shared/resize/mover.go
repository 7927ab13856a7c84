package resize

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/sts"
)

// CopyJob returns the first Job that backup would create for the claim: beside the pod that uses the claim where that is possible,
// else with the set stopped. It fails where the preflight refuses how movers run.
func CopyJob(in Input, status *api.Resize, part *api.ClaimStatus) (*batchv1.Job, error) {
	options, err := resources.MoverOptionsOf(in.Set, in.Cluster.MoverConfig)
	if err != nil {
		return nil, err
	}
	root, err := resources.MoverUser(in.Set, status.Admitted, options.RootAllowed(in.Cluster.RootMovers))
	if err != nil {
		return nil, err
	}
	claim := in.Claim(part.Name)
	link := api.Link{Operation: status.Operation, Role: api.RoleMover, Namespace: in.Set.Namespace, Set: status.Set,
		Claim: part.Name, Round: status.Round}
	mover := resources.Mover{Set: in.Set, Link: link, Source: part.Name, Target: api.CopyName(status.Operation, part.Name, status.Round),
		Device: sts.IsBlock(claim), Root: root, Admitted: status.Admitted, Options: options, Settings: in.Settings}
	if part.To.Cmp(part.From) < 0 {
		mover.Margin = in.Settings.ShrinkMargin
	}
	if sts.Replicas(in.Set) > 0 && in.Cold(claim) == "" {
		mover.Pass, mover.Link.Round, mover.Node = resources.WarmPass, 0, in.Users(part.Name)[0].Spec.NodeName
	} else if _, ordinal, ok := sts.ParseClaimName(in.Set, part.Name); ok {
		mover.First, mover.Member = true, sts.PodName(in.Set, ordinal) // it asks for what the member's pod will need there
	}
	return resources.MakeMover(mover), nil
}

// MoverPod returns the pod of the first claim that is copied, as the Job controller would create it; nil where nothing is copied. The
// pods of the other claims differ in names only, so that the API server judges all of them alike.
func MoverPod(in Input, w *Wish) *corev1.Pod {
	status := w.Operation(in)
	for i := range status.Claims {
		part := &status.Claims[i]
		if part.Method == api.MethodExpand || part.Returns() {
			continue
		}
		job, err := CopyJob(in, status, part)
		if err != nil {
			return nil // the preflight says so
		}
		return resources.MakeMoverPod(job)
	}
	return nil
}
