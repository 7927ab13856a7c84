package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// node makes volumes usable on this machine.
type node struct {
	csi.UnimplementedNodeServer
	*driver
}

// use returns the volume and locks it until release is called.
func (d *driver) use(ctx context.Context, id string) (v *record, release func(), err error) {
	release, err = d.locks.take(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	if v, err = d.store.find(id); err != nil {
		release()
		return nil, nil, err
	}
	return v, release, nil
}

// NodeGetCapabilities returns the calls that the driver supports.
func (n node) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	response := &csi.NodeGetCapabilitiesResponse{}
	for _, t := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
		csi.NodeServiceCapability_RPC_EXPAND_VOLUME,
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		response.Capabilities = append(response.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: t}}})
	}
	return response, nil
}

// NodeGetInfo returns the node's name and its topology.
func (n node) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: n.node, AccessibleTopology: n.topology()}, nil
}

// NodeStageVolume creates the volume's loop device, and mounts its file system once for all pods of the node.
func (n node) NodeStageVolume(ctx context.Context, r *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	v, release, err := n.use(ctx, r.VolumeId)
	if err != nil {
		return nil, err
	}
	defer release()
	if n.attach && !v.Attached {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is not attached", v.ID)
	}
	device, err := n.disk.attach(ctx, n.store.image(volumes, v.ID))
	if err != nil {
		return nil, err
	}
	if err := n.tune(v, device); err != nil {
		return nil, err
	}
	if m := r.VolumeCapability.GetMount(); m != nil && v.Context[publishing] == "" {
		err = n.stageMount(ctx, device, r.StagingTargetPath, m)
	}
	return &csi.NodeStageVolumeResponse{}, err
}

// stageMount mounts the file system and grows it to the size of its device.
func (n node) stageMount(ctx context.Context, device, staging string, m *csi.VolumeCapability_MountVolume) error {
	at, err := mountAt(staging)
	if err != nil {
		return err
	}
	if at != nil {
		if at.device != device {
			return fmt.Errorf("%s is mounted at %s, want %s", at.device, staging, device)
		}
		return n.disk.growMounted(ctx, at.fileSystem, device, staging)
	}
	fileSystem, err := command(ctx, "blkid", "--probe", "--match-tag", "TYPE", "--output", "value", device)
	if err != nil {
		return err
	}
	if err := n.disk.checkAndGrow(ctx, fileSystem, device); err != nil {
		return err
	}
	if err := mountDevice(ctx, fileSystem, device, staging, m.MountFlags); err != nil {
		return err
	}
	return n.disk.growMounted(ctx, fileSystem, device, staging)
}

// mountDevice mounts the device's file system at a path.
func mountDevice(ctx context.Context, fileSystem, device, point string, flags []string) error {
	options := slices.Clone(flags)
	if fileSystem == xfs {
		options = append(options, "nouuid") // a clone has the same UUID as its source
	}
	args := []string{"-t", fileSystem, device, point}
	if len(options) > 0 {
		args = append([]string{"-o", strings.Join(options, ",")}, args...)
	}
	if err := os.MkdirAll(point, 0o750); err != nil {
		return fmt.Errorf("making %s: %w", point, err)
	}
	_, err := command(ctx, "mount", args...)
	return err
}

// publishDevice mounts the file system of a volume that is not staged for one pod. The first mount grows it.
func (n node) publishDevice(ctx context.Context, v *record, r *csi.NodePublishVolumeRequest) error {
	device, err := n.disk.device(ctx, n.store.image(volumes, v.ID))
	if err != nil {
		return err
	}
	if device == "" {
		return status.Errorf(codes.FailedPrecondition, "volume %s has no device", v.ID)
	}
	other, err := mountOf(device)
	if err != nil {
		return err
	}
	if problem := secondMountProblem(v, device, other); problem != nil {
		return problem
	}
	fileSystem, err := command(ctx, "blkid", "--probe", "--match-tag", "TYPE", "--output", "value", device)
	if err != nil {
		return err
	}
	flags := slices.Clone(r.VolumeCapability.GetMount().GetMountFlags())
	if r.Readonly {
		flags = append(flags, "ro")
	}
	if other == nil {
		if err := n.disk.checkAndGrow(ctx, fileSystem, device); err != nil {
			return err
		}
	}
	if err := mountDevice(ctx, fileSystem, device, r.TargetPath, flags); err != nil || r.Readonly {
		return err
	}
	return n.disk.growMounted(ctx, fileSystem, device, r.TargetPath)
}

// secondMountProblem returns why a volume may not be mounted beside another mount, or nil. The kernel decides about other volumes.
func secondMountProblem(v *record, device string, other *mount) error {
	if v.Context[publishing] != publishOnce || other == nil {
		return nil
	}
	return status.Errorf(codes.Internal, "verifyMount: device %s already mounted at %s", device, other.point)
}

// NodeUnstageVolume reverts NodeStageVolume.
func (n node) NodeUnstageVolume(ctx context.Context, r *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	release, err := n.locks.take(ctx, r.VolumeId)
	if err != nil {
		return nil, err
	}
	defer release()
	if !safeID.MatchString(r.VolumeId) {
		return nil, status.Errorf(codes.NotFound, "volume %q does not exist", r.VolumeId)
	}
	if err := unmount(ctx, r.StagingTargetPath); err != nil {
		return nil, err
	}
	return &csi.NodeUnstageVolumeResponse{}, n.disk.detach(ctx, n.store.image(volumes, r.VolumeId))
}

// NodePublishVolume mounts the volume's directory or device for a pod.
func (n node) NodePublishVolume(ctx context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	v, release, err := n.use(ctx, r.VolumeId)
	if err != nil {
		return nil, err
	}
	defer release()
	if at, err := mountAt(r.TargetPath); err != nil || at != nil {
		return &csi.NodePublishVolumeResponse{}, err
	}
	if v.Context[publishing] != "" && r.VolumeCapability.GetBlock() == nil {
		return &csi.NodePublishVolumeResponse{}, n.publishDevice(ctx, v, r)
	}
	source, err := n.prepareTarget(ctx, v, r)
	if err != nil {
		return nil, err
	}
	options := "bind"
	if r.Readonly {
		options = "bind,ro"
	}
	_, err = command(ctx, "mount", "-o", options, source, r.TargetPath)
	return &csi.NodePublishVolumeResponse{}, err
}

// prepareTarget creates the mount point and returns the source of the mount.
func (n node) prepareTarget(ctx context.Context, v *record, r *csi.NodePublishVolumeRequest) (string, error) {
	if r.VolumeCapability.GetBlock() == nil {
		at, err := mountAt(r.StagingTargetPath)
		if err == nil && at == nil {
			err = status.Errorf(codes.FailedPrecondition, "volume %s is not staged", v.ID)
		}
		return r.StagingTargetPath, errors.Join(err, os.MkdirAll(r.TargetPath, 0o750))
	}
	device, err := n.disk.device(ctx, n.store.image(volumes, v.ID))
	if err != nil {
		return "", err
	}
	if device == "" {
		return "", status.Errorf(codes.FailedPrecondition, "volume %s is not staged", v.ID)
	}
	if err := os.MkdirAll(filepath.Dir(r.TargetPath), 0o750); err != nil {
		return "", fmt.Errorf("making the folder of %s: %w", r.TargetPath, err)
	}
	file, err := os.OpenFile(r.TargetPath, os.O_CREATE, 0o640)
	if err != nil {
		return "", fmt.Errorf("making %s: %w", r.TargetPath, err)
	}
	return device, file.Close()
}

// NodeUnpublishVolume reverts NodePublishVolume.
func (n node) NodeUnpublishVolume(ctx context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	release, err := n.locks.take(ctx, r.VolumeId)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := unmount(ctx, r.TargetPath); err != nil {
		return nil, err
	}
	if err := os.Remove(r.TargetPath); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("removing %s: %w", r.TargetPath, err)
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// mount is a line of /proc/self/mountinfo.
type mount struct{ point, fileSystem, device string }

func mounts() ([]mount, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("listing mounts: %w", err)
	}
	return parseMounts(string(text)), nil
}

// parseMounts parses mountinfo, proc_pid_mountinfo(5). The fifth field is the mount point; file system and device follow a dash.
func parseMounts(mountinfo string) []mount {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var found []mount
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(line, " - ")
		fields, source := strings.Fields(before), strings.Fields(after)
		if len(fields) < 5 || len(source) < 2 {
			continue
		}
		found = append(found, mount{unescape.Replace(fields[4]), source[0], unescape.Replace(source[1])})
	}
	return found
}

// mountAt returns the newest mount at a path, or nil.
func mountAt(point string) (*mount, error) {
	all, err := mounts()
	for _, m := range slices.Backward(all) {
		if m.point == point {
			return &m, nil
		}
	}
	return nil, err
}

// mountOf returns a mount of a device's file system, or nil.
func mountOf(device string) (*mount, error) {
	all, err := mounts()
	for _, m := range all {
		if m.device == device {
			return &m, nil
		}
	}
	return nil, err
}

// unmount removes every mount at a path. It is safe to repeat.
func unmount(ctx context.Context, point string) error {
	for {
		at, err := mountAt(point)
		if err != nil || at == nil {
			return err
		}
		if _, err := command(ctx, "umount", point); err != nil {
			return err
		}
	}
}

// ControllerExpandVolume enlarges the device. The node grows the file system: online in NodeExpandVolume, otherwise when it next stages the
// volume.
func (c controller) ControllerExpandVolume(
	ctx context.Context, r *csi.ControllerExpandVolumeRequest,
) (*csi.ControllerExpandVolumeResponse, error) {
	v, release, err := c.use(ctx, r.VolumeId)
	if err != nil {
		return nil, err
	}
	defer release()
	image, bytes := c.store.image(volumes, v.ID), requested(r.CapacityRange)
	if bytes > v.Bytes {
		if err := c.canExpandNow(ctx, v, image); err != nil {
			return nil, err
		}
		if err := c.disk.enlarge(ctx, image, bytes); err != nil {
			return nil, err
		}
		v.Bytes = bytes
		if err := c.store.save(volumes, v); err != nil {
			return nil, err
		}
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: v.Bytes, NodeExpansionRequired: r.VolumeCapability.GetBlock() == nil}, nil
}

func (c controller) canExpandNow(ctx context.Context, v *record, image string) error {
	if !c.offline {
		return nil
	}
	device, err := c.disk.device(ctx, image)
	if err != nil {
		return err
	}
	if v.Attached || device != "" {
		return status.Errorf(codes.FailedPrecondition, "volume %s is attached or staged, and driver %s expands it only offline", v.ID, c.name)
	}
	return nil
}

// NodeExpandVolume grows the file system to the size of its device.
func (n node) NodeExpandVolume(ctx context.Context, r *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	v, release, err := n.use(ctx, r.VolumeId)
	if err != nil {
		return nil, err
	}
	defer release()
	response := &csi.NodeExpandVolumeResponse{CapacityBytes: v.Bytes}
	if r.VolumeCapability.GetBlock() != nil {
		return response, nil
	}
	device, err := n.disk.device(ctx, n.store.image(volumes, v.ID))
	if err != nil {
		return nil, err
	}
	at, err := mountAt(r.VolumePath)
	if err != nil {
		return nil, err
	}
	if device == "" || at == nil {
		return nil, status.Errorf(codes.NotFound, "volume %s is not mounted at %s", v.ID, r.VolumePath)
	}
	return response, n.disk.growMounted(ctx, at.fileSystem, device, r.VolumePath)
}

// ControllerModifyVolume sets the parameters of a VolumeAttributesClass. For a staged volume they apply at once.
func (c controller) ControllerModifyVolume(
	ctx context.Context, r *csi.ControllerModifyVolumeRequest,
) (*csi.ControllerModifyVolumeResponse, error) {
	release, err := c.locks.take(ctx, r.VolumeId)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := checkMutable(r.MutableParameters); err != nil {
		return nil, err
	}
	v, err := c.store.find(r.VolumeId)
	if err != nil {
		return nil, err
	}
	v.Mutable = r.MutableParameters
	device, err := c.disk.device(ctx, c.store.image(volumes, v.ID))
	if err != nil {
		return nil, err
	}
	if err := c.tune(v, device); err != nil {
		return nil, err
	}
	return &csi.ControllerModifyVolumeResponse{}, c.store.save(volumes, v)
}

// tune applies the parameters of the volume's VolumeAttributesClass to a device.
func (d *driver) tune(v *record, device string) error {
	if size := v.Mutable[readAheadKiB]; size != "" && device != "" {
		return d.disk.setReadAhead(device, size)
	}
	return nil
}

func checkMutable(parameters map[string]string) error {
	for name, value := range parameters {
		if name != readAheadKiB {
			return status.Errorf(codes.InvalidArgument, "volumes have no attribute %s", name)
		}
		if _, err := strconv.ParseUint(value, 10, 16); err != nil {
			return status.Errorf(codes.InvalidArgument, "attribute %s is not a number of KiB: %q", name, value)
		}
	}
	return nil
}

// NodeGetVolumeStats returns the same numbers as df.
func (n node) NodeGetVolumeStats(_ context.Context, r *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	v, err := n.store.find(r.VolumeId)
	if err != nil {
		return nil, err
	}
	var info syscall.Stat_t
	if err := syscall.Stat(r.VolumePath, &info); err != nil {
		return nil, status.Errorf(codes.NotFound, "volume %s is not at %s: %v", v.ID, r.VolumePath, err)
	}
	if info.Mode&syscall.S_IFMT == syscall.S_IFBLK {
		return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{{Unit: csi.VolumeUsage_BYTES, Total: v.Bytes}}}, nil
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(r.VolumePath, &fs); err != nil {
		return nil, fmt.Errorf("reading the usage of volume %s: %w", v.ID, err)
	}
	usage := func(unit csi.VolumeUsage_Unit, size int64, total, free, available uint64) *csi.VolumeUsage {
		return &csi.VolumeUsage{Unit: unit, Total: int64(total) * size, Used: int64(total-free) * size, Available: int64(available) * size}
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{
		usage(csi.VolumeUsage_BYTES, fs.Bsize, fs.Blocks, fs.Bfree, fs.Bavail),
		usage(csi.VolumeUsage_INODES, 1, fs.Files, fs.Ffree, fs.Ffree),
	}}, nil
}
