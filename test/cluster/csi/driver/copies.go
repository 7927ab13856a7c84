package main

import (
	"context"
	"errors"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// CreateSnapshot makes a consistent copy of a volume.
func (c controller) CreateSnapshot(ctx context.Context, r *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	release, err := c.locks.take(ctx, r.Name)
	if err != nil {
		return nil, err
	}
	defer release()
	existing, err := c.store.load(snapshots, r.Name)
	if err != nil {
		return nil, err
	}
	if existing != nil {
		if existing.Source != r.SourceVolumeId {
			return nil, status.Errorf(codes.AlreadyExists, "snapshot %s of volume %s exists", existing.ID, existing.Source)
		}
		return snapshotResponse(existing), nil
	}
	releaseSource, err := c.locks.take(ctx, r.SourceVolumeId)
	if err != nil {
		return nil, err
	}
	defer releaseSource()
	source, err := c.store.find(r.SourceVolumeId)
	if err != nil {
		return nil, err
	}
	snapshot := &record{ID: r.Name, Bytes: source.Bytes, Source: source.ID, Created: time.Now()}
	err = c.store.add(snapshots, snapshot, func(image string) error {
		return c.copyVolume(ctx, source.ID, image)
	})
	if err != nil {
		return nil, err
	}
	return snapshotResponse(snapshot), nil
}

func snapshotResponse(s *record) *csi.CreateSnapshotResponse {
	return &csi.CreateSnapshotResponse{Snapshot: &csi.Snapshot{SnapshotId: s.ID, SourceVolumeId: s.Source, SizeBytes: s.Bytes,
		CreationTime: created(s), ReadyToUse: true}}
}

// DeleteSnapshot removes a snapshot. Volumes that were created from it have their own data.
func (c controller) DeleteSnapshot(ctx context.Context, r *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	release, err := c.locks.take(ctx, r.SnapshotId)
	if err != nil {
		return nil, err
	}
	defer release()
	if !safeID.MatchString(r.SnapshotId) {
		return &csi.DeleteSnapshotResponse{}, nil // not an id of this driver
	}
	return &csi.DeleteSnapshotResponse{}, c.store.remove(snapshots, r.SnapshotId)
}

// sourceOf returns the id of the volume or snapshot to copy, or "".
func sourceOf(s *csi.VolumeContentSource) string {
	if id := s.GetSnapshot().GetSnapshotId(); id != "" {
		return id
	}
	return s.GetVolume().GetVolumeId()
}

// makeCopy creates a volume from a snapshot or from another volume. The new volume must be at least as large.
func (c controller) makeCopy(ctx context.Context, v *record, from *csi.VolumeContentSource) error {
	of := snapshots
	if from.GetVolume() != nil {
		of = volumes
	}
	release, err := c.locks.take(ctx, v.Source)
	if err != nil {
		return err
	}
	defer release()
	source, err := c.store.load(of, v.Source)
	if err != nil {
		return err
	}
	if source == nil {
		return status.Errorf(codes.NotFound, "%s is not among the %s of this driver", v.Source, of)
	}
	if v.Bytes < source.Bytes {
		return status.Errorf(codes.OutOfRange, "a copy of %s needs at least %d bytes", v.Source, source.Bytes)
	}
	return c.store.add(volumes, v, func(image string) error {
		var err error
		if of == volumes {
			err = c.copyVolume(ctx, v.Source, image)
		} else {
			err = c.disk.copy(ctx, c.store.image(snapshots, v.Source), image)
		}
		return errors.Join(err, c.disk.enlarge(ctx, image, v.Bytes))
	})
}

// copyVolume copies a volume's image. It freezes a mounted file system during the copy, so that the copy is consistent.
func (d *driver) copyVolume(ctx context.Context, id, to string) (err error) {
	image := d.store.image(volumes, id)
	device, err := d.disk.device(ctx, image)
	if err != nil {
		return err
	}
	if device == "" {
		return d.disk.copy(ctx, image, to)
	}
	at, err := mountOf(device)
	if err != nil {
		return err
	}
	if at == nil { // a raw device: flush its cached writes
		if _, err := command(ctx, "blockdev", "--flushbufs", device); err != nil {
			return err
		}
		return d.disk.copy(ctx, image, to)
	}
	if _, err := command(ctx, "fsfreeze", "--freeze", at.point); err != nil {
		return err
	}
	defer func() {
		_, thawing := command(context.WithoutCancel(ctx), "fsfreeze", "--unfreeze", at.point)
		err = errors.Join(err, thawing)
	}()
	return d.disk.copy(ctx, image, to)
}

// thawAll thaws file systems that a driver left frozen when it was killed during a copy. It ignores the error of a file system that is not
// frozen.
func (d *driver) thawAll(ctx context.Context) error {
	ids, err := d.store.all()
	if err != nil {
		return err
	}
	for _, id := range ids {
		device, err := d.disk.device(ctx, d.store.image(volumes, id))
		if err != nil {
			return err
		}
		if at, err := mountOf(device); err != nil {
			return err
		} else if device != "" && at != nil {
			_, _ = command(ctx, "fsfreeze", "--unfreeze", at.point)
		}
	}
	return nil
}
