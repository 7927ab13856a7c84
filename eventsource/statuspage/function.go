// Package statuspage serves a page that shows every StatefulSet that has opted in: its operation, what it waits for, and its sleep.
//
//	in    GET / and /sets/NAMESPACE/NAME, pages; /events, their changes as a stream; /page.js, /page.css, /health
//	get   StatefulSets; for a page of one set also its group, claims, volumes, pods, Jobs, journals and Events
//	do    nothing
//	out   HTML, a stream of events, or a problem (RFC 7807)
//	never writes, and never answers with the name of a set without a valid token
//
// The page keeps only the latest HTML of each page that a browser shows at the moment. While no browser shows one, it reads nothing.
package statuspage

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/overview"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/token"
	"drydock.dev/shared/world"
)

// Access are the settings that decide who sees the page. A zero value selects the default.
type Access struct {
	Token     token.Secret `envconfig:"DRYDOCK_STATUS_TOKEN" desc:"token that viewers of the status page send; take it from a Secret. Without a token, the page shows nothing"`
	TokenFile string       `envconfig:"DRYDOCK_STATUS_TOKEN_FILE" desc:"file with the token of DRYDOCK_STATUS_TOKEN; it is read again when it changes"`
	Viewers   int          `envconfig:"DRYDOCK_STATUS_VIEWERS" default:"100" desc:"browsers that a status page keeps up to date at once; the others have to reload"`
}

const defaultViewers = 100

const (
	// readTimeout limits the reads for one page, so that a hanging API server does not block the others forever.
	readTimeout = 20 * time.Second
	// maxReads limits the requests whose pages are read at the same time. The others wait.
	maxReads = 2
)

// Page serves the status page.
type Page struct {
	client      *kube.Client
	namespaces  []string
	token       token.Token
	log         *slog.Logger
	live        *live
	now         func() time.Time
	reads       chan struct{} // holds a value for each read that may begin
	lastWarning atomic.Int64  // Unix time in seconds of the last logged refusal
}

// New returns the page for the namespaces of the settings.
func New(client *kube.Client, settings api.Settings, access Access, log *slog.Logger) *Page {
	p := &Page{
		client: client, namespaces: settings.Namespaces, log: log, now: time.Now, reads: make(chan struct{}, maxReads),
		token: token.Token{Value: access.Token, File: access.TokenFile, FileSetting: "DRYDOCK_STATUS_TOKEN_FILE"},
	}
	for range maxReads {
		p.reads <- struct{}{}
	}
	p.live = newLive(cmp.Or(access.Viewers, defaultViewers), p.refresh, log)
	return p
}

// Stop ends the streams. Register it with the server's RegisterOnShutdown, because a server that shuts down waits for its requests.
func (p *Page) Stop() { p.live.stop() }

// ServeHTTP answers a request.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for key, value := range securityHeaders {
		w.Header().Set(key, value)
	}
	if err := p.serve(w, r); err != nil {
		p.refuse(w, r, err)
	}
}

// serve answers the request, or returns why it is refused before it has written anything.
func (p *Page) serve(w http.ResponseWriter, r *http.Request) error {
	switch {
	case r.Method != http.MethodGet:
		return wrongMethod(r.Method)
	case r.URL.Path == "/health":
		return write(w, "text/plain; charset=utf-8", []byte("ok\n"))
	}
	if err := p.checkToken(r); err != nil {
		return err
	}
	if body, kind := asset(r.URL.Path); body != nil {
		return write(w, kind, body)
	}
	if r.URL.Path == "/events" {
		return p.serveEvents(w, r)
	}
	return p.servePage(w, r)
}

// servePage answers with a whole page, which is complete without JavaScript.
func (p *Page) servePage(w http.ResponseWriter, r *http.Request) error {
	v, err := viewOfPath(r.URL.Path, r.URL.RawQuery)
	if err != nil {
		return err
	}
	f, err := p.fragmentOf(r.Context(), v)
	if err != nil {
		return err
	}
	return write(w, htmlKind, renderDocument(v, f))
}

// fragmentOf returns the fragment of the view. If a browser shows the view at the moment, it is the latest one. Else it is read now.
func (p *Page) fragmentOf(caller context.Context, v view) (fragment, error) {
	if f, fresh := p.live.latest(v); fresh {
		return f, nil
	}
	ctx, cancel := context.WithTimeout(caller, readTimeout)
	defer cancel()
	select {
	case <-p.reads:
	case <-ctx.Done():
		return fragment{}, tooManyRequests()
	}
	defer func() { p.reads <- struct{}{} }()
	return p.read(ctx, v)
}

// read reads the objects that the view shows, and renders them.
func (p *Page) read(ctx context.Context, v view) (fragment, error) {
	if v.isSet() {
		facts, err := p.readSet(ctx, v)
		if err != nil {
			return fragment{}, err
		}
		return renderSet(facts), nil
	}
	document, err := p.readOverview(ctx)
	if err != nil {
		return fragment{}, err
	}
	return renderList(v, document, p.now()), nil
}

// refresh returns the results of the views, which browsers show at the moment. All lists share one read.
func (p *Page) refresh(ctx context.Context, views []view) map[view]update {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	updates := map[view]update{}
	lists := []view{}
	for _, v := range views {
		if !v.isSet() {
			lists = append(lists, v)
			continue
		}
		one, cancel := context.WithTimeout(ctx, readTimeout)
		f, err := p.read(one, v)
		cancel()
		updates[v] = p.updateOf(f, err)
	}
	if len(lists) == 0 {
		return updates
	}
	document, err := p.readOverview(ctx)
	for _, v := range lists {
		var f fragment
		if err == nil {
			f = renderList(v, document, p.now())
		}
		updates[v] = p.updateOf(f, err)
	}
	return updates
}

// updateOf returns the update for the browsers that show a view. It logs an error, whose text may contain addresses of the cluster.
func (p *Page) updateOf(f fragment, err error) update {
	if err == nil {
		return update{fragment: f}
	}
	problem := problemOf(err)
	if problem.Status >= http.StatusInternalServerError {
		p.warn("reading for the status page failed", err)
	}
	return update{problem: problem.Detail}
}

// maxEvents limits the Events of a set that a page shows.
const maxEvents = 50

const optedIn = api.ManagedLabel + "=true"

// setFacts are the objects that the page of one set shows.
type setFacts struct {
	*world.Observed
	group  []overview.Facts // the opted-in sets of its group, or only the set
	events []corev1.Event   // the latest first
}

// readOverview reads every opted-in set of the namespaces that this Drydock serves.
func (p *Page) readOverview(ctx context.Context) (overview.Document, error) {
	namespaces := p.namespaces
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	var sets []overview.Facts
	for _, namespace := range namespaces {
		err := kube.Pages(ctx, p.client, plan.StatefulSets, namespace, optedIn, &appsv1.StatefulSetList{}, func(l *appsv1.StatefulSetList) {
			for i := range l.Items {
				sets = append(sets, overview.FactsOf(&l.Items[i]).Reduced())
			}
		})
		if err != nil {
			return overview.Document{}, err
		}
	}
	return overview.New(sets, p.now()), nil
}

// readSet reads the content of the page of one set.
func (p *Page) readSet(ctx context.Context, v view) (setFacts, error) {
	if len(p.namespaces) > 0 && !slices.Contains(p.namespaces, v.namespace) {
		return setFacts{}, setNotFound(v.namespace, v.name)
	}
	managed := func(o *world.Observed) bool { return o.Set != nil && statefulset.Managed(o.Set) }
	observed, err := p.client.ObserveIf(ctx, events.Ref{Namespace: v.namespace, Name: v.name}, managed)
	if err != nil {
		return setFacts{}, err
	}
	if !managed(observed) {
		return setFacts{}, setNotFound(v.namespace, v.name)
	}
	observed.Now = p.now()
	facts := setFacts{Observed: observed}
	if facts.group, err = p.readGroup(ctx, observed.Set); err != nil {
		return setFacts{}, err
	}
	facts.events, err = p.client.EventsOf(ctx, v.namespace, "StatefulSet", v.name, maxEvents)
	return facts, err
}

// readGroup reads the opted-in sets of the set's group. A set without a group is alone.
func (p *Page) readGroup(ctx context.Context, set *appsv1.StatefulSet) ([]overview.Facts, error) {
	group := []overview.Facts{overview.FactsOf(set)}
	name := set.Labels[api.GroupLabel]
	if name == "" {
		return group, nil
	}
	selector := optedIn + "," + api.GroupLabel + "=" + name
	err := kube.Pages(ctx, p.client, plan.StatefulSets, set.Namespace, selector, &appsv1.StatefulSetList{}, func(l *appsv1.StatefulSetList) {
		for i := range l.Items {
			if l.Items[i].Name != set.Name {
				group = append(group, overview.FactsOf(&l.Items[i]).Reduced())
			}
		}
	})
	return group, err
}

// warn logs a warning, at most one a second.
func (p *Page) warn(what string, err error) {
	second := time.Now().Unix()
	if last := p.lastWarning.Load(); last != second && p.lastWarning.CompareAndSwap(last, second) {
		p.log.Warn(what, "function", api.StatusPage, "error", err.Error())
	}
}
