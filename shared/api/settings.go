package api

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Settings are an administrator's settings for all functions, from environment variables. envconfig reads the struct tags.
// docs/reference/settings.md shows them, and each comment that begins with the name of its field.
type Settings struct {
	Namespaces []string `envconfig:"DRYDOCK_NAMESPACES" flag:"namespace" desc:"namespaces to work in, comma-separated; empty for all"`

	Image string `envconfig:"DRYDOCK_IMAGE" desc:"Drydock's image by its digest; movers and HTTP hooks run it"`

	AllowTags bool `envconfig:"DRYDOCK_ALLOW_TAGS" default:"false" desc:"accept DRYDOCK_IMAGE with a tag, which can change"`

	TrustBroker bool `envconfig:"DRYDOCK_TRUST_BROKER" desc:"accept orders without the sender's token; the Broker must authenticate senders"`

	Parallelism int `envconfig:"DRYDOCK_PARALLELISM" default:"4" desc:"members of one StatefulSet that are copied at once"`

	// Movers bounds the copies of the whole cluster. A rolling resize counts as one mover, any other resize as one for each member. A resize
	// that would exceed the limit waits. A resize with more members than half of the limit counts as half. It runs without other resizes of
	// its namespace, but with a mover for each member, so the cluster can have more movers than the limit.
	Movers int `envconfig:"DRYDOCK_MOVERS" default:"20" desc:"limit for the movers of all resizes, half of it per namespace; 0 for none"`

	// APIRate bounds the load of the API server. After idle time, a tenth of it more may be sent in one second. Standalone, all functions
	// share the limit, and the wake gateway and the status page have one each. On Knative, each pod has its own.
	APIRate int `envconfig:"DRYDOCK_API_RATE" default:"200" desc:"requests per second of a process to the API server; 0 for no limit"`

	ShrinkMargin int `envconfig:"DRYDOCK_SHRINK_MARGIN" default:"10" desc:"free space that a shrunk volume needs, in percent"`

	Retention time.Duration `envconfig:"DRYDOCK_RETENTION" default:"24h" desc:"how long an old volume is kept after a resize"`

	RetainedVolumes int `envconfig:"DRYDOCK_RETAINED_VOLUMES" default:"3" desc:"old volumes of a claim at which its next copy is refused; 0 for no limit"`

	// The deadlines of a resize.
	PlanTimeout   time.Duration `envconfig:"DRYDOCK_PLAN_TIMEOUT" default:"10m" desc:"time limit for an owner's consent"`
	ExpandTimeout time.Duration `envconfig:"DRYDOCK_EXPAND_TIMEOUT" default:"1h" desc:"time limit for growing volumes in place"`

	// ExpandPatience is how long a file system may wait to grow under a running pod.
	ExpandPatience time.Duration `envconfig:"DRYDOCK_EXPAND_PATIENCE" default:"5m" desc:"wait before a restart to grow a file system"`

	// CopyTimeout ends the resize. Moved members keep their new volumes, and the others start on their old ones.
	CopyTimeout time.Duration `envconfig:"DRYDOCK_COPY_TIMEOUT" default:"24h" desc:"time limit for copying and moving all members"`

	// QuiesceTimeout is added to the grace period. In a rolling resize, the annotation drydock.dev/max-stop (default 1m) replaces it.
	QuiesceTimeout time.Duration `envconfig:"DRYDOCK_QUIESCE_TIMEOUT" default:"15m" desc:"time to stop pods beyond their grace period"`

	// StartTimeout also limits how long a pod may take to end once its copy has, or to come back with its node. A cleanup pod has as long to
	// start.
	StartTimeout time.Duration `envconfig:"DRYDOCK_MOVER_START_TIMEOUT" default:"10m" desc:"time limit for a mover to start or to end"`

	// ProgressTimeout ends the copy.
	ProgressTimeout time.Duration `envconfig:"DRYDOCK_MOVER_PROGRESS_TIMEOUT" default:"30m" desc:"time limit without a mover's progress"`

	// SwapTimeout also limits the release of a member's held objects.
	SwapTimeout time.Duration `envconfig:"DRYDOCK_SWAP_TIMEOUT" default:"15m" desc:"time limit for swapping a member's volumes"`

	// ReadyTimeout applies to moved members and to waking sets.
	ReadyTimeout time.Duration `envconfig:"DRYDOCK_READY_TIMEOUT" default:"30m" desc:"time limit until moved or woken pods are ready"`

	HookTimeout time.Duration `envconfig:"DRYDOCK_HOOK_TIMEOUT" default:"15m" desc:"time limit for a hook before or after a member"`
	SleepRetry  time.Duration `envconfig:"DRYDOCK_SLEEP_RETRY" default:"10m" desc:"wait before a failed sleep, or a rejected start after it, is tried again"`

	// ProbeTimeout limits all activity probes of a set and its group together, and all member checks of a set. A set whose probe fails
	// stays awake.
	ProbeTimeout time.Duration `envconfig:"DRYDOCK_PROBE_TIMEOUT" default:"5s" desc:"time limit for probes and member checks, max. 15s"`

	Prometheus string `envconfig:"DRYDOCK_PROMETHEUS" desc:"URL of Prometheus; {namespace} in it becomes the set's namespace"`

	// PromNamespaces is not needed if DRYDOCK_PROMETHEUS contains {namespace}.
	PromNamespaces []string `envconfig:"DRYDOCK_PROMETHEUS_NAMESPACES" desc:"namespaces that may query Prometheus, or *"`
	PromTokenFile  string   `envconfig:"DRYDOCK_PROMETHEUS_TOKEN_FILE" desc:"file with the bearer token for Prometheus"`
	PromCAFile     string   `envconfig:"DRYDOCK_PROMETHEUS_CA_FILE" desc:"PEM file with the certificate authorities of Prometheus"`

	// Owners adds rows to the built-in table. A row for a kind in that table replaces the built-in one.
	Owners string `envconfig:"DRYDOCK_OWNERS" desc:"more operators that can be paused or stopped, see docs/owners.md"`

	CleanupTries   int           `envconfig:"DRYDOCK_CLEANUP_TRIES" default:"5" desc:"tries to clean up an ordinal before it fails"`
	CleanupBackoff time.Duration `envconfig:"DRYDOCK_CLEANUP_BACKOFF" default:"10s" desc:"first wait between tries; doubles up to 5m"`
	// CleanupTimeout also limits the wait for an obstacle, such as another pod that uses the claim.
	CleanupTimeout time.Duration `envconfig:"DRYDOCK_CLEANUP_TIMEOUT" default:"24h" desc:"time limit for one cleanup pod"`
	CleanupPods    int           `envconfig:"DRYDOCK_CLEANUP_PODS" default:"10" desc:"cleanup pods at once with policy Parallel"`

	ProgressPeriod time.Duration `envconfig:"DRYDOCK_PROGRESS_PERIOD" default:"10s" desc:"shortest time between writes of progress"`

	GrowUsage string `envconfig:"DRYDOCK_GROW_USAGE" default:"kubelet" desc:"source of the usage of volumes: kubelet or prometheus"`

	GrowPeriod time.Duration `envconfig:"DRYDOCK_GROW_PERIOD" default:"5m" desc:"whole minutes between measurements of volumes"`

	// GrowTimeout ends the measurement. A volume that is not measured in time does not grow.
	GrowTimeout time.Duration `envconfig:"DRYDOCK_GROW_TIMEOUT" default:"15s" desc:"time limit for measuring the volumes of a set"`

	// GrowKubeletCA is empty for the certificate authorities of the cluster.
	GrowKubeletCA string `envconfig:"DRYDOCK_GROW_KUBELET_CA_FILE" desc:"PEM file with the certificate authorities of kubelets"`

	// GrowKubeletInsecure lets a process that impersonates a kubelet make volumes grow, up to max.
	GrowKubeletInsecure bool `envconfig:"DRYDOCK_GROW_KUBELET_INSECURE" default:"false" desc:"trust kubelets without a certificate check"`

	// OwnFunctionsOnly is true if only Drydock's own functions get events, so that nothing can answer a hook by CloudEvent.
	OwnFunctionsOnly bool `ignored:"true"`
}

// GrowByKubelet and GrowByPrometheus are the values of Settings.GrowUsage.
const (
	GrowByKubelet    = "kubelet"
	GrowByPrometheus = "prometheus"
)

// byDigest matches an image that is named by its digest.
var byDigest = regexp.MustCompile(`^[^@\s]+@sha256:[0-9a-f]{64}$`)

// CheckImage returns why Image cannot be the data mover, or nil.
func (s Settings) CheckImage() error {
	fault, tagsWouldDo := ImageFault(s.Image, s.AllowTags)
	if fault == "" {
		return nil
	}
	advice := "Set DRYDOCK_IMAGE to REGISTRY/NAME@sha256:DIGEST of Drydock's image"
	if tagsWouldDo {
		advice += ", or allow tags with DRYDOCK_ALLOW_TAGS=true"
	}
	return fmt.Errorf("DRYDOCK_IMAGE %s. %s", fault, advice)
}

// ImageFault returns why the image cannot run in users' namespaces, as the rest of a sentence about it; "" if it can. It runs there with
// the users' pull secrets, perhaps as root, so it must not be possible to replace it: it must name its registry and its digest. With
// allowTags a tag is enough. tagsWouldDo reports that allowTags would remove the fault.
func ImageFault(image string, allowTags bool) (fault string, tagsWouldDo bool) {
	registry, rest, named := strings.Cut(image, "/")
	tagged := strings.Contains(rest, ":") && !strings.HasSuffix(rest, ":")
	switch {
	case image == "":
		return "is not set, so no mover can run", false
	case !named || rest == "" || !strings.ContainsAny(registry, ".:") && registry != "localhost":
		return fmt.Sprintf("%q names no registry, so nodes may pull different images", image), false
	case byDigest.MatchString(image):
		return "", false
	case strings.Contains(image, "@") || !allowTags:
		return fmt.Sprintf("%q has no digest, so the registry can serve another image under this name", image),
			tagged && !strings.Contains(image, "@")
	case !tagged:
		return fmt.Sprintf("%q has neither a tag nor a digest", image), false
	}
	return "", false
}
