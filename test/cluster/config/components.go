package config

import (
	"fmt"
	"path/filepath"
)

// Component is a long-running program of a cluster.
type Component struct {
	Name   string
	Binary string // absolute path; it differs between builds
	Args   []string
	Env    []string // in addition to the environment of this process
}

// Binaries holds the paths of the components' programs.
type Binaries struct {
	Kube, DNS, Containerd, CSIDriver string
	Sidecars                         string // a folder
}

func (b Binaries) sidecar(name string) string { return filepath.Join(b.Sidecars, name) }

// eager returns settings that trade memory for time. A control plane without nodes serves thousands of tests. With Go's default settings
// garbage collection would take a fifth of the time.
func (c Cluster) eager() []string {
	if c.Size == ControlPlane {
		return []string{"GOGC=400"}
	}
	return nil
}

// Etcd returns the store of the API server.
func (c Cluster) Etcd(b Binaries) Component {
	p := portsOf(c.Size)
	return Component{Name: "etcd", Binary: b.Kube, Env: c.eager(), Args: []string{
		"--data-dir=" + c.Path("etcd"),
		fmt.Sprintf("--listen-client-urls=http://127.0.0.1:%d", p.etcd),
		fmt.Sprintf("--listen-peer-urls=http://127.0.0.1:%d", p.etcdPeer),
	}}
}

// APIServerComponent returns the API server. It has all default admission plugins, and OwnerReferencesPermissionEnforcement, a default of
// OpenShift. It advertises NodeAddress even if the address does not exist: with a loopback address the Service "kubernetes" would have no
// endpoints.
func (c Cluster) APIServerComponent(b Binaries) Component {
	p := portsOf(c.Size)
	return Component{Name: "kube-apiserver", Binary: b.Kube, Env: c.eager(), Args: []string{
		// csi-provisioner v5.3.0 reads only v1beta1 of VolumeAttributesClasses. Mutating policies are beta in 1.35 and off by default.
		"--runtime-config=storage.k8s.io/v1beta1/volumeattributesclasses=true,admissionregistration.k8s.io/v1beta1=true",
		"--feature-gates=MutatingAdmissionPolicy=true",
		fmt.Sprintf("--etcd-servers=http://127.0.0.1:%d", p.etcd),
		"--bind-address=" + c.APIHost(),
		fmt.Sprintf("--secure-port=%d", p.api),
		"--advertise-address=" + NodeAddress,
		"--service-cluster-ip-range=" + ServiceRange,
		"--tls-cert-file=" + c.pki("apiserver.crt"),
		"--tls-private-key-file=" + c.pki("apiserver.key"),
		"--client-ca-file=" + c.pki("ca.crt"),
		"--token-auth-file=" + c.pki("tokens.csv"),
		"--authorization-mode=Node,RBAC",
		"--service-account-issuer=https://kubernetes.default.svc." + DNSDomain,
		"--service-account-signing-key-file=" + c.pki("service-account.key"),
		"--service-account-key-file=" + c.pki("service-account.key"),
		"--kubelet-client-certificate=" + c.pki("kubelet-client.crt"),
		"--kubelet-client-key=" + c.pki("kubelet-client.key"),
		"--kubelet-preferred-address-types=InternalIP", // the node's name is in no DNS
		"--requestheader-client-ca-file=" + c.pki("ca.crt"),
		"--requestheader-allowed-names=front-proxy",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + c.pki("front-proxy.crt"),
		"--proxy-client-key-file=" + c.pki("front-proxy.key"),
		"--enable-aggregator-routing=true",
		"--allow-privileged=true",
		"--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
	}}
}

// noServing disables the controllers' and the scheduler's port for metrics and health checks. Nothing here uses it, and an unused port can
// conflict with another program.
const noServing = "--secure-port=0"

// ControllerManager returns Kubernetes' own controllers.
func (c Cluster) ControllerManager(b Binaries) Component {
	return Component{Name: "kube-controller-manager", Binary: b.Kube, Env: c.eager(), Args: []string{
		"--kubeconfig=" + c.UserKubeconfig(ControllerManagerUser),
		noServing,
		"--leader-elect=false",
		"--kube-api-qps=1000", // with the default of 20 the start takes five seconds longer
		"--kube-api-burst=2000",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + c.pki("service-account.key"),
		"--root-ca-file=" + c.pki("ca.crt"),
		"--cluster-signing-cert-file=" + c.pki("ca.crt"),
		"--cluster-signing-key-file=" + c.pki("ca.key"),
	}}
}

// Scheduler returns the scheduler.
func (c Cluster) Scheduler(b Binaries) Component {
	return Component{Name: "kube-scheduler", Binary: b.Kube, Args: []string{
		"--kubeconfig=" + c.UserKubeconfig(SchedulerUser),
		noServing,
		"--leader-elect=false",
	}}
}

// Containerd returns the container runtime.
func (c Cluster) Containerd(b Binaries) Component {
	return Component{Name: "containerd", Binary: b.Containerd, Args: []string{"--config", c.Path("config", "containerd.toml")}}
}

// Kubelet returns the node's agent.
func (c Cluster) Kubelet(b Binaries) Component {
	return Component{Name: "kubelet", Binary: b.Kube, Args: []string{
		"--config=" + c.Path("config", "kubelet.yaml"),
		"--kubeconfig=" + c.UserKubeconfig(KubeletUser),
		"--root-dir=" + c.Path("kubelet"),
		"--cert-dir=" + c.Path("kubelet", "pki"),
		"--hostname-override=" + NodeName,
		"--node-ip=" + NodeAddress,
	}}
}

// Proxy returns kube-proxy, which makes the Services' addresses work on this machine and in its pods.
func (c Cluster) Proxy(b Binaries) Component {
	return Component{Name: "kube-proxy", Binary: b.Kube, Args: []string{"--config=" + c.Path("config", "kube-proxy.yaml")}}
}

// DNS returns CoreDNS, which resolves the names of Services. It is a process of the machine behind the Service kube-dns. Therefore it needs
// no image and starts before the first pod.
func (c Cluster) DNS(b Binaries) Component {
	return Component{Name: "coredns", Binary: b.DNS, Args: []string{"-conf", c.Path("config", "Corefile")}}
}
