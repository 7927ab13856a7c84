// Package swarm lets users, operators, controllers and slow processes act on StatefulSets at the same time, in random order.
//
// A world runs Drydock's functions unchanged, against an API server in memory, with a fake clock (testing/synctest). The StatefulSet
// controller of Kubernetes and the policies of config/policy run, too. All else is played: kubelet, storage, garbage collector, Jobs,
// operators, deployment tools and users. A run is a shape of the world and a sequence of acts. A run that ends badly is shrunk to a story,
// a file in testdata/stories, which is played again in each test.
//
//	world.go        the cluster, its queue of events, and the clock
//	process.go      a function that handles an event, which may stop before a write or die
//	controllers.go  Kubernetes' controllers
//	node.go         kubelet
//	volumes.go      storage, and the data on it
//	movers.go       the Jobs that copy volumes
//	operator.go     the operators of the sets
//	autoscalers.go  autoscalers and disruption budgets
//	acts.go         all acts
//	tools.go        tools that deploy, replace, back up and restore sets
//	wishes.go       the counts and settings that the users want
//	oracles.go      the checks, which compare the cluster with the wishes
//	story.go        runs as text, random runs, and shrinking
package swarm

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/kelseyhightower/envconfig"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	function "drydock.dev"
	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/serve"
	"drydock.dev/test/kit/apiserver"
)

// namespace has everything that users create.
const namespace = "shop"

// functions are those that run in a world.
var functions = []api.Function{api.Backup, api.CleanupPod, api.DetectResize, api.IdleTimeout, api.PauseOwner, api.Restore,
	api.ScaleFunction, api.Sift}

// processes is how many processes each function has. A held process blocks the events of its set in this process.
const processes = 3

// maxHeld is how many processes acts hold at a time.
const maxHeld = 3

// World is a cluster.
type World struct {
	Shape
	begin  time.Time
	mu     sync.Mutex // guards server and queue, because functions send requests from goroutines of their own
	server *apiserver.Server
	sets   *setController
	pools  map[api.Function][]*worker
	queue  []delivery
	held   []*process
	count  int // of processes so far

	sifted    int                                 // how much of the server's log the source has reported
	reported  map[apiserver.Key]*apiserver.Object // the opted-in sets as the source has reported them
	backups   map[string]backup                   // sets as a backup tool has them
	operators []*operator
	budgets   map[string]budget // of each set; absent without one
	refused   refusal           // by a webhook
	late      late              // the next write that is delayed
	loses     int               // how many answers to writes get lost
	sick      bool              // no pod starts
	step      time.Duration     // how far the clock of users has stepped
	full      bool              // the storage grows no volume
	contents  contents
	failures  map[api.Function]map[string]int // errors of functions by text
	covered   map[string]int                  // records that functions wrote
	tries     map[string]int                  // writes of functions, also refused ones
	wishes    wishes

	tale    []string
	problem string // the first that an oracle found
}

// delivery is an event on its way to a function.
type delivery struct {
	to api.Function
	event.Event
}

func (d delivery) set() string { return d.Subject()[strings.LastIndexByte(d.Subject(), '/')+1:] }

// worker is a process of a function.
type worker struct {
	serve.Handler
	busy bool
}

// newWorld returns a world in which all sets run.
func newWorld(shape Shape, admission apiserver.Admission) *World {
	w := &World{Shape: shape, begin: time.Now(), server: apiserver.New(admission), pools: map[api.Function][]*worker{},
		reported: map[apiserver.Key]*apiserver.Object{}, backups: map[string]backup{}, failures: map[api.Function]map[string]int{},
		covered: map[string]int{}, tries: map[string]int{}, wishes: newWishes(), contents: newContents(), budgets: map[string]budget{}}
	settings := api.Settings{}
	if err := envconfig.Process("", &settings); err != nil {
		panic(err)
	}
	settings.Image = "registry.example/drydock@sha256:" + strings.Repeat("0", 64)
	log := slog.New(slog.DiscardHandler)
	for _, name := range functions {
		for range processes {
			handler, err := function.NewHandler(name, clientOf(w, userOf(name)), settings, broker{w}, log)
			if err != nil {
				panic(err)
			}
			w.pools[name] = append(w.pools[name], &worker{Handler: handler})
		}
	}
	w.pools[leaving] = []*worker{{Handler: newLeaver(w)}}
	w.sets = newSetController(&rest.Config{Host: "http://api", Transport: direct{w}, QPS: -1, UserAgent: controllerManager,
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON, AcceptContentTypes: runtime.ContentTypeJSON},
		Impersonate:   rest.ImpersonationConfig{UserName: setControllerUser}})
	w.create(admin, "namespaces", map[string]any{"metadata": map[string]any{"name": namespace,
		"labels": map[string]any{api.RootMoverLabel: api.AllowValue, api.PauseOwnersLabel: string(api.ConsentToUpdate)}}})
	w.create(admin, "nodes", map[string]any{"metadata": map[string]any{"name": node}, "status": map[string]any{
		"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}})
	for _, name := range []string{class, otherClass} {
		w.create(admin, "storageclasses", map[string]any{"metadata": map[string]any{"name": name}, "provisioner": driver,
			"allowVolumeExpansion": name == class, "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})
	}
	w.createUsersObjects()
	w.settle()
	w.pass(time.Minute)
	return w
}

// userOf returns the name of a function's account.
func userOf(function api.Function) string {
	return "system:serviceaccount:" + api.HomeNamespace + ":" + string(function)
}

const controllerManager = "kube-controller-manager"

// Other clients.
var (
	admin             = apiserver.Client{User: "admin", Manager: "kubectl-create"}
	person            = apiserver.Client{User: "jane", Manager: "kubectl-edit"}
	tool              = apiserver.Client{User: "system:serviceaccount:argocd:argocd", Manager: "argocd-controller"}
	kubelet           = apiserver.Client{User: "system:node:" + node, Manager: "kubelet"}
	storage           = apiserver.Client{User: "system:serviceaccount:kube-system:csi", Manager: "csi"}
	collector         = apiserver.Client{User: "system:serviceaccount:kube-system:generic-garbage-collector", Manager: controllerManager}
	setControllerUser = "system:serviceaccount:kube-system:statefulset-controller"
)

// isFunction reports whether the client is one of Drydock's functions.
func isFunction(c apiserver.Client) bool {
	return strings.HasPrefix(c.User, "system:serviceaccount:"+api.HomeNamespace+":")
}

func (w *World) tell(format string, args ...any) {
	w.tale = append(w.tale, fmt.Sprintf("%9s %s", time.Since(w.begin).Round(time.Second), fmt.Sprintf(format, args...)))
}

// violate notes what an oracle found. Only the first finding counts, because others follow from it.
func (w *World) violate(format string, args ...any) {
	if w.problem == "" {
		w.problem = fmt.Sprintf(format, args...)
		w.tell("VIOLATION: %s", w.problem)
	}
}

func (w *World) create(by apiserver.Client, resource string, content map[string]any) *apiserver.Object {
	o, err := w.server.Create(by, resource, apiserver.Encode(content), false)
	if err != nil {
		w.tell("  %s cannot create a %s: %v", by.Manager, resource, err)
	}
	w.observe()
	return o
}

// change edits an object. It reports whether the object exists and the server has accepted the edit.
func (w *World) change(by apiserver.Client, k apiserver.Key, part string, edit func(o *apiserver.Object)) bool {
	_, err := w.server.Change(by, k, part, func(o *apiserver.Object) error {
		edit(o)
		return nil
	})
	if err != nil {
		w.tell("  %s cannot change %s: %v", by.Manager, k, err)
	}
	w.observe()
	return err == nil
}

func (w *World) remove(by apiserver.Client, k apiserver.Key, options metav1.DeleteOptions) {
	if err := w.server.Delete(by, k, options); err != nil {
		w.tell("  %s cannot delete %s: %v", by.Manager, k, err)
	}
	w.observe()
}

func in(resource, name string) apiserver.Key {
	return apiserver.Key{Resource: resource, Namespace: namespace, Name: name}
}

// broker takes the events that sift sends.
type broker struct{ w *World }

func (b broker) Send(_ context.Context, e event.Event) error {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	b.w.route(e)
	return nil
}

// route puts an event into the queue of each function that it is addressed to. The queue is sorted, because sift sends in random order, and
// has each event once.
func (w *World) route(e event.Event) {
	for _, f := range functions {
		if e.Extensions()["for"+strings.ReplaceAll(string(f), "-", "")] == "true" {
			w.queue = append(w.queue, delivery{f, e})
		}
	}
	slices.SortStableFunc(w.queue, func(a, b delivery) int {
		return cmp.Or(strings.Compare(string(a.to)+a.Subject(), string(b.to)+b.Subject()), strings.Compare(about(a.Event), about(b.Event)))
	})
	w.queue = slices.CompactFunc(w.queue, func(a, b delivery) bool {
		return a.to == b.to && a.Subject() == b.Subject() && a.Type() == b.Type() && about(a.Event) == about(b.Event)
	})
}

// about returns the operation that the event names, or nothing.
func about(e event.Event) string { return fmt.Sprint(e.Extensions()["operation"]) }

// sourceKinds are the resources that config/base/source.yaml watches, with the label that it selects. Scalers need none.
var sourceKinds = map[string]string{"statefulsets": api.ManagedLabel, "persistentvolumeclaims": api.OperationLabel,
	"jobs": api.OperationLabel, "pods": api.OperationLabel, "scalers": ""}

// source reports the latest change of each object since it last did. A selected object that loses the label is reported as deleted, as it
// was when it had the label, like any watch with a selector does.
func (w *World) source() {
	latest := map[apiserver.Key]apiserver.Commit{}
	var order []apiserver.Key
	for _, c := range w.server.Log()[w.sifted:] {
		if _, again := latest[c.Key]; !again {
			order = append(order, c.Key)
		}
		latest[c.Key] = c
	}
	w.sifted = len(w.server.Log())
	for _, k := range order {
		label, watched := sourceKinds[k.Resource]
		if !watched {
			continue
		}
		o, what, before := latest[k].After, events.SourceUpdate, w.reported[k]
		selected := o != nil && (label == "" || label == api.ManagedLabel && o.GetLabels()[label] == "true" ||
			label == api.OperationLabel && labels.Set(o.GetLabels()).Has(label))
		switch {
		case !selected && before == nil:
			continue
		case !selected:
			o, what = before, events.SourceDelete
			delete(w.reported, k)
		default:
			if before == nil {
				what = events.SourceAdd
			}
			w.reported[k] = o
		}
		e, err := events.NewSource(what, "source", fmt.Sprint(k, w.sifted), o)
		if err != nil {
			panic(err)
		}
		w.start(delivery{api.Sift, e}, free)
	}
}

// blind lets the source miss all changes until now.
func (w *World) blind() { w.sifted = len(w.server.Log()) }

func (w *World) tick() {
	e := event.New()
	e.SetID(fmt.Sprint("tick-", w.count))
	e.SetSource("ping")
	e.SetSubject("/tick")
	e.SetType(events.Tick)
	w.start(delivery{api.Sift, e}, free)
}

// usersNow returns the time by the clock of users and gateways. It may step. All processes in a bubble of testing/synctest share the other
// clock.
func (w *World) usersNow() time.Time { return time.Now().Add(w.step) }

// order sends an order of a user.
func (w *World) order(kind, set string) {
	e := events.NewFromUser(kind, events.Ref{Namespace: namespace, Name: set}, fmt.Sprint(kind, w.count))
	e.SetTime(w.usersNow())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.route(e)
}

// deliver takes an event from the queue and lets a process handle it.
func (w *World) deliver(i int) {
	d := w.queue[i]
	w.queue = slices.Delete(w.queue, i, i+1)
	w.run(d)
}

// settle lets everything but Drydock and the operators work until nothing changes.
func (w *World) settle() {
	for range 20 {
		before := len(w.server.Log())
		w.syncSets()
		w.runJobs()
		w.runPods()
		w.provision(grows)
		w.collect()
		if len(w.server.Log()) == before {
			return
		}
	}
}

// round is some time without faults.
func (w *World) round(long time.Duration) {
	w.tick()
	w.rush()
	w.pass(long)
}

// rush lets everything work until nothing changes or a write is delayed, and no time passes. Held processes stay held.
func (w *World) rush() {
	held := len(w.held)
	for range 6 {
		w.source()
		for n := 0; len(w.queue) > 0 && n < 60; n++ {
			w.deliver(0)
			if len(w.held) > held {
				return
			}
			w.source()
		}
		before := len(w.server.Log())
		w.settle()
		w.reconcile(false)
		w.endJobs(true)
		w.runMovers()
		w.endCleanupPods(true)
		if len(w.server.Log()) == before && len(w.queue) == 0 {
			break
		}
	}
}

// pass lets time pass, to the next full second. The random pauses of functions then change nothing.
func (w *World) pass(long time.Duration) {
	w.loseOldRequests(long)
	time.Sleep(long)
	if rest := time.Until(time.Now().Truncate(time.Second).Add(time.Second)); rest < time.Second {
		time.Sleep(rest)
	}
}

// set returns a StatefulSet, or nil.
func (w *World) set(name string) *apiserver.Object { return w.server.Get(in("statefulsets", name)) }

// respond returns the transport's answer to a request that is not delayed.
func (w *World) respond(r *http.Request) (*http.Response, error) {
	request, err := apiserver.Parse(r)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	answer := w.server.Serve(request)
	w.observe()
	return answer, nil
}

// direct is a transport without faults.
type direct struct{ w *World }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) { return d.w.respond(r) }

// textOf returns a string in an object, or "".
func textOf(o *apiserver.Object, path ...string) string {
	if o == nil {
		return ""
	}
	var at any = o.Object
	for _, field := range path {
		m, _ := at.(map[string]any)
		at = m[field]
	}
	text, _ := at.(string)
	return text
}

func put(o *apiserver.Object, value any, path ...string) {
	at := o.Object
	for _, field := range path[:len(path)-1] {
		next, _ := at[field].(map[string]any)
		if next == nil {
			next = map[string]any{}
			at[field] = next
		}
		at = next
	}
	if last := path[len(path)-1]; value == nil {
		delete(at, last)
	} else {
		at[last] = value
	}
}

func numberOf(o *apiserver.Object, path ...string) int {
	if o == nil {
		return 0
	}
	var at any = o.Object
	for _, field := range path {
		m, _ := at.(map[string]any)
		at = m[field]
	}
	switch n := at.(type) {
	case int64:
		return int(n)
	case float64:
		return int(n)
	case json.Number:
		i, _ := n.Int64()
		return int(i)
	}
	return 0
}
