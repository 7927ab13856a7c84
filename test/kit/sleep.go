package kit

import (
	"context"
	"fmt"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/idle"
)

// Ago returns a time in the past in the format of the annotations.
func Ago(d time.Duration) string { return idle.FormatTime(time.Now().Add(-d)) }

// Sleep reads the record of the set's latest sleep, or returns nil.
func (w *World) Sleep(name string) *api.Sleep {
	w.T.Helper()
	set := w.Set(name)
	if set == nil {
		return nil
	}
	sleep, err := api.LoadSleep(set)
	w.must(err)
	return sleep
}

// UntilSleep ticks until the set's sleep has the phase.
func (w *World) UntilSleep(d *Drive, name string, phase api.Phase) *api.Sleep {
	w.T.Helper()
	var sleep *api.Sleep
	w.Eventually(fmt.Sprintf("the sleep of %s is %s", name, phase), func() string {
		if err := d.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if sleep = w.Sleep(name); sleep == nil {
			return "there is none"
		}
		if sleep.Phase != phase {
			return fmt.Sprintf("%s %s: %s", sleep.Phase, sleep.Reason, sleep.Message)
		}
		return ""
	})
	return sleep
}

// SendSetEvent sends an activity, wake or sleep event for a set, as any client may, and delivers every event that follows.
func (w *World) SendSetEvent(d *Drive, eventType, set string) error {
	return w.tell(d, eventType, map[string]string{"kind": events.KindStatefulSet, "name": set})
}

// SendGroupEvent sends such an event for a group.
func (w *World) SendGroupEvent(d *Drive, eventType, group string) error {
	return w.tell(d, eventType, map[string]string{"group": group})
}

func (w *World) tell(d *Drive, eventType string, extensions map[string]string) error {
	e := event.New()
	e.SetID(fmt.Sprint(time.Now().UnixNano()))
	e.SetSource("kit")
	e.SetType(eventType)
	e.SetTime(time.Now())
	e.SetExtension("namespace", w.Namespace)
	for key, value := range extensions {
		e.SetExtension(key, value)
	}
	if err := d.Send(context.Background(), e); err != nil {
		return err
	}
	return d.Drain(context.Background())
}

// TryAnnotate annotates a set. The set may be missing for a moment.
func (w *World) TryAnnotate(name, key, value string) {
	w.T.Helper()
	body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value)
	if err := w.tryPatchSet(name, body); err != nil && !apierrors.IsNotFound(err) {
		w.T.Errorf("annotating set %s: %v", name, err)
	}
}
