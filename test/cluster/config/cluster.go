// Package config describes a cluster: its sizes, files and addresses, and the command line and configuration of each component. It only
// renders; it starts nothing.
package config

import (
	"fmt"
	"path/filepath"
)

// Addresses of a cluster of size node. They exist on this machine only.
const (
	NodeName     = "drydock-node"
	NodeAddress  = "10.246.0.1"
	NodeLink     = "drydock0" // a bridge without ports, with the address NodeAddress
	PodRange     = "10.244.0.0/16"
	ServiceRange = "10.96.0.0/16"
	APIService   = "10.96.0.1" // the first address of ServiceRange, by Kubernetes' convention
	DNSService   = "10.96.0.10"
	DNSDomain    = "cluster.local"
	// NetworkName is the name of the pods' network in the network plugins.
	NetworkName = "drydock-cluster"
	// CgroupRoot is the parent of all pods' cgroups. It separates them from those of another kubelet.
	CgroupRoot = "/drydock-cluster"
)

// Size selects the components that run.
type Size string

const (
	// ControlPlane is the API server with etcd and the controllers. It supports everything except pods.
	ControlPlane Size = "control-plane"
	// Node adds a node that runs pods, with DNS and volumes.
	Node Size = "node"
)

// Sizes lists all sizes. Both can run at the same time.
var Sizes = []Size{ControlPlane, Node}

// ParseSize parses the flag --size.
func ParseSize(text string) (Size, error) {
	for _, size := range Sizes {
		if text == string(size) {
			return size, nil
		}
	}
	return "", fmt.Errorf("unknown size %q. Use %q or %q", text, Node, ControlPlane)
}

// ports holds the ports of a cluster. Each is bound to loopback or to NodeAddress.
type ports struct {
	etcd, etcdPeer, api, kubelet, kubeletHealth, proxyHealth, proxyMetrics, dns, dnsHealth, dnsReady int
}

// portsOf returns ports that do not conflict with those of the other size, or with Kubernetes' default ports.
func portsOf(size Size) ports {
	base := 16000
	if size == ControlPlane {
		base = 26000
	}
	return ports{
		etcd: base + 379, etcdPeer: base + 380, api: base + 443,
		kubelet: base + 250, kubeletHealth: base + 248, proxyHealth: base + 256, proxyMetrics: base + 249,
		dns: base + 53, dnsHealth: base + 80, dnsReady: base + 81,
	}
}

// Cluster is one cluster and its location on disk. All its files are below State, so that `down` finds them.
type Cluster struct {
	Size  Size
	State string // the folder of all clusters: .cluster
}

// Dir returns the folder for the data of this cluster only.
func (c Cluster) Dir() string { return filepath.Join(c.State, string(c.Size)) }

// Path returns the path of a file or folder of this cluster.
func (c Cluster) Path(elements ...string) string {
	return filepath.Join(append([]string{c.Dir()}, elements...)...)
}

// Kubeconfig returns the path of the administrator's kubeconfig. The node's path is shorter, because users type it.
func (c Cluster) Kubeconfig() string {
	if c.Size == Node {
		return filepath.Join(c.State, "kubeconfig")
	}
	return c.Path("kubeconfig")
}

// Log returns the path of a component's log. Logs remain after the cluster is taken down.
func (c Cluster) Log(component string) string {
	return filepath.Join(c.State, "logs", string(c.Size), component+".log")
}

// ContainerdSocket returns the socket of the cluster's own containerd, not of the machine's service.
func (c Cluster) ContainerdSocket() string { return c.Path("containerd", "containerd.sock") }

// APIHost returns the API server's address. Pods can reach the node's API server; other machines cannot.
func (c Cluster) APIHost() string {
	if c.Size == Node {
		return NodeAddress
	}
	return "127.0.0.1"
}

// APIServer returns the API server's URL on this machine.
func (c Cluster) APIServer() string {
	return fmt.Sprintf("https://%s:%d", c.APIHost(), portsOf(c.Size).api)
}

// KubeletHealth returns the URL of the kubelet's health check.
func (c Cluster) KubeletHealth() string {
	return fmt.Sprintf("http://127.0.0.1:%d/healthz", portsOf(c.Size).kubeletHealth)
}

// socketLimit is the maximum length of the path of a unix socket, sizeof(sun_path) - 1 in unix(7).
const socketLimit = 107

// CheckPaths returns an error if the folder is so deep that a socket path exceeds the limit.
func (c Cluster) CheckPaths() error {
	longest := c.Path("kubelet", "device-plugins", "kubelet.sock")
	for _, d := range Drivers {
		if socket := c.registrationSocket(d); len(socket) > len(longest) {
			longest = socket
		}
	}
	if len(longest) <= socketLimit {
		return nil
	}
	return fmt.Errorf("the path %s exceeds the limit of %d bytes for a unix socket. Check out the repository in a folder with a shorter path",
		longest, socketLimit)
}
