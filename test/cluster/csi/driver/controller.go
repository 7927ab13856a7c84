package main

import (
	"context"
	"errors"
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
	attachSeconds = "attachSeconds" // duration of attaching
	detachSeconds = "detachSeconds"
	attachLimit   = "attachLimit"  // how many volumes of the class can be attached, 0 for any; the scheduler does not know it
	publishing    = "publish"      // how volumes with file systems are mounted: empty, publishDirect or publishOnce
	readAheadKiB  = "readAheadKiB" // read-ahead of the loop device; mutable
)

// Values of the parameter publish. By default, a volume is mounted once for the node, and bind-mounted for each pod.
const (
	publishDirect = "direct" // the device is mounted for each pod, so the kernel refuses a read-only mount beside a writable one
	publishOnce   = "once"   // like direct, but for one pod at a time
)

// defaultBytes is the size of a volume without a requested size.
const defaultBytes = 64 << 20

// controller creates, copies, attaches and grows volumes.
type controller struct {
	csi.UnimplementedControllerServer
	*driver
}

// ControllerGetCapabilities returns the calls that the driver supports.
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

// CreateVolume creates an empty volume or a copy. The id of the volume is the name in the request.
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
	existing, err := c.store.load(volumes, wanted.ID)
	if err != nil {
		return nil, err
	}
	if existing != nil {
		if existing.Source != wanted.Source || !within(existing.Bytes, r.CapacityRange) {
			return nil, status.Errorf(codes.AlreadyExists, "volume %s exists with %d bytes and source %q",
				existing.ID, existing.Bytes, existing.Source)
		}
		return c.volumeResponse(existing, r.VolumeContentSource), nil
	}
	if err := c.makeVolume(ctx, wanted, r); err != nil {
		return nil, err
	}
	return c.volumeResponse(wanted, r.VolumeContentSource), nil
}

// makeVolume creates the image of a new volume.
func (c controller) makeVolume(ctx context.Context, v *record, r *csi.CreateVolumeRequest) error {
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

// canCreate returns the reason why the request cannot be met, or nil.
func (c controller) canCreate(r *csi.CreateVolumeRequest) error {
	if r.Name == "" || len(r.VolumeCapabilities) == 0 {
		return status.Error(codes.InvalidArgument, "the request needs a name and capabilities")
	}
	if problem := unsupported(r.VolumeCapabilities); problem != "" {
		return status.Error(codes.InvalidArgument, problem)
	}
	for _, parameter := range []string{attachSeconds, detachSeconds, attachLimit} {
		if _, err := number(r.Parameters, parameter); err != nil {
			return err
		}
	}
	switch mode := r.Parameters[publishing]; mode {
	case "", publishDirect, publishOnce:
	default:
		return status.Errorf(codes.InvalidArgument, "parameter %s=%q is unknown. Use %s or %s", publishing, mode, publishDirect, publishOnce)
	}
	if err := checkMutable(r.MutableParameters); err != nil {
		return err
	}
	if limit := r.CapacityRange.GetLimitBytes(); limit > 0 && limit < requested(r.CapacityRange) {
		return status.Errorf(codes.OutOfRange, "the limit of %d bytes is less than the required size of %d bytes", limit,
			requested(r.CapacityRange))
	}
	if topologies := r.AccessibilityRequirements.GetRequisite(); len(topologies) > 0 {
		for _, t := range topologies {
			if t.Segments[topologyKey] == c.node {
				return nil
			}
		}
		return status.Errorf(codes.ResourceExhausted, "this driver creates volumes on node %s only", c.node)
	}
	return nil
}

// unsupported returns the reason why a volume cannot have these capabilities, or "".
func unsupported(capabilities []*csi.VolumeCapability) string {
	for _, each := range capabilities {
		switch mode := each.GetAccessMode().GetMode(); mode {
		case csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER,
			csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER, csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY:
		default:
			return "access mode " + mode.String() + " is not supported: a volume is available on one node only"
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

// number parses a parameter. The default is 0.
func number(parameters map[string]string, name string) (int, error) {
	text, given := parameters[name]
	if !given {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, status.Errorf(codes.InvalidArgument, "parameter %s is not a whole number up to 65535: %q", name, text)
	}
	return int(n), nil
}

func (c controller) volumeResponse(v *record, source *csi.VolumeContentSource) *csi.CreateVolumeResponse {
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: v.ID, CapacityBytes: v.Bytes, VolumeContext: maps.Clone(v.Context),
		ContentSource: source, AccessibleTopology: []*csi.Topology{c.topology()}}}
}

// DeleteVolume removes a volume and its data. It refuses an attached or staged volume.
func (c controller) DeleteVolume(ctx context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	release, err := c.locks.take(ctx, r.VolumeId)
	if err != nil {
		return nil, err
	}
	defer release()
	if !safeID.MatchString(r.VolumeId) {
		return &csi.DeleteVolumeResponse{}, nil // not an id of this driver
	}
	v, err := c.store.load(volumes, r.VolumeId)
	if err != nil {
		return nil, err
	}
	if v == nil { // removed, or never completed
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

// ValidateVolumeCapabilities confirms the capabilities that the volume has.
func (c controller) ValidateVolumeCapabilities(
	_ context.Context, r *csi.ValidateVolumeCapabilitiesRequest,
) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if len(r.VolumeCapabilities) == 0 {
		return nil, status.Error(codes.InvalidArgument, "the request needs capabilities")
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
