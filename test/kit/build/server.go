package build

import (
	"errors"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"drydock.dev/test/kit/apiserver"
)

// Lists are the objects of an API server by plural name, which only answers reads. A list with an unknown plural name fails.
type Lists map[string][]metav1.Object

// EmptyLists returns empty lists of all kinds that Drydock reads.
func EmptyLists() Lists {
	l := Lists{}
	for _, plural := range []string{"statefulsets", "persistentvolumeclaims", "persistentvolumes", "controllerrevisions", "jobs", "pods",
		"scalers", "horizontalpodautoscalers", "volumeattachments", "namespaces", "storageclasses", "resourcequotas", "limitranges",
		"configmaps", "nodes"} {
		l[plural] = nil
	}
	return l
}

// Serve connects clients to a server that has the objects as they are now.
func (l Lists) Serve() *rest.Config { return l.front("").Config() }

// ServeHTTP answers a read of the objects as they are now.
func (l Lists) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.front(r.URL.Path).ServeHTTP(w, r)
}

// front returns a server with the lists that the path names.
func (l Lists) front(path string) *apiserver.Front {
	front := apiserver.NewFront()
	front.Use(func(s *apiserver.Server) {
		for plural, objects := range l {
			for _, o := range objects {
				if strings.Contains(path+"/", "/"+plural+"/") || path == "" {
					s.Put(plural, o)
				}
			}
		}
	})
	front.Before = func(_ *apiserver.Server, r *apiserver.Request) error {
		if _, known := l[r.Resource]; !known || r.Method != http.MethodGet {
			return apierrors.NewInternalError(errors.New("the test has no such list"))
		}
		return nil
	}
	return front
}
