package detectresize

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestFieldRequests: requests for other fields create the set again around its pods.
func TestFieldRequests(t *testing.T) {
	setAsking := func(request string, options ...build.Option) objects {
		return set(append(options, build.Resize(request))...)
	}
	mounts := build.Edit(func(s *appsv1.StatefulSet) {
		s.Spec.Template.Spec.Containers = append(s.Spec.Template.Spec.Containers, corev1.Container{Name: "shipper",
			VolumeMounts: []corev1.VolumeMount{{Name: "logs", MountPath: "/logs"}}})
	})
	serves := build.Edit(func(s *appsv1.StatefulSet) { s.Spec.ServiceName = "db" })
	logs := build.Template("logs", "1Gi", "fixed")
	done := build.Operation(api.Succeeded, func(r *api.Resize) { r.Request = "serviceName=db" })
	check(t,
		row{"another service name: the set is created again", given(setAsking("serviceName=db"), bothMembers())},
		row{"the set already has the service name", given(setAsking("serviceName=db", serves), bothMembers())},
		row{"another process has restored the old service name: the resize starts again",
			given(setAsking("serviceName=db", build.Status(done)), bothMembers())},
		row{"labels and a size change in one operation", given(setAsking("data=128Mi,data/labels/tier=gold"), bothMembers())},
		row{"a label of a template that the set does not have", given(setAsking("tmp/labels/tier=gold"), bothMembers())},
		row{"a removed template: its claims stay", given(setAsking("-logs", logs), bothMembers())},
		row{"a removed template that the pods mount", given(setAsking("-logs", logs, mounts), bothMembers())},
		row{"a removed template that the set does not have", given(setAsking("-logs"), bothMembers())},
		row{"an added template while the set has pods", given(setAsking("+logs=1Gi@fast:RWO"), bothMembers())},
		row{"an added template without pods", given(setAsking("+logs=1Gi@fast:RWO", build.Replicas(0)), claims("data-web-0"))},
		row{"an added template with a class that does not exist", given(setAsking("+logs=1Gi@nvme:RWO", build.Replicas(0)))},
		row{"a partition keeps pods of an older revision",
			given(setAsking("podManagementPolicy=Parallel", build.Edit(partitioned)), bothMembers())},
	)
}

func partitioned(s *appsv1.StatefulSet) {
	partition := int32(1)
	s.Status.CurrentRevision, s.Status.UpdateRevision = "r1", "r2"
	s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType,
		RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: &partition}}
}
