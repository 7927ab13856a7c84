package kit

import (
	"context"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Attributes and OtherAttributes are the VolumeAttributesClasses of a World.
const (
	Attributes      = "world-gold"
	OtherAttributes = "world-silver"
)

// Class, OtherClass and GrowingClass are the StorageClasses of a World. GrowingClass allows volume expansion.
const (
	Class        = "world"
	OtherClass   = "world-2"
	GrowingClass = "world-growing"
)

func (w *World) createClasses() {
	w.T.Helper()
	for _, name := range []string{Class, OtherClass, GrowingClass} {
		mode := storagev1.VolumeBindingWaitForFirstConsumer
		_, err := w.Kube.StorageV1().StorageClasses().Create(context.Background(),
			&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name},
				Provisioner: provisioner, VolumeBindingMode: &mode, AllowVolumeExpansion: ptr.To(
					name == GrowingClass)}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			w.T.Fatalf("creating class %s: %v", name, err)
		}
	}
	for _, name := range []string{Attributes, OtherAttributes} {
		_, err := w.Kube.StorageV1().VolumeAttributesClasses().Create(context.Background(), &storagev1.VolumeAttributesClass{
			ObjectMeta: metav1.ObjectMeta{Name: name}, DriverName: provisioner, Parameters: map[string]string{
				"name": name}}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			w.T.Fatalf("creating VolumeAttributesClass %s: %v", name, err)
		}
	}
}
