package main

import (
	"context"
	"fmt"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

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
