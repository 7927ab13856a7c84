package config

import (
	"bytes"
	"embed"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"strings"
	"text/template"
)

//go:embed files
var files embed.FS

// templates fail on a missing value instead of writing "<no value>".
var templates = template.Must(template.New("").
	Option("missingkey=error").
	Funcs(template.FuncMap{"base64": base64.StdEncoding.EncodeToString}).
	ParseFS(files, "files/*"))

func render(name string, values any) ([]byte, error) {
	var text bytes.Buffer
	if err := templates.ExecuteTemplate(&text, name, values); err != nil {
		return nil, fmt.Errorf("rendering %s: %w", name, err)
	}
	return text.Bytes(), nil
}

// nodeFiles lists the configuration files of the node's programs.
var nodeFiles = []string{"containerd.toml", "kubelet.yaml", "kube-proxy.yaml", "Corefile", "network.conflist"}

// nodeValues holds the values for the templates of nodeFiles and manifests.
type nodeValues struct {
	Cluster
	NodeName, NodeAddress, NetworkName, PodRange, DNSService, DNSDomain string
	CgroupRoot, CloudDriver, PauseImage, ProxyKubeconfig, ResolvConf    string
	KubeletPort, KubeletHealthPort, ProxyHealthPort, ProxyMetricsPort   int
	DNSPort, DNSHealthPort, DNSReadyPort                                int
	Classes                                                             []StorageClass
	Drivers                                                             []Driver
}

// PauseImage is the image of the container that holds a pod's namespaces.
const PauseImage = "dev.local/pause:1"

func (c Cluster) values() nodeValues {
	p := portsOf(c.Size)
	return nodeValues{
		Cluster: c, NodeName: NodeName, NodeAddress: NodeAddress, NetworkName: NetworkName, PodRange: PodRange,
		DNSService: DNSService, DNSDomain: DNSDomain,
		CgroupRoot: CgroupRoot, CloudDriver: CloudDriver, PauseImage: PauseImage, ProxyKubeconfig: c.UserKubeconfig(ProxyUser),
		ResolvConf: c.Path("config", "resolv.conf"), KubeletPort: p.kubelet, KubeletHealthPort: p.kubeletHealth,
		ProxyHealthPort: p.proxyHealth, ProxyMetricsPort: p.proxyMetrics, DNSPort: p.dns, DNSHealthPort: p.dnsHealth,
		DNSReadyPort: p.dnsReady, Classes: StorageClasses, Drivers: Drivers,
	}
}

// WriteNodeFiles writes the configuration of the node's programs.
func (c Cluster) WriteNodeFiles() error {
	if err := os.MkdirAll(c.Path("config"), 0o755); err != nil {
		return fmt.Errorf("making the folder of the node's configuration: %w", err)
	}
	for _, name := range nodeFiles {
		text, err := render(name, c.values())
		if err != nil {
			return err
		}
		if err := writeChanged(c.Path("config", name), text); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return c.writeResolvConf("/etc/resolv.conf")
}

// writeChanged writes the file only if its content changes. kube-proxy exits on a write to its configuration, which would break a running
// cluster (kubernetes cmd/kube-proxy/app/options.go).
func writeChanged(path string, text []byte) error {
	if is, err := os.ReadFile(path); err == nil && bytes.Equal(is, text) {
		return nil
	}
	return os.WriteFile(path, text, 0o644)
}

// writeResolvConf copies the machine's nameservers, which resolve names outside the cluster. It omits nameservers on loopback, because one
// could forward queries back to the cluster's DNS.
func (c Cluster) writeResolvConf(source string) error {
	text, err := os.ReadFile(source)
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("reading the machine's nameservers: %w", err)
	}
	if err := writeChanged(c.Path("config", "resolv.conf"), []byte(externalNameservers(string(text)))); err != nil {
		return fmt.Errorf("writing resolv.conf: %w", err)
	}
	return nil
}

// externalNameservers returns the nameserver lines of a resolv.conf without those on loopback. If none is left, it returns an address for
// documentation (RFC 5737), which never answers: CoreDNS does not start without a nameserver.
func externalNameservers(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		if address := net.ParseIP(fields[1]); address != nil && !address.IsLoopback() {
			kept = append(kept, "nameserver "+fields[1]+"\n")
		}
	}
	if len(kept) == 0 {
		return "nameserver 192.0.2.53\n"
	}
	return strings.Join(kept, "")
}

// Manifests returns the objects of a new cluster: the StorageClasses, and for a node also the CSI drivers and DNS.
func (c Cluster) Manifests() ([]byte, error) {
	names := []string{"storageclasses.yaml"}
	if c.Size == Node {
		names = append(names, "drivers.yaml", "node-objects.yaml")
	}
	var all [][]byte
	for _, name := range names {
		text, err := render(name, c.values())
		if err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return bytes.Join(all, []byte("---\n")), nil
}

// SnapshotClasses returns the objects that need the snapshot kinds.
func (c Cluster) SnapshotClasses() ([]byte, error) { return render("snapshotclasses.yaml", c.values()) }
