package policies

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/test/kit/apiserver"
)

var (
	jane  = apiserver.Client{User: "jane", Manager: "kubectl-edit"}
	admin = apiserver.Client{User: "admin", Manager: "kubectl-edit"}
	web   = apiserver.Key{Resource: "statefulsets", Namespace: "shop", Name: "web"}
)

func function(name string) apiserver.Client {
	return apiserver.Client{User: "system:serviceaccount:drydock:" + name, Manager: "drydock"}
}

// withSet returns a server with an opted-in StatefulSet. Only the administrator may write records.
func withSet(t *testing.T) *apiserver.Server {
	t.Helper()
	policies, err := Load(filepath.Join("..", "..", "..", "config", "policy"), func(user, group, resource, _ string) bool {
		return user == admin.User || group != "drydock.dev" || resource != "records"
	})
	if err != nil {
		t.Fatal(err)
	}
	s := apiserver.New(policies)
	set := &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](3)}}
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "db", Image: "db:1"}}
	set.Namespace, set.Name, set.Labels = "shop", "web", map[string]string{"drydock.dev/managed": "true"}
	if _, err := s.Create(jane, "statefulsets", apiserver.Encode(set), false); err != nil {
		t.Fatal(err)
	}
	return s
}

// edit returns an edit of a typed set.
func edit(change func(*appsv1.StatefulSet)) func(*apiserver.Object) error {
	return func(o *apiserver.Object) error {
		set := apiserver.Decode[appsv1.StatefulSet](o)
		change(set)
		o.Object = apiserver.Encode(set).Object
		return nil
	}
}

func annotate(key, value string) func(*apiserver.Object) error {
	return edit(func(s *appsv1.StatefulSet) { s.Annotations = map[string]string{"drydock.dev/" + key: value} })
}

// TestWritesToSetsAreJudged: Kubernetes' own code judges the policies as they are installed.
func TestWritesToSetsAreJudged(t *testing.T) {
	scale := edit(func(s *appsv1.StatefulSet) { s.Spec.Replicas = ptr.To[int32](0) })
	label := edit(func(s *appsv1.StatefulSet) { s.Labels["app"] = "x" })
	for name, row := range map[string]struct {
		by      apiserver.Client
		edit    func(*apiserver.Object) error
		refused string
	}{
		"a user scales":              {jane, scale, ""},
		"a user writes a record":     {jane, annotate("sleep", "{}"), "drydock-records"},
		"idle-timeout scales":        {function("idle-timeout"), scale, "drydock-fence-sets"},
		"scale scales":               {function("scale"), scale, ""},
		"idle-timeout changes label": {function("idle-timeout"), label, ""},
		"a user writes a floor":      {jane, annotate("grow-to", "data=1Gi"), "drydock-records"},

		"grow-volumes raises floors":             {function("grow-volumes"), annotate("grow-to", "data=15Gi,logs=150000000"), ""},
		"grow-volumes gives a floor a class":     {function("grow-volumes"), annotate("grow-to", "data=15Gi@fast"), "drydock-fence-sets"},
		"grow-volumes gives a floor a + ":        {function("grow-volumes"), annotate("grow-to", "data=15Gi+"), "drydock-fence-sets"},
		"grow-volumes follows the templates":     {function("grow-volumes"), annotate("grow-to", "auto"), "drydock-fence-sets"},
		"grow-volumes writes the user's request": {function("grow-volumes"), annotate("resize", "data=15Gi+"), "drydock-fence-sets"},
		"grow-volumes retries":                   {function("grow-volumes"), annotate("retry", "growth"), "drydock-fence-sets"},
		"detect-resize raises floors":            {function("detect-resize"), annotate("grow-to", "data=15Gi"), "drydock-fence-sets"},
		"detect-resize takes up a retry":         {function("detect-resize"), annotate("retry", "event"), ""},
		"backup scales":                          {function("backup"), scale, "drydock-fence-sets"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := withSet(t).Change(row.by, web, "", row.edit)
			if refused := new(apierrors.StatusError); (row.refused == "") != (err == nil) ||
				row.refused != "" && (!errors.As(err, &refused) || !strings.Contains(err.Error(), row.refused)) {
				t.Errorf("%v, want a refusal by %q", err, row.refused)
			}
		})
	}
}

func TestOnlyPauseOwnerRemovesCopiesOfPauses(t *testing.T) {
	for who, refused := range map[string]bool{"pause-owner": false, "restore": true, "grow-volumes": true} {
		server := withSet(t)
		if _, err := server.Change(jane, web, "", annotate("owner-paused", "{}")); err != nil {
			t.Fatalf("an operator cannot copy it: %v", err)
		}
		_, err := server.Change(function(who), web, "", edit(func(s *appsv1.StatefulSet) { s.Annotations = nil }))
		if (err != nil) != refused {
			t.Errorf("%s: %v, want refused %v", who, err, refused)
		}
	}
}

// TestRestoreDeletesASetWithoutItsPods: it creates the set again with another template.
func TestRestoreDeletesASetWithoutItsPods(t *testing.T) {
	server, restore := withSet(t), function("restore")
	if _, err := server.Change(admin, web, "", annotate("status", "{}")); err != nil {
		t.Fatal(err)
	}
	if err := server.Delete(restore, web, metav1.DeleteOptions{}); err == nil || !strings.Contains(err.Error(), "propagation policy Orphan") {
		t.Errorf("restore deletes a set with its pods: %v", err)
	}
	if err := server.Delete(restore, web, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationOrphan)}); err != nil {
		t.Errorf("restore cannot replace a set: %v", err)
	}
}
