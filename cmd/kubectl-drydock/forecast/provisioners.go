package forecast

import (
	"cmp"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
)

// Provisioners returns the provisioners of the volumes that would be created or would grow.
func (f *Forecast) Provisioners() []string {
	var all []string
	for _, class := range f.classes() {
		if !slices.Contains(all, class.Provisioner) {
			all = append(all, class.Provisioner)
		}
	}
	return all
}

func (f *Forecast) classes() []*storagev1.StorageClass {
	var all []*storagev1.StorageClass
	if f.record == nil {
		return nil
	}
	for _, c := range f.claims(nil) {
		if class := f.in.Cluster.Classes[cmp.Or(c.NewClass, c.Class)]; class != nil {
			all = append(all, class)
		}
	}
	return all
}
