package kit

// Growth is how the storage expands a claim.
type Growth string

const (
	// GrowsOnline expands volume and file system at once. It is the default.
	GrowsOnline Growth = ""
	// GrowsWhenMounted expands the volume at once, and its file system when a pod starts on it.
	GrowsWhenMounted Growth = "when mounted"
	// GrowsNever reports that the expansion is infeasible.
	GrowsNever Growth = "never"
	// GrowsLater does nothing until a test changes it.
	GrowsLater Growth = "later"
	// GrowsDetached expands the volume while no pod has it mounted, and its file system when a pod starts on it.
	GrowsDetached Growth = "detached"
)
