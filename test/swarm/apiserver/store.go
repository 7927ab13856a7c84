// Package apiserver is a Kubernetes API server in memory. It answers the requests of clients in the same process, with the rules that
// Drydock relies on: optimistic locking, preconditions, UIDs, generations, finalizers, grace periods, field managers, and the admission
// policies of config. Field managers and policies run Kubernetes' own code.
//
// It has no watches. Its log has every change in order. The source of events, the controllers and the oracles of a test read the log.
package apiserver

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission"
)

// Object is an object of any kind. Stored objects must not be changed.
type Object = unstructured.Unstructured

// Key names an object. Namespace is empty for a kind without namespaces.
type Key struct{ Resource, Namespace, Name string }

func (k Key) String() string { return k.Resource + "/" + k.Name }

// Client sends requests. Manager is its field manager.
type Client struct{ User, Manager string }

// Commit is a change that the server has stored.
type Commit struct {
	Key
	By            Client
	Before, After *Object // nil if the object did not exist, or is gone
}

// Server holds the objects. Only one goroutine may use it at a time.
type Server struct {
	policies *Policies
	version  int
	objects  map[Key]*Object
	created  map[Key]int
	texts    map[*Object][]byte // of the stored objects as JSON
	managers map[schema.GroupVersionKind]fieldManager
	log      []Commit
}

// New returns an empty server with the policies. Nil means none.
func New(policies *Policies) *Server {
	return &Server{policies: policies, objects: map[Key]*Object{}, created: map[Key]int{}, texts: map[*Object][]byte{},
		managers: map[schema.GroupVersionKind]fieldManager{}}
}

// Log returns all changes so far.
func (s *Server) Log() []Commit { return s.log }

// Get returns the stored object, or nil.
func (s *Server) Get(k Key) *Object { return s.objects[k] }

// List returns the objects of a resource in all namespaces, sorted by namespace and name.
func (s *Server) List(resource string) []*Object {
	var keys []Key
	for k := range s.objects {
		if k.Resource == resource {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b Key) int { return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name)) })
	all := make([]*Object, len(keys))
	for i, k := range keys {
		all[i] = s.objects[k]
	}
	return all
}

// Create stores a new object. A dry run stores nothing.
func (s *Server) Create(by Client, resource string, o *Object, dryRun bool) (*Object, error) {
	kind, known := kinds[resource]
	if !known {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: resource}, "")
	}
	o = o.DeepCopy()
	o.SetGroupVersionKind(kind.gvk())
	if o.GetName() == "" {
		o.SetName(o.GetGenerateName() + strconv.Itoa(s.version))
	}
	k := Key{resource, o.GetNamespace(), o.GetName()}
	for _, field := range []string{"resourceVersion", "managedFields", "deletionTimestamp", "deletionGracePeriodSeconds"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	if kind.status {
		unstructured.RemoveNestedField(o.Object, "status")
	}
	if kind.begin != nil {
		kind.begin(o)
	}
	o.SetUID(types.UID(fmt.Sprintf("%s-%s-%d", strings.TrimSuffix(resource, "s"), k.Name, s.created[k]+1)))
	o.SetCreationTimestamp(metav1.Now())
	o.SetGeneration(1)
	if err := s.policies.admit(review{by: by, key: k, verb: admission.Create, after: o, dryRun: dryRun,
		options: &metav1.CreateOptions{FieldManager: by.Manager}}); err != nil {
		return nil, err
	}
	if s.objects[k] != nil {
		return nil, apierrors.NewAlreadyExists(kind.resource(resource), k.Name)
	}
	if dryRun {
		return o, nil
	}
	s.created[k]++
	managed, err := s.manage(by, kind, nil, o)
	if err != nil {
		return nil, err
	}
	s.store(by, k, managed)
	return managed, nil
}

// Change edits an object, or a part of it that has a path of its own, such as its status. The edit may set resourceVersion and uid as
// preconditions. It must not change the stored object, which it gets as a copy.
func (s *Server) Change(by Client, k Key, part string, edit func(o *Object) error) (*Object, error) {
	kind, before := kinds[k.Resource], s.objects[k]
	if before == nil {
		return nil, apierrors.NewNotFound(kind.resource(k.Resource), k.Name)
	}
	after := before.DeepCopy()
	if err := edit(after); err != nil {
		return nil, err
	}
	if after.GetUID() != before.GetUID() || after.GetResourceVersion() != before.GetResourceVersion() {
		return nil, apierrors.NewConflict(kind.resource(k.Resource), k.Name, errModified)
	}
	after = kind.merge(before, after, part)
	if err := kind.validate(k, before, after); err != nil {
		return nil, err
	}
	if err := s.policies.admit(review{by: by, key: k, part: part, verb: admission.Update, after: after, before: before,
		options: &metav1.PatchOptions{FieldManager: by.Manager}}); err != nil {
		return nil, err
	}
	managed := after
	if part == "" {
		var err error
		if managed, err = s.manage(by, kind, before, after); err != nil {
			return nil, err
		}
	}
	if equality.Semantic.DeepEqual(withoutManagers(managed), withoutManagers(before)) {
		return before, nil
	}
	if !equality.Semantic.DeepEqual(specOf(managed), specOf(before)) {
		managed.SetGeneration(before.GetGeneration() + 1)
	}
	s.store(by, k, managed)
	s.removeIfOver(by, k)
	return managed, nil
}

// Delete deletes an object with the preconditions and the propagation of the options.
func (s *Server) Delete(by Client, k Key, options metav1.DeleteOptions) error {
	return s.delete(by, k, "", admission.Delete, options)
}

// Evict deletes a pod. Policies see the creation of an eviction.
func (s *Server) Evict(by Client, k Key, options metav1.DeleteOptions) error {
	return s.delete(by, k, "eviction", admission.Create, options)
}

func (s *Server) delete(by Client, k Key, part string, verb admission.Operation, options metav1.DeleteOptions) error {
	kind, before := kinds[k.Resource], s.objects[k]
	if before == nil {
		return apierrors.NewNotFound(kind.resource(k.Resource), k.Name)
	}
	if p := options.Preconditions; p != nil && (p.UID != nil && *p.UID != before.GetUID() ||
		p.ResourceVersion != nil && *p.ResourceVersion != before.GetResourceVersion()) {
		return apierrors.NewConflict(kind.resource(k.Resource), k.Name, errPrecondition)
	}
	dryRun := len(options.DryRun) > 0
	judged := review{by: by, key: k, part: part, verb: verb, before: before, options: &options, dryRun: dryRun}
	if verb == admission.Create {
		judged.before, judged.after = nil, Encode(policyv1.Eviction{DeleteOptions: &options})
	}
	err := s.policies.admit(judged)
	if err != nil || dryRun {
		return err
	}
	if before.GetDeletionTimestamp() != nil {
		return nil
	}
	after := before.DeepCopy()
	now := metav1.Now()
	after.SetDeletionTimestamp(&now)
	after.SetGeneration(before.GetGeneration() + 1)
	if p := options.PropagationPolicy; p != nil && *p != metav1.DeletePropagationBackground {
		finalizer := map[metav1.DeletionPropagation]string{metav1.DeletePropagationOrphan: metav1.FinalizerOrphanDependents,
			metav1.DeletePropagationForeground: metav1.FinalizerDeleteDependents}[*p]
		after.SetFinalizers(append(after.GetFinalizers(), finalizer))
	}
	if kind.grace != nil {
		seconds := kind.grace(after)
		after.SetDeletionGracePeriodSeconds(&seconds)
	}
	s.store(by, k, after)
	s.removeIfOver(by, k)
	return nil
}

// text returns a stored object as JSON.
func (s *Server) text(o *Object) []byte {
	if s.texts[o] == nil {
		text, err := json.Marshal(o.Object)
		if err != nil {
			panic(err) // the server stores only what it has decoded
		}
		s.texts[o] = text
	}
	return s.texts[o]
}

// EndGrace says that a pod that is being deleted has ended, as the kubelet does by a deletion without a grace period.
func (s *Server) EndGrace(by Client, k Key) {
	before := s.objects[k]
	if before == nil || before.GetDeletionTimestamp() == nil {
		return
	}
	after, none := before.DeepCopy(), int64(0)
	after.SetDeletionGracePeriodSeconds(&none)
	if grace := before.GetDeletionGracePeriodSeconds(); grace == nil || *grace > 0 {
		s.store(by, k, after)
	}
	s.removeIfOver(by, k)
}

func (s *Server) store(by Client, k Key, o *Object) {
	s.version++
	before := s.objects[k]
	delete(s.texts, before)
	o.SetResourceVersion(strconv.Itoa(s.version))
	s.objects[k] = o
	s.log = append(s.log, Commit{k, by, before, o})
}

// removeIfOver removes an object that is being deleted and has neither finalizers nor a grace period.
func (s *Server) removeIfOver(by Client, k Key) {
	o := s.objects[k]
	grace := o.GetDeletionGracePeriodSeconds()
	if o.GetDeletionTimestamp() == nil || len(o.GetFinalizers()) > 0 || grace != nil && *grace > 0 {
		return
	}
	s.version++
	delete(s.texts, o)
	delete(s.objects, k)
	s.log = append(s.log, Commit{k, by, o, nil})
}

// specOf returns everything that an object says besides its metadata and status.
func specOf(o *Object) map[string]any {
	spec := map[string]any{}
	for field, value := range o.Object {
		if field != "metadata" && field != "status" {
			spec[field] = value
		}
	}
	return spec
}

func withoutManagers(o *Object) map[string]any {
	c := o.DeepCopy()
	c.SetManagedFields(nil)
	return c.Object
}

// Decode returns the object with its Go type.
func Decode[T any](o *Object) *T {
	if o == nil {
		return nil
	}
	into := new(T)
	text, err := json.Marshal(o.Object)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		panic(fmt.Sprintf("%s %s: %v", o.GetKind(), o.GetName(), err)) // the server stores only what it has decoded
	}
	return into
}

// Encode returns a typed object as the server stores it.
func Encode(typed any) *Object {
	text, err := json.Marshal(typed)
	o := &Object{}
	if err == nil {
		err = json.Unmarshal(text, &o.Object)
	}
	if err != nil {
		panic(err)
	}
	return o
}

type fieldManager = *managedfields.FieldManager

// manage returns the object with its managedFields after a write that replaces the object.
func (s *Server) manage(by Client, k kind, before, after *Object) (*Object, error) {
	m, err := s.managerOf(k)
	if err != nil {
		return nil, err
	}
	if before == nil {
		before = empty(k.gvk())
	}
	managed, err := m.Update(before, after, by.Manager)
	if err != nil {
		return nil, fmt.Errorf("%s %s: updating managedFields: %w", k.name, after.GetName(), err)
	}
	return managed.(*Object), nil
}

func (s *Server) managerOf(k kind) (fieldManager, error) {
	if m := s.managers[k.gvk()]; m != nil {
		return m, nil
	}
	m, err := managedfields.NewDefaultFieldManager(managedfields.NewDeducedTypeConverter(), unchanged{}, unchanged{}, unchanged{}, k.gvk(),
		k.gvk().GroupVersion(), "", nil)
	if err != nil {
		return nil, err
	}
	s.managers[k.gvk()] = m
	return m, nil
}

func empty(k schema.GroupVersionKind) *Object {
	o := &Object{Object: map[string]any{}}
	o.SetGroupVersionKind(k)
	return o
}

// unchanged converts and completes nothing: each kind has one version, and its objects are complete.
type unchanged struct{}

func (unchanged) Convert(in, out, _ any) error {
	*out.(*Object) = *in.(*Object)
	return nil
}

func (unchanged) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

func (unchanged) ConvertFieldLabel(schema.GroupVersionKind, string, string) (string, string, error) {
	return "", "", errModified
}

func (unchanged) Default(runtime.Object) {}

func (unchanged) New(k schema.GroupVersionKind) (runtime.Object, error) { return empty(k), nil }
