package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Fingerprint returns a digest of the cluster's configuration. It ignores the paths of programs: a component with a newer build is replaced
// in the running cluster.
func (c Cluster) Fingerprint() (string, error) {
	hash := sha256.New()
	manifests, err := c.Manifests()
	if err != nil {
		return "", err
	}
	hash.Write(manifests)
	for _, name := range nodeFiles {
		text, err := render(name, c.values())
		if err != nil {
			return "", err
		}
		hash.Write(text)
	}
	for _, component := range c.all() {
		fmt.Fprintln(hash, component.Name, component.Args)
	}
	return hex.EncodeToString(hash.Sum(nil))[:12], nil
}

func (c Cluster) all() []Component {
	var b Binaries
	all := []Component{
		c.Etcd(b), c.APIServerComponent(b), c.ControllerManager(b), c.Scheduler(b), c.Containerd(b), c.Kubelet(b),
		c.Proxy(b), c.DNS(b), c.SnapshotController(b),
	}
	for _, d := range Drivers {
		all = append(append(all, c.CSIDriver(b, d)), c.DriverSidecars(b, d)...)
	}
	return all
}
