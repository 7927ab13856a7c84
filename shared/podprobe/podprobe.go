// Package podprobe sends requests to pods. It uses only the address that the kubelet wrote into the pod's status. It follows no redirect,
// uses no proxy, and reads no body.
package podprobe

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/probe"
)

const (
	// maxHeaderBytes limits the header of an answer.
	maxHeaderBytes = 64 << 10
	// concurrency limits the concurrent calls of ForEach.
	concurrency = 8
)

// Get sends a GET request to the pod over HTTP or HTTPS, and returns the status code of the answer.
func Get(ctx context.Context, pod *corev1.Pod, probe probe.Probe) (int, error) {
	address, err := addressOf(pod, probe.Port)
	if err != nil {
		return 0, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, string(probe.Kind)+"://"+address+probe.Path, http.NoBody)
	if err != nil {
		return 0, err
	}
	request.Host = probe.Host
	response, err := client(probe.Host).Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// Dial opens a connection to a port of the pod and closes it. It returns an error if the pod does not accept it.
func Dial(ctx context.Context, pod *corev1.Pod, port int) error {
	address, err := addressOf(pod, port)
	if err != nil {
		return err
	}
	connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return connection.Close()
}

// addressOf returns the address of the pod's port as host:port.
func addressOf(pod *corev1.Pod, port int) (string, error) {
	address, ok := HostPort(pod.Status.PodIP, port)
	if !ok {
		return "", fmt.Errorf("pod %s has no valid address", pod.Name)
	}
	return address, nil
}

// HostPort returns the IP address and the port as host:port, and whether a pod or a node can have the address. It rejects host names,
// because their lookup could lead anywhere. It rejects link-local addresses, because clouds serve the credentials of machines there.
func HostPort(address string, port int) (string, bool) {
	ip, err := netip.ParseAddr(address)
	if err != nil || ip.Unmap().IsLinkLocalUnicast() || ip.Unmap().IsMulticast() || ip.Unmap().IsUnspecified() {
		return "", false
	}
	return net.JoinHostPort(ip.String(), strconv.Itoa(port)), true
}

// client returns an HTTP client for pods with the TLS server name. It does not verify certificates, because none contains a pod's
// address.
func client(host string) *http.Client {
	return &http.Client{CheckRedirect: NoRedirect, Transport: &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: maxHeaderBytes,
		TLSClientConfig: &tls.Config{ServerName: host, InsecureSkipVerify: true}}}
}

// NoRedirect prevents redirects, because they could lead to any address.
func NoRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// ForEach calls do for each number below n, several concurrently, and returns their errors when all calls have returned. A panic is the
// error of its call. In a goroutine, it would end the process and the work on all other events.
func ForEach(n int, do func(i int) error) []error {
	var wait sync.WaitGroup
	slots, errs := make(chan struct{}, concurrency), make([]error, n)
	for i := range n {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			defer func() {
				if p := recover(); p != nil {
					debug.PrintStack() // the error ends in a record of the set, which users read
					errs[i] = fmt.Errorf("panic: %v", p)
				}
			}()
			errs[i] = do(i)
		})
	}
	wait.Wait()
	return errs
}
