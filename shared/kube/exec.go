package kube

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"drydock.dev/shared/fault"
	"drydock.dev/shared/plan"
)

// mostOutput bounds what a command in a pod may print.
const mostOutput = 4 << 20

// Exec runs a command in a container and returns what it prints. It fails if the command does.
func (c *Client) Exec(ctx context.Context, namespace, pod, container string, command ...string) ([]byte, error) {
	client, err := c.rest(plan.Pods)
	if err != nil {
		return nil, err
	}
	request := client.Get().Namespace(namespace).Resource("pods").Name(pod).SubResource("exec").
		Param("container", container).Param("stdout", "true").Param("stderr", "true")
	for _, word := range command {
		request.Param("command", word)
	}
	executor, err := remotecommand.NewWebSocketExecutor(rest.CopyConfig(c.config), "GET", request.URL().String())
	if err != nil {
		return nil, fmt.Errorf("running %s in pod %s/%s: %w", command[0], namespace, pod, err)
	}
	out, problems := &limited{left: mostOutput}, &limited{left: 1 << 10}
	if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: out, Stderr: problems}); err != nil {
		return nil, fmt.Errorf("running %s in pod %s/%s: %w %s", command[0], namespace, pod, fault.FromAPI(err), problems.Bytes())
	}
	return out.Bytes(), nil
}

// limited takes so many bytes and then fails.
type limited struct {
	bytes.Buffer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, io.ErrShortWrite
	}
	return l.Buffer.Write(p)
}
