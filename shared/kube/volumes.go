package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

// observeVolumes reads the volumes of the set's operations by label, and all other volumes of its claims and records by name. Volumes have
// no namespace, and a cluster may have very many.
func (c *Client) observeVolumes(ctx context.Context, namespace string, o *observation) error {
	linked := api.OperationLabel + "," + api.NamespaceLabel + "=" + namespace
	err := Pages(ctx, c, plan.Volumes, "", linked, &corev1.PersistentVolumeList{}, func(l *corev1.PersistentVolumeList) {
		for i := range l.Items {
			volume := &l.Items[i]
			link, err := api.LoadLink(volume)
			switch {
			case err != nil || link == nil || link.Namespace != namespace || !ofNamespace(volume, namespace):
			case link.Set.Name == o.Name:
				o.Volumes[volume.Name] = volume
			case link.Role == api.RoleOldVolume:
				o.OthersRetained = append(o.OthersRetained, volume)
			}
		}
	})
	if err != nil {
		return err
	}
	for _, name := range o.VolumeNames() {
		if o.Volumes[name] != nil {
			continue
		}
		volume := &corev1.PersistentVolume{}
		found, err := c.Get(ctx, plan.Volumes, "", name, volume)
		if err != nil {
			return err
		}
		if found && ofNamespace(volume, namespace) {
			o.Volumes[name] = volume
		}
	}
	return nil
}

// ofNamespace reports whether the volume's claimRef names the namespace. Names of volumes come from annotations, which every user who may
// edit a StatefulSet can write. Such a user must not reach the volumes of another namespace.
func ofNamespace(volume *corev1.PersistentVolume, namespace string) bool {
	return volume.Spec.ClaimRef != nil && volume.Spec.ClaimRef.Namespace == namespace
}

// UnclaimedVolumes returns the cluster's volumes without a claim, including volumes that are reserved for a claim's name.
func (c *Client) UnclaimedVolumes(ctx context.Context) ([]*corev1.PersistentVolume, error) {
	var unclaimed []*corev1.PersistentVolume
	err := Pages(ctx, c, plan.Volumes, "", "", &corev1.PersistentVolumeList{}, func(l *corev1.PersistentVolumeList) {
		for i := range l.Items {
			if ref := l.Items[i].Spec.ClaimRef; ref == nil || ref.UID == "" {
				unclaimed = append(unclaimed, l.Items[i].DeepCopy()) // a pointer would keep the whole page
			}
		}
	})
	return unclaimed, err
}
