package config

// StorageClass is one of the classes that the CSI drivers serve. All delete their volumes when they are released.
type StorageClass struct {
	Name         string
	Driver       string
	FileSystem   string
	Immediate    bool // the volume is made when it is claimed, not when a pod needs it
	Expandable   bool
	Default      bool
	DelaySeconds int // of attaching, and of detaching
}

// Binding is the class's volumeBindingMode.
func (s StorageClass) Binding() string {
	if s.Immediate {
		return "Immediate"
	}
	return "WaitForFirstConsumer"
}

// StorageClasses are made to differ in what a resize has to cope with. A volume that grows online has xfs: while ext4 is mounted, it grows
// only by a capability that root often lacks in virtual machines (CAP_SYS_RESOURCE), and btrfs to no less than 256 MiB.
var StorageClasses = []StorageClass{
	{Name: "fixed", Driver: LocalDriver, FileSystem: "ext4", Default: true},
	{Name: "fixed-2", Driver: LocalDriver, FileSystem: "ext4"},
	{Name: "fixed-immediate", Driver: LocalDriver, FileSystem: "ext4", Immediate: true},
	{Name: "expandable", Driver: LocalDriver, FileSystem: "xfs", Expandable: true},
	{Name: "csi", Driver: CloudDriver, FileSystem: "xfs", Expandable: true},
	{Name: "csi-slow", Driver: CloudDriver, FileSystem: "xfs", Expandable: true, DelaySeconds: 10},
	{Name: "csi-immediate", Driver: CloudDriver, FileSystem: "xfs", Expandable: true, Immediate: true},
	{Name: "csi-offline", Driver: OfflineDriver, FileSystem: "ext4", Expandable: true},
}
