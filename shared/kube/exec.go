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

// Exec runs a command in a container, and writes its output to out. It returns an error if the command or out fails.
func (c *Client) Exec(ctx context.Context, namespace, pod, container string, out io.Writer, command ...string) error {
	client, err := c.rest(plan.Pods)
	if err != nil {
		return err
	}
	request := client.Get().Namespace(namespace).Resource("pods").Name(pod).SubResource("exec").
		Param("container", container).Param("stdout", "true").Param("stderr", "true")
	for _, argument := range command {
		request.Param("command", argument)
	}
	executor, err := remotecommand.NewWebSocketExecutor(rest.CopyConfig(c.config), "GET", request.URL().String())
	if err != nil {
		return fmt.Errorf("running %s in pod %s/%s: %w", command[0], namespace, pod, err)
	}
	problems := &limited{left: 1 << 10}
	if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: out, Stderr: problems}); err != nil {
		return fmt.Errorf("running %s in pod %s/%s: %w %s", command[0], namespace, pod, fault.FromAPI(err), problems.Bytes())
	}
	return nil
}

// limited is a buffer that fails after a number of bytes.
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
