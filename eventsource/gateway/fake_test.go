package gateway

import (
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/kube"
	"drydock.dev/test/kit/apiserver"
)

// cluster is an API server with StatefulSets, without controllers. The package test/api tests the same requests on a real API server.
type cluster struct {
	*apiserver.Front
	reads  int
	writes []string
	fails  atomic.Bool
	// before runs once, before the next write.
	before func()
	// onRequest runs at every request, unless it is nil.
	onRequest func()
}

func newCluster(t *testing.T, sets ...*appsv1.StatefulSet) *cluster {
	t.Helper()
	c := &cluster{Front: apiserver.NewFront()}
	c.put(sets...)
	c.Use(func(s *apiserver.Server) { s.Backwards = true })
	c.Front.Before = func(s *apiserver.Server, r *apiserver.Request) error {
		switch {
		case c.fails.Load():
			return apierrors.NewInternalError(errors.New("at 10.0.0.1"))
		case r.Method == http.MethodPatch:
			c.writes = append(c.writes, r.Name)
		default:
			c.reads++
		}
		return nil
	}
	return c
}

// RoundTrip answers a request of the gateway.
func (c *cluster) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.onRequest != nil {
		c.onRequest()
	}
	if before := c.before; r.Method == http.MethodPatch && before != nil {
		c.before = nil
		before()
	}
	return c.Front.RoundTrip(r)
}

func (c *cluster) client() *kube.Client {
	config := c.Config()
	config.Transport = c
	return kube.NewClient(config)
}

func (c *cluster) gateway(t *testing.T, options Options, namespaces ...string) *Gateway {
	t.Helper()
	g := New(c.client(), api.Settings{Namespaces: namespaces}, options, slog.New(slog.DiscardHandler))
	t.Cleanup(g.Stop)
	return g
}

func keyOf(namespace, name string) apiserver.Key {
	return apiserver.Key{Resource: "statefulsets", Namespace: namespace, Name: name}
}

// put writes sets like another client.
func (c *cluster) put(sets ...*appsv1.StatefulSet) {
	c.Use(func(s *apiserver.Server) {
		for _, set := range sets {
			set = set.DeepCopy()
			if old := s.Get(keyOf(set.Namespace, set.Name)); old != nil {
				set.ResourceVersion = old.GetResourceVersion() + "1"
			}
			s.Put("statefulsets", set)
		}
	})
}

// remove deletes the set shop/NAME.
func (c *cluster) remove(name string) {
	c.Use(func(s *apiserver.Server) {
		_ = s.Delete(apiserver.Client{}, keyOf("shop", name), metav1.DeleteOptions{})
	})
}

// get returns the set shop/NAME.
func (c *cluster) get(name string) (set *appsv1.StatefulSet) {
	c.Use(func(s *apiserver.Server) { set = apiserver.Decode[appsv1.StatefulSet](s.Get(keyOf("shop", name))) })
	return set
}

// counts returns the numbers of reads and writes so far.
func (c *cluster) counts() (reads, writes int) {
	c.Use(func(*apiserver.Server) { reads, writes = c.reads, len(c.writes) })
	return reads, writes
}
