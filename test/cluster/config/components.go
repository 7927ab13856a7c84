package config

import (
	"fmt"
	"path/filepath"
)

// Component is a program of a cluster that keeps running.
type Component struct {
	Name   string
	Binary string // absolute path; also what tells a running component from one of an older build
	Args   []string
	Env    []string // beside this process's own
}

// Binaries are the paths of the programs the components are made of.
type Binaries struct {
	Kube, DNS, Containerd, CSIDriver string
	Sidecars                         string // a folder
}

func (b Binaries) sidecar(name string) string { return filepath.Join(b.Sidecars, name) }

// eager trades memory for time: a control plane without nodes serves thousands of tests, and its collector would take a fifth.
func (c Cluster) eager() []string {
	if c.Size == ControlPlane {
		return []string{"GOGC=400"}
	}
	return nil
}

// Etcd is the store of the API server.
func (c Cluster) Etcd(b Binaries) Component {
	p := portsOf(c.Size)
	return Component{Name: "etcd", Binary: b.Kube, Env: c.eager(), Args: []string{
		"--data-dir=" + c.Path("etcd"),
		fmt.Sprintf("--listen-client-urls=http://127.0.0.1:%d", p.etcd),
		fmt.Sprintf("--listen-peer-urls=http://127.0.0.1:%d", p.etcdPeer),
	}}
}

// APIServerComponent has every admission plugin that is on by default, and OwnerReferencesPermissionEnforcement, which is on by
// default on OpenShift. It advertises NodeAddress even where that does
// not exist, since a loopback address would leave the Service "kubernetes" without endpoints.
func (c Cluster) APIServerComponent(b Binaries) Component {
	p := portsOf(c.Size)
	return Component{Name: "kube-apiserver", Binary: b.Kube, Env: c.eager(), Args: []string{
		// Of VolumeAttributesClasses, csi-provisioner v5.3.0 reads no other version. Policies that mutate are beta in 1.35, and off.
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

// noServing closes the port for metrics and health checks that the controllers and the scheduler would open: nobody
// here asks, and a port less is one less to be taken by another program.
const noServing = "--secure-port=0"

// ControllerManager runs Kubernetes' own controllers.
func (c Cluster) ControllerManager(b Binaries) Component {
	return Component{Name: "kube-controller-manager", Binary: b.Kube, Env: c.eager(), Args: []string{
		"--kubeconfig=" + c.UserKubeconfig(ControllerManagerUser),
		noServing,
		"--leader-elect=false",
		"--kube-api-qps=1000", // at the default of 20 it takes five seconds to begin, and tests would wait for it
		"--kube-api-burst=2000",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + c.pki("service-account.key"),
		"--root-ca-file=" + c.pki("ca.crt"),
		"--cluster-signing-cert-file=" + c.pki("ca.crt"),
		"--cluster-signing-key-file=" + c.pki("ca.key"),
	}}
}

// Scheduler assigns pods to the node.
func (c Cluster) Scheduler(b Binaries) Component {
	return Component{Name: "kube-scheduler", Binary: b.Kube, Args: []string{
		"--kubeconfig=" + c.UserKubeconfig(SchedulerUser),
		noServing,
		"--leader-elect=false",
	}}
}

// Containerd runs the containers.
func (c Cluster) Containerd(b Binaries) Component {
	return Component{Name: "containerd", Binary: b.Containerd, Args: []string{"--config", c.Path("config", "containerd.toml")}}
}

// Kubelet is the node's agent.
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

// Proxy makes the Services' addresses work on this machine and in its pods.
func (c Cluster) Proxy(b Binaries) Component {
	return Component{Name: "kube-proxy", Binary: b.Kube, Args: []string{"--config=" + c.Path("config", "kube-proxy.yaml")}}
}

// DNS answers for the names of Services. It is a process of the machine behind the Service kube-dns, so it needs no
// image and is there before the first pod.
func (c Cluster) DNS(b Binaries) Component {
	return Component{Name: "coredns", Binary: b.DNS, Args: []string{"-conf", c.Path("config", "Corefile")}}
}
