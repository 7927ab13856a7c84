package model

// stage is how far a process on the node is.
type stage string

const (
	running  stage = "running"       // of a member: it writes
	first    stage = "first pass"    // of a mover: it reads what it will write
	waiting  stage = "waiting"       // beside its member
	final    stage = "final pass"    // it was told that the member has stopped
	ended    stage = "ended"         // with success, not reported yet
	pinning  stage = "pinning"       // of a mover: its copy is made and reported, its volumes stay mounted
	failed   stage = "failed"        // with its exit code
	mounting stage = "still mounted" // reported, not unmounted
)

// process is what runs on the node for a pod, whatever the API server says of it.
type process struct {
	pod, claim     string
	volume, target string // target: of a mover
	stage          stage
	// current: what a mover has read is all that was written.
	current bool
	signal  string
	code    int32
}

// content is what is on a volume: data of a claim, and whether it is all that was written. The zero value is an empty volume.
type content struct {
	claim   string
	current bool
	// finished: a final pass has been made to it, so no mover takes it for its own target any more.
	finished bool
}
