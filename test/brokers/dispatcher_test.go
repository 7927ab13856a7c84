package brokers

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	amqp "github.com/rabbitmq/amqp091-go"
	noopmetric "go.opentelemetry.io/otel/metric/noop"
	nooptrace "go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"
	"knative.dev/eventing-rabbitmq/pkg/dispatcher"
	"knative.dev/eventing-rabbitmq/pkg/rabbit"
	eventingduckv1 "knative.dev/eventing/pkg/apis/duck/v1"
	"knative.dev/pkg/logging"
)

// queue plays RabbitMQ's channel and its acknowledgements.
type queue struct {
	rabbit.RabbitMQChannelMock
	dead, acknowledged atomic.Int32
	done               chan struct{}
}

func (q *queue) PublishWithDeferredConfirm(
	_, _ string, _, _ bool, _ amqp.Publishing,
) (*amqp.DeferredConfirmation, error) {
	q.dead.Add(1)
	return nil, errors.New("the test stores no dead letters")
}

func (q *queue) Ack(uint64, bool) error {
	q.acknowledged.Add(1)
	close(q.done)
	return nil
}

func (q *queue) Nack(uint64, bool, bool) error { return nil }
func (q *queue) Reject(uint64, bool) error     { return nil }

// dispatch lets RabbitMQ's dispatcher deliver one event to a function that always answers with the status. It returns the attempts, and
// the number of dead letters.
func dispatch(t *testing.T, status int) (attempts, dead int32) {
	t.Helper()
	var calls atomic.Int32
	function := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.WriteHeader(status)
	}))
	defer function.Close()
	e := cloudevents.NewEvent()
	e.SetID("1")
	e.SetSource("test")
	e.SetType("dev.drydock.retry")
	message := rabbit.CloudEventToRabbitMQMessage(&e, "", "")
	messages := make(chan amqp.Delivery, 1)
	q := &queue{RabbitMQChannelMock: rabbit.RabbitMQChannelMock{ConsumeChannel: messages}, done: make(chan struct{})}
	messages <- amqp.Delivery{Acknowledger: q, Headers: message.Headers, ContentType: message.ContentType, Body: message.Body}
	meter := noopmetric.Float64Histogram{}
	d := &dispatcher.Dispatcher{SubscriberURL: function.URL, BrokerIngressURL: function.URL, MaxRetries: 3, BackoffDelay: time.Millisecond,
		BackoffPolicy: eventingduckv1.BackoffPolicyExponential, WorkerCount: 1, DLXName: "dead", DispatchDuration: meter,
		Tracer: nooptrace.NewTracerProvider().Tracer("")}
	ctx, stop := context.WithTimeout(logging.WithLogger(t.Context(), zap.NewNop().Sugar()), time.Minute)
	ended := make(chan error)
	go func() { ended <- d.ConsumeFromQueue(ctx, &rabbit.RabbitMQConnectionMock{}, q, "queue") }()
	select {
	case <-q.done:
	case <-ctx.Done():
		t.Error("the dispatcher did not acknowledge the event")
	}
	stop()
	<-ended // the worker has ended, too
	return calls.Load(), q.dead.Load()
}

// TestRabbitMQDropsPermanentFailures: docs/brokers.md says so. pkg/dispatcher/dispatcher.go, getStatus: an answer that is not retried
// counts as a success.
func TestRabbitMQDropsPermanentFailures(t *testing.T) {
	for status, want := range map[int][2]int32{
		http.StatusNoContent:           {1, 0},
		http.StatusUnprocessableEntity: {1, 0}, // a dead letter on other Brokers
		http.StatusConflict:            {4, 1},
		http.StatusServiceUnavailable:  {4, 1},
	} {
		if attempts, dead := dispatch(t, status); attempts != want[0] || dead != want[1] {
			t.Errorf("%d: %d attempts and %d dead letters, want %v", status, attempts, dead, want)
		}
	}
}
