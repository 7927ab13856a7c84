package build

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
)

// SleepID is the operation of a sleep.
const SleepID = "ba9876543210"

// SleepSettings are Settings with those of a sleep, each different too.
func SleepSettings() api.Settings {
	settings := Settings()
	settings.SleepRetry, settings.ProbeTimeout = 13*time.Minute, 7*time.Second
	return settings
}

// Sleep builds the document of a sleep of set web, which had 3 replicas, begun a minute ago because nothing was active.
// Change it with the options.
func Sleep(phase api.Phase, options ...func(*api.Sleep)) *api.Sleep {
	sleep := &api.Sleep{
		Header: api.Header{
			Version: api.RecordVersion, Operation: SleepID, Kind: api.KindSleep, Phase: phase, Request: "idle", Attempt: 1,
			Set: api.SetRef{Name: "web", UID: "uid-web"}, Started: metav1.NewTime(Now.Add(-time.Minute)),
		},
		Replicas: 3, Round: 1,
	}
	for _, option := range options {
		option(sleep)
	}
	return sleep
}

// WithSleep stores the document of a sleep on the set. It becomes the set's own.
func WithSleep(sleep *api.Sleep) Option {
	return func(o metav1.Object) {
		own := sleep.Clone()
		own.Set = api.SetRef{Name: o.GetName(), UID: types.UID("uid-" + o.GetName())}
		if o.GetName() != sleep.Set.Name {
			own.Operation = api.OperationID(own.Set.UID, sleep.Operation, own.Attempt)
		}
		Annotation(api.SleepAnnotation, own.Encode())(o)
	}
}

// Because says why a set sleeps: idle, paused or asked.
func Because(request string) func(*api.Sleep) {
	return func(s *api.Sleep) { s.Request = request }
}

// Began says how long ago an operation began.
func Began(ago time.Duration) func(*api.Sleep) {
	return func(s *api.Sleep) { s.Started = *operation.Moment(Now.Add(-ago)) }
}

// ScaledDown says that Drydock has scaled the set to zero so long ago.
func ScaledDown(ago time.Duration) func(*api.Sleep) {
	return func(s *api.Sleep) { s.Stopping = operation.Moment(Now.Add(-ago)) }
}

// Slept says that the set has been asleep for so long.
func Slept(long time.Duration) func(*api.Sleep) {
	return func(s *api.Sleep) {
		ScaledDown(long)(s)
		s.Quiesced = s.Stopping
	}
}

// OwnerStops says that the owner's operator scales the set, and Drydock does not.
func OwnerStops() func(*api.Sleep) { return func(s *api.Sleep) { s.OwnerStops = true } }

// Kept is the retention policy that was found when claims had to be kept.
func Kept(policy appsv1.PersistentVolumeClaimRetentionPolicyType) func(*api.Sleep) {
	return func(s *api.Sleep) { s.WhenScaled = policy }
}

// Told is what the document says happened.
func Told(reason api.Reason, message string) func(*api.Sleep) {
	return func(s *api.Sleep) { s.Reason, s.Message = reason, message }
}

// Ended says why and how long ago the operation ended.
func Ended(reason api.Reason, ago time.Duration) func(*api.Sleep) {
	return func(s *api.Sleep) { s.Reason, s.Finished = reason, operation.Moment(Now.Add(-ago)) }
}

// Up says since when the set has been ready.
func Up(long time.Duration) func(*api.Sleep) {
	return func(s *api.Sleep) { s.Ready = operation.Moment(Now.Add(-long)) }
}

// SleepDue sets the deadline of the phase; a negative time is past it.
func SleepDue(in time.Duration) func(*api.Sleep) {
	return func(s *api.Sleep) { s.Deadline = operation.Moment(Now.Add(in)) }
}

// SleepRound counts how often the sleep has scaled the set to zero.
func SleepRound(n int) func(*api.Sleep) { return func(s *api.Sleep) { s.Round = n } }

// IdleTimeout has a set sleep when nothing was active for so long.
func IdleTimeout(timeout string) Option { return Annotation(api.IdleTimeoutAnnotation, timeout) }

// Active says how long ago somebody last used the set.
func Active(ago time.Duration) Option { return at(api.LastActivityAnnotation, -ago) }

// AwakeFor has a set be awake for so long from now.
func AwakeFor(long time.Duration) Option { return at(api.AwakeUntilAnnotation, long) }

func at(key string, from time.Duration) Option {
	return Annotation(key, Now.Add(from).Format(time.RFC3339))
}

// Paused has a set sleep until somebody removes it.
func Paused() Option { return Annotation(api.PausedAnnotation, "true") }

// InGroup has sets wake and sleep together.
func InGroup(name string) Option { return Label(api.GroupLabel, name) }

// DependsOn names the sets of the group that are ready before this one starts.
func DependsOn(names ...string) Option {
	return Annotation(api.DependsOnAnnotation, strings.Join(names, ","))
}

// summaryOfSleep renders what the document of a sleep says, without its message. Times are from Now.
func summaryOfSleep(s *api.Sleep) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", s.Phase, s.Reason)
	if s.FailedAt != "" {
		fmt.Fprintf(&b, " at %s", s.FailedAt)
	}
	fmt.Fprintf(&b, ", %s, attempt %d, round %d, replicas %d", s.Request, s.Attempt, s.Round, s.Replicas)
	if s.WhenScaled != "" {
		fmt.Fprintf(&b, ", whenScaled %s", s.WhenScaled)
	}
	if s.OwnerStops {
		b.WriteString(", its owner stops it")
	}
	for _, moment := range []struct {
		word string
		at   *metav1.Time
	}{{"stopping", s.Stopping}, {"quiesced", s.Quiesced}, {"ready", s.Ready}, {"finished", s.Finished}, {"due", s.Deadline}} {
		if moment.at != nil {
			fmt.Fprintf(&b, ", %s %s", moment.word, moment.at.Sub(Now))
		}
	}
	return b.String()
}
