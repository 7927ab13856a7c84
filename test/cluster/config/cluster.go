// Package config says what a cluster of this folder consists of: its sizes, its files, its addresses, the command line
// of each component and the files they read. It renders; it starts nothing.
package config

import (
	"fmt"
	"path/filepath"
)

// Addresses inside a cluster of the node size. They exist on this machine only.
const (
	NodeName     = "drydock-node"
	NodeAddress  = "10.246.0.1"
	NodeLink     = "drydock0" // a bridge without ports, which carries NodeAddress
	PodRange     = "10.244.0.0/16"
	ServiceRange = "10.96.0.0/16"
	APIService   = "10.96.0.1" // the first address of ServiceRange, by Kubernetes' convention
	DNSService   = "10.96.0.10"
	DNSDomain    = "cluster.local"
	// NetworkName is what the network plugins call the pods' network.
	NetworkName = "drydock-cluster"
	// CgroupRoot is the parent of all pods' cgroups, so that they can be told from those of another kubelet.
	CgroupRoot = "/drydock-cluster"
)

// Size is how much of Kubernetes runs.
type Size string

const (
	// ControlPlane is the API server with its store and its controllers: enough for everything but pods.
	ControlPlane Size = "control-plane"
	// Node adds a node that runs pods, with DNS and volumes.
	Node Size = "node"
)

// Sizes are all sizes; both can run at the same time.
var Sizes = []Size{ControlPlane, Node}

// ParseSize reads the flag --size.
func ParseSize(text string) (Size, error) {
	for _, size := range Sizes {
		if text == string(size) {
			return size, nil
		}
	}
	return "", fmt.Errorf("there is no size %q: use %q or %q", text, Node, ControlPlane)
}

// ports are those a cluster listens on; every one is bound to loopback or to NodeAddress.
type ports struct {
	etcd, etcdPeer, api, kubelet, kubeletHealth, proxyHealth, proxyMetrics, dns, dnsHealth, dnsReady int
}

// portsOf keeps the two sizes, and a Kubernetes on its default ports, out of each other's way.
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

// Cluster is one cluster and its place on disk. Everything it writes is below State, so that nothing of it can be
// anywhere else when it is taken down.
type Cluster struct {
	Size  Size
	State string // the folder of all clusters: .cluster
}

// Dir holds the data of this cluster alone.
func (c Cluster) Dir() string { return filepath.Join(c.State, string(c.Size)) }

// Path is a file or folder of this cluster.
func (c Cluster) Path(elements ...string) string {
	return filepath.Join(append([]string{c.Dir()}, elements...)...)
}

// Kubeconfig is the administrator's. The one of the node size has the shorter path, because it is the one people use.
func (c Cluster) Kubeconfig() string {
	if c.Size == Node {
		return filepath.Join(c.State, "kubeconfig")
	}
	return c.Path("kubeconfig")
}

// Log is where a component writes. Logs outlive the cluster, to be read after it is taken down.
func (c Cluster) Log(component string) string {
	return filepath.Join(c.State, "logs", string(c.Size), component+".log")
}

// ContainerdSocket is where containerd listens: its own, not that of a containerd the machine runs as a service.
func (c Cluster) ContainerdSocket() string { return c.Path("containerd", "containerd.sock") }

// APIHost is the address the API server binds to. Pods reach the one of a node, and nothing outside this machine does.
func (c Cluster) APIHost() string {
	if c.Size == Node {
		return NodeAddress
	}
	return "127.0.0.1"
}

// APIServer is the URL of the API server as seen from this machine.
func (c Cluster) APIServer() string {
	return fmt.Sprintf("https://%s:%d", c.APIHost(), portsOf(c.Size).api)
}

// KubeletHealth is the URL where the node's agent says how it is.
func (c Cluster) KubeletHealth() string {
	return fmt.Sprintf("http://127.0.0.1:%d/healthz", portsOf(c.Size).kubeletHealth)
}

// socketLimit is the longest path of a unix socket, sizeof(sun_path) - 1 in unix(7).
const socketLimit = 107

// CheckPaths refuses a folder so deep that the sockets in it could not be opened.
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
	return fmt.Errorf(
		"the path %s is longer than the %d bytes a unix socket may have: check the repository out in a folder with a shorter path",
		longest,
		socketLimit,
	)
}
