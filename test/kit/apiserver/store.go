// Package apiserver is a Kubernetes API server in memory. It answers the requests of clients in the same process, with the rules that
// Drydock relies on: optimistic locking, preconditions, UIDs, generations, finalizers, grace periods, field managers, and admission. Field
// managers run Kubernetes' own code.
//
// It has no watches. Its log has every change in order. The source of events, the controllers and the oracles of a test read the log.
package apiserver

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
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

// Operations of writes, with the names that admission policies use.
const (
	Created = "CREATE"
	Updated = "UPDATE"
	Deleted = "DELETE"
)

// Write is a write that has not been stored yet.
type Write struct {
	Key
	By            Client
	Part          string // a subresource, such as status
	Operation     string
	Kind          schema.GroupVersionKind
	After, Before *Object // nil if the object did not exist, or goes
	Options       runtime.Object
	DryRun        bool
}

// Admission judges each write. Its error is the answer.
type Admission interface{ Admit(w Write) error }

// Server holds the objects. Only one goroutine may use it at a time.
type Server struct {
	Backwards bool // lists are in the opposite order: Kubernetes promises none
	admission Admission
	version   int
	kinds     map[string]kind // by resource
	objects   map[Key]*Object
	created   map[Key]int
	texts     map[*Object][]byte // of the stored objects as JSON
	managers  map[schema.GroupVersionKind]fieldManager
	log       []Commit
}

// New returns an empty server. If admission is nil, all writes are admitted.
func New(admission Admission) *Server {
	return &Server{admission: admission, kinds: maps.Clone(kinds), objects: map[Key]*Object{}, created: map[Key]int{},
		texts: map[*Object][]byte{}, managers: map[schema.GroupVersionKind]fieldManager{}}
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

// Add stores objects of known kinds as they are.
func (s *Server) Add(objects ...metav1.Object) {
	for _, o := range objects {
		of := reflect.TypeOf(o).Elem().Name()
		for resource, k := range s.kinds {
			if k.name == of {
				s.Put(resource, o)
			}
		}
	}
}

// Put stores an object of any kind as it is, with its UID and its resourceVersion, and replaces one with its name. The server learns a kind
// that it does not know.
func (s *Server) Put(resource string, object metav1.Object) {
	o, is := object.(*Object)
	if !is {
		o = Encode(object)
	}
	k, known := s.kinds[resource]
	if !known {
		of := o.GroupVersionKind()
		k = kind{group: of.Group, version: of.Version, name: of.Kind, namespaced: o.GetNamespace() != ""}
		s.kinds[resource] = k
	}
	o = o.DeepCopy()
	o.SetGroupVersionKind(k.gvk())
	version := o.GetResourceVersion()
	s.store(Client{}, Key{resource, o.GetNamespace(), o.GetName()}, o)
	o.SetResourceVersion(version)
}

// Create stores a new object. A dry run stores nothing.
func (s *Server) Create(by Client, resource string, o *Object, dryRun bool) (*Object, error) {
	kind, known := s.kinds[resource]
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
	if err := s.admit(Write{Key: k, By: by, Operation: Created, Kind: kind.gvk(), After: o, DryRun: dryRun,
		Options: &metav1.CreateOptions{FieldManager: by.Manager}}); err != nil {
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
	kind, before := s.kinds[k.Resource], s.objects[k]
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
	if err := s.admit(Write{Key: k, By: by, Part: part, Operation: Updated, Kind: kind.gvk(), After: after, Before: before,
		Options: &metav1.PatchOptions{FieldManager: by.Manager}}); err != nil {
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
	return s.delete(by, k, "", Deleted, options)
}

// Evict deletes a pod. Policies see the creation of an eviction.
func (s *Server) Evict(by Client, k Key, options metav1.DeleteOptions) error {
	return s.delete(by, k, "eviction", Created, options)
}

func (s *Server) delete(by Client, k Key, part, operation string, options metav1.DeleteOptions) error {
	kind, before := s.kinds[k.Resource], s.objects[k]
	if before == nil {
		return apierrors.NewNotFound(kind.resource(k.Resource), k.Name)
	}
	if p := options.Preconditions; p != nil && (p.UID != nil && *p.UID != before.GetUID() ||
		p.ResourceVersion != nil && *p.ResourceVersion != before.GetResourceVersion()) {
		return apierrors.NewConflict(kind.resource(k.Resource), k.Name, errPrecondition)
	}
	dryRun := len(options.DryRun) > 0
	judged := Write{Key: k, By: by, Part: part, Operation: operation, Kind: kind.gvk(), Before: before, Options: &options, DryRun: dryRun}
	if operation == Created {
		judged.Before, judged.After = nil, Encode(policyv1.Eviction{DeleteOptions: &options})
	}
	err := s.admit(judged)
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

func (s *Server) admit(w Write) error {
	if s.admission == nil {
		return nil
	}
	return s.admission.Admit(w)
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
