package idle

// Values of a sleep's Request: the reasons for a sleep.
const (
	RequestPaused = "paused" // the user set the annotation drydock.dev/paused
	RequestIdle   = "idle"   // there was no activity for the timeout
	RequestAsked  = "asked"  // an event or an annotation requested it
)

// Verdict says whether a set has to be awake.
type Verdict struct {
	Awake bool
	// Why is the reason in words, for example "web was active at 2026-03-01T12:00:00Z".
	Why string
	// Request is the reason for a sleep, or empty if the set has to be awake.
	Request string
	// Probes is true if the set may sleep only if the activity probes of its group report no use. A user's request makes them unnecessary,
	// but not if visitors used the group after the request: they may still have connections.
	Probes bool
}
