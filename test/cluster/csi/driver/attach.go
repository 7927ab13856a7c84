package main

import (
	"context"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ControllerPublishVolume attaches a volume to the node. The StorageClass sets the duration.
func (c controller) ControllerPublishVolume(
	ctx context.Context, r *csi.ControllerPublishVolumeRequest,
) (*csi.ControllerPublishVolumeResponse, error) {
	release, err := c.locks.take(ctx, r.VolumeId)
	if err != nil {
		return nil, err
	}
	defer release()
	if r.NodeId != c.node {
		return nil, status.Errorf(codes.NotFound, "node %s does not exist", r.NodeId)
	}
	v, err := c.store.find(r.VolumeId)
	if err != nil || v.Attached {
		return &csi.ControllerPublishVolumeResponse{}, err
	}
	if err := pause(ctx, v, attachSeconds); err != nil {
		return nil, err
	}
	v.Attached = true
	return &csi.ControllerPublishVolumeResponse{}, c.store.save(volumes, v)
}

// ControllerUnpublishVolume detaches a volume. It refuses a staged volume, because data could be lost.
func (c controller) ControllerUnpublishVolume(
	ctx context.Context, r *csi.ControllerUnpublishVolumeRequest,
) (*csi.ControllerUnpublishVolumeResponse, error) {
	release, err := c.locks.take(ctx, r.VolumeId)
	if err != nil {
		return nil, err
	}
	defer release()
	v, err := c.store.load(volumes, r.VolumeId)
	if err != nil || v == nil || !v.Attached {
		return &csi.ControllerUnpublishVolumeResponse{}, err
	}
	device, err := c.disk.device(ctx, c.store.image(volumes, v.ID))
	if err != nil {
		return nil, err
	}
	if device != "" {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is still staged, as %s", v.ID, device)
	}
	if err := pause(ctx, v, detachSeconds); err != nil {
		return nil, err
	}
	v.Attached = false
	return &csi.ControllerUnpublishVolumeResponse{}, c.store.save(volumes, v)
}

// pause waits for the duration of a parameter of the volume's StorageClass.
func pause(ctx context.Context, v *record, parameter string) error {
	wait, err := delay(v.Context, parameter)
	if err != nil {
		return err
	}
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return status.Errorf(codes.DeadlineExceeded, "the call ended before the %s of volume %s", parameter, v.ID)
	}
}
