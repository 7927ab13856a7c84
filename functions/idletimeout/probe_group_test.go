package idletimeout

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/idle"
	"drydock.dev/test/kit/build"
)

// podOf returns a running pod of the set at the address of this machine.
func podOf(set string, ordinal int, options ...build.Option) *corev1.Pod {
	at := build.Edit(func(p *corev1.Pod) {
		p.Status.PodIP = "127.0.0.1"
		p.Spec.Containers = []corev1.Container{{Name: "db"}}
		p.OwnerReferences[0].UID = build.Set(set).UID
	})
	return build.With(build.PodOf(set, ordinal), append([]build.Option{at}, options...)...)
}

// probeServer starts a server for probes. It returns the port and the number of requests so far.
func probeServer(t *testing.T, answer http.HandlerFunc) (port string, asked *atomic.Int32) {
	t.Helper()
	asked = &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	return portOf(server.URL), asked
}

func portOf(url string) string { return url[strings.LastIndex(url, ":")+1:] }

// silent accepts the request and never answers, like a network policy that drops packets.
func silent(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// TestUnansweredProbesLeaveTimeForMessages: six sets are asked concurrently, and each reports its failed probe within the same event.
func TestUnansweredProbesLeaveTimeForMessages(t *testing.T) {
	port, asked := probeServer(t, silent)
	var objects []metav1.Object
	for i := range 6 {
		name := fmt.Sprintf("s%d", i)
		objects = append(objects, podOf(name, 0), member(name, shop, build.Replicas(1),
			build.Annotation(api.LastActivityAnnotation, timestampAgo(2*time.Hour)), build.Annotation(api.ActivityProbeAnnotation, "http:"+port)))
	}
	c, settings := newCluster(t, objects...), build.SleepSettings()
	settings.ProbeTimeout = 300 * time.Millisecond
	begin := time.Now()
	_, err := c.function(settings).Handle(t.Context(), newEvent(events.ObjectChanged, "1", begin,
		map[string]string{"kind": "StatefulSet", "name": "s0"}))
	if took := time.Since(begin); err != nil || took > 5*settings.ProbeTimeout {
		t.Errorf("it took %s, %v", took, err)
	}
	for i := range 6 {
		if sleep, err := api.LoadSleep(c.set(fmt.Sprintf("s%d", i))); err != nil || sleep == nil || sleep.Reason != api.ProbeFailed {
			t.Errorf("s%d: %+v, %v", i, sleep, err)
		}
	}
	if asked.Load() != 6 {
		t.Errorf("asked %d times", asked.Load())
	}
}

// TestSlowPodsAreProbedConcurrently: one after another they would take two seconds.
func TestSlowPodsAreProbedConcurrently(t *testing.T) {
	port, asked := probeServer(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusNoContent)
	})
	var pods []metav1.Object
	for i := range 20 {
		pods = append(pods, replica(i))
	}
	settings := build.SleepSettings()
	settings.ProbeTimeout = 1500 * time.Millisecond
	expectResult(t, ask(t, newCluster(t, pods...), settings, "http:"+port, build.Replicas(20)), "idle")
	if asked.Load() != 20 {
		t.Errorf("asked %d times", asked.Load())
	}
}

// TestProbesLeaveTimeForWrites checks the time that an event leaves for probes.
func TestProbesLeaveTimeForWrites(t *testing.T) {
	p := newProber(nil, api.Settings{ProbeTimeout: 5 * time.Second}, slog.New(slog.DiscardHandler))
	for left, want := range map[time.Duration]time.Duration{25 * time.Second: 5 * time.Second, 12 * time.Second: 2 * time.Second,
		9 * time.Second: -time.Second} {
		ctx, cancel := context.WithTimeout(t.Context(), left)
		if got := p.probeTime(ctx); got > want || got < want-time.Second {
			t.Errorf("of %s the probes may take %s, want %s", left, got, want)
		}
		cancel()
	}
}

func TestProbesPerEventAreLimited(t *testing.T) {
	port, asked := probeServer(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	var pods []metav1.Object
	var group idle.Group
	for i := range maxProbes + 1 {
		name := fmt.Sprintf("s%02d", i)
		pods = append(pods, podOf(name, 0))
		group = append(group, idle.MemberOf(member(name, build.Replicas(1), build.Annotation(api.ActivityProbeAnnotation, "http:"+port))))
	}
	found := newProber(newCluster(t, pods...).client(), build.SleepSettings(), slog.New(slog.DiscardHandler)).askAll(t.Context(), group, group)
	if got := found["s50"]; got.Err == nil || !strings.Contains(got.Err.Error(), "more than 50 sets") {
		t.Errorf("%+v", got)
	}
	if got := found["s49"]; got.Err != nil || got.Active || asked.Load() != maxProbes {
		t.Errorf("%+v, asked %d times", got, asked.Load())
	}
}

// TestBackingOffMemberPreventsProbesOfGroup: the group stays awake whatever the probes of other members answer.
func TestBackingOffMemberPreventsProbesOfGroup(t *testing.T) {
	port, asked := probeServer(t, silent)
	probed := build.Annotation(api.ActivityProbeAnnotation, "http:"+port)
	rests := sleep(
		api.Refused,
		build.SleepReason(api.ProbeFailed, "no answer"),
		func(s *api.Sleep) { s.Finished = &metav1.Time{Time: time.Now()} },
	)
	c := newCluster(t, staleWeb(shop, probed, build.Replicas(1)), podOf("web", 0),
		build.With(member("db", shop, probed, rests), build.Annotation(api.LastActivityAnnotation, timestampAgo(2*time.Hour))))
	handle(t, c.function(build.SleepSettings()), newEvent(events.ObjectChanged, "1", time.Now(), aboutWeb))
	if asked.Load() > 0 {
		t.Errorf("asked %d times", asked.Load())
	}
}

// TestConnectionsWithinGroupDoNotCount: only the connection of a client is use.
func TestConnectionsWithinGroupDoNotCount(t *testing.T) {
	at := func(ip string, hostNetwork bool) build.Option {
		return build.Edit(func(p *corev1.Pod) {
			p.Status.PodIPs = []corev1.PodIP{{IP: ip}, {IP: "fd00::" + ip[strings.LastIndex(ip, ".")+1:]}}
			p.Spec.HostNetwork = hostNetwork
		})
	}
	db := member("db", shop, build.Replicas(2), probed)
	group := idle.Group{idle.MemberOf(db), idle.MemberOf(member("web", shop, build.Replicas(1)))}
	c := newCluster(t, podOf("db", 0, at("10.0.0.1", false)), podOf("db", 1, at("10.0.0.2", false)), podOf("web", 0, at("10.0.0.3", false)))
	from := func(remote string) string { return line4("0100000A:1538", remote+":C001", "01") }
	for name, row := range map[string]struct {
		table string
		want  string
	}{
		"a streaming replica":      {from("0200000A"), "idle"},
		"a pool of another member": {from("0300000A"), "idle"},
		"a replica on a socket for both": {
			line4("0000000000000000FFFF00000100000A:1538", "0000000000000000FFFF00000200000A:C001", "01"), "idle"},
		"a replica over IPv6": {line4("000000FD000000000000000001000000:1538", "000000FD000000000000000002000000:C001", "01"),
			"idle"},
		"a client":                              {from("0400000A"), "in use"},
		"a client beside replicas":              {from("0200000A") + from("0400000A"), "in use"},
		"an address that cannot be read counts": {from("XX00000A"), "in use"},
	} {
		t.Run(name, func(t *testing.T) {
			c.printed = map[string]string{"db-0": header4 + row.table + header6, "db-1": header4 + header6}
			found := newProber(c.client(), build.SleepSettings(), slog.New(slog.DiscardHandler)).askAll(t.Context(), group, group[:1])["db"]
			expectResult(t, result(found.Active, found.Err), row.want)
		})
	}
	t.Run("a pod on the host's network has the address of clients", func(t *testing.T) {
		c := newCluster(t, podOf("db", 0, at("10.0.0.1", true)))
		peers, err := newProber(c.client(), build.SleepSettings(), slog.New(slog.DiscardHandler)).peerAddresses(t.Context(), group[:1], group[:1])
		if err != nil || len(peers) > 0 {
			t.Errorf("%v, %v", peers, err)
		}
	})
}

func TestKernelAddress(t *testing.T) {
	for text, want := range map[string]string{
		"0100007F": "127.0.0.1", "0200000A": "10.0.0.2", "0000000000000000FFFF00000100000A": "10.0.0.1",
		"000080FE000000000000000001000000": "fe80::1", "0100": "", "X": "", "": "", "01000000FF": "",
	} {
		got, ok := kernelAddress(text)
		if address, err := netip.ParseAddr(want); ok != (err == nil) || ok && got != string(address.Unmap().AsSlice()) {
			t.Errorf("%q: %q, %v", text, got, ok)
		}
	}
}

// TestPausedSetWithProbeKeepsNoOtherSetAwake: docs/sleep.md: "A paused set sleeps alone. The other sets do not wait for it."
func TestPausedSetWithProbeKeepsNoOtherSetAwake(t *testing.T) {
	refused := build.Sleep(api.Refused, build.SleepCause(idle.RequestPaused), build.SleepEnded(api.OwnerNotPausable, time.Minute))
	without := on(web(shop), member("db", shop, build.Paused(), build.WithSleep(refused)))
	if p := Decide(without); p.Reason != api.SleepDecided {
		t.Fatalf("control: %s", p)
	}
	in := on(web(shop), member("db", shop, build.Paused(), probed, build.WithSleep(refused)))
	if p := Decide(in); p.Reason != api.SleepDecided {
		t.Errorf("db is paused, and its probe keeps web awake: %s", p)
	}
}

// TestDeletedDependencyDelaysNoWakeUp: db is being deleted (drydock.dev/cleanup, or a foreground deletion), so Drydock never starts it.
// docs/sleep.md: no set waits for a set that stays at zero.
func TestDeletedDependencyDelaysNoWakeUp(t *testing.T) {
	asleep := sleep(api.Asleep, build.AsleepFor(time.Hour))
	in := on(web(shop, zero, build.DependsOn("db"), asleep, build.LastActivity(0)), member("db", shop, zero, asleep, build.Deleting()))
	if p := Decide(in); build.StoredSleep(p) == nil || build.StoredSleep(p).Reason == api.DependencyFirst {
		t.Errorf("web waits for a set that nothing starts, for DRYDOCK_READY_TIMEOUT: %s", p)
	}
}

// TestLaterMembersOfGroupAreProbed: visitors kept a group awake after the request for its sleep. The probes found no use when web fell
// asleep, which depends on db. Its pods need 20 minutes to end, and a client connects to db in that time.
func TestLaterMembersOfGroupAreProbed(t *testing.T) {
	requested := build.Annotation(api.SleepRequestedAnnotation, build.Now.Add(-2*time.Hour).Format(time.RFC3339))
	options := []build.Option{shop, build.DependsOn("db"), build.LastActivity(3 * time.Hour), requested, build.AwakeFor(-30 * time.Minute)}
	db := member("db", shop, probed, build.LastActivity(3*time.Hour))
	record := build.StoredSleep(Decide(on(web(options...), db).withProbe("db", ProbeResult{})))
	if record == nil || record.Request != idle.RequestAsked {
		t.Fatalf("web does not fall asleep: %s", build.Words(record))
	}
	record.Phase, record.ScaledToZeroAt, record.PodsGoneAt = api.Asleep, &record.Started, &record.Started
	in := on(db, web(append(options, zero, build.WithSleep(record))...))
	in.Now = in.Now.Add(20 * time.Minute)
	if p := Decide(in); len(in.membersToProbe()) != 1 || p.Reason == api.SleepDecided {
		t.Errorf("no probe is asked, and db falls asleep: %s", p)
	}
}
