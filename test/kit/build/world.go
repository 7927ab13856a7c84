package build

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/sts"
)

// World is what a function observes of StatefulSet web: the objects given. Without a StatefulSet it does not exist.
func World(objects ...metav1.Object) *sts.Observed {
	o := &sts.Observed{Now: Now, Name: "web", Volumes: map[string]*corev1.PersistentVolume{}}
	for _, object := range objects {
		switch object := object.(type) {
		case *appsv1.StatefulSet:
			o.Set, o.Name = object, object.Name
		case *corev1.PersistentVolumeClaim:
			o.Claims = append(o.Claims, object)
		case *corev1.PersistentVolume:
			o.Volumes[object.Name] = object
		case *corev1.Pod:
			o.Pods = append(o.Pods, object)
		case *batchv1.Job:
			o.Jobs = append(o.Jobs, object)
		case *appsv1.ControllerRevision:
			o.Journals = append(o.Journals, object)
		case *storagev1.VolumeAttachment:
			o.Attachments = append(o.Attachments, object)
		default:
			panic(fmt.Sprintf("a world has no %T", object))
		}
	}
	return o
}
