package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"

	"drydock.dev/cmd/kubectl-drydock/doctor"
	"drydock.dev/shared/api"
)

// facts reads what doctor needs. It returns an error only if the API server does not answer.
func (s *session) facts(ctx context.Context, now time.Time) (doctor.Facts, error) {
	body, found, err := s.raw.get(ctx, "/version")
	var server version.Info
	if err == nil && found {
		err = json.Unmarshal(body, &server)
	}
	if err == nil && server.GitVersion == "" {
		err = errors.New("the answer has no version. Check that the address is that of an API server")
	}
	if err != nil {
		return doctor.Facts{}, fmt.Errorf("asking the API server for its version: %w", err)
	}
	f := doctor.Facts{Now: now, Namespace: s.namespace, Server: doctor.Server{
		Version:           server.GitVersion,
		Mutating:          s.mutatingVersion(ctx),
		AttributesClasses: s.offers(ctx, "storage.k8s.io/v1", "volumeattributesclasses"),
		Scalers:           s.offers(ctx, "drydock.dev/v1alpha1", "scalers"),
	}}
	f.Settings = s.settings(ctx)
	f.Installed = s.installed(ctx)
	f.Tick = s.ticks(ctx, f.Installed)
	f.Policies = s.policies(ctx, f.Server.Mutating.Value)
	f.Accounts = s.accounts(ctx)
	f.Rights = s.lackingRights(ctx, doctor.UserRights(s.namespace, len(f.Installed.Brokers.Value) > 0))
	f.Classes = s.classes(ctx)
	f.Images = s.images(ctx)
	s.owners(ctx, &f)
	return f, ctx.Err()
}

// mutatingVersion returns the newest API version of MutatingAdmissionPolicy (kubernetes KEP-3962) that the API server offers.
func (s *session) mutatingVersion(ctx context.Context) doctor.Answer[string] {
	for _, version := range []string{"v1", "v1beta1"} {
		offered := s.offers(ctx, admission+"/"+version, "mutatingadmissionpolicies")
		if offered.Value || !offered.Known() {
			return doctor.Convert(offered, func(bool) string { return version })
		}
	}
	return doctor.Answer[string]{}
}

func (s *session) settings(ctx context.Context) doctor.Answer[map[string]string] {
	found := one[corev1.ConfigMap](ctx, s, kindOf("", "v1", "configmaps"), api.HomeNamespace, "drydock-settings")
	return doctor.Convert(found, func(c *corev1.ConfigMap) map[string]string {
		if c == nil {
			return nil
		}
		data := map[string]string{} // an empty ConfigMap is not an absent one
		maps.Copy(data, c.Data)
		return data
	})
}

func (s *session) accounts(ctx context.Context) doctor.Accounts {
	a := doctor.Accounts{
		Accounts:     names(ctx, s, kindOf("", "v1", "serviceaccounts"), api.HomeNamespace),
		ClusterRoles: names(ctx, s, kindOf(rbacv1.GroupName, "v1", "clusterroles"), ""),
		Bindings:     names(ctx, s, kindOf(rbacv1.GroupName, "v1", "clusterrolebindings"), ""),
	}
	if s.namespace != "" {
		a.NamespaceBindings = names(ctx, s, kindOf(rbacv1.GroupName, "v1", "rolebindings"), s.namespace)
	}
	return a
}

func (s *session) classes(ctx context.Context) doctor.Answer[[]doctor.Class] {
	found := listed[storagev1.StorageClass](ctx, s, kindOf("storage.k8s.io", "v1", "storageclasses"), "", metav1.ListOptions{})
	return doctor.Convert(found, func(all []storagev1.StorageClass) []doctor.Class {
		var classes []doctor.Class
		for i := range all {
			c := &all[i]
			classes = append(classes, doctor.Class{Name: c.Name, Expandable: c.AllowVolumeExpansion != nil && *c.AllowVolumeExpansion,
				Default: c.Annotations["storageclass.kubernetes.io/is-default-class"] == "true"})
		}
		return classes
	})
}
