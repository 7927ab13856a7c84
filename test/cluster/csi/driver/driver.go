package main

import (
	"context"
	"log/slog"
	"path"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// driver holds the state that the CSI services share.
type driver struct {
	options
	store store
	disk  disk
	locks *locks
}

func newDriver(o options) *driver {
	return &driver{options: o, store: store{folder: o.folder}, locks: &locks{held: map[string]chan struct{}{}}}
}

// locks serializes the calls for a volume or a snapshot.
type locks struct {
	mutex sync.Mutex
	held  map[string]chan struct{} // closed by the holder's release
}

// take waits until no other call uses the id. If the context ends first, it returns Aborted, so that the caller retries, as the CSI
// specification requires.
func (l *locks) take(ctx context.Context, id string) (release func(), err error) {
	for {
		l.mutex.Lock()
		busy, taken := l.held[id]
		if !taken {
			l.held[id] = make(chan struct{})
			l.mutex.Unlock()
			return func() { l.release(id) }, nil
		}
		l.mutex.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, status.Errorf(codes.Aborted, "another call uses %s", id)
		}
	}
}

func (l *locks) release(id string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	close(l.held[id])
	delete(l.held, id)
}

// quietCalls lists frequent calls, which are logged only if they fail.
var quietCalls = map[string]bool{
	"Probe": true, "GetPluginInfo": true, "GetPluginCapabilities": true, "ControllerGetCapabilities": true,
	"NodeGetCapabilities": true, "NodeGetVolumeStats": true, "NodeGetInfo": true,
}

// logged logs each call. It gives errors of commands a gRPC code, so that callers retry.
func logged(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	call, start := path.Base(info.FullMethod), time.Now()
	response, err := handle(ctx, request)
	if err != nil && status.Code(err) == codes.Unknown {
		err = status.Error(codes.Internal, err.Error())
	}
	var id string
	if r, ok := request.(interface{ GetVolumeId() string }); ok {
		id = r.GetVolumeId()
	} else if r, ok := request.(interface{ GetName() string }); ok {
		id = r.GetName()
	}
	if err != nil || !quietCalls[call] {
		slog.Info(call, "id", id, "took", time.Since(start).Round(time.Millisecond), "err", err)
	}
	return response, err
}
