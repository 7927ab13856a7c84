//go:build cluster

package soak

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/test/kit/stage"
)

// view watches the objects of the namespace. It continues when the API server is back after a restart.
type view struct {
	namespace string
	objects   informers.SharedInformerFactory
	scalers   cache.GenericLister

	mu      sync.Mutex
	changed chan struct{} // closed at the next change
}

// newView starts the watches, and waits until they have all objects.
func newView(ctx context.Context, s *stage.Stage) (*view, error) {
	v := &view{namespace: s.Namespace, changed: make(chan struct{}),
		objects: informers.NewSharedInformerFactoryWithOptions(s.Kube, 0, informers.WithNamespace(s.Namespace))}
	resource := v1alpha1.GroupVersion.WithResource("scalers")
	custom := dynamicinformer.NewFilteredDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(s.Config), 0, s.Namespace, nil)
	scalers := custom.ForResource(resource)
	v.scalers = scalers.Lister()
	all := []cache.SharedIndexInformer{v.objects.Apps().V1().StatefulSets().Informer(), v.objects.Core().V1().Pods().Informer(),
		v.objects.Core().V1().PersistentVolumeClaims().Informer(), scalers.Informer()}
	for _, informer := range all {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: v.notify,
			UpdateFunc: func(_, now any) { v.notify(now) }, DeleteFunc: v.notify}); err != nil {
			return nil, err
		}
	}
	v.objects.Start(ctx.Done())
	custom.Start(ctx.Done())
	for _, informer := range all {
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return nil, fmt.Errorf("watching namespace %s: %w", s.Namespace, ctx.Err())
		}
	}
	return v, nil
}

func (v *view) notify(any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	close(v.changed)
	v.changed = make(chan struct{})
}

// next returns a channel that is closed at the next change.
func (v *view) next() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.changed
}

// recheck is the longest time between two checks of await. Some conditions depend on time or on objects that the view does not watch.
const recheck = 2 * time.Second

// await repeats the check after each change, until it returns no problem. A problem may pass. An error ends the wait.
func (v *view) await(ctx context.Context, check func() (problem string, err error)) error {
	for {
		changed := v.next()
		problem, err := check()
		if err != nil || problem == "" {
			return err
		}
		select {
		case <-changed:
		case <-time.After(recheck):
		case <-ctx.Done():
			return fmt.Errorf("%w, still: %s", context.Cause(ctx), problem)
		}
	}
}

// live returns the present objects of the set.
func (v *view) live(set Set) (Live, error) {
	var live Live
	live.Set, _ = v.objects.Apps().V1().StatefulSets().Lister().StatefulSets(v.namespace).Get(set.Name) // nil while it does not exist
	claims, err := v.objects.Core().V1().PersistentVolumeClaims().Lister().PersistentVolumeClaims(v.namespace).List(labels.Everything())
	if err != nil {
		return live, err
	}
	for _, claim := range claims {
		if strings.HasPrefix(claim.Name, ClaimName(set.Name, 0)[:len(template)+1+len(set.Name)+1]) {
			live.Claims = append(live.Claims, *claim)
		}
	}
	live.Pods = v.pods(labels.SelectorFromSet(labels.Set{"app": set.Name}))
	if set.Kind != Scaled {
		return live, nil
	}
	object, err := v.scalers.ByNamespace(v.namespace).Get(set.Name)
	if err != nil {
		return live, nil // it has none yet
	}
	live.Scaler = &v1alpha1.Scaler{}
	return live, runtime.DefaultUnstructuredConverter.FromUnstructured(object.(*unstructured.Unstructured).Object, live.Scaler)
}

// pods returns the pods with the labels.
func (v *view) pods(selector labels.Selector) []corev1.Pod {
	list, err := v.objects.Core().V1().Pods().Lister().Pods(v.namespace).List(selector)
	if err != nil {
		return nil // it reads a cache, so it cannot fail
	}
	var pods []corev1.Pod
	for _, pod := range list {
		pods = append(pods, *pod)
	}
	return pods
}

// records returns the records of the set. The set may be missing while a resize creates it again.
func (v *view) records(set string) (*appsv1.StatefulSet, Records, error) {
	live, err := v.objects.Apps().V1().StatefulSets().Lister().StatefulSets(v.namespace).Get(set)
	if err != nil {
		return nil, Records{}, nil
	}
	records, err := LoadRecords(live)
	return live, records, err
}
