package main

import (
	"context"
	"errors"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ControllerPublishVolume attaches a volume to the node. The StorageClass sets the duration, and how many of its volumes can be attached.
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
	leave, err := c.reserve(ctx, v)
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := pause(ctx, v, attachSeconds); err != nil {
		return nil, err
	}
	v.Attached = true
	return &csi.ControllerPublishVolumeResponse{}, c.store.save(volumes, v)
}

// reserve refuses a volume beyond the attach limit of its class, with the code of the CSI specification and the words of
// aws-ebs-csi-driver. No other volume of the driver with a limit is attached until leave is called.
func (c controller) reserve(ctx context.Context, v *record) (leave func(), err error) {
	limit, err := number(v.Context, attachLimit)
	if err != nil || limit == 0 {
		return func() {}, err
	}
	if leave, err = c.locks.take(ctx, "volumes with "+attachLimit); err != nil {
		return nil, err
	}
	ids, err := c.store.all()
	attached := 0
	for _, id := range ids {
		other, problem := c.store.load(volumes, id)
		if err = errors.Join(err, problem); other != nil && other.Attached && other.Context[attachLimit] == v.Context[attachLimit] {
			attached++
		}
	}
	if err == nil && attached >= limit {
		err = status.Errorf(codes.ResourceExhausted, "Attachment limit exceeded: node %s has %d of %d volumes", c.node, attached, limit)
	}
	if err != nil {
		leave()
		return nil, err
	}
	return leave, nil
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
	seconds, err := number(v.Context, parameter)
	if err != nil {
		return err
	}
	select {
	case <-time.After(time.Duration(seconds) * time.Second):
		return nil
	case <-ctx.Done():
		return status.Errorf(codes.DeadlineExceeded, "the call ended before the %s of volume %s", parameter, v.ID)
	}
}
