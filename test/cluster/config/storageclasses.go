package config

// StorageClass is a class of the CSI drivers. All classes have the reclaim policy Delete.
type StorageClass struct {
	Name         string
	Driver       string
	FileSystem   string
	Immediate    bool // create the volume with the claim, not with the first pod
	Expandable   bool
	Default      bool
	Publish      string // "direct" mounts the device for each pod, "once" for one pod at a time
	DelaySeconds int    // duration of attaching, and of detaching
	AttachLimit  int    // how many volumes of the class can be attached; 0 for any
}

// Binding returns the class's volumeBindingMode.
func (s StorageClass) Binding() string {
	if s.Immediate {
		return "Immediate"
	}
	return "WaitForFirstConsumer"
}

// StorageClasses lists classes that differ in the properties that matter to a resize. Volumes that grow online have xfs. A mounted ext4
// grows only with CAP_SYS_RESOURCE, which root often lacks in virtual machines. btrfs cannot grow to less than 256 MiB.
var StorageClasses = []StorageClass{
	{Name: "fixed", Driver: LocalDriver, FileSystem: "ext4", Default: true},
	{Name: "fixed-2", Driver: LocalDriver, FileSystem: "ext4"},
	{Name: "fixed-immediate", Driver: LocalDriver, FileSystem: "ext4", Immediate: true},
	{Name: "direct", Driver: LocalDriver, FileSystem: "ext4", Publish: "direct"},
	{Name: "once", Driver: LocalDriver, FileSystem: "ext4", Publish: "once"},
	{Name: "expandable", Driver: LocalDriver, FileSystem: "xfs", Expandable: true},
	{Name: "csi", Driver: CloudDriver, FileSystem: "xfs", Expandable: true},
	{Name: "csi-slow", Driver: CloudDriver, FileSystem: "xfs", Expandable: true, DelaySeconds: 10},
	{Name: "csi-limit", Driver: CloudDriver, FileSystem: "xfs", Expandable: true, AttachLimit: 2},
	{Name: "csi-immediate", Driver: CloudDriver, FileSystem: "xfs", Expandable: true, Immediate: true},
	{Name: "csi-offline", Driver: OfflineDriver, FileSystem: "ext4", Expandable: true},
}
