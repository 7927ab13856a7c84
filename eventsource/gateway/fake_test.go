package gateway

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"drydock.dev/shared/api"
	"drydock.dev/shared/kube"
)

// cluster imitates an API server with StatefulSets, without controllers. The package test/api tests the same requests on a real API
// server.
type cluster struct {
	mu     sync.Mutex
	sets   map[string]*appsv1.StatefulSet // by namespace/name
	reads  int
	writes []string
	// fail is the status of every answer, unless it is 0.
	fail int
	// before runs once, before the next write.
	before func()
	// onRequest runs at every request, unless it is nil.
	onRequest func()
	url       string
}

func newCluster(t *testing.T, sets ...*appsv1.StatefulSet) *cluster {
	t.Helper()
	c := &cluster{sets: map[string]*appsv1.StatefulSet{}}
	c.put(sets...)
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

func (c *cluster) gateway(t *testing.T, options Options, namespaces ...string) *Gateway {
	t.Helper()
	g := New(kube.NewClient(&rest.Config{Host: c.url}), api.Settings{Namespaces: namespaces}, options, slog.New(slog.DiscardHandler))
	t.Cleanup(g.Stop)
	return g
}

// put writes sets like another client.
func (c *cluster) put(sets ...*appsv1.StatefulSet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range sets {
		c.store(s)
	}
}

func (c *cluster) store(s *appsv1.StatefulSet) {
	s = s.DeepCopy()
	key := s.Namespace + "/" + s.Name
	if old := c.sets[key]; old != nil {
		n, _ := strconv.Atoi(old.ResourceVersion)
		s.ResourceVersion = strconv.Itoa(n + 1)
	}
	c.sets[key] = s
}

func (c *cluster) get(key string) *appsv1.StatefulSet {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sets[key].DeepCopy()
}

// counts returns the numbers of reads and writes so far.
func (c *cluster) counts() (int, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reads, len(c.writes)
}

func (c *cluster) setFail(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail = status
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c.onRequest != nil {
		c.onRequest()
	}
	if r.Method == http.MethodPatch {
		c.mu.Lock()
		before := c.before
		c.before = nil
		c.mu.Unlock()
		if before != nil {
			before()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	code, body := c.answer(r)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

func (c *cluster) answer(r *http.Request) (int, any) {
	namespace, name := "", ""
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/apis/apps/v1/"), "/")
	if parts[0] == "namespaces" {
		namespace, parts = parts[1], parts[2:]
	}
	if len(parts) > 1 {
		name = parts[1]
	}
	set := c.sets[namespace+"/"+name]
	switch {
	case c.fail != 0:
		return status(c.fail, metav1.StatusReasonInternalError)
	case r.Method == http.MethodPatch && set != nil:
		return c.patch(set, r)
	case name == "":
		c.reads++
		return c.list(namespace, r.URL.Query().Get("labelSelector"))
	case set == nil:
		return status(http.StatusNotFound, metav1.StatusReasonNotFound)
	}
	c.reads++
	return http.StatusOK, set
}

func (c *cluster) list(namespace, selector string) (int, any) {
	matches, err := labels.Parse(selector)
	if err != nil {
		return status(http.StatusBadRequest, metav1.StatusReasonBadRequest)
	}
	out := appsv1.StatefulSetList{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSetList"}}
	for _, s := range c.sets {
		if (namespace == "" || s.Namespace == namespace) && matches.Matches(labels.Set(s.Labels)) {
			out.Items = append(out.Items, *s)
		}
	}
	// in an order that the gateway does not expect
	slices.SortFunc(out.Items, func(a, b appsv1.StatefulSet) int { return strings.Compare(b.Name, a.Name) })
	return http.StatusOK, out
}

func (c *cluster) patch(set *appsv1.StatefulSet, r *http.Request) (int, any) {
	body, _ := io.ReadAll(r.Body)
	c.writes = append(c.writes, set.Name)
	var ops []struct{ Path, Value any }
	if json.Unmarshal(body, &ops) != nil || len(ops) == 0 || ops[0].Path != "/metadata/resourceVersion" {
		return status(http.StatusBadRequest, metav1.StatusReasonBadRequest)
	}
	if ops[0].Value != set.ResourceVersion {
		return status(http.StatusConflict, metav1.StatusReasonConflict)
	}
	patch, err := jsonpatch.DecodePatch(body)
	if err != nil {
		return status(http.StatusBadRequest, metav1.StatusReasonBadRequest)
	}
	old, _ := json.Marshal(set)
	raw, err := patch.Apply(old)
	changed := &appsv1.StatefulSet{}
	if err != nil || json.Unmarshal(raw, changed) != nil {
		return status(http.StatusUnprocessableEntity, "")
	}
	c.store(changed)
	return http.StatusOK, changed
}

func status(code int, reason metav1.StatusReason) (int, any) {
	return code, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: reason,
		Code: int32(code), Message: "at 10.0.0.1"}
}
