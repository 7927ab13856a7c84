// Package podprobe asks pods over the network. It asks the address that the kubelet has written into the pod's status and no other, follows
// no redirect, asks no proxy, and reads no body.
package podprobe

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/idle"
)

const (
	// mostHeader bounds the header of an answer in bytes.
	mostHeader = 64 << 10
	// atOnce bounds the calls of Each that run at the same time.
	atOnce = 8
)

// Get asks the pod over HTTP or HTTPS and returns the status code of its answer.
func Get(ctx context.Context, pod *corev1.Pod, probe idle.Probe) (int, error) {
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

// Dial opens a connection to a port of the pod, and closes it.
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

// addressOf returns the port of the pod as host:port. A name in place of an address would be looked up, and could lead anywhere. No pod has
// a link-local address: there, clouds tell machines their credentials.
func addressOf(pod *corev1.Pod, port int) (string, error) {
	ip, err := netip.ParseAddr(pod.Status.PodIP)
	if err != nil || ip.Unmap().IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() {
		return "", fmt.Errorf("pod %s has no address that can be asked", pod.Name)
	}
	return net.JoinHostPort(ip.String(), strconv.Itoa(port)), nil
}

// client asks pods, over TLS with that server name. It checks no certificate, because none names a pod's address.
func client(host string) *http.Client {
	return &http.Client{CheckRedirect: NoRedirect, Transport: &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: mostHeader,
		TLSClientConfig: &tls.Config{ServerName: host, InsecureSkipVerify: true}}}
}

// NoRedirect keeps to the address that was asked: a redirect could lead anywhere.
func NoRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Each calls do for the numbers below n, some at the same time, and returns when all calls have.
func Each(n int, do func(i int)) {
	var wait sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i := range n {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			do(i)
		})
	}
	wait.Wait()
}
