package owners

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
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
  - name: es-data
    volumeClaimTemplates:
    - metadata: {name: elasticsearch-data}
      spec: {resources: {requests: {storage: 9Gi}}}
  - name: elasticsearch-data
    volumeClaimTemplates:
    - metadata: {name: elasticsearch-data}
      spec: {resources: {requests: {storage: 9Gi}}}
  - name: coordinating
  - name: typo
    volumeClaimTemplates: none
`
	logstash = `
apiVersion: logstash.k8s.elastic.co/v1alpha1
kind: Logstash
metadata: {namespace: shop, name: ls, resourceVersion: "7"}
spec:
  volumeClaimTemplates:
  - spec: {resources: {requests: {storage: 1Gi}}}
  - metadata: {name: queue}
    spec: {resources: {requests: {storage: 1Gi}}}
  - metadata: {name: logstash-data}
    spec: {resources: {requests: {storage: 2Gi}}}
  - metadata: {name: queue}
    spec: {resources: {requests: {storage: 1Gi}}}
`
	mariaDB = `
apiVersion: k8s.mariadb.com/v1alpha1
kind: MariaDB
metadata: {namespace: shop, name: db, resourceVersion: "7"}
spec: {storage: {size: 2Gi, storageClassName: fast}}
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

// formerOf returns the fields of the object about the set, as if the set had agreed with all of them before its resize.
func formerOf(row Row, object *unstructured.Unstructured, set *appsv1.StatefulSet) []api.OwnerField {
	var all []api.OwnerField
	for _, t := range templatesOf(set) {
		for _, f := range row.fieldsOf(object, set.Name, t) {
			all = append(all, api.OwnerField{Template: t.Name, Path: f.Path, Value: f.Has})
		}
	}
	return all
}

// objectOf reads the object of the text, and finds its row. Its numbers are those of an API server's answer.
func objectOf(t *testing.T, text string) (*unstructured.Unstructured, Row) {
	t.Helper()
	object := &unstructured.Unstructured{}
	content, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = object.UnmarshalJSON(content)
	}
	if err != nil {
		t.Fatal(err)
	}
	group, _, _ := strings.Cut(object.GetAPIVersion(), "/")
	row, known := BuiltIn().Find(group, object.GetKind())
	if !known {
		t.Fatal("the kind has no row")
	}
	return object, row
}

// TestDifferences: only the fields that concern the changed templates of the set count, and after the write there are none.
func TestDifferences(t *testing.T) {
	for name, tc := range map[string]struct {
		object, set string
		templates   []build.Option
		want        []string
	}{
		"the item of the set and the template": {elastic, "es-es-data", []build.Option{
			build.Template("elasticsearch-data", "3Gi", "fast")}, []string{
			"spec.nodeSets[name=data].volumeClaimTemplates[metadata.name=elasticsearch-data].spec.resources.requests.storage is 2Gi, " +
				"and the StatefulSet has 3Gi"}},
		"an item whose name ends another one's, with a number of bytes": {elastic, "es-es-hot-data", []build.Option{
			build.Template("elasticsearch-data", "3Gi", "")}, []string{
			"spec.nodeSets[name=hot-data].volumeClaimTemplates[metadata.name=elasticsearch-data].spec.resources.requests.storage is " +
				"1073741824, and the StatefulSet has 3Gi"}},
		"another template of the set": {elastic, "es-es-data", []build.Option{build.Template("logs", "5Gi", "")}, nil},
		"two templates and a class": {elastic, "es-es-data", []build.Option{build.Template("elasticsearch-data", "2Gi", "slow"),
			build.Template("logs", "6Gi", "")}, []string{
			"spec.nodeSets[name=data].volumeClaimTemplates[metadata.name=elasticsearch-data].spec.storageClassName is fast, " +
				"and the StatefulSet has slow",
			"spec.nodeSets[name=data].volumeClaimTemplates[metadata.name=logs].spec.resources.requests.storage is 5Gi, " +
				"and the StatefulSet has 6Gi"}},
		"a class that the item does not name": {elastic, "es-es-masters", []build.Option{build.Template("elasticsearch-data", "1Gi", "slow")},
			[]string{"spec.nodeSets[name=masters].volumeClaimTemplates[metadata.name=elasticsearch-data].spec.storageClassName is missing, " +
				"and the StatefulSet has slow"}},
		"a set of no item":          {elastic, "es-es-other", []build.Option{build.Template("elasticsearch-data", "3Gi", "")}, nil},
		"a set of another resource": {elastic, "eu-es-data", []build.Option{build.Template("elasticsearch-data", "3Gi", "")}, nil},
		"an item without templates": {elastic, "es-es-coordinating", []build.Option{build.Template("elasticsearch-data", "3Gi", "")}, nil},
		"an item whose list of templates is text": {elastic, "es-es-typo", []build.Option{
			build.Template("elasticsearch-data", "3Gi", "slow")}, nil},
		"an item whose name has the operator's suffix": {elastic, "es-es-es-data", []build.Option{
			build.Template("elasticsearch-data", "3Gi", "")}, []string{
			"spec.nodeSets[name=es-data].volumeClaimTemplates[metadata.name=elasticsearch-data].spec.resources.requests.storage is 9Gi, " +
				"and the StatefulSet has 3Gi"}},
		"the item of the template, beside items without a unique name": {logstash, "ls-ls", []build.Option{
			build.Template("logstash-data", "3Gi", ""), build.Template("queue", "3Gi", "")}, []string{
			"spec.volumeClaimTemplates[metadata.name=logstash-data].spec.resources.requests.storage is 2Gi, and the StatefulSet has 3Gi"}},
		"the template that the row names": {mariaDB, "db", []build.Option{build.Template("storage", "3Gi", "fast")}, []string{
			"spec.storage.size is 2Gi, and the StatefulSet has 3Gi"}},
		"a template that the row does not name": {mariaDB, "db", []build.Option{build.Template("storage", "2Gi", "fast"),
			build.Template("galera", "300Mi", "slow")}, nil},
		"the template that has its own field": {redisCluster, "rc-leader", []build.Option{build.Template("node-conf", "2Gi", "")}, []string{
			"spec.storage.nodeConfVolumeClaimTemplate.spec.resources.requests.storage is 1Gi, and the StatefulSet has 2Gi"}},
		"a template without its own field": {redisCluster, "rc-leader", []build.Option{build.Template("rc-leader", "1Gi", "")}, []string{
			"spec.storage.volumeClaimTemplate.spec.resources.requests.storage is 2Gi, and the StatefulSet has 1Gi"}},
		"the same size in other words": {prometheus, "prometheus-p", []build.Option{build.Template("prometheus-p-db", "2048Mi", "")}, nil},
		"an object without a size":     {emptyDir, "prometheus-p", []build.Option{build.Template("prometheus-p-db", "3Gi", "")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			object, row := objectOf(t, tc.object)
			set := build.Set(tc.set, tc.templates...)
			former := formerOf(row, object, set)
			found := row.Differences(object, set, former)
			var texts []string
			for _, d := range found {
				texts = append(texts, fmt.Sprint(d))
			}
			if !slices.Equal(texts, tc.want) {
				t.Fatalf("it differs in %q, want %q", texts, tc.want)
			}
			changed := object
			if len(found) > 0 {
				var err error
				if changed, err = build.Patched(object, Agree("tests", object, found)...); err != nil {
					t.Fatal(err)
				}
			}
			if left := row.Differences(changed, set, former); len(left) > 0 {
				t.Errorf("after the write, it differs in %v", left)
			}
			if new := row.Differences(object, set, nil); len(new) > 0 {
				t.Errorf("templates that did not exist before the resize differ in %v", new)
			}
		})
	}
}

// TestOnlyFollowedFieldsDiffer: a field that the operator has not followed before the resize says nothing. A field that another client has
// changed since is marked.
func TestOnlyFollowedFieldsDiffer(t *testing.T) {
	object, row := objectOf(t, prometheus)
	before, after := build.Set("prometheus-p", build.Template("db", "2Gi", "")), build.Set("prometheus-p", build.Template("db", "3Gi", ""))
	const path = "spec.storage.volumeClaimTemplate.spec.resources.requests.storage"
	former := row.Followed(object, before)
	if !slices.Contains(former, api.OwnerField{Template: "db", Path: path, Value: "2Gi"}) {
		t.Fatalf("the object agrees in %+v", former)
	}
	if found := row.Differences(object, after, former); len(found) != 1 || found[0].Edited || found[0].Path != path {
		t.Errorf("after the resize, it differs in %+v", found)
	}
	if found := row.Differences(object, before, former); len(found) > 0 {
		t.Errorf("without a change of the set, it differs in %+v", found)
	}
	smaller := build.Set("prometheus-p", build.Template("db", "1Gi", ""))
	if found := row.Differences(object, after, row.Followed(object, smaller)); len(found) != 1 || !found[0].Edited {
		t.Errorf("its operator follows each edit, and it differs in %+v", found)
	}
	growing := row
	growing.OnDifference = Grows
	for size, differs := range map[string]bool{"1Gi": true, "2500Mi": false} { // the object has 2Gi
		former := growing.Followed(object, build.Set("prometheus-p", build.Template("db", size, "")))
		if found := growing.Differences(object, after, former); (len(found) > 0) != differs {
			t.Errorf("its operator makes claims of %s larger, and it differs in %+v", size, found)
		}
	}
	passive := row
	passive.OnDifference = Blocks
	if found := row.Differences(object, after, passive.Followed(object, smaller)); len(found) > 0 {
		t.Errorf("its operator has not followed the field, and it differs in %+v", found)
	}
	other := build.Set("prometheus-p", build.Template("cache", "3Gi", ""))
	if found := row.Differences(object, other, former); len(found) > 0 {
		t.Errorf("a template that did not exist before differs in %+v", found)
	}
	edited := object.DeepCopy()
	if err := unstructured.SetNestedField(edited.Object, "5Gi", strings.Split(path, ".")...); err != nil {
		t.Fatal(err)
	}
	if found := row.Differences(edited, after, former); len(found) != 1 || !found[0].Edited {
		t.Errorf("another client has changed the field, and it differs in %+v", found)
	}
}

// TestHostileSizeIsNoSize: a tenant may write any text that the schema of a quantity accepts, and parsing some of it takes minutes.
func TestHostileSizeIsNoSize(t *testing.T) {
	set := build.Set("prometheus-p", build.Template("prometheus-p-db", "3Gi", ""))
	for size, differs := range map[string]bool{"2Gi": true, "1e9": true, "1e-999999": false, "1e-99999999": false, "9e99999999": false} {
		t.Run(size, func(t *testing.T) {
			object, row := objectOf(t, strings.ReplaceAll(prometheus, "2Gi", `"`+size+`"`))
			if found := row.Differences(object, set, formerOf(row, object, set)); (len(found) > 0) != differs {
				t.Errorf("it differs in %v, want a difference: %t", found, differs)
			}
			asked := []Difference{{Path: row.Storage[0].Size, Has: "2Gi", Wants: size}}
			if found := row.Conflicts(object, asked, []*appsv1.StatefulSet{set}); (len(found) > 0) != differs {
				t.Errorf("it conflicts in %v, want a conflict: %t", found, differs)
			}
		})
	}
}

// TestConflicts: sets that share a field of their owner must ask for the same.
func TestConflicts(t *testing.T) {
	leader := build.Set("rc-leader", build.Template("rc-leader", "3Gi", ""), build.Template("node-conf", "1Gi", ""))
	for name, tc := range map[string]struct {
		object      string
		set, others *appsv1.StatefulSet
		want        string
	}{
		"the same field, another size": {redisCluster, leader, build.Set("rc-follower", build.Template("rc-follower", "2Gi", "")),
			"kubectl drydock resize -n shop sts/rc-follower rc-follower=3Gi"},
		"the same field, the same size": {redisCluster, leader, build.Set("rc-follower", build.Template("rc-follower", "3072Mi", "")), ""},
		"another field":                 {redisCluster, leader, build.Set("rc-follower", build.Template("node-conf", "7Gi", "")), ""},
		"another item of a list": {elastic, build.Set("es-es-data", build.Template("elasticsearch-data", "3Gi", "")),
			build.Set("es-es-masters", build.Template("elasticsearch-data", "1Gi", "")), ""},
		"another item whose name ends alike": {elastic, build.Set("es-es-data", build.Template("elasticsearch-data", "3Gi", "")),
			build.Set("es-es-es-data", build.Template("elasticsearch-data", "9Gi", "")), ""},
		"the same field, another class": {redisCluster, build.Set("rc-leader", build.Template("rc-leader", "2Gi", "slow")),
			build.Set("rc-follower", build.Template("rc-follower", "2Gi", "fast")),
			"kubectl drydock resize -n shop sts/rc-follower rc-follower=2Gi@slow"},
		"a template of the same set that the row does not name": {mariaDB, build.Set("db", build.Template("storage", "3Gi", ""),
			build.Template("galera", "300Mi", "")), nil, ""},
		"another template of the same set": {prometheus, build.Set("p", build.Template("a", "3Gi", ""), build.Template("b", "64Mi", "")), nil,
			"kubectl drydock resize -n shop sts/p b=3Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			object, row := objectOf(t, tc.object)
			sets := []*appsv1.StatefulSet{tc.set}
			if tc.others != nil {
				sets = append(sets, tc.others)
			}
			differences := row.Differences(object, tc.set, formerOf(row, object, tc.set))
			if len(differences) == 0 {
				t.Fatal("the object does not differ from the set")
			}
			got := ""
			for _, c := range row.Conflicts(object, differences, sets) {
				got += c.Command("shop")
			}
			if got != tc.want {
				t.Errorf("the conflict ends by %q, want %q", got, tc.want)
			}
		})
	}
}

// TestStorageOfRowsIsChecked: wrong fields of a user's row are named.
func TestStorageOfRowsIsChecked(t *testing.T) {
	const row = "- {operator: acme, group: acme.example.com, kinds: [{name: Store, plural: stores}], " +
		"pause: [{field: spec.paused, value: true}], storage: "
	for text, want := range map[string]string{
		"[{size: spec.size}]":                                                    "",
		"[{size: spec.size, class: spec.class}]":                                 "",
		"[{template: data, size: 'spec.parts[template].size'}]":                  "",
		"[{size: spec.size, class: 'spec.parts[set].class', setName: '{item}'}]": "",
		"[{size: 'spec.parts[set].size', setName: '{resource}-x-{item}-0'}]":     "",
		"[{size: 'spec.parts[*].size'}]":                                         "must say which item of a list it means; write [set] or",
		"[{size: 'spec.parts[name=a].size'}]":                                    "write [set] or [template]",
		"[{size: 'spec.parts[other].size'}]":                                     "is not a path below spec, such as spec.size or",
		"[{size: 'spec.parts[set].size'}]":                                       "storage[0].setName: is missing; say how",
		"[{size: spec.size, setName: '{resource}-{item}'}]":                      "storage[0].setName: applies only to paths with [set]",
		"[{size: 'spec.parts[set].size', setName: '{resource}'}]":                "storage[0].setName: \"{resource}\" must have {item} once",
		"[{size: 'spec.parts[set].size', setName: '{item}-{item}'}]":             "must have {item} once",
		"[{size: 'spec.parts[set].size', setName: '{item}-{size}'}]":             "is not how a StatefulSet is named, such as {resource}-{item}",
		"[{size: 'spec.parts[set].size', setName: 7}]":                           "storage[0].setName: must be text",
		"[{class: spec.class}]":                                                  "storage[0].size",
		"[{size: status.size}]":                                                  "storage[0].size",
		"[{size: spec.size, class: class}]":                                      "storage[0].class",
		"[{size: spec.size}, {size: spec.size}]":                                 "listed twice",
		"[{sizes: spec.size}]":                                                   "storage[0].sizes",
		"[{size: spec.size}], onDifference: grows":                               "",
		"[{size: spec.size}], onDifference: explodes":                            "onDifference: \"explodes\" is unknown",
		"[], onDifference: grows":                                                "applies only with storage",
		"spec.size":                                                              "must be a list",
	} {
		_, err := Parse(row + text + "}")
		if got := fmt.Sprint(err); (err == nil) != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
