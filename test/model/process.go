package model

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// node is the name of the only node.
const node = "node-1"

// process is a pod's process on the node. It can outlive the pod's object.
type process struct {
	pod, claim     string
	volume, target string // target is set for a mover
	stage          stage
	// current means that the data read by the mover includes all writes.
	current bool
	signal  string
	code    int32
}

// stage is the progress of a process on the node.
type stage string

const (
	running  stage = "running"       // a member that writes
	first    stage = "first pass"    // a mover that has read its source and has not written yet
	waiting  stage = "waiting"       // a mover, while its member runs
	final    stage = "final pass"    // a mover that knows that the member has stopped
	ended    stage = "ended"         // succeeded, not yet reported
	pinning  stage = "pinning"       // a mover whose finished copy is reported; its volumes stay mounted
	failed   stage = "failed"        // failed, with an exit code
	mounting stage = "still mounted" // reported, not yet unmounted
)

// content is the data on a volume: the claim that it belongs to, and whether it includes all writes. The zero value is an empty volume.
type content struct {
	claim   string
	current bool
	// finished means that a final pass has written the volume. A new mover refuses it as a target.
	finished bool
}

func sortedUIDs(m map[types.UID]process) []types.UID {
	uids := make([]types.UID, 0, len(m))
	for uid := range m {
		uids = append(uids, uid)
	}
	slices.Sort(uids)
	return uids
}
