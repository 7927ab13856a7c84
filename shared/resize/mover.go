package resize

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/bounded"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

// MoverSettings holds the options of a set's movers.
type MoverSettings struct {
	Options  resources.MoverOptions
	Root     bool // whether the namespace allows root movers
	Settings api.Settings
}

// MoverOf returns the description of a member's mover. It copies a running member beside its pod, on the pod's node.
func MoverOf(o *world.Observed, record *api.Resize, member *api.Member, settings MoverSettings) (resources.Mover, error) {
	root, err := resources.MoverUser(o.Set, record.Admitted, settings.Options.RootAllowed(settings.Root))
	if err != nil {
		return resources.Mover{}, err
	}
	ordinal := member.Ordinal
	m := resources.Mover{Set: o.Set, Attempt: max(member.Attempt, 1), Pod: member.Pod, Node: member.Node, Root: root,
		Admitted: record.Admitted,
		Link: api.Link{Operation: record.Operation, Role: api.RoleMover, Namespace: o.Set.Namespace, Set: record.Set, Member: &ordinal,
			Claims: map[string]types.UID{}},
		Options: settings.Options, Settings: settings.Settings, Bandwidth: bandwidth(o)}
	m.WritableSources = member.WritableSources
	m.Reach = reachOfOtherVolumes(o, member)
	m.MaxStop, _ = api.MaxStop(o.Set, record.Strategy)
	for i := range member.Claims {
		move := &member.Claims[i]
		if move.Moved {
			continue
		}
		claim := o.Claim(move.Claim)
		c := resources.MoverClaim{Template: move.Template, Source: move.Claim, Target: record.TargetOf(move),
			Device: claim != nil && statefulset.IsBlock(claim)}
		if move.To.Cmp(move.From) < 0 && !c.Device {
			c.Margin = settings.Settings.ShrinkMargin
		}
		m.Claims = append(m.Claims, c)
		if target := o.TargetClaim(record.Operation, move); target != nil { // nil in a preflight
			m.Link.Claims[target.Name] = target.UID
		}
	}
	return m, nil
}

// reachOfOtherVolumes returns the nodes that can reach each volume of the member that is not copied.
func reachOfOtherVolumes(o *world.Observed, member *api.Member) []statefulset.Nodes {
	var reach []statefulset.Nodes
	for _, template := range o.Set.Spec.VolumeClaimTemplates {
		copied := slices.ContainsFunc(member.Claims, func(m api.Move) bool { return m.Template == template.Name && !m.Moved })
		claim := o.Claim(statefulset.ClaimName(o.Set, template.Name, member.Ordinal))
		if copied || claim == nil {
			continue
		}
		if nodes := statefulset.NodesOfVolume(o.Volume(claim.Spec.VolumeName)); len(nodes) > 0 {
			reach = append(reach, nodes)
		}
	}
	return reach
}

// bandwidth returns the set's limit for first passes, in bytes a second. It is 0 if there is no limit or the annotation is no quantity.
func bandwidth(o *world.Observed) int64 {
	q, err := bounded.Quantity(o.Set.Annotations[api.BandwidthAnnotation])
	if err != nil {
		return 0
	}
	return max(q.Value(), 0)
}

// MoverPod returns the pod that the first copied member's mover would have, for a dry run on the API server. It is nil if nothing is
// copied. The pods of other members differ only in names, so the API server treats them alike.
func MoverPod(in Input, w *Changes) *corev1.Pod {
	record := w.Record(in)
	if len(record.Members) == 0 || !record.Copies() {
		return nil
	}
	options, err := resources.MoverOptionsOf(in.Set, in.Cluster.MoverConfig)
	if err != nil {
		return nil // checkMover reports it
	}
	member := &record.Members[0]
	if pod := in.MemberPod(member.Ordinal); pod != nil {
		member.Pod, member.Node = pod.UID, pod.Spec.NodeName
	}
	mover, err := MoverOf(in.Observed, record, member, MoverSettings{Options: options, Root: in.Cluster.RootMovers, Settings: in.Settings})
	if err != nil {
		return nil // checkMover reports it
	}
	return resources.MakeMoverPod(resources.MakeMover(mover))
}
