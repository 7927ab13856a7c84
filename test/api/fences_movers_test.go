//go:build cluster

package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/apimachinery/pkg/util/httpstream/spdy"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit"
)

var moverThefts = []theft{
	{"run the data mover as it is", func(s *thief) error {
		for _, mover := range s.movers() {
			if err := s.createJob(resources.MakeMover(mover)); err != nil {
				return err
			}
		}
		return nil
	}, "backup"},
	{"run a Job with another image, another command or a token", func(s *thief) error {
		return s.anyMover(func(change func(func(*corev1.PodSpec))) {
			change(func(p *corev1.PodSpec) {
				p.Containers[0].Image, p.InitContainers[0].Image = "example.com/other:1", "example.com/other:1"
			})
			change(func(p *corev1.PodSpec) { p.InitContainers[0].Image = "example.com/other:1" })
			change(func(p *corev1.PodSpec) { p.Containers[0].Command = []string{"sh"} })
			change(func(p *corev1.PodSpec) { p.InitContainers[0].Command = []string{"sh"} })
			change(func(p *corev1.PodSpec) { p.Containers[0].Args[0] = "serve" })
			change(func(p *corev1.PodSpec) { p.InitContainers[0].Args[1] = "final" })
			change(func(p *corev1.PodSpec) { p.Containers[0].Env = []corev1.EnvVar{{Name: "X"}} })
			// the pod of another record, or a value that the container must not see
			change(func(p *corev1.PodSpec) {
				p.InitContainers[0].Env = []corev1.EnvVar{{Name: moverreport.PodVariable, Value: "another"}}
			})
			change(func(p *corev1.PodSpec) {
				p.InitContainers[0].Args = append(p.InitContainers[0].Args, "--mount=another")
			})
			change(func(p *corev1.PodSpec) { p.InitContainers[0].Env[0].ValueFrom.FieldRef.FieldPath = "metadata.name" })
			change(func(p *corev1.PodSpec) { p.InitContainers[0].Env[0].Name = "LD_PRELOAD" })
			change(func(p *corev1.PodSpec) {
				p.InitContainers[0].Env[0].ValueFrom = &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
					LocalObjectReference: corev1.LocalObjectReference{Name: "x"}, Key: "x"}}
			})
			change(func(p *corev1.PodSpec) { p.AutomountServiceAccountToken = nil })
			change(func(p *corev1.PodSpec) { p.InitContainers = nil })
			change(func(p *corev1.PodSpec) {
				p.InitContainers, p.Containers = nil, append(p.InitContainers, p.Containers...)
			})
			change(func(p *corev1.PodSpec) {
				p.InitContainers = append(p.InitContainers, corev1.Container{Name: "more", Image: p.Containers[0].Image})
			})
			change(func(p *corev1.PodSpec) {
				p.InitContainers[0].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
			})
			change(func(p *corev1.PodSpec) {
				p.Containers[0].EnvFrom = []corev1.EnvFromSource{
					{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "x"}}}}
			})
			change(func(p *corev1.PodSpec) {
				p.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
			})
			shell := &corev1.ExecAction{Command: []string{"sh"}}
			probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: shell}}
			change(func(p *corev1.PodSpec) { p.Containers[0].LivenessProbe = probe })
			change(func(p *corev1.PodSpec) { p.Containers[0].ReadinessProbe = probe })
			change(func(p *corev1.PodSpec) { p.Containers[0].StartupProbe = probe })
			change(func(p *corev1.PodSpec) {
				p.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: shell}}
			})
			for _, containers := range []func(*corev1.PodSpec) []corev1.Container{
				func(p *corev1.PodSpec) []corev1.Container { return p.Containers },
				func(p *corev1.PodSpec) []corev1.Container { return p.InitContainers },
			} {
				change(func(p *corev1.PodSpec) {
					containers(p)[0].SecurityContext.Capabilities.Add = []corev1.Capability{"SYS_ADMIN"}
				})
				change(func(p *corev1.PodSpec) { containers(p)[0].SecurityContext = privileged() })
				change(func(p *corev1.PodSpec) { containers(p)[0].SecurityContext = nil })
			}
		})
	}, ""},
	{"run a Job under another name, or without an operation", func(s *thief) error {
		for _, change := range []func(*batchv1.Job){
			func(j *batchv1.Job) { j.Name = "mine" },
			func(j *batchv1.Job) { j.Labels = map[string]string{"app": "x"} }, // without labels it gets the labels of its pods
		} {
			if err := s.createMover(change); err == nil {
				return nil
			}
		}
		return s.createMover(func(j *batchv1.Job) {
			j.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x"}}
		})
	}, ""},
	{"run a Job with the marks of a hook, with any service account of its namespace", func(s *thief) error {
		return s.createHook(func(j *batchv1.Job) { j.Spec.Template.Spec.ServiceAccountName = "other" })
	}, "restore"},
	{
		"run such a Job more than once, under another name, without an operation or deadline, or with a pod marked as Drydock's",
		func(s *thief) error {
			many := int32(5)
			for _, change := range []func(*batchv1.Job){
				func(j *batchv1.Job) { j.Name = api.MoverName(operation, 0, 3) },
				func(j *batchv1.Job) { j.Labels = map[string]string{"app": "x"} },
				func(j *batchv1.Job) { j.Annotations[api.OperationAnnotation] = linkTo(s.loot, api.RoleMover) },
				func(j *batchv1.Job) { j.Spec.Parallelism = &many },
				func(j *batchv1.Job) { j.Spec.Completions = &many },
				func(j *batchv1.Job) { j.Spec.BackoffLimit = &many },
				func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = nil },
				func(j *batchv1.Job) {
					j.Spec.PodFailurePolicy, j.Spec.Template.Spec.RestartPolicy = nil, corev1.RestartPolicyOnFailure
				},
				func(j *batchv1.Job) { j.Spec.Template.Labels = map[string]string{api.OperationLabel: operation} },
				func(j *batchv1.Job) {
					j.Spec.Template.Annotations = map[string]string{api.OperationAnnotation: linkTo(s.loot, api.RoleMover)}
				},
				func(j *batchv1.Job) { j.Spec.Template.Finalizers = []string{api.HoldFinalizer} },
			} {
				if err := s.createHook(change); err == nil {
					return nil
				}
			}
			return s.createHook(func(j *batchv1.Job) {
				j.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x"}}
			})
		},
		"",
	},
	{"run such a Job whose pod gets hold of its node", func(s *thief) error {
		for _, change := range []func(*corev1.PodSpec){
			func(p *corev1.PodSpec) { p.HostPID = true },
			func(p *corev1.PodSpec) { p.HostNetwork = true },
			func(p *corev1.PodSpec) {
				p.Volumes = []corev1.Volume{{Name: "x",
					VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
			},
			func(p *corev1.PodSpec) { p.Containers[0].SecurityContext = privileged() },
			func(p *corev1.PodSpec) { p.Containers[0].SecurityContext = powerful("SYS_ADMIN") },
		} {
			if err := s.createHook(func(j *batchv1.Job) { change(&j.Spec.Template.Spec) }); err == nil {
				return nil
			}
		}
		return s.createHook(func(j *batchv1.Job) {
			j.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: "x", Image: "x", SecurityContext: privileged()}}
		})
	}, ""},
	{"run a Job with the marks of a hook of a scaling, with any service account of its namespace", func(s *thief) error {
		return s.createScaleHook(func(j *batchv1.Job) { j.Spec.Template.Spec.ServiceAccountName = "other" })
	}, "scale"},
	{
		"run such a Job with over ten retries, a wrong name, no operation, no deadline, node access or Drydock's marks",
		func(s *thief) error {
			var err error
			for _, change := range scaleHookForgeries(s.loot) {
				if err = s.createScaleHook(change); err == nil {
					return nil
				}
			}
			return err
		},
		"",
	},
	{"delete a mover", func(s *thief) error { return s.deleteJob(api.MoverName(operation, 0, 1)) }, "backup restore"},
	{"delete any other Job", func(s *thief) error { return s.deleteJob("others") }, ""},
	{"have a Job run several pods at once or one after the other, or on a node that it names", func(s *thief) error {
		many := int32(5)
		for _, change := range []func(*batchv1.JobSpec){
			func(j *batchv1.JobSpec) { j.Parallelism = &many },
			func(j *batchv1.JobSpec) { j.Completions = &many },
		} {
			if err := s.createMover(func(j *batchv1.Job) { change(&j.Spec) }); err == nil {
				return nil
			}
		}
		return s.createMover(func(j *batchv1.Job) { j.Spec.Template.Spec.NodeName = "node-1" })
	}, ""},
	{"have a mover write to its source, or mount anything but claims with their temporary ones", func(s *thief) error {
		return s.anyMover(func(change func(func(*corev1.PodSpec))) {
			for _, container := range []func(*corev1.PodSpec) *corev1.Container{
				func(p *corev1.PodSpec) *corev1.Container { return &p.InitContainers[0] },
				func(p *corev1.PodSpec) *corev1.Container { return &p.InitContainers[1] },
			} {
				mounts := func(p *corev1.PodSpec) []corev1.VolumeMount { return container(p).VolumeMounts }
				change(func(p *corev1.PodSpec) { mounts(p)[1].ReadOnly = false })
				change(func(p *corev1.PodSpec) {
					mounts(p)[1].MountPath, mounts(p)[2].MountPath = mounts(p)[2].MountPath, mounts(p)[1].MountPath
				})
				change(func(p *corev1.PodSpec) { mounts(p)[1].MountPath, mounts(p)[1].ReadOnly = "/target/data2", false })
				change(func(p *corev1.PodSpec) { mounts(p)[2].MountPath = "/etc" })
				change(func(p *corev1.PodSpec) { mounts(p)[2].SubPath = "x" })
				change(func(p *corev1.PodSpec) { mounts(p)[2].SubPathExpr = "$(X)" })
				change(func(p *corev1.PodSpec) {
					mounts(p)[2].MountPropagation = ptr.To(corev1.MountPropagationHostToContainer)
				})
				change(func(p *corev1.PodSpec) { mounts(p)[2].MountPath, mounts(p)[2].ReadOnly = "/source/data2", true })
				change(func(p *corev1.PodSpec) { mounts(p)[1].MountPath = "/etc" })
				change(func(p *corev1.PodSpec) { mounts(p)[0].MountPath = "/etc" })
				change(func(p *corev1.PodSpec) { mounts(p)[0].Name = mounts(p)[2].Name })
				// Block devices have no read-only mount. Their path shows which one is the source.
				for _, path := range []string{"/target/data", "/source/data", "/dev/sda"} {
					change(func(p *corev1.PodSpec) {
						source, target := mounts(p)[1].Name, mounts(p)[2].Name
						if path == "/target/data" {
							target = source
						}
						container(p).VolumeMounts = mounts(p)[:1]
						container(p).VolumeDevices = []corev1.VolumeDevice{{Name: target, DevicePath: path}}
					})
				}
				change(func(p *corev1.PodSpec) { container(p).Args = append(container(p).Args, "--report=/source/data/x") })
				change(func(p *corev1.PodSpec) { container(p).Args = append(container(p).Args, "--claim=../source/data") })
				change(func(p *corev1.PodSpec) { container(p).Args = append(container(p).Args, "/source/data") })
			}
			pin := func(p *corev1.PodSpec) *corev1.Container { return &p.Containers[0] }
			change(func(p *corev1.PodSpec) { pin(p).VolumeMounts = p.InitContainers[0].VolumeMounts })
			change(func(p *corev1.PodSpec) { pin(p).Args = p.InitContainers[1].Args })
			change(func(p *corev1.PodSpec) {
				pin(p).VolumeDevices = []corev1.VolumeDevice{{Name: p.Volumes[2].Name, DevicePath: "/target/data"}}
			})
			change(func(p *corev1.PodSpec) { p.Volumes[2].PersistentVolumeClaim.ClaimName = "data-plain-0" })
			change(func(p *corev1.PodSpec) { p.Volumes[1].Name = "other" })
			change(func(p *corev1.PodSpec) { p.Volumes = append(p.Volumes, secretVolume("x")) })
			change(func(p *corev1.PodSpec) { p.Volumes = append(p.Volumes, secretVolume("source-00000000")) })
			change(func(p *corev1.PodSpec) { p.Volumes = append(p.Volumes, secretVolume("records")) })
			change(func(p *corev1.PodSpec) {
				p.Volumes[0].DownwardAPI, p.Volumes[0].Secret = nil, &corev1.SecretVolumeSource{SecretName: "x"}
			})
			change(func(p *corev1.PodSpec) { p.Volumes[0].DownwardAPI.Items[0].FieldRef.FieldPath = "metadata.labels" })
			change(func(p *corev1.PodSpec) {
				p.Volumes[0].DownwardAPI, p.Volumes[0].Projected = nil, &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
					{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}}}
			})
		})
	}, ""},
	{"tell a mover that its member has stopped, or that it is waited for", func(s *thief) error {
		for _, key := range []string{moverreport.SignalAnnotation, moverreport.LeaseAnnotation} {
			if err := s.patchPod(s.mover, `{"metadata":{"annotations":{"`+key+`":"x"}}}`); err != nil {
				return err
			}
		}
		return nil
	}, "backup"},
	{"tell that any other pod", func(s *thief) error {
		body := `{"metadata":{"annotations":{"` + moverreport.SignalAnnotation + `":"x"}}}`
		for name := range strange {
			if err := s.patchPod(name, body); err == nil {
				return nil
			}
		}
		return s.patchPod("web-0", body)
	}, ""},
}

func secretVolume(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "x"}}}
}

// movers returns the movers that backup creates: a root mover beside a running member, a mover of two claims with a
// device, and a mover of a stopped member.
func (s *thief) movers() []resources.Mover {
	plain := s.moverOf("data")
	plain.Claims[0].Margin, plain.MaxStop, plain.Bandwidth = 7, 90_000_000_000, 1<<20
	two := s.moverOf("data", "wal")
	two.Root, two.Claims[1].Device = false, true
	stopped := s.moverOf("data")
	stopped.Signal = &moverreport.Signal{Hold: "0e6a7a1c-7f0b-4a51-9ff4-d2b5b3b38f8c", Attempt: 1}
	return []resources.Mover{plain, two, stopped}
}

func (s *thief) moverOf(templates ...string) resources.Mover {
	ordinal := 0
	link := api.Link{Operation: operation, Role: api.RoleMover, Namespace: s.w.Namespace, Set: api.SetRef{Name: "web", UID: s.web.UID},
		Member: &ordinal}
	mover := resources.Mover{Set: s.web, Link: link, Attempt: 2, Pod: "0e6a7a1c-7f0b-4a51-9ff4-d2b5b3b38f8c", Node: "kit", Root: true,
		Settings: s.w.Settings}
	for _, template := range templates {
		claim := template + "-web-0"
		mover.Claims = append(mover.Claims, resources.MoverClaim{Template: template, Source: claim,
			Target: api.TargetName(operation, claim, 1)})
	}
	return mover
}

// createMover creates backup's Job with a change.
func (s *thief) createMover(change func(*batchv1.Job)) error {
	job := resources.MakeMover(s.moverOf("data"))
	change(job)
	return s.createJob(job)
}

func (s *thief) createJob(job *batchv1.Job) error {
	_, err := s.kube.BatchV1().Jobs(job.Namespace).Create(s.ctx, job, metav1.CreateOptions{DryRun: dry})
	return err
}

func (s *thief) deleteJob(name string) error {
	return s.kube.BatchV1().Jobs(s.w.Namespace).Delete(s.ctx, name, metav1.DeleteOptions{DryRun: dry})
}

// anyMover tries a mover with each change until the API server accepts one. It returns the last error.
func (s *thief) anyMover(each func(change func(func(*corev1.PodSpec)))) error {
	tried, taken, last := 0, false, error(nil)
	each(func(change func(*corev1.PodSpec)) {
		tried++
		if taken {
			return
		}
		last = s.createMover(func(j *batchv1.Job) { change(&j.Spec.Template.Spec) })
		if taken = last == nil; taken {
			s.w.T.Logf("change %d of the mover is taken", tried)
		}
	})
	return last
}

// hostileNode is the machine of the namespace, and a Prometheus. Its kubelet reports the summary and prints 16 MiB for each command in a
// pod.
type hostileNode struct {
	summary                   atomic.Value
	execs, summaries, queries atomic.Int64
	prometheus                *httptest.Server
}

// startHostileNode answers for the kubelet of the world's machine.
func startHostileNode(w *kit.World) *hostileNode {
	w.T.Helper()
	n := &hostileNode{}
	n.summary.Store("{}")
	kubelet := httptest.NewTLSServer(n)
	w.T.Cleanup(kubelet.Close)
	n.prometheus = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		n.queries.Add(1)
		_, _ = io.WriteString(rw, `{"status":"success","data":{"resultType":"vector","result":[`+nulls(4<<20-100)+`]}}`)
	}))
	w.T.Cleanup(n.prometheus.Close)
	host, port, _ := net.SplitHostPort(kubelet.Listener.Addr().String())
	number, _ := strconv.Atoi(port)
	patch := fmt.Sprintf(`{"status":{"addresses":[{"type":"InternalIP","address":%q}],"daemonEndpoints":{"kubeletEndpoint":{"Port":%d}}}}`,
		host, number)
	if _, err := w.Kube.CoreV1().Nodes().Patch(context.Background(), "machine-of-"+w.Namespace, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{}, "status"); err != nil {
		w.T.Fatal(err)
	}
	return n
}

// ServeHTTP is the kubelet.
func (n *hostileNode) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/exec/") {
		n.execs.Add(1)
		printMuch(rw, r)
		return
	}
	n.summaries.Add(1)
	_, _ = io.WriteString(rw, n.summary.Load().(string))
}

// printMuch answers a command with 16 MiB of established connections, as the kubelet does (kubernetes
// staging/src/k8s.io/kubelet/pkg/cri/streaming/remotecommand).
func printMuch(rw http.ResponseWriter, r *http.Request) {
	if _, err := httpstream.Handshake(r, rw, []string{"v4.channel.k8s.io"}); err != nil {
		return
	}
	opened := make(chan httpstream.Stream, 3)
	connection := spdy.NewResponseUpgrader().UpgradeResponse(rw, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		opened <- s
		return nil
	})
	if connection == nil {
		return
	}
	defer func() { _ = connection.Close() }()
	streams := map[string]httpstream.Stream{}
	for range 3 { // error, stdout, stderr
		select {
		case s := <-opened:
			streams[s.Headers().Get(corev1.StreamType)] = s
		case <-time.After(time.Minute):
			return
		}
	}
	line := "   0: 00000000:1538 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 1\n"
	out := streams[corev1.StreamTypeStdout]
	_, _ = io.WriteString(out, "  sl  local_address rem_address   st\n")
	for block, sent := bytes.Repeat([]byte(line), 300), 0; sent < 16<<20; sent += len(block) {
		if _, err := out.Write(block); err != nil {
			break
		}
	}
	_ = json.NewEncoder(streams[corev1.StreamTypeError]).Encode(metav1.Status{Status: metav1.StatusSuccess})
}

// TestSetWithAccessToItsNodeNeedsConsent: a resize that a fence would deny later is refused at once. With the
// namespace's consent the set is created again.
func TestSetWithAccessToItsNodeNeedsConsent(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	set := kit.WorldSet("web", 1, "64Mi", "data")
	set.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "host",
		VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/etc/localtime"}}}}
	before := w.CreateSet(set)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	drive := w.Drive(nil)
	status := w.Finish(drive, "web")
	if status.Phase != api.Refused || status.Reason != api.NodeAccessDenied ||
		!strings.Contains(status.Message, "kubectl label namespace "+w.Namespace) {
		t.Fatalf("%s %s: %s", status.Phase, status.Reason, status.Message)
	}
	if now := w.Set("web"); now.UID != before.UID || now.Generation != before.Generation {
		t.Error("the set was touched")
	}
	w.LabelNamespace(api.NodeAccessLabel, api.AllowValue)
	w.Retry("web")
	w.Eventually("the resize succeeds", func() string {
		if status := w.Finish(drive, "web"); status.Phase != api.Succeeded {
			return string(status.Phase) + ": " + status.Message
		}
		return ""
	})
	if w.Set("web").UID == before.UID {
		t.Error("the set was not created again")
	}
	expectWhole(t, w, "web", 1, "data-web-0")
}
