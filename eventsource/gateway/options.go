package gateway

import "time"

// Options are the gateway's own settings. A zero value selects the default.
type Options struct {
	LongestSession time.Duration `envconfig:"DRYDOCK_LONGEST_SESSION" default:"24h" desc:"longest session that a request to the wake gateway can ask for"`
	DefaultTimeout time.Duration `envconfig:"DRYDOCK_WAKE_TIMEOUT" default:"1m" desc:"default waiting time of a blocking request to the wake gateway; at most 5m"`
	Namespace      string        `envconfig:"DRYDOCK_GATEWAY_NAMESPACE" desc:"default namespace of names and groups in a request to the wake gateway; empty: a request without namespace is refused"`
	BasePath       string        `envconfig:"DRYDOCK_GATEWAY_BASE_PATH" desc:"path before /api at the wake gateway, for example /sablier"`
	Waiters        int           `envconfig:"DRYDOCK_GATEWAY_WAITERS" default:"100" desc:"blocking requests and streams of events that a wake gateway holds open at once; more get 503"`
	Token          Secret        `envconfig:"DRYDOCK_GATEWAY_TOKEN" desc:"token that callers of the wake gateway send; take it from a Secret"`
	TokenFile      string        `envconfig:"DRYDOCK_GATEWAY_TOKEN_FILE" desc:"file with the token, which is read at each request; it overrides DRYDOCK_GATEWAY_TOKEN"`
}

const (
	defaultLongestSession = 24 * time.Hour
	defaultTimeout        = time.Minute
	defaultWaiters        = 100
)

// LongestWait limits how long a request waits. A proxy before the gateway needs a longer timeout, such as the timeoutSeconds in
// deploy/wake-gateway.
const LongestWait = 5 * time.Minute
