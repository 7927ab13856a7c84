package idletimeout

import "time"

const (
	// maxAnswerBytes limits the answer to a probe, in bytes.
	maxAnswerBytes = 1 << 20
	// maxProbes limits the sets that are asked in one event.
	maxProbes = 50
	// reservedForWrites is the part of the event's time that is reserved for the writes after the probes.
	reservedForWrites = 10 * time.Second
)
