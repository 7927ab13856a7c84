package kit

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// cluster is the view of an API server that all worlds of a process share, with one watch per kind. A thousand polling worlds would keep
// the API server busier than the tested functions do.
type cluster struct {
	kube    kubernetes.Interface
	claims  corelisters.PersistentVolumeClaimLister
	pods    corelisters.PodLister
	volumes corelisters.PersistentVolumeLister

	mu sync.Mutex
	// listeners are the channels that get a value for each change, by namespace.
	listeners map[string][]chan struct{}
}

var (
	watching sync.Once
	watched  *cluster
)

// watchCluster starts the watches for the first world of a process. They end with the process.
func watchCluster(t testing.TB, kube kubernetes.Interface) *cluster {
	t.Helper()
	watching.Do(func() {
		factory := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithTransform(withoutManagers))
		core := factory.Core().V1()
		c := &cluster{kube: kube, claims: core.PersistentVolumeClaims().Lister(), pods: core.Pods().Lister(),
			volumes:   core.PersistentVolumes().Lister(),
			listeners: map[string][]chan struct{}{}}
		for _, informer := range []cache.SharedIndexInformer{core.PersistentVolumeClaims().Informer(), core.Pods().Informer(),
			core.PersistentVolumes().Informer(),
			factory.Apps().V1().StatefulSets().Informer(), factory.Batch().V1().Jobs().Informer()} {
			if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: c.notify,
				UpdateFunc: func(_, now any) { c.notify(now) }, DeleteFunc: c.notify}); err != nil {
				panic(err) // the informer was stopped
			}
		}
		factory.Start(context.Background().Done())
		factory.WaitForCacheSync(context.Background().Done())
		watched = c
	})
	return watched
}

// withoutManagers removes the managed fields, which are the largest part of most objects and are never read here.
func withoutManagers(object any) (any, error) {
	if named, err := meta.Accessor(object); err == nil {
		named.SetManagedFields(nil)
	}
	return object, nil
}

// changes returns a channel that gets a value for each change in the namespace and its volumes, until the test ends.
func (c *cluster) changes(t testing.TB, namespace string) <-chan struct{} {
	listener := make(chan struct{}, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners[namespace] = append(c.listeners[namespace], listener)
	t.Cleanup(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.listeners, namespace)
	})
	return listener
}

func (c *cluster) notify(object any) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	namespace := ""
	if volume, ok := object.(*corev1.PersistentVolume); ok && volume.Spec.ClaimRef != nil {
		namespace = volume.Spec.ClaimRef.Namespace
	} else if named, err := meta.Accessor(object); err == nil {
		namespace = named.GetNamespace()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, listener := range c.listeners[namespace] {
		select {
		case listener <- struct{}{}:
		default: // the receiver has not handled the previous value yet
		}
	}
}

// volumesOf returns the volumes of the namespace's claims, including deleted claims.
func (c *cluster) volumesOf(namespace string) []*corev1.PersistentVolume {
	all, _ := c.volumes.List(labels.Everything()) // it reads a cache, so it cannot fail
	var theirs []*corev1.PersistentVolume
	for _, v := range all {
		if v.Spec.ClaimRef != nil && v.Spec.ClaimRef.Namespace == namespace {
			theirs = append(theirs, v)
		}
	}
	return theirs
}

// await waits for a change, and then a moment longer because changes come in bursts. It waits no longer than the
// patience.
func await(ctx context.Context, changed <-chan struct{}, patience time.Duration) {
	select {
	case <-changed:
		select {
		case <-ctx.Done():
		case <-time.After(burst):
		}
	case <-ctx.Done():
	case <-time.After(patience):
	}
}

// burst is the length of a burst of related changes.
const burst = 10 * time.Millisecond
