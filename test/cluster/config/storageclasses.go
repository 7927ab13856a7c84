package config

// StorageClass is one of the classes the provisioner serves. All delete their volumes when they are released.
type StorageClass struct {
	Name       string
	FileSystem string // read by the provisioner
	Binding    string
	Expandable bool
	Default    bool
}

// StorageClasses are made to differ in what a resize has to cope with. A volume that can grow has xfs: while ext4 is
// mounted, it grows only by a capability that root often lacks in virtual machines (CAP_SYS_RESOURCE), and btrfs to no
// less than 256 MiB.
var StorageClasses = []StorageClass{
	{Name: "fixed", FileSystem: "ext4", Binding: "WaitForFirstConsumer", Default: true},
	{Name: "fixed-2", FileSystem: "ext4", Binding: "WaitForFirstConsumer"},
	{Name: "fixed-immediate", FileSystem: "ext4", Binding: "Immediate"},
	{Name: "expandable", FileSystem: "xfs", Binding: "WaitForFirstConsumer", Expandable: true},
}
