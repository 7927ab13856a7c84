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

// cluster is what all worlds of a process see of their API server: one watch for each kind, and nobody asks twice. A thousand
// worlds that poll would keep the API server busier than what they test.
type cluster struct {
	kube    kubernetes.Interface
	claims  corelisters.PersistentVolumeClaimLister
	pods    corelisters.PodLister
	volumes corelisters.PersistentVolumeLister

	mu sync.Mutex
	// woken are the channels to tell of changes, by namespace.
	woken map[string][]chan struct{}
}

var (
	watching sync.Once
	watched  *cluster
)

// watchCluster starts the watches with a process's first world. They end with the process.
func watchCluster(t testing.TB, kube kubernetes.Interface) *cluster {
	t.Helper()
	watching.Do(func() {
		factory := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithTransform(withoutManagers))
		core := factory.Core().V1()
		c := &cluster{kube: kube, claims: core.PersistentVolumeClaims().Lister(), pods: core.Pods().Lister(), volumes: core.PersistentVolumes().Lister(),
			woken: map[string][]chan struct{}{}}
		for _, informer := range []cache.SharedIndexInformer{core.PersistentVolumeClaims().Informer(), core.Pods().Informer(), core.PersistentVolumes().Informer(),
			factory.Apps().V1().StatefulSets().Informer(), factory.Batch().V1().Jobs().Informer()} {
			if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: c.tell, UpdateFunc: func(_, now any) { c.tell(now) }, DeleteFunc: c.tell}); err != nil {
				panic(err) // of an informer that was stopped
			}
		}
		factory.Start(context.Background().Done())
		factory.WaitForCacheSync(context.Background().Done())
		watched = c
	})
	return watched
}

// withoutManagers leaves out what makes up most of an object and nobody looks at.
func withoutManagers(object any) (any, error) {
	if named, err := meta.Accessor(object); err == nil {
		named.SetManagedFields(nil)
	}
	return object, nil
}

// changes makes a channel that is told of changes in the namespace, and of its volumes, until the test ends.
func (c *cluster) changes(t testing.TB, namespace string) <-chan struct{} {
	told := make(chan struct{}, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.woken[namespace] = append(c.woken[namespace], told)
	t.Cleanup(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.woken, namespace)
	})
	return told
}

func (c *cluster) tell(object any) {
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
	for _, told := range c.woken[namespace] {
		select {
		case told <- struct{}{}:
		default: // it has not looked yet at what it was told before
		}
	}
}

// volumesOf are the volumes of the namespace's claims, also of those that are gone.
func (c *cluster) volumesOf(namespace string) []*corev1.PersistentVolume {
	all, _ := c.volumes.List(labels.Everything()) // of what is in memory; it cannot fail
	var theirs []*corev1.PersistentVolume
	for _, v := range all {
		if v.Spec.ClaimRef != nil && v.Spec.ClaimRef.Namespace == namespace {
			theirs = append(theirs, v)
		}
	}
	return theirs
}

// await waits for a change, and then for a moment more, as changes come in bursts; but no longer than the patience.
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

// burst is how long changes that belong together take to come.
const burst = 10 * time.Millisecond
