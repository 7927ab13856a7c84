package resize

import (
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/bounded"
	"drydock.dev/shared/moverreport"
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
	m := resources.Mover{Set: o.Set, Attempt: max(member.Attempt, 1), Pod: member.Pod, Node: member.Node, Root: root,
		Admitted: record.Admitted,
		Link:     record.Link(api.RoleMover, o.Set.Namespace).OfMember(member.Ordinal),
		Options:  settings.Options, Settings: settings.Settings, Bandwidth: bandwidth(o)}
	m.Link.Claims = map[string]types.UID{}
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

// IsPin reports whether the copy in a mover's pod has succeeded. From then on, the pod only keeps the volumes attached and writes to none
// of them: the kubelet never runs a succeeded init container again.
func IsPin(pod *corev1.Pod) bool { return succeeded(pod, moverreport.FinalContainer) }

// WaitsForStop reports whether the mover in the pod has made its first passes and waits beside the member for its stop.
func WaitsForStop(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && succeeded(pod, moverreport.FirstContainer) &&
		slices.ContainsFunc(pod.Status.InitContainerStatuses, func(c corev1.ContainerStatus) bool {
			return c.Name == moverreport.FinalContainer && c.State.Running != nil
		})
}

// NoFirstPass returns why no mover can copy while the member's pod runs. It is empty if one can. Such a member is copied after it has
// stopped, and its mover does not stay to keep the volumes attached, because the new pod could not mount them beside it.
func NoFirstPass(o *world.Observed, member *api.Member) string {
	if o.Set != nil && o.Set.Annotations[api.FirstPassAnnotation] == api.FirstPassOff { // a lost set is nil: its operation is undone
		return api.FirstPassAnnotation + "=" + api.FirstPassOff
	}
	node := member.Node // where it was copied, if its present pod has no node
	if pod := o.MemberPod(member.Ordinal); pod != nil && pod.Spec.NodeName != "" {
		node = pod.Spec.NodeName
	}
	if member.RefusingNode != "" && (node == "" || node == member.RefusingNode) {
		return "node " + member.RefusingNode + " cannot attach or mount its volumes for a second pod"
	}
	for _, move := range member.Claims {
		if claim := o.Claim(move.Claim); claim != nil && statefulset.OnePodOnly(claim) {
			return "ReadWriteOncePod: no second pod may use claim " + move.Claim
		}
	}
	return ""
}

// CopyRate is the assumed rate of a copy with its verification, in bytes per second for each claim.
const CopyRate = 100e6

// WholeCopy returns how long the copy of the member's claims takes if they are full, in whole minutes.
func WholeCopy(member *api.Member) time.Duration {
	return time.Duration(math.Ceil(wholeCopy(member).Minutes())) * time.Minute
}

// wholeCopy returns how long the copy of the member's claims takes if they are full.
func wholeCopy(member *api.Member) time.Duration {
	bytes := int64(0)
	for i := range member.Claims {
		if move := &member.Claims[i]; !move.Moved && !move.InPlace {
			bytes += move.From.Value()
		}
	}
	return time.Duration(float64(bytes) / CopyRate * float64(time.Second))
}

// StopTooShort reports whether the stop of a member without a first pass may be cancelled before its copy is complete, and returns
// max-stop. A stop is cancelled after twice that time.
func StopTooShort(set *appsv1.StatefulSet, strategy api.Strategy, member *api.Member) (limit time.Duration, short bool) {
	limit, _ = api.MaxStop(set, strategy) // the preflight refuses an invalid value
	return limit, limit > 0 && wholeCopy(member)/2 > limit
}

// succeeded reports whether the init container ended with exit code 0.
func succeeded(pod *corev1.Pod, container string) bool {
	return slices.ContainsFunc(pod.Status.InitContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.Name == container && c.State.Terminated != nil && c.State.Terminated.ExitCode == moverreport.CodeOK
	})
}
