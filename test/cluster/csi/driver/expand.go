package main

import (
	"context"
	"strconv"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

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
