//go:build cluster

package sim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit"
)

// state holds the objects of a resize after a write. The set is read first, so the other objects are not older than its
// record.
type state struct {
	*kit.World
	method method
	set    setType     // nil if it does not exist
	record *api.Resize // nil if there is none
	pods   map[string]*corev1.Pod
	claims map[string]*corev1.PersistentVolumeClaim
}

// seen reads the record of a set.
func seen(w *kit.World, m method, set setType) (*state, error) {
	s := &state{World: w, method: m, set: set, pods: map[string]*corev1.Pod{}, claims: map[string]*corev1.PersistentVolumeClaim{}}
	if set == nil {
		return s, nil
	}
	var err error
	s.record, err = api.LoadResize(set)
	return s, err
}

// look reads the members' pods and claims one by one. A consistent list would take the API server longer.
func (s *state) look() error {
	for ordinal := range s.made() {
		name := fmt.Sprintf("web-%d", ordinal)
		pod, err := s.Kube.CoreV1().Pods(s.Namespace).Get(context.Background(), name, metav1.GetOptions{})
		switch {
		case err == nil:
			s.pods[name] = pod
		case !apierrors.IsNotFound(err):
			return err
		}
	}
	for _, name := range s.claimNames() {
		claim, err := s.Kube.CoreV1().PersistentVolumeClaims(s.Namespace).Get(context.Background(), name, metav1.GetOptions{})
		switch {
		case err == nil:
			s.claims[name] = claim
		case !apierrors.IsNotFound(err):
			return err
		}
	}
	return nil
}

// outcome is how an operation may end.
type outcome int

const (
	succeeds outcome = iota
	// mayFail: another client may have made it impossible.
	mayFail
	// mayBeForgotten: another client has replaced the set, which has its record.
	mayBeForgotten
)

// wrong returns what is wrong with the record at the end of an operation, or an empty string.
func (o outcome) wrong(record *api.Resize) string {
	switch {
	case record == nil && o != mayBeForgotten:
		return "I2: the set has no record of the operation"
	case record == nil || record.Phase == api.Succeeded || record.Phase == api.Failed && o != succeeds:
		return ""
	}
	return fmt.Sprintf("phase %s: %s: %s", record.Phase, record.Reason, record.Message)
}

// TestLostRecordIsNoEnd needs no API server.
func TestLostRecordIsNoEnd(t *testing.T) {
	in := func(phase api.Phase) *api.Resize { return &api.Resize{Header: api.Header{Phase: phase}} }
	for may, ends := range map[outcome][]*api.Resize{
		succeeds:       {in(api.Succeeded)},
		mayFail:        {in(api.Succeeded), in(api.Failed)},
		mayBeForgotten: {in(api.Succeeded), in(api.Failed), nil},
	} {
		for _, record := range []*api.Resize{nil, in(api.Moving), in(api.Failed), in(api.Succeeded)} {
			right := slices.ContainsFunc(ends, func(end *api.Resize) bool {
				return end == nil && record == nil || end != nil && record != nil && end.Phase == record.Phase
			})
			if wrong := may.wrong(record); (wrong == "") != right {
				t.Errorf("outcome %d, record %+v: %q", may, record, wrong)
			}
		}
	}
}

// resizeInvariants returns the checks after each write of an undisturbed resize. A new process must be able to continue
// from the objects alone, and no pod may start without its data.
func resizeInvariants(m method) invariants {
	kept := keptRecord()
	return func(w *kit.World, set setType) string {
		s, err := seen(w, m, set)
		if err == nil {
			err = s.look()
		}
		if err != nil {
			return err.Error()
		}
		return cmp.Or(kept(s), s.journalled(), s.recorded(), s.replicas(), s.stopped(), s.backed(), s.held(), s.away(), s.cleared(), s.owned())
	}
}

// disturbedInvariants returns the checks that hold in spite of other clients.
func disturbedInvariants(m method) invariants {
	kept := keptRecord()
	return func(w *kit.World, set setType) string {
		s, err := seen(w, m, set)
		if err != nil {
			return err.Error()
		}
		return cmp.Or(kept(s), s.recorded(), s.replicas(), s.owned())
	}
}

// keptRecord returns a check that no set loses its record. A set that replaces another one may have none yet.
func keptRecord() func(*state) string {
	had := map[types.UID]bool{}
	return func(s *state) string {
		switch {
		case s.set == nil:
		case s.record != nil:
			had[s.set.UID] = true
		case had[s.set.UID]:
			return "I2: the set has lost its record"
		}
		return ""
	}
}

// TestLostRecordIsFound needs no API server.
func TestLostRecordIsFound(t *testing.T) {
	at := func(uid types.UID, record *api.Resize) *state {
		return &state{set: &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{UID: uid}}, record: record}
	}
	record := &api.Resize{}
	for name, row := range map[string]struct {
		states []*state
		lost   bool
	}{
		"the record is removed":           {[]*state{at("a", nil), at("a", record), at("a", nil)}, true},
		"and the set was replaced before": {[]*state{at("a", record), {}, at("b", record), at("b", nil)}, true},
		"the record stays":                {[]*state{at("a", nil), at("a", record), at("a", record)}, false},
		"the set is replaced":             {[]*state{at("a", record), {}, at("b", nil), at("b", record)}, false},
	} {
		kept, wrong := keptRecord(), ""
		for _, s := range row.states {
			wrong = kept(s)
		}
		if (wrong != "") != row.lost {
			t.Errorf("%s: %q", name, wrong)
		}
	}
}

// journalled checks that a missing set can be created again with its replicas, and that no member is held then.
func (s *state) journalled() string {
	if s.set != nil {
		return ""
	}
	for name, pod := range s.pods {
		if statefulset.Held(pod) {
			return fmt.Sprintf("I2: the set is replaced while pod %s is held", name)
		}
	}
	for _, journal := range s.Journals() {
		manifest, err := api.LoadManifest(&journal)
		if err == nil && manifest != nil && manifest.Name == "web" && *manifest.Spec.Replicas == s.made() {
			return ""
		}
	}
	return "I1: the set is gone, and no journal says how to create it again"
}

// recorded checks that the record belongs to this set and that each phase has a deadline.
func (s *state) recorded() string {
	r := s.record
	switch {
	case r.Active() && r.Deadline == nil:
		return fmt.Sprintf("I8: phase %s has no deadline", r.Phase)
	case r.Active() && r.Set.UID != "" && r.Set.UID != s.set.UID:
		return fmt.Sprintf("I3: the record is of set %s, this is %s", r.Set.UID, s.set.UID)
	case !r.Active():
		return ""
	}
	for _, m := range r.Members {
		if isStopped(&m) && m.Deadline == nil {
			return fmt.Sprintf("I8: member %d is %s without a deadline", m.Ordinal, m.Phase)
		}
	}
	return ""
}

// isStopped reports whether the operation keeps the member from serving.
func isStopped(m *api.Member) bool {
	switch m.Phase {
	case api.MemberStopping, api.MemberFinalPass, api.MemberGrowing, api.MemberSwapping, api.MemberStarting:
		return true
	}
	return false
}

// made returns the replicas that the set was created with.
func (s *state) made() int32 { return *s.method.set().Spec.Replicas }

// replicas checks that a resize writes neither the replica count nor the retention policy.
func (s *state) replicas() string {
	asked := s.PossibleReplicas(s.made())
	if s.set != nil && (!slices.Contains(asked, *s.set.Spec.Replicas) || statefulset.WhenScaled(s.set) != "Delete") {
		return fmt.Sprintf("I4: the set has %d replicas, %v were asked for, whenScaled is %s", *s.set.Spec.Replicas, asked,
			statefulset.WhenScaled(s.set))
	}
	return ""
}

// stopped checks that no pod is created for a stopped member: its own pod exists, and is held once it has ended.
func (s *state) stopped() string {
	if !s.record.Active() || s.record.Phase != api.Moving {
		return ""
	}
	for _, m := range s.record.Members {
		pod := s.pods[fmt.Sprintf("web-%d", m.Ordinal)]
		switch {
		case m.Phase == api.MemberStarting || !isStopped(&m):
		case pod == nil || pod.UID != m.Pod:
			return fmt.Sprintf("I1: member %d is %s, and its pod %s is gone or was replaced", m.Ordinal, m.Phase, m.Pod)
		case m.Phase != api.MemberStopping && !statefulset.Held(pod):
			return fmt.Sprintf("I1: member %d is %s, and its pod is not held", m.Ordinal, m.Phase)
		}
	}
	return ""
}

// backed checks that a member without all of its claims is held. Its replacement would start on an empty volume.
func (s *state) backed() string {
	for _, name := range s.claimNames() {
		claim := s.claims[name]
		pod := s.pods["web"+name[strings.LastIndex(name, "-"):]]
		if (claim == nil || claim.DeletionTimestamp != nil || claim.Spec.VolumeName == "") && !statefulset.Held(pod) {
			return fmt.Sprintf("I1: claim %s is missing or unbound, and its pod is not held", name)
		}
	}
	return ""
}

func (s *state) claimNames() []string {
	var names []string
	for _, template := range s.method.set().Spec.VolumeClaimTemplates {
		for ordinal := range s.made() {
			names = append(names, fmt.Sprintf("%s-web-%d", template.Name, ordinal))
		}
	}
	return names
}

// held checks that pods are held only during an operation.
func (s *state) held() string {
	for name, pod := range s.pods {
		if statefulset.Held(pod) && s.set != nil && !s.record.Active() {
			return "I9: pod " + name + " is held without an operation"
		}
	}
	return ""
}

// away checks that a rolling resize stops one member at a time, as the budget requires.
func (s *state) away() string {
	var away []string
	for ordinal := range s.made() {
		if name := fmt.Sprintf("web-%d", ordinal); !kit.Available(s.pods[name]) {
			away = append(away, name)
		}
	}
	if s.method.rolling && len(away) > 1 {
		return fmt.Sprintf("I1: %v are away in a rolling resize", away)
	}
	return ""
}

// cleared checks that only old volumes and the journals of paused owners are left of a finished operation.
func (s *state) cleared() string {
	switch {
	case s.set == nil || s.record.Active():
		return ""
	case s.record == nil && len(s.Journals()) > 0:
		return "I2: there is a journal without an operation"
	case s.record == nil:
		return ""
	}
	left := slices.DeleteFunc(s.Leftovers(), func(what string) bool {
		return strings.HasPrefix(what, "volume ") || strings.HasPrefix(what, "journal ")
	})
	if len(left) > 0 {
		return "I9: the operation is over, and there is " + strings.Join(left, ", ")
	}
	return ""
}

// owned checks that a paused owner names the operation that paused it.
func (s *state) owned() string {
	now := s.Custom(owner, ownerKind, "main")
	if owner.Paused(now) && now.GetAnnotations()[api.OwnerPausedAnnotation] == "" {
		return "I5: the owner is paused without the annotation of its pause"
	}
	return ""
}
