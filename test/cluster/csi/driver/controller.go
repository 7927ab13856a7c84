package main

import (
	"context"
	"maps"
	"strconv"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Parameters of StorageClasses and of VolumeAttributesClasses.
const (
	attachSeconds = "attachSeconds" // how long it takes to attach a volume
	detachSeconds = "detachSeconds"
	readAheadKiB  = "readAheadKiB" // mutable: of the loop device
)

// defaultBytes is the size of a volume for which none is asked.
const defaultBytes = 64 << 20

// controller makes, copies, attaches and grows volumes.
type controller struct {
	csi.UnimplementedControllerServer
	*driver
}

// ControllerGetCapabilities returns which calls the driver answers.
func (c controller) ControllerGetCapabilities(
	context.Context, *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	types := []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_CLONE_VOLUME,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
		csi.ControllerServiceCapability_RPC_MODIFY_VOLUME,
		csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	}
	if c.attach {
		types = append(types, csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME)
	}
	response := &csi.ControllerGetCapabilitiesResponse{}
	for _, t := range types {
		response.Capabilities = append(response.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: t}}})
	}
	return response, nil
}

// CreateVolume makes a volume with the request's name as its id, empty or as a copy.
func (c controller) CreateVolume(ctx context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	release, err := c.locks.take(ctx, r.Name)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := c.canCreate(r); err != nil {
		return nil, err
	}
	wanted := &record{ID: r.Name, Bytes: requested(r.CapacityRange), Source: sourceOf(r.VolumeContentSource), Context: r.Parameters,
		Mutable: r.MutableParameters, Created: time.Now()}
	is, err := c.store.load(volumes, wanted.ID)
	if err != nil {
		return nil, err
	}
	if is != nil {
		if is.Source != wanted.Source || !within(is.Bytes, r.CapacityRange) {
			return nil, status.Errorf(codes.AlreadyExists, "volume %s exists with %d bytes and source %q", is.ID, is.Bytes, is.Source)
		}
		return c.described(is, r.VolumeContentSource), nil
	}
	if err := c.make(ctx, wanted, r); err != nil {
		return nil, err
	}
	return c.described(wanted, r.VolumeContentSource), nil
}

// make fills a new volume.
func (c controller) make(ctx context.Context, v *record, r *csi.CreateVolumeRequest) error {
	if r.VolumeContentSource != nil {
		return c.makeCopy(ctx, v, r.VolumeContentSource)
	}
	return c.store.add(volumes, v, func(image string) error {
		if err := c.disk.enlarge(ctx, image, v.Bytes); err != nil {
			return err
		}
		for _, capability := range r.VolumeCapabilities {
			if m := capability.GetMount(); m != nil {
				return c.disk.format(ctx, m.FsType, image)
			}
		}
		return nil // a raw device
	})
}

// canCreate returns why the request cannot be met, or nil.
func (c controller) canCreate(r *csi.CreateVolumeRequest) error {
	if r.Name == "" || len(r.VolumeCapabilities) == 0 {
		return status.Error(codes.InvalidArgument, "a name and capabilities are needed")
	}
	if problem := unsupported(r.VolumeCapabilities); problem != "" {
		return status.Error(codes.InvalidArgument, problem)
	}
	for _, parameter := range []string{attachSeconds, detachSeconds} {
		if _, err := delay(r.Parameters, parameter); err != nil {
			return err
		}
	}
	if err := checkMutable(r.MutableParameters); err != nil {
		return err
	}
	if limit := r.CapacityRange.GetLimitBytes(); limit > 0 && limit < requested(r.CapacityRange) {
		return status.Errorf(
			codes.OutOfRange,
			"a volume of at most %d bytes was asked for, and of at least %d",
			limit,
			requested(r.CapacityRange),
		)
	}
	if topologies := r.AccessibilityRequirements.GetRequisite(); len(topologies) > 0 {
		for _, t := range topologies {
			if t.Segments[topologyKey] == c.node {
				return nil
			}
		}
		return status.Errorf(codes.ResourceExhausted, "this driver has volumes on node %s only", c.node)
	}
	return nil
}

// unsupported returns why a volume cannot have these capabilities, or "".
func unsupported(capabilities []*csi.VolumeCapability) string {
	for _, each := range capabilities {
		switch mode := each.GetAccessMode().GetMode(); mode {
		case csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER,
			csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER, csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY:
		default:
			return "volumes are for one node, and access mode " + mode.String() + " is not"
		}
	}
	return ""
}

func requested(r *csi.CapacityRange) int64 {
	if r.GetRequiredBytes() > 0 {
		return r.GetRequiredBytes()
	}
	return defaultBytes
}

func within(bytes int64, r *csi.CapacityRange) bool {
	return bytes >= r.GetRequiredBytes() && (r.GetLimitBytes() == 0 || bytes <= r.GetLimitBytes())
}

// delay reads a parameter in seconds.
func delay(parameters map[string]string, name string) (time.Duration, error) {
	text, given := parameters[name]
	if !given {
		return 0, nil
	}
	seconds, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, status.Errorf(codes.InvalidArgument, "parameter %s is no number of seconds: %q", name, text)
	}
	return time.Duration(seconds) * time.Second, nil
}

func (c controller) described(v *record, source *csi.VolumeContentSource) *csi.CreateVolumeResponse {
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: v.ID, CapacityBytes: v.Bytes, VolumeContext: maps.Clone(v.Context),
		ContentSource: source, AccessibleTopology: []*csi.Topology{c.topology()}}}
}

// DeleteVolume removes a volume and its data. One that is attached or staged is refused.
func (c controller) DeleteVolume(ctx context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	release, err := c.locks.take(ctx, r.VolumeId)
	if err != nil {
		return nil, err
	}
	defer release()
	if !safeID.MatchString(r.VolumeId) {
		return &csi.DeleteVolumeResponse{}, nil // not one of this driver's
	}
	v, err := c.store.load(volumes, r.VolumeId)
	if err != nil {
		return nil, err
	}
	if v == nil { // gone, or never completed
		return &csi.DeleteVolumeResponse{}, c.store.remove(volumes, r.VolumeId)
	}
	device, err := c.disk.device(ctx, c.store.image(volumes, v.ID))
	if err != nil {
		return nil, err
	}
	if v.Attached || device != "" {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is in use: attached %v, device %q", v.ID, v.Attached, device)
	}
	return &csi.DeleteVolumeResponse{}, c.store.remove(volumes, v.ID)
}

// ValidateVolumeCapabilities confirms what the volume can do.
func (c controller) ValidateVolumeCapabilities(
	_ context.Context, r *csi.ValidateVolumeCapabilitiesRequest,
) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if len(r.VolumeCapabilities) == 0 {
		return nil, status.Error(codes.InvalidArgument, "capabilities are needed")
	}
	if _, err := c.store.find(r.VolumeId); err != nil {
		return nil, err
	}
	if problem := unsupported(r.VolumeCapabilities); problem != "" {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: problem}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeCapabilities: r.VolumeCapabilities, VolumeContext: r.VolumeContext, Parameters: r.Parameters}}, nil
}

func created(r *record) *timestamppb.Timestamp { return timestamppb.New(r.Created) }
