package main

import (
	"context"
	"log/slog"

	"github.com/container-storage-interface/spec/lib/go/csi"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// topologyKey is the node label that the scheduler compares with the volume's topology.
const topologyKey = "kubernetes.io/hostname"

// identity describes the driver.
type identity struct {
	csi.UnimplementedIdentityServer
	*driver
}

// GetPluginInfo returns the driver's name.
func (i identity) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: i.name, VendorVersion: "1"}, nil
}

// GetPluginCapabilities returns the properties of all volumes: each is on one node, and grows online or offline.
func (i identity) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	service := func(t csi.PluginCapability_Service_Type) *csi.PluginCapability {
		return &csi.PluginCapability{Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: t}}}
	}
	expansion := csi.PluginCapability_VolumeExpansion_ONLINE
	if i.offline {
		expansion = csi.PluginCapability_VolumeExpansion_OFFLINE
	}
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{
		service(csi.PluginCapability_Service_CONTROLLER_SERVICE),
		service(csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS),
		{Type: &csi.PluginCapability_VolumeExpansion_{VolumeExpansion: &csi.PluginCapability_VolumeExpansion{Type: expansion}}},
	}}, nil
}

// Probe reports that the driver is ready.
func (i identity) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

func (d *driver) topology() *csi.Topology {
	return &csi.Topology{Segments: map[string]string{topologyKey: d.node}}
}

// registrar is the service that the kubelet calls on the registration socket.
type registrar struct {
	registration.UnsafeRegistrationServer
	*driver
}

// GetInfo returns the socket for CSI calls.
func (r registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: r.name, Endpoint: r.endpoint,
		SupportedVersions: []string{"1.0.0"}}, nil
}

// NotifyRegistrationStatus logs the result of the kubelet's registration.
func (r registrar) NotifyRegistrationStatus(
	_ context.Context, s *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	slog.Info("The kubelet has answered", "registered", s.PluginRegistered, "problem", s.Error)
	return &registration.RegistrationStatusResponse{}, nil
}
