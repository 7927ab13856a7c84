//go:build cluster

package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/stage"
)

const (
	etcdImage  = "dev.local/etcd:dev" // module test/etcd
	etcdClient = 2379
	etcdPeer   = 2380
)

// etcd is a cluster of three members, one per pod.
type etcd struct{ service }

func newEtcd(t *testing.T) etcd {
	t.Helper()
	s := etcd{service{stage.New(t)}}
	s.Patience = 5 * time.Minute
	set := etcdSet()
	s.namePods(t, set)
	s.CreateSet(set)
	s.awaitReady()
	s.publish(t, set, etcdClient)
	return s
}

func etcdSet() *appsv1.StatefulSet {
	set := stage.Workload("256Mi") // etcd's log has 64 MiB, and the next one is allocated in advance
	set.Spec.Replicas = ptr.To[int32](served)
	set.Annotations[api.StrategyAnnotation] = string(api.StrategyRolling)
	set.Annotations[api.PrimaryAnnotation] = "role=primary"
	var peers []string
	for i := range served {
		peers = append(peers, fmt.Sprintf("web-%d=http://web-%d.web:%d", i, i, etcdPeer))
	}
	set.Spec.Template.Spec.Containers[0] = corev1.Container{
		Name: "etcd", Image: etcdImage, VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
		Env: []corev1.EnvVar{{Name: "NAME", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}},
		Args: []string{"--name=$(NAME)", "--data-dir=/data/etcd", "--initial-cluster=" + strings.Join(peers, ","),
			fmt.Sprintf("--listen-client-urls=http://0.0.0.0:%d", etcdClient),
			fmt.Sprintf("--advertise-client-urls=http://$(NAME).web:%d", etcdClient),
			fmt.Sprintf("--listen-peer-urls=http://0.0.0.0:%d", etcdPeer),
			fmt.Sprintf("--initial-advertise-peer-urls=http://$(NAME).web:%d", etcdPeer),
			"--heartbeat-interval=500", "--election-timeout=5000"}, // on a busy machine no member is taken for dead
		ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, TimeoutSeconds: 5,
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromInt32(etcdClient)}}},
	}
	return set
}

// ask calls etcd's JSON gateway through the API server, which reaches pods and Services from everywhere.
func (s etcd) ask(ctx context.Context, resource, name, path string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	text, err := s.Kube.CoreV1().RESTClient().Post().Namespace(s.Namespace).Resource(resource).SubResource("proxy").
		Name(fmt.Sprintf("%s:%d", name, etcdClient)).Suffix("v3", path).
		SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").Body(body).Do(ctx).Raw()
	if err != nil {
		return fmt.Errorf("asking %s for %s: %w", name, path, err)
	}
	return json.Unmarshal(text, answer)
}

// etcdStatus is the status of a member and its leader. The gateway writes 64-bit numbers as text.
type etcdStatus struct {
	Header struct {
		Member   string `json:"member_id"`
		Revision string `json:"revision"`
	} `json:"header"`
	Leader string `json:"leader"`
}

// statuses returns the statuses of the members that answer.
func (s etcd) statuses(ctx context.Context) map[string]etcdStatus {
	all := map[string]etcdStatus{}
	for i := range served {
		name, status := fmt.Sprintf("web-%d", i), etcdStatus{}
		if s.ask(ctx, "pods", name, "maintenance/status", struct{}{}, &status) == nil {
			all[name] = status
		}
	}
	return all
}

// leader returns the pod that reports itself as the leader, or an empty string.
func (s etcd) leader(ctx context.Context) string {
	for name, status := range s.statuses(ctx) {
		if status.Leader != "" && status.Leader == status.Header.Member {
			return name
		}
	}
	return ""
}

// lead makes the pod the leader.
func (s etcd) lead(t *testing.T, pod string) {
	t.Helper()
	s.Eventually(pod+" leads", func() string {
		leader := s.leader(t.Context())
		if leader == pod {
			return ""
		}
		target := map[string]string{"targetID": s.statuses(t.Context())[pod].Header.Member}
		return fmt.Sprintf("%s leads: %v", leader, s.ask(t.Context(), "pods", leader, "maintenance/transfer-leadership", target,
			&struct{}{}))
	})
}

// TestEtcdLosesNoAcknowledgedPut: a writer puts keys during a rolling resize to another class. Afterwards each member
// has every acknowledged put. There was a quorum at all times. The leader, which has the highest ordinal, was moved
// last.
func TestEtcdLosesNoAcknowledgedPut(t *testing.T) {
	t.Parallel()
	s := newEtcd(t)
	s.lead(t, "web-2")
	labelled := s.labelLeader(t, s.leader)
	written := s.write(t)
	s.awaitAcknowledged(written, 50)
	drydock(t, s.Stage)
	status := s.moveToOtherClass(t, "320Mi")
	s.expectLeaderLast(t, status, labelled)
	s.expectEveryPut(t, written)
}

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

// puts are the acknowledged keys of a database with their values.
type puts struct {
	mu     sync.Mutex
	acked  map[string]string
	failed int
	last   time.Time
	gap    time.Duration // the longest time between two acknowledgements
}

func newPuts() *puts { return &puts{acked: map[string]string{}, last: time.Now()} }

// note records the result of a put.
func (p *puts) note(key, value string, acknowledged bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !acknowledged {
		p.failed++
		return
	}
	p.acked[key], p.gap, p.last = value, max(p.gap, time.Since(p.last)), time.Now()
}

// count returns the number of acknowledged puts.
func (p *puts) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.acked)
}

// acknowledged returns the acknowledged puts so far.
func (p *puts) acknowledged(t *testing.T) map[string]string {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	t.Logf("%d puts were acknowledged, %d failed, and the longest time without one was %s", len(p.acked), p.failed, p.gap)
	return maps.Clone(p.acked)
}

// awaitAcknowledged waits for the number of acknowledged puts.
func (s service) awaitAcknowledged(p *puts, want int) {
	s.Eventually(fmt.Sprintf("%d puts are acknowledged", want), func() string {
		if n := p.count(); n < want {
			return fmt.Sprintf("%d are", n)
		}
		return ""
	})
}
