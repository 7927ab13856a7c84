//go:build cluster

package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"testing"
	"time"
)

// write puts one key after the other through the Service until the test ends.
func (s etcd) write(t *testing.T) *puts {
	t.Helper()
	p, i := newPuts(), 0
	s.untilEnd(t, func(ctx context.Context) {
		i++
		key, value := fmt.Sprintf("key-%06d", i), fmt.Sprintf("%d at %d", i, time.Now().UnixNano())
		err := s.ask(ctx, "services", "served", "kv/put", map[string]string{"key": encoded(key), "value": encoded(value)}, &struct{}{})
		p.note(key, value, err == nil)
	})
	return p
}

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// expectEveryPut checks that each member has every acknowledged put, and that all members have the same keys.
func (s etcd) expectEveryPut(t *testing.T, p *puts) {
	t.Helper()
	acked := p.acknowledged(t) // the writer continues, and the hashes are for one revision
	hashes := map[string]bool{}
	revision := s.statuses(t.Context())["web-0"].Header.Revision
	for i := range served {
		pod := fmt.Sprintf("web-%d", i)
		values := s.values(t, pod)
		for key, value := range acked {
			if values[key] != value {
				t.Fatalf("%s has %q for %s, and %q was acknowledged", pod, values[key], key, value)
			}
		}
		var hash struct {
			Hash int64 `json:"hash"`
		}
		if err := s.ask(t.Context(), "pods", pod, "maintenance/hashkv", map[string]string{"revision": revision}, &hash); err != nil {
			t.Fatal(err)
		}
		hashes[fmt.Sprint(hash.Hash)] = true
	}
	if len(hashes) != 1 {
		t.Errorf("the members differ: %v", hashes)
	}
}

// values returns all keys of a member with their values.
func (s etcd) values(t *testing.T, pod string) map[string]string {
	t.Helper()
	var answer struct {
		Pairs []struct{ Key, Value []byte } `json:"kvs"`
	}
	all := map[string]string{"key": encoded("key-"), "range_end": encoded("key.")}
	if err := s.ask(t.Context(), "pods", pod, "kv/range", all, &answer); err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, pair := range answer.Pairs {
		values[string(pair.Key)] = string(pair.Value)
	}
	return values
}
