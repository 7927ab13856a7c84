package backup

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/sts"
)

// memberOf returns the name of the set's pod that uses the claim; empty if the claim is not named after one.
func memberOf(in Input, claim string) string {
	_, ordinal, ok := sts.ParseClaimName(in.Set, claim)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s-%d", in.Set.Name, ordinal)
}

// starter collects the movers that one call of Decide starts.
type starter struct {
	free    int
	actions []plan.Action
	// choosing holds the members whose node one of these movers chooses. awaited: a claim waits for such a node.
	choosing map[string]bool
	awaited  bool
}

// start adds the claim's mover if a place is free. It sets awaited if another mover of the same member has to choose the node first.
func (s *starter) start(in Input, status *api.Resize, part *api.ClaimStatus) error {
	if s.free <= 0 {
		return nil
	}
	mover, err := moverOf(in, status, *part, passOf(status, part))
	if err != nil {
		return err
	}
	if !place(in, status, *part, &mover) || s.choosing[mover.Member] {
		s.awaited = true
		return nil
	}
	s.choosing[mover.Member] = mover.First && mover.Member != ""
	s.actions = append(s.actions, plan.Create(plan.Jobs, resources.MakeMover(mover)))
	s.free--
	part.Phase = api.ClaimCopying
	return nil
}

// moverOf describes the claim's mover, without where it runs.
func moverOf(in Input, status *api.Resize, part api.ClaimStatus, pass resources.Pass) (resources.Mover, error) {
	if in.OptionsErr != nil {
		return resources.Mover{}, in.OptionsErr
	}
	root, err := resources.MoverUser(in.Set, status.Admitted, in.Options.RootAllowed(in.RootMovers))
	if err != nil {
		return resources.Mover{}, err
	}
	mover := resources.Mover{Set: in.Set, Link: linkOf(in, status, part, api.RoleMover), Pass: pass, Root: root, Admitted: status.Admitted,
		Options: in.Options, Settings: in.Settings, Source: part.Name, Target: api.CopyName(status.Operation, part.Name, status.Round),
		Device: sts.IsBlock(in.Claim(part.Name))}
	if part.To.Cmp(part.From) < 0 {
		mover.Margin = in.Settings.ShrinkMargin
	}
	return mover, nil
}

// place decides where the mover of a stopped set runs. It reports false if another mover of the same member has no node yet: the
// member's volumes have to be reachable from one node, so the first mover decides for all of them.
func place(in Input, status *api.Resize, part api.ClaimStatus, mover *resources.Mover) bool {
	target := in.TargetClaim(status.Operation, part.Name, status.Round)
	mover.Member = memberOf(in, part.Name)
	if mover.Pass == resources.FinalPass {
		mover.Prefer = part.WarmNode
		return true
	}
	mover.Prefer = part.Node
	if target != nil && target.Spec.VolumeName != "" {
		return true // its volume says where
	}
	node, chosen := siblingNode(in, status, part.Name)
	if !chosen {
		mover.First = true
		return true
	}
	mover.Node, mover.Prefer = node, ""
	return node != ""
}

// siblingNode returns the node of the mover that chose for the claim's member in this round, and whether there is such a mover. The
// node is empty as long as that mover has none.
func siblingNode(in Input, status *api.Resize, claim string) (node string, chosen bool) {
	member := memberOf(in, claim)
	for _, job := range in.JobsOf(status.Operation) {
		link, err := api.LoadLink(job)
		if err != nil || link.Round != status.Round || link.Claim == claim || member == "" || memberOf(in, link.Claim) != member {
			continue
		}
		before := node
		for _, pod := range in.Movers(status.Operation) {
			if isOf(pod, job) && pod.Spec.NodeName != "" {
				node = pod.Spec.NodeName
			}
		}
		// A Job that has ended without a pod of its own will never tell a node.
		chosen = chosen || node != before || finished(job) == ""
	}
	return node, chosen
}

// slots returns how many movers may run at once. All may where a source is on a node's own disk: a node autoscaler removes a node
// without pods, and the only copy with it.
func slots(in Input, status *api.Resize) int {
	for _, part := range status.Claims {
		if !part.Settled() && onNode(in.Volume(part.OldVolume)) {
			return len(status.Claims)
		}
	}
	return resources.Parallelism(in.Set, in.Settings)
}

// onNode reports whether the volume can be reached from named nodes only.
func onNode(volume *corev1.PersistentVolume) bool {
	if volume == nil {
		return false
	}
	if volume.Spec.Local != nil || volume.Spec.HostPath != nil {
		return true
	}
	if volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
		return false
	}
	terms := volume.Spec.NodeAffinity.Required.NodeSelectorTerms
	return len(terms) > 0 && !slices.ContainsFunc(terms, func(t corev1.NodeSelectorTerm) bool {
		return len(t.MatchFields) == 0 && !slices.ContainsFunc(t.MatchExpressions, namesNode)
	})
}

// namesNode reports whether the requirement selects nodes by name. Drivers of local disks use these keys:
// kubernetes.io/hostname, topology.DRIVER/node, DRIVER/nodename.
func namesNode(r corev1.NodeSelectorRequirement) bool {
	_, name, _ := strings.Cut(r.Key, "/")
	return slices.Contains([]string{"hostname", "node", "nodename"}, name)
}

// nodeOf returns the node of a pod that uses the claim, or the node recorded before.
func nodeOf(in Input, part *api.ClaimStatus) string {
	for _, user := range in.Users(part.Name) {
		if user.Spec.NodeName != "" {
			return user.Spec.NodeName
		}
	}
	return part.Node
}
