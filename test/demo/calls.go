package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/test/demo/show"
)

// calls counts the client's calls during the resize.
type calls struct {
	screen *show.Screen
	fail   func(n int64) // called when n calls of a batch of 25 failed

	mu               sync.Mutex
	answered, failed int64
}

// read counts the calls that the client logs from now on, until the context ends.
func (c *calls) read(ctx context.Context, cluster *cluster, namespace string) error {
	stream, err := cluster.CoreV1().Pods(namespace).GetLogs(clientName, &corev1.PodLogOptions{Follow: true,
		SinceSeconds: ptr.To[int64](1)}).Stream(ctx)
	if err != nil {
		return fmt.Errorf("reading the client's log: %w", err)
	}
	go func() {
		defer stream.Close() // read only
		c.readLines(stream)
	}()
	return nil
}

func (c *calls) readLines(lines io.Reader) {
	for scanner := bufio.NewScanner(lines); scanner.Scan(); {
		var answered, failed int64
		if n, err := fmt.Sscan(scanner.Text(), &answered, &failed); n == 2 && err == nil {
			c.add(answered, failed)
		}
	}
}

func (c *calls) add(answered, failed int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered, c.failed = c.answered+answered, c.failed+failed
	c.screen.Move(show.Bar{Name: clientName, Done: c.answered, Total: c.answered + c.failed, Amount: fmt.Sprintf("%d calls",
		c.answered+c.failed),
		Note: fmt.Sprintf("answered, %d failed", c.failed)})
	if failed > 0 {
		c.fail(failed)
	}
}

// counts returns the numbers of answered and of failed calls.
func (c *calls) counts() (answered, failed int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answered, c.failed
}

// onFailedCalls prints the failed calls among the events.
func (o *observer) onFailedCalls(n int64) {
	o.report(show.Bad, time.Now(), "call", "%d calls of the client failed", n)
}
