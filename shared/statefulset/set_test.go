package statefulset_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/statefulset"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

func TestRollingOut(t *testing.T) {
	rolling := func(updated int32, options ...build.Option) *appsv1.StatefulSet {
		return set(append([]build.Option{build.Replicas(3), build.Edit(func(s *appsv1.StatefulSet) {
			s.Spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
			s.Status.CurrentRevision, s.Status.UpdateRevision, s.Status.UpdatedReplicas = "web-1", "web-2", updated
		})}, options...)...)
	}
	partition := func(n *int32) build.Option {
		return build.Edit(func(s *appsv1.StatefulSet) {
			s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: n}
		})
	}
	onDelete := build.Edit(func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType })
	same := build.Edit(func(s *appsv1.StatefulSet) { s.Status.CurrentRevision = "web-2" })
	cases := map[string]*appsv1.StatefulSet{
		"no change":                                           set(build.Replicas(3)),
		"no replica is ready":                                 set(build.Replicas(3), build.ReplicaCounts(3, 0)),
		"the spec is not observed":                            set(build.Replicas(3), build.NotObserved()),
		"a replica is missing":                                set(build.Replicas(3), build.ReplicaCounts(2, 2)),
		"a removed replica still exists":                      set(build.Replicas(3), build.ReplicaCounts(4, 4)),
		"no replica is updated":                               rolling(0),
		"the last replica is not updated":                     rolling(2),
		"all replicas are updated, the current revision lags": rolling(3),
		"there is only one revision":                          rolling(0, same),
		"the partition is not reached":                        rolling(0, partition(ptr.To[int32](2))),
		"the partition is reached":                            rolling(1, partition(ptr.To[int32](2))),
		"a partition of all replicas":                         rolling(0, partition(ptr.To[int32](3))),
		"a partition beyond all replicas":                     rolling(0, partition(ptr.To[int32](100))),
		"a strategy without partition":                        rolling(1, partition(nil)),
		"the user deletes the pods":                           rolling(0, onDelete),
		"at zero":                                             set(build.Replicas(0)),
	}
	file := golden.Open(t)
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		rollout := statefulset.WhyRollingOut(cases[name])
		if rollout == "" {
			rollout = "no rollout"
		}
		file.Entry(t, name, rollout)
	}
}

func TestReplicasManager(t *testing.T) {
	at := func(minutes int) *metav1.Time {
		return &metav1.Time{Time: build.Now.Add(time.Duration(minutes) * time.Minute)}
	}
	entry := func(manager string, time *metav1.Time, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Time: time, FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}}
	}
	const replicas, template = `{"f:spec":{"f:replicas":{}}}`, `{"f:spec":{"f:template":{}},"f:metadata":{"f:replicas":{}}}`
	for name, row := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    string
	}{
		"no managed fields":         {nil, ""},
		"one manager":               {[]metav1.ManagedFieldsEntry{entry("kubectl", at(0), replicas)}, "kubectl"},
		"a manager of other fields": {[]metav1.ManagedFieldsEntry{entry("kubectl", at(0), template)}, ""},
		"the latest manager is in the middle": {[]metav1.ManagedFieldsEntry{entry("argocd", at(1), replicas), entry("kubectl", at(2), replicas),
			entry("helm", at(0), replicas)}, "kubectl"},
		"the latest manager is first": {
			[]metav1.ManagedFieldsEntry{entry("kubectl", at(2), replicas), entry("helm", at(1), replicas)}, "kubectl"},
		"at the same time": {[]metav1.ManagedFieldsEntry{entry("a", at(0), replicas), entry("b", at(0), replicas)}, "b"},
		"an unknown time":  {[]metav1.ManagedFieldsEntry{entry("a", nil, replicas)}, "a"},
		"unreadable fields": {[]metav1.ManagedFieldsEntry{{Manager: "a", Time: at(0)}, entry("b", at(0), "{"),
			entry("c", at(0), `{"f:spec":7}`)}, ""},
		"another manager wrote the status": {[]metav1.ManagedFieldsEntry{entry("kubectl", at(0), replicas),
			entry("controller", at(5), `{"f:status":{"f:replicas":{}}}`)}, "kubectl"},
	} {
		s := set(build.Edit(func(s *appsv1.StatefulSet) { s.ManagedFields = row.entries }))
		if got := statefulset.ReplicasManager(s); got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}
