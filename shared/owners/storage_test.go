package owners

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

const (
	elastic = `
apiVersion: elasticsearch.k8s.elastic.co/v1
kind: Elasticsearch
metadata: {namespace: shop, name: es, resourceVersion: "7"}
spec:
  nodeSets:
  - name: masters
    volumeClaimTemplates:
    - metadata: {name: elasticsearch-data}
      spec: {resources: {requests: {storage: 1Gi}}}
  - name: hot-data
    volumeClaimTemplates:
    - metadata: {name: elasticsearch-data}
      spec: {resources: {requests: {storage: 1073741824}}}
  - name: data
    volumeClaimTemplates:
    - metadata: {name: elasticsearch-data}
      spec: {storageClassName: fast, resources: {requests: {storage: 2Gi}}}
    - metadata: {name: logs}
      spec: {resources: {requests: {storage: 5Gi}}}
`
	redisCluster = `
apiVersion: redis.redis.opstreelabs.in/v1beta2
kind: RedisCluster
metadata: {namespace: shop, name: rc, resourceVersion: "7"}
spec:
  storage:
    volumeClaimTemplate: {spec: {resources: {requests: {storage: 2Gi}}}}
    nodeConfVolumeClaimTemplate: {spec: {resources: {requests: {storage: 1Gi}}}}
`
	prometheus = `
apiVersion: monitoring.coreos.com/v1
kind: Prometheus
metadata: {namespace: shop, name: p, resourceVersion: "7"}
spec: {storage: {volumeClaimTemplate: {spec: {resources: {requests: {storage: 2Gi}}}}}}
`
	emptyDir = `
apiVersion: monitoring.coreos.com/v1
kind: Prometheus
metadata: {namespace: shop, name: p, resourceVersion: "7"}
spec: {storage: {emptyDir: {}}}
`
)

func target(template, size, class string) api.TemplateTarget {
	return api.TemplateTarget{Name: template, Size: resource.MustParse(size), Class: class}
}

// TestDifferences: only the fields that concern the changed claims of the set count, and after the write there are none.
func TestDifferences(t *testing.T) {
	for name, tc := range map[string]struct {
		object, set string
		targets     []api.TemplateTarget
		want        []string
	}{
		"the item of the set and the template": {elastic, "es-es-data", []api.TemplateTarget{target("elasticsearch-data", "3Gi", "")}, []string{
			"spec.nodeSets[name=data].volumeClaimTemplates[metadata.name=elasticsearch-data].spec.resources.requests.storage is 2Gi, " +
				"and the claims have 3Gi"}},
		"an item whose name ends another one's, with a number of bytes": {elastic, "es-es-hot-data", []api.TemplateTarget{
			target("elasticsearch-data", "3Gi", "")}, []string{
			"spec.nodeSets[name=hot-data].volumeClaimTemplates[metadata.name=elasticsearch-data].spec.resources.requests.storage is " +
				"1073741824, and the claims have 3Gi"}},
		"another template of the set": {elastic, "es-es-data", []api.TemplateTarget{target("logs", "5Gi", "")}, nil},
		"two templates and a class": {elastic, "es-es-data", []api.TemplateTarget{target("elasticsearch-data", "2Gi", "slow"),
			target("logs", "6Gi", "")}, []string{
			"spec.nodeSets[name=data].volumeClaimTemplates[metadata.name=elasticsearch-data].spec.storageClassName is fast, " +
				"and the claims have slow",
			"spec.nodeSets[name=data].volumeClaimTemplates[metadata.name=logs].spec.resources.requests.storage is 5Gi, " +
				"and the claims have 6Gi"}},
		"a class that the item does not name": {elastic, "es-es-masters", []api.TemplateTarget{target("elasticsearch-data", "1Gi", "slow")},
			[]string{"spec.nodeSets[name=masters].volumeClaimTemplates[metadata.name=elasticsearch-data].spec.storageClassName is missing, " +
				"and the claims have slow"}},
		"a set of no item": {elastic, "es-es-other", []api.TemplateTarget{target("elasticsearch-data", "3Gi", "")}, nil},
		"the template that has its own field": {redisCluster, "rc-leader", []api.TemplateTarget{target("node-conf", "2Gi", "")}, []string{
			"spec.storage.nodeConfVolumeClaimTemplate.spec.resources.requests.storage is 1Gi, and the claims have 2Gi"}},
		"a template without its own field": {redisCluster, "rc-leader", []api.TemplateTarget{target("rc-leader", "1Gi", "")}, []string{
			"spec.storage.volumeClaimTemplate.spec.resources.requests.storage is 2Gi, and the claims have 1Gi"}},
		"the same size in other words": {prometheus, "prometheus-p", []api.TemplateTarget{target("prometheus-p-db", "2048Mi", "")}, nil},
		"an object without a size":     {emptyDir, "prometheus-p", []api.TemplateTarget{target("prometheus-p-db", "3Gi", "")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{}
			content, err := yaml.YAMLToJSON([]byte(tc.object))
			if err == nil {
				err = object.UnmarshalJSON(content) // numbers are those of an API server's answer
			}
			if err != nil {
				t.Fatal(err)
			}
			group, _, _ := strings.Cut(object.GetAPIVersion(), "/")
			row, known := BuiltIn().Find(group, object.GetKind())
			if !known {
				t.Fatal("the kind has no row")
			}
			found := row.Differences(object, tc.set, tc.targets)
			var texts []string
			for _, d := range found {
				texts = append(texts, fmt.Sprint(d))
			}
			if !slices.Equal(texts, tc.want) {
				t.Fatalf("it differs in %q, want %q", texts, tc.want)
			}
			changed := object
			if len(found) > 0 {
				if changed, err = build.Patched(object, Agree("tests", object, found)...); err != nil {
					t.Fatal(err)
				}
			}
			if left := row.Differences(changed, tc.set, tc.targets); len(left) > 0 {
				t.Errorf("after the write, it differs in %v", left)
			}
		})
	}
}

// TestStorageOfRowsIsChecked: wrong fields of a user's row are named.
func TestStorageOfRowsIsChecked(t *testing.T) {
	const row = "- {operator: acme, group: acme.example.com, kinds: [{name: Store, plural: stores}], " +
		"pause: [{field: spec.paused, value: true}], storage: "
	for text, want := range map[string]string{
		"[{size: spec.size}]":                            "",
		"[{size: spec.size, class: spec.class}]":         "",
		"[{template: data, size: 'spec.parts[*].size'}]": "",
		"[{class: spec.class}]":                          "storage[0].size",
		"[{size: status.size}]":                          "storage[0].size",
		"[{size: spec.size, class: class}]":              "storage[0].class",
		"[{size: spec.size}, {size: spec.size}]":         "listed twice",
		"[{sizes: spec.size}]":                           "storage[0].sizes",
		"[{size: spec.size}], onDifference: grows":       "",
		"[{size: spec.size}], onDifference: explodes":    "onDifference: \"explodes\" is unknown",
		"[], onDifference: grows":                        "applies only with storage",
		"spec.size":                                      "must be a list",
	} {
		_, err := Parse(row + text + "}")
		if got := fmt.Sprint(err); (err == nil) != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
