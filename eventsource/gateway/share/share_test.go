package share

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestRequestsForOneKeyLookOnce(t *testing.T) {
	views, looks := NewViews[int](10), 0
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			turn, err := views.Take(t.Context(), "shop/web")
			if err != nil {
				t.Error(err)
				return
			}
			defer turn.End()
			if _, _, ok := turn.Recall(noon); !ok {
				looks++ // guarded by the turn
				turn.Keep(7, nil, noon.Add(time.Second))
			}
			if seen, err, ok := turn.Recall(noon); seen != 7 || err != nil || !ok {
				t.Errorf("%d, %v, %t", seen, err, ok)
			}
		})
	}
	all.Wait()
	if looks != 1 {
		t.Errorf("%d looks", looks)
	}
}

func TestAnErrorIsRememberedAndForgotten(t *testing.T) {
	turn, err := NewViews[int](10).Take(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	turn.Keep(0, errors.New("away"), noon.Add(time.Second))
	if _, err, ok := turn.Recall(noon.Add(time.Second - 1)); !ok || err == nil {
		t.Errorf("%v, %t", err, ok)
	}
	if _, _, ok := turn.Recall(noon.Add(time.Second)); ok {
		t.Error("it is remembered for too long")
	}
}

func TestARequestThatGoesAwayLeavesTheTurnToTheNext(t *testing.T) {
	views := NewViews[int](10)
	first, err := views.Take(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := views.Take(ctx, "key"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	first.End()
	next, err := views.Take(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	next.End()
	if users := views.keys["key"].users; users != 0 {
		t.Errorf("%d users are left", users)
	}
}

func TestTheMemoryIsBounded(t *testing.T) {
	const most = 100
	views := NewViews[int](most)
	held, err := views.Take(t.Context(), "held")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 * most {
		turn, err := views.Take(t.Context(), strconv.Itoa(i))
		if err != nil {
			t.Fatal(err)
		}
		turn.Keep(i, nil, noon.Add(time.Second))
		turn.End()
	}
	if len(views.keys) > most {
		t.Errorf("%d keys are remembered", len(views.keys))
	}
	if views.keys["held"] != held.view {
		t.Error("a key in use is forgotten")
	}
	held.End()
}

func TestSeatsLeaveRoomForOtherSites(t *testing.T) {
	seats, busy := NewSeats(10), 0
	for range 20 {
		if seats.Take("busy") {
			busy++
		}
	}
	others := 0
	for i := range 20 {
		if seats.Take(strconv.Itoa(i)) {
			others++
		}
	}
	if busy != 5 || others != 5 {
		t.Errorf("%d waits of the busy site, %d of others", busy, others)
	}
	seats.Leave("busy")
	if !seats.Take("late") || seats.Take("later") {
		t.Error("a seat that was given back is not given on")
	}
}
