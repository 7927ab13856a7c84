package acks

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// Collector receives acknowledgements and drained files on a TCP address, and records them in its ledger.
type Collector struct {
	ledger   *Ledger
	listener net.Listener
}

// Collect starts a collector on the address. It ends with Close.
func Collect(address string, ledger *Ledger) (*Collector, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for acknowledgements: %w", err)
	}
	c := &Collector{ledger, listener}
	go c.accept()
	return c, nil
}

// Address returns the address for writers.
func (c *Collector) Address() string { return c.listener.Addr().String() }

// Close stops the collector.
func (c *Collector) Close() error { return c.listener.Close() }

func (c *Collector) accept() {
	for {
		connection, err := c.listener.Accept()
		if err != nil {
			return // it was closed
		}
		go c.serve(connection)
	}
}

// serve reads a connection until its end. An unreadable line is a problem of the ledger.
func (c *Collector) serve(connection net.Conn) {
	defer connection.Close()
	for lines := bufio.NewScanner(connection); lines.Scan(); {
		if member, found := strings.CutPrefix(lines.Text(), Drained+" "); found {
			c.drain(connection, lines, member)
			return
		}
		line, err := ParseLine(lines.Text())
		if err != nil {
			c.ledger.mu.Lock()
			c.ledger.report("an acknowledgement is unreadable: %v", err)
			c.ledger.mu.Unlock()
			return
		}
		c.ledger.Acknowledge(line, time.Now())
	}
}

// drain reads the rest of the connection, a whole file, and confirms it.
func (c *Collector) drain(connection net.Conn, lines *bufio.Scanner, member string) {
	var content strings.Builder
	for lines.Scan() {
		content.WriteString(lines.Text() + "\n")
	}
	if lines.Err() != nil {
		return // the cleanup pod sends it again
	}
	c.ledger.Drain(member, content.String())
	_, _ = io.WriteString(connection, "ok\n")
}
