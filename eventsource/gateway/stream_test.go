package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"drydock.dev/shared/api"
)

func TestChanges(t *testing.T) {
	at := func(name string, state State, replicas, ready int32) Set {
		return Set{Ref: Ref{"shop", name}, Status: Status{State: state, Replicas: replicas, Ready: ready}}
	}
	for name, row := range map[string]struct {
		before, after []Set
		types         []string
		want          string
	}{
		"the first observation":   {nil, []Set{at("web", Ready, 2, 2)}, nil, "created web"},
		"an empty query":          {[]Set{at("web", Ready, 2, 2)}, []Set{at("web", Ready, 2, 2)}, nil, ""},
		"the set falls asleep":    {[]Set{at("web", Ready, 2, 2)}, []Set{at("web", Asleep, 0, 2)}, nil, "stopped web"},
		"the set wakes":           {[]Set{at("web", Asleep, 0, 0)}, []Set{at("web", Waking, 2, 0)}, nil, "started web"},
		"a replica becomes ready": {[]Set{at("web", Waking, 2, 0)}, []Set{at("web", Waking, 2, 1)}, nil, "updated web"},
		"a set is deleted": {[]Set{at("db", Ready, 1, 1), at("web", Ready, 2, 2)}, []Set{at("db", Ready, 1, 1)}, nil,
			"removed web, stopped web"},
		"a filter by type":               {[]Set{at("web", Ready, 2, 2)}, nil, []string{"removed"}, "removed web"},
		"a filter with an unknown type":  {nil, []Set{at("web", Ready, 2, 2)}, []string{"exploded"}, ""},
		"an optional set appears":        {[]Set{at("web", Missing, 0, 0)}, []Set{at("web", Ready, 2, 2)}, nil, "created web"},
		"an optional set does not exist": {nil, []Set{at("web", Missing, 0, 0)}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, c := range changes(byRef(row.before), row.after, row.types) {
				got = append(got, c.Type+" "+c.Set.Name)
			}
			if text := strings.Join(got, ", "); text != row.want {
				t.Errorf("is %q, want %q", text, row.want)
			}
		})
	}
}

// TestStreamReportsChangesOfSet as Server-Sent Events, and does not keep the set awake.
func TestStreamReportsChangesOfSet(t *testing.T) {
	c := newCluster(t, set("web"), set("other"))
	server := httptest.NewServer(c.gateway(t, Options{}))
	t.Cleanup(server.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	lines, header := listen(ctx, t, server.URL+pathEvents+"?names=statefulset_shop_web_1", "")
	if header.Get("Content-Type") != "text/event-stream" || header.Get("X-Accel-Buffering") != "no" || header.Get(statusHeader) != isNotReady {
		t.Errorf("%v", header)
	}
	for _, step := range []struct {
		event, status string
		then          func()
	}{
		{"created", "ready", func() { c.put(set("web", asleep())) }},
		{"stopped", "stopped", func() { c.put(set("web", sleep(api.Waking, ""), replicas(2, 0))) }},
		{"started", "starting", func() { c.put(set("web", sleep(api.Waking, ""))) }},
		{"updated", "ready", func() {}},
	} {
		event, info := next(t, lines)
		if event != step.event || info.Name != "statefulset_shop_web_1" || info.Status != step.status {
			t.Fatalf("%s %+v, want %s %s", event, info, step.event, step.status)
		}
		step.then()
	}
	if _, writes := c.counts(); writes > 0 {
		t.Error("the stream writes")
	}
}

func TestStreamOfAllSetsRequiresToken(t *testing.T) {
	c := newCluster(t, set("web"), set("restless", with(api.IdleTimeoutAnnotation, "")), set("stranger", labelled(api.ManagedLabel, "false")))
	if w := get(t, c.gateway(t, Options{}), pathEvents); w.Code != 403 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	server := httptest.NewServer(c.gateway(t, Options{Token: "s3cret"}))
	t.Cleanup(server.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	lines, _ := listen(ctx, t, server.URL+pathEvents+"?types=created&types=removed", "s3cret")
	if event, info := next(t, lines); event != "created" || info.Name != "shop/web" {
		t.Errorf("%s %+v", event, info)
	}
	c.remove("web")
	if event, info := next(t, lines); event != "removed" || info.Name != "shop/web" {
		t.Errorf("%s %+v", event, info)
	}
}

func TestStopEndsStream(t *testing.T) {
	c := newCluster(t, set("web"))
	g := c.gateway(t, Options{})
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	lines, _ := listen(ctx, t, server.URL+pathEvents+"?names=shop/web", "")
	next(t, lines)
	g.Stop()
	for range lines { // until it ends
	}
	if ctx.Err() != nil {
		t.Error("the stream does not end")
	}
	if !g.waiters.TryAcquire(pathEvents) {
		t.Error("the ended stream still counts")
	}
}

// listen opens a stream and returns its lines.
func listen(ctx context.Context, t *testing.T, address, token string) (<-chan string, http.Header) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		t.Fatal(response.Status)
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		defer response.Body.Close() // read only
		for scanner := bufio.NewScanner(response.Body); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	return lines, response.Header
}

// next returns the next event of the stream.
func next(t *testing.T, lines <-chan string) (string, instanceJSON) {
	t.Helper()
	event := ""
	for line := range lines {
		if name, ok := strings.CutPrefix(line, "event:"); ok {
			event = name
		}
		if data, ok := strings.CutPrefix(line, "data:"); ok {
			var info instanceJSON
			if err := json.Unmarshal([]byte(data), &info); err != nil {
				t.Fatal(err)
			}
			return event, info
		}
	}
	t.Fatal("the stream has ended")
	return "", instanceJSON{}
}

// TestGoneOptionalSetIsAnnounced: a session has a set that does not exist if its name is optional.
func TestGoneOptionalSetIsAnnounced(t *testing.T) {
	ref := Ref{"shop", "web"}
	before := map[Ref]Set{ref: {Ref: ref, Status: Status{State: Ready, Ready: 1, Want: 1, Replicas: 1}, Optional: true}}
	gone := SessionOf([]Unit{{Missing: &ref}}).Sets
	var types []string
	for _, c := range changes(before, gone, nil) {
		types = append(types, c.Type)
	}
	if again := changes(byRef(gone), gone, nil); !slices.Equal(types, []string{eventRemoved, eventStopped}) || len(again) > 0 {
		t.Errorf("%v, then %v", types, again)
	}
}
