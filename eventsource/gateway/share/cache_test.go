package share

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"
)

func weighOne(int) int { return 1 }

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestRequestsForOneKeyShareOneRead(t *testing.T) {
	cache, reads := NewCache(10, 1000, weighOne), 0
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			entry, err := cache.Acquire(t.Context(), "shop/web")
			if err != nil {
				t.Error(err)
				return
			}
			defer entry.Release()
			if _, _, ok := entry.Get(noon); !ok {
				reads++ // the entry is exclusive
				entry.Put(7, nil, noon.Add(time.Second))
			}
			if value, err, ok := entry.Get(noon); value != 7 || err != nil || !ok {
				t.Errorf("%d, %v, %t", value, err, ok)
			}
		})
	}
	all.Wait()
	if reads != 1 {
		t.Errorf("%d reads", reads)
	}
}

func TestErrorIsCachedUntilItExpires(t *testing.T) {
	entry, err := NewCache(10, 1000, weighOne).Acquire(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	entry.Put(0, errors.New("away"), noon.Add(time.Second))
	if _, err, ok := entry.Get(noon.Add(time.Second - 1)); !ok || err == nil {
		t.Errorf("%v, %t", err, ok)
	}
	if _, _, ok := entry.Get(noon.Add(time.Second)); ok {
		t.Error("the error is cached for too long")
	}
}

func TestCanceledRequestDoesNotBlockTheNext(t *testing.T) {
	cache := NewCache(10, 1000, weighOne)
	first, err := cache.Acquire(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := cache.Acquire(ctx, "key"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	first.Release()
	next, err := cache.Acquire(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	next.Release()
	if users := cache.slots["key"].users; users != 0 {
		t.Errorf("%d users are left", users)
	}
}

func TestNumberOfKeysIsLimited(t *testing.T) {
	const maxKeys = 100
	cache := NewCache(maxKeys, 1000, weighOne)
	held, err := cache.Acquire(t.Context(), "held")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 * maxKeys {
		entry, err := cache.Acquire(t.Context(), strconv.Itoa(i))
		if err != nil {
			t.Fatal(err)
		}
		entry.Put(i, nil, noon.Add(time.Second))
		entry.Release()
	}
	if len(cache.slots) > maxKeys {
		t.Errorf("%d keys are cached", len(cache.slots))
	}
	if cache.slots["held"] != held.slot {
		t.Error("a key in use was removed")
	}
	held.Release()
}

// TestWeightOfValuesIsLimited: an anonymous caller may name a large group in many ways.
func TestWeightOfValuesIsLimited(t *testing.T) {
	cache := NewCache(100, 1000, func(v int) int { return v })
	for i := range 50 {
		entry, err := cache.Acquire(t.Context(), strconv.Itoa(i%30))
		if err != nil {
			t.Fatal(err)
		}
		entry.Put(300, nil, noon)
		entry.Release()
		sum := 0
		for _, s := range cache.slots {
			sum += s.value
		}
		if sum != cache.weight || sum > 1000+300 {
			t.Fatalf("values of %d, counted as %d", sum, cache.weight)
		}
	}
}

func TestOneKeyLeavesRoomForOthers(t *testing.T) {
	limiter, busy := NewLimiter(10), 0
	for range 20 {
		if limiter.TryAcquire("busy") {
			busy++
		}
	}
	others := 0
	for i := range 20 {
		if limiter.TryAcquire(strconv.Itoa(i)) {
			others++
		}
	}
	if busy != 5 || others != 5 {
		t.Errorf("%d requests of the busy site wait, %d of others", busy, others)
	}
	limiter.Release("busy")
	if !limiter.TryAcquire("late") || limiter.TryAcquire("later") {
		t.Error("a released place is not available")
	}
}
