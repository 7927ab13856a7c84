package api

import "time"

// Settings are what an administrator gives every function by environment. The struct tags are read by envconfig; the
// README shows them as one table.
type Settings struct {
	Namespaces          []string      `envconfig:"DRYDOCK_NAMESPACES" flag:"namespace" desc:"namespaces to look after, comma-separated; empty for all"`
	Image               string        `envconfig:"DRYDOCK_IMAGE" desc:"image of the data mover and of the pods that call URLs of hooks: Drydock's own, by its digest"`
	AllowTags           bool          `envconfig:"DRYDOCK_ALLOW_TAGS" default:"false" desc:"whether DRYDOCK_IMAGE may be named by a tag, which can change"`
	TrustBroker         bool          `envconfig:"DRYDOCK_TRUST_BROKER" desc:"take the events sleep, wake, activity and retry without a token of their sender; only where the Broker authenticates who sends events"`
	Parallelism         int           `envconfig:"DRYDOCK_PARALLELISM" default:"4" desc:"members of one StatefulSet that are copied at once"`
	ShrinkMargin        int           `envconfig:"DRYDOCK_SHRINK_MARGIN" default:"10" desc:"how much of a volume that shrinks has to stay free, in percent"`
	Retention           time.Duration `envconfig:"DRYDOCK_RETENTION" default:"24h" desc:"how long an old volume is kept after a resize"`
	RetainedVolumes     int           `envconfig:"DRYDOCK_RETAINED_VOLUMES" default:"3" desc:"how many old volumes of one claim are kept at once; a resize that would leave one more is refused; 0 for any number"`
	PlanTimeout         time.Duration `envconfig:"DRYDOCK_PLAN_TIMEOUT" default:"10m" desc:"how long an owner's consent may take"`
	ExpandTimeout       time.Duration `envconfig:"DRYDOCK_EXPAND_TIMEOUT" default:"1h" desc:"how long growing volumes in place may take"`
	ExpandPatience      time.Duration `envconfig:"DRYDOCK_EXPAND_PATIENCE" default:"5m" desc:"how long a file system may wait to grow under a running pod before the pod is started again"`
	CopyTimeout         time.Duration `envconfig:"DRYDOCK_COPY_TIMEOUT" default:"24h" desc:"how long copying and moving all members of a set may take; then the resize is given up"`
	QuiesceTimeout      time.Duration `envconfig:"DRYDOCK_QUIESCE_TIMEOUT" default:"15m" desc:"how long pods may take to end, on top of their grace period; in a rolling resize it is the annotation max-stop"`
	StartTimeout        time.Duration `envconfig:"DRYDOCK_MOVER_START_TIMEOUT" default:"10m" desc:"how long a mover's pod may take to start, to end once its copy has, or to come back with its node"`
	ProgressTimeout     time.Duration `envconfig:"DRYDOCK_MOVER_PROGRESS_TIMEOUT" default:"30m" desc:"how long a running mover may report no progress before the copy fails"`
	SwitchTimeout       time.Duration `envconfig:"DRYDOCK_SWITCH_TIMEOUT" default:"15m" desc:"how long putting the new volumes behind a member's claims may take, and releasing what is held"`
	ReadyTimeout        time.Duration `envconfig:"DRYDOCK_READY_TIMEOUT" default:"30m" desc:"how long a member that was moved, or a set that wakes, may take to become ready"`
	HookTimeout         time.Duration `envconfig:"DRYDOCK_HOOK_TIMEOUT" default:"15m" desc:"how long a hook before or after a member may take"`
	SleepRetry          time.Duration `envconfig:"DRYDOCK_SLEEP_RETRY" default:"10m" desc:"how long a sleep that could not be is left alone before it is tried again"`
	ProbeTimeout        time.Duration `envconfig:"DRYDOCK_PROBE_TIMEOUT" default:"5s" desc:"how long the activity probes of a set and its group, or the member checks of a set, may take, at most 15s; a set whose probe fails stays awake"`
	Prometheus          string        `envconfig:"DRYDOCK_PROMETHEUS" desc:"URL of the Prometheus that activity probes ask, as http://prometheus.monitoring:9090; {namespace} in it stands for the set's namespace"`
	PromNamespaces      []string      `envconfig:"DRYDOCK_PROMETHEUS_NAMESPACES" desc:"namespaces whose sets may ask Prometheus, comma-separated; * for all. Not needed where DRYDOCK_PROMETHEUS has {namespace}"`
	PromTokenFile       string        `envconfig:"DRYDOCK_PROMETHEUS_TOKEN_FILE" desc:"file with the bearer token for Prometheus"`
	PromCAFile          string        `envconfig:"DRYDOCK_PROMETHEUS_CA_FILE" desc:"file with the certificate authorities of Prometheus, in PEM"`
	Owners              string        `envconfig:"DRYDOCK_OWNERS" desc:"rows about more operators, or other ones, that can be paused or stopped; docs/owners.md has the format"`
	CleanupTries        int           `envconfig:"DRYDOCK_CLEANUP_TRIES" default:"5" desc:"how often a cleanup is tried on an ordinal before it has failed"`
	CleanupBackoff      time.Duration `envconfig:"DRYDOCK_CLEANUP_BACKOFF" default:"10s" desc:"how long after a cleanup pod that failed the next one is made; doubles with each, up to 5m"`
	CleanupTimeout      time.Duration `envconfig:"DRYDOCK_CLEANUP_TIMEOUT" default:"24h" desc:"how long one try of a cleanup pod may take"`
	CleanupPods         int           `envconfig:"DRYDOCK_CLEANUP_PODS" default:"10" desc:"cleanup pods of one StatefulSet with pod management policy Parallel that run at once"`
	ProgressPeriod      time.Duration `envconfig:"DRYDOCK_PROGRESS_PERIOD" default:"10s" desc:"shortest time between two writes of a claim's progress"`
	GrowUsage           string        `envconfig:"DRYDOCK_GROW_USAGE" default:"kubelet" desc:"source of the usage of volumes, for the annotation grow: kubelet, or prometheus (DRYDOCK_PROMETHEUS)"`
	GrowPeriod          time.Duration `envconfig:"DRYDOCK_GROW_PERIOD" default:"5m" desc:"how often the volumes of a set with the annotation grow are measured, in whole minutes"`
	GrowTimeout         time.Duration `envconfig:"DRYDOCK_GROW_TIMEOUT" default:"15s" desc:"how long measuring the volumes of a set may take; a volume that is not measured by then does not grow"`
	GrowKubeletCA       string        `envconfig:"DRYDOCK_GROW_KUBELET_CA_FILE" desc:"file with the certificate authorities of the kubelets, in PEM; empty for those of the cluster"`
	GrowKubeletInsecure bool          `envconfig:"DRYDOCK_GROW_KUBELET_INSECURE" default:"false" desc:"do not verify the certificates of kubelets: a process that impersonates a kubelet can make volumes grow, up to max"`

	// OwnFunctionsOnly is set where no function but Drydock's own gets events, so that nothing can answer a hook by CloudEvent.
	OwnFunctionsOnly bool `ignored:"true"`
}

// GrowByKubelet and GrowByPrometheus are the values of Settings.GrowUsage.
const (
	GrowByKubelet    = "kubelet"
	GrowByPrometheus = "prometheus"
)
