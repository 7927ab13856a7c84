//go:build cluster

package operators

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"drydock.dev/test/kit"
)

// operator is the released program of an operator, or an actor.
type operator struct {
	name    string   // of its folder in build and in bin/operators
	program string   // its file there
	module  string   // the Go module with its source
	crds    []string // files and folders of this module that define its kinds
	// command returns the arguments and the environment of a process that reconciles one namespace.
	command func(namespace, address string) (arguments, environment []string)
	// needsPod: the process must believe that it runs in a pod. So it gets the file with the namespace, and a pod of this name.
	needsPod string
	// needsCertificate: the process serves TLS, and finds its certificate in the folder that --cert-dir names.
	needsCertificate bool
	// play is one look of an actor that does what the operator does. Then no program runs.
	play func(ctx context.Context, config *rest.Config, namespace string) error
}

var prometheusOperator = &operator{
	name: "prometheus", program: "operator", module: "github.com/prometheus-operator/prometheus-operator",
	crds: []string{"example/prometheus-operator-crd"},
	command: func(namespace, address string) ([]string, []string) {
		return []string{"--namespaces=" + namespace, "--web.listen-address=" + address, "--kubelet-endpoints=false"}, nil
	},
}

var rabbitmqOperator = &operator{
	name: "rabbitmq", program: "cluster-operator", module: "github.com/rabbitmq/cluster-operator/v2",
	crds: []string{"config/crd/bases"},
	command: func(namespace, _ string) ([]string, []string) {
		return []string{"--metrics-bind-address=0"}, []string{"OPERATOR_NAMESPACE=" + namespace, "OPERATOR_SCOPE_NAMESPACE=" + namespace,
			"LEASE_DURATION=6", "RENEW_DEADLINE=4", "RETRY_PERIOD=1"}
	},
}

var eck = &operator{
	name: "eck", program: "cmd", module: "github.com/elastic/cloud-on-k8s/v3",
	crds: []string{"config/crds/v1/all-crds.yaml"},
	command: func(namespace, _ string) ([]string, []string) {
		return []string{"manager", "--namespaces=" + namespace, "--operator-namespace=" + namespace, "--metrics-port=0",
			"--enable-leader-election=false", "--disable-telemetry", "--disable-config-watch", "--manage-webhook-certs=false"}, nil
	},
}

var zookeeperOperator = &operator{
	name: "zookeeper", program: "zookeeper-operator", module: "github.com/pravega/zookeeper-operator",
	crds: []string{"config/crd/bases"}, needsPod: "operator",
	command: func(namespace, _ string) ([]string, []string) {
		return []string{"--metrics-bind-address=0"}, []string{"WATCH_NAMESPACE=" + namespace, "POD_NAME=operator"}
	},
}

// Its process listens on port 8080, so only one test may run it at a time.
var mongodbOperator = &operator{
	name: "mongodb", program: "manager", module: "github.com/mongodb/mongodb-kubernetes-operator",
	crds: []string{"config/crd/bases"},
	command: func(namespace, _ string) ([]string, []string) {
		return nil, []string{"WATCH_NAMESPACE=" + namespace, "AGENT_IMAGE=example.com/agent:1", "VERSION_UPGRADE_HOOK_IMAGE=example.com/hook:1",
			"READINESS_PROBE_IMAGE=example.com/probe:1", "MONGODB_IMAGE=mongodb-community-server", "MONGODB_REPO_URL=example.com/mongodb"}
	},
}

// Only make test-operators OPERATORS=keda runs it, because it compiles for half an hour.
var keda = &operator{
	name: "keda", program: "operator", module: "github.com/kedacore/keda/v2",
	crds: []string{"config/crd/bases"}, needsCertificate: true,
	command: func(namespace, address string) ([]string, []string) {
		return []string{"--metrics-bind-address=0", "--health-probe-bind-address=0", "--metrics-service-bind-address=" + address}, []string{
			"WATCH_NAMESPACE=" + namespace, "POD_NAMESPACE=" + namespace, "KEDA_CLUSTER_OBJECT_NAMESPACE=" + namespace}
	},
}

// about returns what the go command knows about the operator's module: its Dir or Version.
func (o *operator) about(t *testing.T, field string) string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{."+field+"}}", o.module)
	list.Dir = filepath.Join(kit.Root(t), "test", "operators", "build", o.name)
	said, err := list.Output()
	if err != nil {
		t.Fatalf("looking for the module of %s: %v", o.name, err)
	}
	return strings.TrimSpace(string(said))
}

// installed has the operators whose kinds this process has defined.
var installed sync.Map

// install defines the operator's kinds.
func (o *operator) install(w *world) {
	w.t.Helper()
	once, _ := installed.LoadOrStore(o.name, &sync.Once{})
	once.(*sync.Once).Do(func() {
		folder := o.about(w.t, "Dir")
		var files []string
		for _, path := range o.crds {
			files = append(files, "-f", filepath.Join(folder, path))
		}
		kubectl := func(arguments ...string) string {
			arguments = append(append(arguments, "--kubeconfig", kit.APIPath(w.t)), files...)
			said, err := exec.CommandContext(w.t.Context(), kit.Kubectl(w.t), arguments...).CombinedOutput()
			if err != nil {
				return fmt.Sprintf("%v: %s", err, said)
			}
			return ""
		}
		if problem := kubectl("apply", "--server-side", "--force-conflicts"); problem != "" {
			w.t.Fatalf("defining the kinds of %s: %s\nIf make test-api has defined them, run: make cluster-down", o.name, problem)
		}
		w.Eventually("the kinds of "+o.name+" are defined", func() string {
			return kubectl("wait", "--for=condition=Established") // it fails at once for a kind that has no conditions yet
		})
	})
}

// process is an operator that runs, and can be stopped and started again.
type process struct {
	t         *testing.T
	operator  *operator
	namespace string
	address   string
	config    *rest.Config // of an actor
	log       bytes.Buffer // nobody reads it before the process has ended
	command   *exec.Cmd
	end       func() // ends the actor
}

// run starts the operator for the namespace. It ends with the test, and a failed test logs the end of its output.
func (o *operator) run(t *testing.T, namespace string, config *rest.Config) *process {
	t.Helper()
	p := &process{t: t, operator: o, namespace: namespace, address: kit.FreeAddress(t), config: config}
	p.start()
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			lines := strings.Split(p.log.String(), "\n")
			t.Logf("the output of %s ends with:\n%s", o.name, strings.Join(lines[max(0, len(lines)-40):], "\n"))
		}
	})
	return p
}

// asPod runs a program with the file that shows a container its namespace. The file is in mounts of the process's own, which needs root.
const asPod = `mount -t tmpfs none /var/run && mkdir -p /var/run/secrets/kubernetes.io/serviceaccount &&
printf %s "$WATCH_NAMESPACE" >/var/run/secrets/kubernetes.io/serviceaccount/namespace && exec "$@"`

// playedPeriod is the time between two looks of an actor.
const playedPeriod = 300 * time.Millisecond

// act runs the actor until the process ends.
func (p *process) act() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	p.end = func() { cancel(); <-ended }
	go func() {
		defer close(ended)
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			if err := p.operator.play(ctx, p.config, p.namespace); err != nil {
				fmt.Fprintln(&p.log, err)
			}
		}, playedPeriod)
	}()
}

func (p *process) start() {
	p.t.Helper()
	if p.operator.play != nil {
		p.act()
		return
	}
	arguments, environment := p.operator.command(p.namespace, p.address)
	program := filepath.Join(kit.Root(p.t), "bin", "operators", p.operator.name, p.operator.program)
	if _, err := os.Stat(program); err != nil {
		p.t.Fatalf("%v: build it with make operators", err)
	}
	if p.operator.needsCertificate {
		arguments = append(arguments, "--cert-dir="+certificates(p.t))
	}
	if p.operator.needsPod != "" {
		program, arguments = "unshare", append([]string{"--mount", "sh", "-ec", asPod, "sh", program}, arguments...)
	}
	p.command = exec.Command(program, arguments...)
	p.command.Env = append(append(os.Environ(), "KUBECONFIG="+kit.APIPath(p.t)), environment...)
	p.command.Stdout, p.command.Stderr = &p.log, &p.log
	if err := p.command.Start(); err != nil {
		p.t.Fatalf("starting %s: %v", p.operator.name, err)
	}
}

// certificates returns a folder with a certificate that signs itself.
func certificates(t *testing.T) string {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	certificate := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	folder, public := t.TempDir(), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})
	for name, content := range map[string][]byte{"ca.crt": public, "tls.crt": public,
		"tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// stop ends the operator, as the end of its pod does.
func (p *process) stop() {
	if p.end != nil {
		p.end()
	}
	if p.command == nil {
		return
	}
	_ = p.command.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(10*time.Second, func() { _ = p.command.Process.Kill() })
	_ = p.command.Wait()
	kill.Stop()
	p.command = nil
}

func (p *process) restart() {
	p.t.Helper()
	p.stop()
	p.start()
}
