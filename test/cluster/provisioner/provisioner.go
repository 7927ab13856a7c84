package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// fileSystemParameter is the parameter of a StorageClass that names the file system.
const fileSystemParameter = "fileSystem"

// Provisioner makes a volume for a claim and removes the volume of a claim that is gone. When to do either is decided
// by the library: it honours the binding mode, the selected node and the reclaim policy.
type Provisioner struct {
	Disk *Disk
	Node string
}

// Provision makes the volume and describes it.
func (p *Provisioner) Provision(ctx context.Context, o controller.ProvisionOptions) (*corev1.PersistentVolume, controller.ProvisioningState, error) {
	if o.SelectedNodeName != "" && o.SelectedNodeName != p.Node {
		return nil, controller.ProvisioningReschedule, fmt.Errorf("this is node %s, and the pod is to run on %s", p.Node, o.SelectedNodeName)
	}
	if o.PVC.Spec.DataSource != nil || o.PVC.Spec.DataSourceRef != nil {
		return nil, controller.ProvisioningFinished, fmt.Errorf("claim %s has a data source: these volumes start empty", o.PVC.Name)
	}
	size := o.PVC.Spec.Resources.Requests[corev1.ResourceStorage]
	if mode := o.PVC.Spec.VolumeMode; mode != nil && *mode == corev1.PersistentVolumeBlock {
		device, err := p.Disk.MakeDevice(ctx, o.PVName, size.Value())
		return p.volume(o, *mode, device), controller.ProvisioningFinished, err
	}
	if err := p.Disk.Make(ctx, o.PVName, o.StorageClass.Parameters[fileSystemParameter], size.Value()); err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	return p.volume(o, corev1.PersistentVolumeFilesystem, p.Disk.Data(o.PVName)), controller.ProvisioningFinished, nil
}

// SupportsBlock tells the library that claims may be for a device.
func (p *Provisioner) SupportsBlock(context.Context) bool { return true }

// volume is of type local rather than hostPath, since the kubelet applies fsGroup to the former only.
func (p *Provisioner) volume(o controller.ProvisionOptions, mode corev1.PersistentVolumeMode, path string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: o.PVName},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: *o.StorageClass.ReclaimPolicy,
			AccessModes:                   o.PVC.Spec.AccessModes,
			VolumeMode:                    &mode,
			MountOptions:                  o.StorageClass.MountOptions,
			Capacity: corev1.ResourceList{
				corev1.ResourceStorage: o.PVC.Spec.Resources.Requests[corev1.ResourceStorage],
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				Local: &corev1.LocalVolumeSource{Path: path},
			},
			NodeAffinity: onlyOn(p.Node),
		},
	}
}

func onlyOn(node string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
		}},
	}}}}
}

// Delete removes the data of a released volume.
func (p *Provisioner) Delete(ctx context.Context, volume *corev1.PersistentVolume) error {
	device := volume.Spec.VolumeMode != nil && *volume.Spec.VolumeMode == corev1.PersistentVolumeBlock
	if volume.Spec.Local == nil || device && !p.Disk.Has(volume.Name) || !device && volume.Spec.Local.Path != p.Disk.Data(volume.Name) {
		return &controller.IgnoredError{Reason: "it is not in the folder of this provisioner's volumes"}
	}
	return p.Disk.Remove(ctx, volume.Name)
}
