package config

import "fmt"

// Names of the CSI drivers in StorageClasses. All are instances of one program (csi/driver). Whether volumes are attached, and whether they
// grow while in use, is a property of a driver and not of a volume.
const (
	// LocalDriver has volumes without attachment, like disks of the node.
	LocalDriver = "local.csi.drydock.dev"
	// CloudDriver has volumes with attachment. They grow under the running pod.
	CloudDriver = "csi.drydock.dev"
	// OfflineDriver has volumes with attachment. They grow only while no pod uses them.
	OfflineDriver = "offline.csi.drydock.dev"
)

// Driver is an instance of the CSI driver.
type Driver struct {
	Name   string
	Short  string // name in components, sockets and folders
	Attach bool
	// Offline means that volumes grow only while they are not in use.
	Offline bool
	// Snapshots means that the driver has a snapshotter.
	Snapshots bool
}

// Drivers lists all instances.
var Drivers = []Driver{
	{Name: LocalDriver, Short: "local"},
	{Name: CloudDriver, Short: "cloud", Attach: true, Snapshots: true},
	{Name: OfflineDriver, Short: "offline", Attach: true, Offline: true},
}

// Sidecars watch the API server and call a CSI driver. The module in the folder csi requires them.
const (
	provisioner        = "csi-provisioner"
	attacher           = "csi-attacher"
	resizer            = "csi-resizer"
	snapshotter        = "csi-snapshotter"
	snapshotController = "snapshot-controller"
)

// Sidecars lists the import paths of the sidecars. A program has the name of the last element.
var Sidecars = []string{
	"github.com/kubernetes-csi/external-provisioner/v5/cmd/" + provisioner,
	"github.com/kubernetes-csi/external-attacher/v4/cmd/" + attacher,
	"github.com/kubernetes-csi/external-resizer/v2/cmd/" + resizer,
	"github.com/kubernetes-csi/external-snapshotter/v8/cmd/" + snapshotter,
	"github.com/kubernetes-csi/external-snapshotter/v8/cmd/" + snapshotController,
}

// SnapshotModule is the module with the custom resource definitions of snapshots.
const SnapshotModule = "github.com/kubernetes-csi/external-snapshotter/client/v8"

// SnapshotDefinitions lists files of SnapshotModule.
var SnapshotDefinitions = []string{
	"config/crd/snapshot.storage.k8s.io_volumesnapshotclasses.yaml",
	"config/crd/snapshot.storage.k8s.io_volumesnapshotcontents.yaml",
	"config/crd/snapshot.storage.k8s.io_volumesnapshots.yaml",
}

// DriverSocket returns the path of a driver's socket for CSI calls.
func (c Cluster) DriverSocket(d Driver) string { return c.Path("csi", d.Short+".sock") }

// Volumes returns the folder of a driver's volumes and snapshots.
func (c Cluster) Volumes(d Driver) string { return c.Path("volumes", d.Short) }

// registrationSocket returns the path of the socket that the kubelet uses to discover the driver.
func (c Cluster) registrationSocket(d Driver) string {
	return c.Path("kubelet", "plugins_registry", d.Short+".sock")
}

// CSIDriver returns the process of one driver.
func (c Cluster) CSIDriver(b Binaries, d Driver) Component {
	return Component{Name: "csi-driver-" + d.Short, Binary: b.CSIDriver, Args: []string{
		"--name=" + d.Name,
		"--node=" + NodeName,
		"--folder=" + c.Volumes(d),
		"--endpoint=" + c.DriverSocket(d),
		"--registration=" + c.registrationSocket(d),
		fmt.Sprintf("--attach=%t", d.Attach),
		fmt.Sprintf("--offline=%t", d.Offline),
	}}
}

// callTimeout is the time limit for a call of a sidecar. It exceeds the attachment time of the slowest class.
const callTimeout = "60s"

// quick returns flags for a high rate limit and short retries, so that tests do not wait for a sidecar.
func (c Cluster) quick() []string {
	return []string{"--kubeconfig=" + c.Kubeconfig(), "--kube-api-qps=100", "--kube-api-burst=200",
		"--retry-interval-start=200ms", "--retry-interval-max=5s"}
}

// DriverSidecars returns the sidecars of one driver.
func (c Cluster) DriverSidecars(b Binaries, d Driver) []Component {
	sidecar := func(name string, args ...string) Component {
		args = append(args, "--csi-address="+c.DriverSocket(d))
		return Component{Name: name + "-" + d.Short, Binary: b.sidecar(name), Args: append(args, c.quick()...)}
	}
	all := []Component{
		sidecar(provisioner, "--timeout="+callTimeout, "--default-fstype=ext4", "--feature-gates=VolumeAttributesClass=true"),
		sidecar(resizer, "--resize-timeout="+callTimeout, "--modify-timeout="+callTimeout),
	}
	if d.Attach {
		all = append(all, sidecar(attacher, "--timeout="+callTimeout))
	}
	if d.Snapshots {
		all = append(all, sidecar(snapshotter, "--timeout="+callTimeout))
	}
	return all
}

// SnapshotController returns the controller that binds VolumeSnapshots to their contents.
func (c Cluster) SnapshotController(b Binaries) Component {
	return Component{Name: snapshotController, Binary: b.sidecar(snapshotController), Args: c.quick()}
}
