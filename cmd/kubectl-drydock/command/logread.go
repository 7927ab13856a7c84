package command

import (
	"bufio"
	"context"
	"errors"
	"io"
	"path"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"drydock.dev/cmd/kubectl-drydock/logs"
)

const (
	// maxLogLines is how many lines of a container are read, the newest ones.
	maxLogLines = 50_000
	// maxLogBytes is how many bytes of them are read.
	maxLogBytes = 32 << 20
)

// read reads the log of a container and keeps the lines of the operation.
func (r *logReading) read(ctx context.Context, source logs.Source) {
	body, err := r.openLog(ctx, source)
	switch {
	case ctx.Err() != nil:
		return
	case apierrors.IsForbidden(err):
		r.note("You may not read logs in namespace %s, so those of its pods are missing. Ask an administrator for the right to get pods/log "+
			"there, or for these logs.", source.Namespace)
		return
	case apierrors.IsNotFound(err), apierrors.IsBadRequest(err):
		return // the pod is gone, or the container has not started
	case err != nil:
		r.note("The log of %s cannot be read: %s.", source.Name(), r.words(err))
		return
	}
	defer body.Close() // nothing was written
	parser := logs.Parser{Scope: r.scope, Source: source}
	lines, size, err := eachLine(body, func(raw []byte) {
		if line, ok := parser.Parse(raw); ok {
			r.collected.Add(line, len(raw))
		}
	})
	switch {
	case err != nil && ctx.Err() == nil:
		r.note("The log of %s ended early: %s.", source.Name(), r.words(err))
	case lines >= maxLogLines:
		r.note("Only the last %d lines of %s were read. Use --since for a shorter time.", maxLogLines, source.Name())
	case size >= maxLogBytes:
		r.note("Only %d MiB of the log of %s were read, so its newest lines are missing. Use --since for a shorter time.", maxLogBytes>>20,
			source.Name())
	}
}

// openLog opens the log of a container, each line with the time of the container runtime.
func (r *logReading) openLog(ctx context.Context, source logs.Source) (io.ReadCloser, error) {
	request := r.raw.rest.Get().AbsPath(path.Join("/api/v1/namespaces", source.Namespace, "pods", source.Pod, "log")).
		Param("container", source.Container).Param("timestamps", "true").
		Param("tailLines", strconv.Itoa(maxLogLines)).Param("limitBytes", strconv.Itoa(maxLogBytes))
	if source.Previous {
		request = request.Param("previous", "true")
	}
	if !r.from.IsZero() {
		request = request.Param("sinceTime", r.from.UTC().Format(time.RFC3339))
	}
	return request.Stream(ctx)
}

// eachLine calls use with each line, without its end and at most logs.MaxLine bytes. It returns how many lines and bytes there were. The
// line is valid only during the call.
func eachLine(from io.Reader, use func([]byte)) (lines, size int, err error) {
	reader := bufio.NewReaderSize(from, logs.MaxLine)
	for {
		line, tooLong, err := reader.ReadLine()
		if len(line) > 0 {
			use(line)
		}
		size += len(line)
		for tooLong && err == nil {
			var rest []byte
			rest, tooLong, err = reader.ReadLine()
			size += len(rest)
		}
		switch {
		case errors.Is(err, io.EOF):
			return lines, size, nil
		case err != nil:
			return lines, size, err
		}
		lines, size = lines+1, size+1
	}
}
