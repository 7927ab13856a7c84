package sim

import (
	"fmt"
	"slices"
	"strings"

	"drydock.dev/shared/api"
	"drydock.dev/shared/sts"
	"drydock.dev/test/kit"
)

// witness looks after every single write of ours whether all is as it has to be at every instant.
type witness struct {
	w        *kit.World
	saboteur *kit.Saboteur
	truths   truths
	broken   []string
}

// truths say what is wrong with a set that exists, and with the world while it does not.
type truths func(w *kit.World, set setType) string

// witnessOf has the saboteur tell a witness of every write.
func witnessOf(w *kit.World, saboteur *kit.Saboteur, t truths) *witness {
	witness := &witness{w: w, saboteur: saboteur, truths: t}
	saboteur.OnWrite = witness.look
	return witness
}

func (w *witness) look(write string) {
	if w.truths == nil {
		return
	}
	for _, lost := range w.w.Node.Lost() {
		w.broken = append(w.broken, fmt.Sprintf("I1: after %s: %s", write, lost))
	}
	if strings.HasPrefix(write, "POST ") && strings.HasSuffix(write, "/events") {
		return
	}
	if wrong := w.truths(w.w, w.w.Set("web")); wrong != "" {
		w.broken = append(w.broken, fmt.Sprintf("after %s: %s", write, wrong))
	}
}

func (w *witness) judge() {
	w.w.T.Helper()
	for _, broken := range w.broken {
		w.w.T.Error(broken)
	}
	for _, idle := range w.saboteur.Idle() {
		w.w.T.Errorf("I7: %s changed nothing", idle)
	}
}

// resizeTruths: whoever finds the objects as they are now knows what to do, and how many replicas there were.
func resizeTruths(w *kit.World, set setType) string {
	if set == nil {
		return journalled(w)
	}
	status, err := api.LoadResize(set)
	if err != nil {
		return err.Error()
	}
	_, frozen := set.Labels[api.FrozenLabel]
	going := status.Active() || status.Held()
	switch {
	case status.Active() && status.Deadline == nil:
		return fmt.Sprintf("I8: phase %s has no deadline", status.Phase)
	case status.Active() && status.Set.UID != "" && status.Set.UID != set.UID:
		return fmt.Sprintf("I3: the document is of set %s, this is %s", status.Set.UID, set.UID)
	case status.Active() && status.Replicas != 1:
		return fmt.Sprintf("I4: the document says %d replicas", status.Replicas)
	case *set.Spec.Replicas != 1 && !going:
		return fmt.Sprintf("I4: the set has %d replicas, and no document tells of 1", *set.Spec.Replicas)
	case frozen && !going:
		return "I2: the set is frozen for no operation"
	case frozen != (*set.Spec.Replicas == 0):
		return fmt.Sprintf("I4: the set has %d replicas, frozen %t", *set.Spec.Replicas, frozen)
	case !going && sts.WhenScaled(set) != "Delete":
		return "I2: the claim retention is not what it was, and no document tells of it"
	case !going && len(w.Journals()) > 0 && status == nil:
		return "I2: there is a journal of no operation"
	}
	if !going && status != nil {
		if left := made(w); left != "" {
			return "I9: the operation is over, and there is " + left
		}
	}
	now := w.Custom(owner, ownerKind, "main")
	if held := owner.Paused(now); held && now.GetAnnotations()[api.OwnerPausedAnnotation] == "" {
		return "I5: the owner is paused, and nothing on it says by whom"
	}
	return ""
}

// made is what an operation has made and nobody else takes away: volumes and the owner's journal have their time still.
func made(w *kit.World) string {
	left := slices.DeleteFunc(w.Leftovers(), func(what string) bool {
		return strings.HasPrefix(what, "volume ") || strings.HasPrefix(what, "journal ")
	})
	return strings.Join(left, ", ")
}

// journalled: a set that does not exist can be created again, with its replicas.
func journalled(w *kit.World) string {
	for _, journal := range w.Journals() {
		if manifest, err := api.LoadManifest(&journal); err == nil && manifest != nil && manifest.Name == "web" {
			if status, err := api.LoadResize(manifest); err == nil && status != nil && status.Replicas == 1 {
				return ""
			}
		}
	}
	return "I1: the set is gone, and no journal says how to create it again"
}
