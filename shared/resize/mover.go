package resize

import (
	"k8s.io/apimachinery/pkg/api/resource"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

// MoverSettings are how movers run for a set.
type MoverSettings struct {
	Options  resources.MoverOptions
	Root     bool // the namespace allows movers that run as root
	Settings api.Settings
}

// MoverOf describes the mover of a member. A running member is copied beside its pod, on its node.
func MoverOf(o *world.Observed, record *api.Resize, member *api.Member, with MoverSettings) (resources.Mover, error) {
	root, err := resources.MoverUser(o.Set, record.Admitted, with.Options.RootAllowed(with.Root))
	if err != nil {
		return resources.Mover{}, err
	}
	ordinal := member.Ordinal
	m := resources.Mover{Set: o.Set, Attempt: max(member.Attempt, 1), Pod: member.Pod, Node: member.Node, Root: root,
		Admitted: record.Admitted,
		Link:     api.Link{Operation: record.Operation, Role: api.RoleMover, Namespace: o.Set.Namespace, Set: record.Set, Member: &ordinal},
		Options:  with.Options, Settings: with.Settings, Bandwidth: bandwidth(o)}
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
			c.Margin = with.Settings.ShrinkMargin
		}
		m.Claims = append(m.Claims, c)
	}
	return m, nil
}

// bandwidth returns the set's limit for passes beside its members, in bytes a second; 0 if it has none, or one that is no quantity.
func bandwidth(o *world.Observed) int64 {
	q, err := resource.ParseQuantity(o.Set.Annotations[api.BandwidthAnnotation])
	if err != nil {
		return 0
	}
	return max(q.Value(), 0)
}

// MoverPod returns the pod of the first member that is copied, as the Job controller would create it; nil where nothing is copied. The
// pods of other members differ in names only, so that the API server judges all of them alike.
func MoverPod(in Input, w *Wish) *corev1.Pod {
	record := w.Operation(in)
	if len(record.Members) == 0 || !record.Copies() {
		return nil
	}
	options, err := resources.MoverOptionsOf(in.Set, in.Cluster.MoverConfig)
	if err != nil {
		return nil // the preflight says so
	}
	member := &record.Members[0]
	if pod := in.MemberPod(member.Ordinal); pod != nil {
		member.Pod, member.Node = pod.UID, pod.Spec.NodeName
	}
	mover, err := MoverOf(in.Observed, record, member, MoverSettings{Options: options, Root: in.Cluster.RootMovers, Settings: in.Settings})
	if err != nil {
		return nil // the preflight says so
	}
	return resources.MakeMoverPod(resources.MakeMover(mover))
}
