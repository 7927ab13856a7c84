package resources_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit/build"
)

// TestSetFieldsAndUndo: the set gets the fields of the request, and nothing else changes. With its former fields, the set has its former
// state again.
func TestSetFieldsAndUndo(t *testing.T) {
	const label, added = "data/labels/example.com/tier=gold", "+logs=1Gi@fast:RWO"
	for text, want := range map[string]string{
		"serviceName=db":                  "db OrderedReady data[]",
		"podManagementPolicy=Parallel":    "web Parallel data[]",
		label:                             "web OrderedReady data[tier=gold]",
		"data/annotations/cron=0 3 * * *": "web OrderedReady data[cron=0 3 * * *]",
		added:                             "web OrderedReady data[] logs[1Gi fast ReadWriteOnce]",
		"-data":                           "web OrderedReady",
		"-data," + added:                  "web OrderedReady logs[1Gi fast ReadWriteOnce]",
	} {
		t.Run(text, func(t *testing.T) {
			set := workload()
			set.Spec.VolumeClaimTemplates = set.Spec.VolumeClaimTemplates[:1]
			set.Spec.ServiceName, set.Spec.PodManagementPolicy = "web", appsv1.OrderedReadyPodManagement
			request, err := api.ParseRequest(text)
			if err != nil {
				t.Fatal(err)
			}
			if unmet := statefulset.Unmet(set, request.Fields); len(unmet) != len(request.Fields) {
				t.Fatalf("the set lacks %v", api.Words(unmet))
			}
			formerFields, former := statefulset.FieldsOf(set, request.Fields), describeSet(set)
			raw := resources.SetFields(build.Untyped(set), request.Fields)
			changed := build.Typed[appsv1.StatefulSet](raw)
			if got := describeSet(changed); got != want {
				t.Errorf("the set is %s, want %s", got, want)
			}
			if unmet := statefulset.Unmet(changed, request.Fields); len(unmet) > 0 {
				t.Errorf("the changed set lacks %v", api.Words(unmet))
			}
			undone := build.Typed[appsv1.StatefulSet](resources.SetFields(raw, formerFields))
			if got := describeSet(undone); !strings.HasPrefix(text, "-") && got != former {
				t.Errorf("with the former fields the set is %s, want %s", got, former)
			}
		})
	}
}

// describeSet renders the parts of a set that fields can change.
func describeSet(set *appsv1.StatefulSet) string {
	words := []string{set.Spec.ServiceName, string(set.Spec.PodManagementPolicy)}
	for _, c := range set.Spec.VolumeClaimTemplates {
		var parts []string
		if c.Name != "data" {
			size := statefulset.Requested(&c)
			parts = append(parts, size.String(), statefulset.ClassOf(&c), string(c.Spec.AccessModes[0]))
		}
		if tier, has := c.Labels["example.com/tier"]; has {
			parts = append(parts, "tier="+tier)
		}
		if cron, has := c.Annotations["cron"]; has {
			parts = append(parts, "cron="+cron)
		}
		words = append(words, c.Name+"["+strings.Join(parts, " ")+"]")
	}
	return strings.Join(words, " ")
}
