package members

import (
	"encoding/json"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// look is a look at a set. Its ledger is in the annotation ledger, as JSON without the fields that are the same everywhere.
type look struct {
	replicas   int32
	generation int64
	ledger     string
	more       []build.Option
	held       bool
}

func (l look) set() *appsv1.StatefulSet {
	set := build.Set("web", append([]build.Option{build.Template("data", "64Mi", "fixed"),
		build.Annotation(api.CleanupTemplateAnnotation, `{}`)}, l.more...)...)
	set.Spec.Replicas, set.Generation = ptr.To(l.replicas), l.generation
	if l.ledger != "" {
		build.Annotation(api.LedgerAnnotation, strings.Replace(l.ledger, "{", `{"set":{"name":"web","uid":"uid-web"},`, 1))(set)
	}
	return set
}

// TestLedger is the table of the ledger: what a look at the set makes of it. Three pods ran at generation 4.
// Invariants: I1.
func TestLedger(t *testing.T) {
	const (
		three    = `{"start":0,"count":3,"complete":true,"generation":4}`
		stopped  = `{"start":0,"count":3,"generation":4}`
		removing = `{"start":0,"count":3,"complete":true,"generation":4,"orders":1,"removing":{"start":1,"end":3,"order":1}}`
	)
	atZero := build.Annotation(api.CleanupAtZeroAnnotation, "true")
	for name, test := range map[string]struct {
		look
		want string
	}{
		"without a ledger, what runs is all":               {look{2, 5, "", nil, false}, `{"start":0,"count":2,"complete":true,"generation":5}`},
		"without a ledger, a stopped set has no pods":      {look{0, 5, "", nil, false}, `{"start":0,"count":0,"complete":true,"generation":5}`},
		"that of a former set does not count":              {look{1, 5, `{"set":{"name":"web","uid":"uid-old"},"count":3,"complete":true,"generation":4}`, nil, false}, `{"start":0,"count":1,"complete":true,"generation":5}`},
		"an unreadable one does not count":                 {look{1, 5, `{"count":"3"}`, nil, false}, `{"start":0,"count":1,"complete":true,"generation":5}`},
		"another start begins another one":                 {look{2, 5, three, []build.Option{ordinalsFrom(1)}, false}, `{"start":1,"count":2,"complete":true,"generation":5}`},
		"nothing has changed":                              {look{3, 4, three, nil, false}, three},
		"the template has changed":                         {look{3, 5, three, nil, false}, `{"start":0,"count":3,"complete":true,"generation":5}`},
		"scaled up":                                        {look{5, 5, three, nil, false}, `{"start":0,"count":5,"complete":true,"generation":5}`},
		"scaled down by one write":                         {look{1, 5, three, nil, false}, `{"start":0,"count":3,"complete":true,"generation":5,"orders":1,"removing":{"start":1,"end":3,"order":1}}`},
		"scaled down by two writes, of which one was seen": {look{1, 6, three, nil, false}, `{"start":0,"count":3,"generation":6}`},
		"scaled down further":                              {look{1, 5, `{"start":0,"count":3,"complete":true,"generation":4,"orders":1,"removing":{"start":2,"end":3,"order":1}}`, nil, false}, `{"start":0,"count":3,"complete":true,"generation":5,"orders":2,"removing":{"start":1,"end":3,"order":2}}`},
		"zero is a stop":                                   {look{0, 5, three, nil, false}, `{"start":0,"count":3,"generation":5}`},
		"zero is a stop, and keeps an earlier order":       {look{0, 5, removing, nil, false}, `{"start":0,"count":3,"generation":5,"orders":1,"removing":{"start":1,"end":3,"order":1}}`},
		"zero is for good, if the user says so":            {look{0, 5, three, []build.Option{atZero}, false}, `{"start":0,"count":3,"complete":true,"generation":5,"orders":1,"removing":{"start":0,"end":3,"order":1}}`},
		"something else has stopped them":                  {look{1, 5, three, nil, true}, `{"start":0,"count":3,"generation":5}`},
		"a sleep stops them":                               {look{1, 5, three, []build.Option{record(api.SleepAnnotation, api.KindSleep, api.Stopping, "")}, false}, `{"start":0,"count":3,"generation":5}`},
		"some pods run again after a stop":                 {look{1, 5, stopped, nil, false}, `{"start":0,"count":3,"generation":5}`},
		"all pods run again after a stop":                  {look{3, 5, stopped, nil, false}, `{"start":0,"count":3,"complete":true,"generation":5}`},
		"a scale-up needs some":                            {look{2, 5, removing, nil, false}, `{"start":0,"count":3,"complete":true,"generation":5,"orders":1,"removing":{"start":2,"end":3,"order":1}}`},
		"a scale-up needs all":                             {look{3, 5, removing, nil, false}, `{"start":0,"count":3,"complete":true,"generation":5,"orders":1}`},
		"a missed change ends an order":                    {look{1, 6, removing, nil, false}, `{"start":0,"count":3,"generation":6,"orders":1}`},
		"the cleanup has ended":                            {look{1, 4, removing, []build.Option{cleanedUp(1)}, false}, `{"start":0,"count":1,"complete":true,"generation":4,"orders":1}`},
		"an earlier cleanup has ended":                     {look{1, 4, removing, []build.Option{cleanedUp(0)}, false}, removing},
		"a Scaler has scaled down":                         {look{1, 5, three, []build.Option{scaled(api.Succeeded, 1, "")}, false}, `{"start":0,"count":3,"complete":true,"generation":5,"orders":1,"removing":{"start":1,"end":3,"order":1}}`},
		"a Scaler waits for the cleanup":                   {look{1, 5, three, []build.Option{scaled(api.PostScaling, 1, `,"cleansUp":true`)}, false}, `{"start":0,"count":3,"complete":true,"generation":5,"orders":1,"removing":{"start":1,"end":3,"order":1}}`},
		"the hooks of a Scaler run":                        {look{1, 5, three, []build.Option{scaled(api.PostScaling, 1, "")}, false}, `{"start":0,"count":3,"complete":true,"generation":5}`},
		"the scaling of a Scaler has failed":               {look{1, 5, three, []build.Option{scaled(api.Failed, 1, "")}, false}, `{"start":0,"count":3,"complete":true,"generation":5}`},
		"a Scaler will restore the count":                  {look{1, 5, three, []build.Option{scaled(api.Succeeded, 3, "")}, false}, `{"start":0,"count":3,"complete":true,"generation":5}`},
		"a Scaler is paused":                               {look{1, 5, three, []build.Option{scaled(api.Succeeded, 1, `,"paused":true`)}, false}, `{"start":0,"count":3,"generation":5}`},
	} {
		t.Run(name, func(t *testing.T) {
			next := Next(test.set(), test.held)
			if want := strings.Replace(test.want, "{", `{"set":{"name":"web","uid":"uid-web"},`, 1); next.Encode() != want {
				t.Errorf("the ledger becomes\n%s, not\n%s", next.Encode(), want)
			}
		})
	}
}

// TestOrderOfUser: an order names pods that nothing requests.
func TestOrderOfUser(t *testing.T) {
	const three = `{"start":0,"count":3,"generation":4}`
	for name, test := range map[string]struct {
		look
		from, want string // want is the order, or a part of the error
	}{
		"pods that are expected back":   {look{1, 4, three, nil, false}, "1", `{"start":1,"end":2147483647,"order":1}`},
		"of a stopped set":              {look{0, 4, three, nil, false}, "0", `{"start":0,"end":2147483647,"order":1}`},
		"from before the ledger":        {look{1, 4, "", nil, false}, "1", `{"start":1,"end":2147483647,"order":1}`},
		"a pod that runs":               {look{2, 4, three, nil, false}, "1", "pod web-1 is requested. Scale down first, or name an ordinal from 2"},
		"a pod that a Scaler requests":  {look{1, 4, three, []build.Option{scaled(api.Succeeded, 3, "")}, false}, "1", "name an ordinal from 3"},
		"no number":                     {look{1, 4, three, nil, false}, "one", `"one" is not an ordinal`},
		"a negative number":             {look{1, 4, three, nil, false}, "-1", "is not an ordinal"},
		"of a set that sleeps":          {look{0, 4, three, []build.Option{record(api.SleepAnnotation, api.KindSleep, api.Asleep, "")}, false}, "1", "keeps pods away"},
		"of a set with a paused Scaler": {look{0, 4, three, []build.Option{scaled(api.Succeeded, 0, `,"paused":true`)}, false}, "1", "keeps pods away"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := Order(test.set(), test.from)
			got := ""
			if err != nil {
				got = err.Error()
			} else if order, err := json.Marshal(l.Removing); err == nil {
				got = string(order)
			}
			if !strings.Contains(got, test.want) {
				t.Errorf("the answer is %s, not %s", got, test.want)
			}
		})
	}
}

func ordinalsFrom(start int32) build.Option {
	return build.Edit(func(set *appsv1.StatefulSet) { set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: start} })
}

// record is a record of the set in the phase, with more fields.
func record(annotation string, kind api.Kind, phase api.Phase, fields string) build.Option {
	return build.Annotation(annotation, `{"version":2,"operation":"`+build.ID+`","kind":"`+string(kind)+`","phase":"`+string(phase)+
		`","request":"","attempt":1,"set":{"name":"web","uid":"uid-web"},"started":"2026-03-01T12:00:00Z"`+fields+`}`)
}

func cleanedUp(order int) build.Option {
	return build.Edit(func(set *appsv1.StatefulSet) {
		cleanup := &api.Cleanup{Header: api.Header{Version: api.RecordVersion, Operation: build.ID, Kind: api.KindCleanup, Phase: api.Succeeded,
			Set: api.SetRef{Name: "web", UID: "uid-web"}, Started: metav1.NewTime(build.Now)}, Order: order}
		build.Annotation(api.CleanupAnnotation, cleanup.Encode())(set)
	})
}

func scaled(phase api.Phase, target int32, fields string) build.Option {
	scale := &api.Scale{Target: target}
	text, _ := json.Marshal(scale.Target)
	return record(api.ScaleAnnotation, api.KindScale, phase, `,"target":`+string(text)+fields)
}
