package doctor

// Functions are the functions that make deploy deploys.
var Functions = []string{"dead-letter", "sift", "detect-resize", "pause-owner", "backup", "restore", "idle-timeout", "cleanup-pod",
	"scale", "grow-volumes", "wake-gateway", "status-page"}

// Triggers are the Triggers of deploy/*/triggers.yaml.
var Triggers = []string{"backup", "cleanup-pod", "detect-resize", "grow-volumes", "idle-timeout", "pause-owner", "restore",
	"scale", "sift"}

// ServiceAccounts are those of config/accounts.
var ServiceAccounts = []string{"backup", "cleanup-pod", "dead-letter", "detect-resize", "grow-volumes", "idle-timeout", "pause-owner",
	"restore", "scale", "sift", "source", "status-page", "volume-stats", "wake-gateway"}

// ClusterRoles are those of config/rbac and config/policy.
var ClusterRoles = []string{"drydock-backup", "drydock-backup-volumes", "drydock-cleanup-pod", "drydock-dead-letter",
	"drydock-detect-resize", "drydock-detect-resize-volumes", "drydock-grow-volumes", "drydock-grow-volumes-nodes",
	"drydock-idle-timeout", "drydock-idle-timeout-tcp", "drydock-owners", "drydock-pause-owner", "drydock-progress", "drydock-restore",
	"drydock-restore-volumes", "drydock-scale", "drydock-scalers-edit", "drydock-scalers-view", "drydock-sift",
	"drydock-sift-volumes", "drydock-source", "drydock-status-page", "drydock-status-page-volumes", "drydock-volume-stats",
	"drydock-wake-gateway", "drydock-writer"}

// ClusterBindings are the ClusterRoleBindings of config/accounts. Every installation has them.
var ClusterBindings = []string{"drydock-backup-volumes", "drydock-detect-resize-volumes", "drydock-grow-volumes-nodes",
	"drydock-restore-volumes", "drydock-senders", "drydock-sift-volumes", "drydock-status-page-volumes", "drydock-volume-stats"}

// FunctionBindings are the bindings of config/bindings. An installation for one namespace has RoleBindings of the same names there.
var FunctionBindings = []string{"drydock-backup", "drydock-cleanup-pod", "drydock-dead-letter", "drydock-detect-resize",
	"drydock-grow-volumes", "drydock-idle-timeout", "drydock-owners", "drydock-pause-owner", "drydock-progress", "drydock-restore",
	"drydock-scale", "drydock-sift", "drydock-source", "drydock-status-page", "drydock-wake-gateway"}

// ValidatingPolicies are the ValidatingAdmissionPolicies of config/policy that protect records and volumes.
var ValidatingPolicies = []string{"drydock-dry-run-pods", "drydock-fence-autoscalers", "drydock-fence-claims",
	"drydock-fence-evictions", "drydock-fence-jobs", "drydock-fence-namespaces", "drydock-fence-pods", "drydock-fence-replacements",
	"drydock-fence-revisions", "drydock-fence-scalers", "drydock-fence-sets", "drydock-fence-volumes", "drydock-links",
	"drydock-records", "drydock-scalers"}

// OptionalPolicies also reject requests. Without them, Drydock loses no data.
var OptionalPolicies = []string{"drydock-held-scales", "drydock-held-sets", "drydock-scaled-scales", "drydock-scaled-sets",
	"drydock-sleeping-sets"}

// WarningPolicies are those of config/policy that reject nothing.
var WarningPolicies = []string{"drydock-misplaced"}
