// Command writer runs in the pods of the soak. It appends a numbered line to a file on its volume every second, and acknowledges the line
// after fsync. It serves its folder by HTTP, so that the file can be read without a shell.
//
//	writer -folder /data -collector ADDRESS          writes
//	writer -folder /data -collector ADDRESS -drain   sends the file once, and ends when the collector has confirmed it
//	writer -folder /data                             only serves the folder
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"drydock.dev/test/soak/acks"
)

// period is the time between two lines.
const period = time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "writer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("writer", flag.ContinueOnError)
	folder := flags.String("folder", "/data", "the folder of the volume")
	collector := flags.String("collector", "", "address that receives acknowledgements")
	listen := flags.String("listen", ":8080", "address that serves the folder")
	drain := flags.Bool("drain", false, "send the file once")
	if err := flags.Parse(args); err != nil {
		return err
	}
	member, err := os.Hostname()
	if err != nil {
		return err
	}
	if *drain {
		return sendFile(*collector, member, filepath.Join(*folder, acks.LogName))
	}
	server := &http.Server{Addr: *listen, Handler: http.FileServer(http.Dir(*folder)), ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 2)
	if *collector != "" {
		log, err := openLog(*folder, member)
		if err != nil {
			return err
		}
		defer log.file.Close()
		go func() { ended <- write(ctx, log, *collector) }()
	}
	go func() { ended <- server.ListenAndServe() }()
	select {
	case <-ctx.Done():
		return nil
	case err := <-ended:
		return err
	}
}

// write appends and acknowledges a line each period until the context ends.
func write(ctx context.Context, log *log, collector string) error {
	connection, err := net.Dial("tcp", collector)
	if err != nil {
		return err
	}
	defer connection.Close()
	ticks := time.NewTicker(period)
	defer ticks.Stop()
	for {
		line, err := log.add()
		if err != nil {
			return err
		}
		if _, err := io.WriteString(connection, line+"\n"); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
	}
}

// sendFile sends the whole file to the collector, and waits for its confirmation.
func sendFile(collector, member, path string) error {
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	connection, err := net.Dial("tcp", collector)
	if err != nil {
		return err
	}
	defer connection.Close()
	if _, err := fmt.Fprintf(connection, "%s %s\n%s", acks.Drained, member, content); err != nil {
		return err
	}
	if err := connection.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	if answer, err := io.ReadAll(connection); err != nil || string(answer) != "ok\n" {
		return fmt.Errorf("the collector answered %q: %w", answer, err)
	}
	return nil
}
