package sift

import (
	"os"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"

	"drydock.dev/shared/events"
)

// TestEventOfServerSideAppliedSetIsRead: the managedFields of such a set consist of many small objects, which must stay below the limits
// for JSON. The set has six variables and two probes.
func TestEventOfServerSideAppliedSetIsRead(t *testing.T) {
	text, err := os.ReadFile("testdata/applied-set.json")
	if err != nil {
		t.Fatal(err)
	}
	e := cloudevents.New()
	e.SetID("1")
	e.SetSource("test")
	e.SetType(events.SourceUpdate)
	e.SetExtension("kind", "StatefulSet")
	if err := e.SetData("application/json", text); err != nil {
		t.Fatal(err)
	}
	if _, err := Sift(e, time.Now(), time.Hour); err != nil {
		t.Error(err)
	}
}
