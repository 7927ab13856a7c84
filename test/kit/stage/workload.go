package stage

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"drydock.dev/test/kit"
)

// fill writes large and small files, links and a sparse file once, and marks that it has finished.
const fill = `cd /data && if [ ! -e filled ]; then
  for i in 1 2 3; do dd if=/dev/urandom of=big$i bs=1M count=12 2>/dev/null; done
  mkdir -p small/a small/b && i=0 && while [ $i -lt 1000 ]; do echo "row $i $HOSTNAME" > small/a/$i; i=$((i+1)); done
  ln small/a/1 small/b/hard && ln -s ../a/2 small/b/soft && dd if=/dev/zero of=sparse bs=1 count=1 seek=8M 2>/dev/null
  chmod 640 small/a/3 && mkdir empty && touch -d '2020-02-02 02:02:02' small/a/4 && sync && touch filled
fi; trap exit TERM; while :; do sleep 1 & wait; done`

// sum digests names, kinds, modes, owners, times, link counts, link targets and contents. The root folder belongs to
// the kubelet.
const sum = `cd /data && { find . -path ./lost+found -prune -o -print | grep -v '^[.]$' | sort |
  tr '\n' '\0' | xargs -0 stat -c '%N %F %a %u %g %Y %h'
 find . -path ./lost+found -prune -o -type f -print | sort | tr '\n' '\0' | xargs -0 sha256sum; } | sha256sum`

// Workload returns set web with two replicas. Its pods fill their volume and then write no more.
func Workload(size string) *appsv1.StatefulSet {
	set := kit.WorldSet("web", 2, size, "data")
	set.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = ptr.To(Class)
	pod := &set.Spec.Template.Spec
	pod.TerminationGracePeriodSeconds = ptr.To[int64](10)
	pod.SecurityContext.RunAsGroup = ptr.To[int64](1000)
	// Without it the kubelet changes groups and modes at every start.
	pod.SecurityContext.FSGroupChangePolicy = ptr.To(corev1.FSGroupChangeOnRootMismatch)
	pod.Containers[0] = corev1.Container{
		Name: "db", Image: WorkloadImage,
		VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
	}
	RunScript(&pod.Containers[0], "/data", fill)
	return set
}

// readyPort is no port of any workload.
const readyPort = 8079

// RunScript makes the container run the script, and be ready when the folder has the file filled. The container itself serves the probe's
// request. An exec probe or a postStart hook would start a process in the container, which costs a tenth of a second of a core; and nothing
// starts the hook's process again.
func RunScript(c *corev1.Container, folder, script string) {
	c.Command = []string{"sh", "-c", fmt.Sprintf("httpd -p %d -h %s || exit 1\n%s", readyPort, folder, script)}
	c.ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
		HTTPGet: &corev1.HTTPGetAction{Path: "/filled", Port: intstr.FromInt32(readyPort)}}}
}

// WithFileOfRoot adds a file that is owned by root. A mover without root rights cannot copy it faithfully.
func WithFileOfRoot(set *appsv1.StatefulSet) *appsv1.StatefulSet {
	set.Spec.Template.Spec.InitContainers = []corev1.Container{{
		Name: "root", Image: WorkloadImage, SecurityContext: &corev1.SecurityContext{RunAsUser: ptr.To[int64](0)},
		Command:      []string{"sh", "-c", "[ -e /data/roots-file ] || { echo root > /data/roots-file; chmod 644 /data/roots-file; }"},
		VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
	}}
	return set
}

// WithSlowStop delays the end of the pods, so that a test can act while they stop.
func WithSlowStop(seconds int64, set *appsv1.StatefulSet) *appsv1.StatefulSet {
	pod := &set.Spec.Template.Spec
	pod.TerminationGracePeriodSeconds = ptr.To(seconds + 10)
	pod.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: seconds}}}
	return set
}

// Data is the content of the volumes, and their size.
type Data struct {
	Sums      []string // of web-0 and web-1
	Kibibytes int      // of web-0's volume, as df sees it in the pod
}

// Data reads the volumes of both members.
func (s *Stage) Data(t testing.TB) Data {
	t.Helper()
	var d Data
	for _, pod := range []string{"web-0", "web-1"} {
		d.Sums = append(d.Sums, s.Exec(t, pod, sum))
	}
	d.Kibibytes = s.Kibibytes(t)
	return d
}

// Kibibytes returns the size of web-0's volume, as df reports it in the pod.
func (s *Stage) Kibibytes(t testing.TB) int {
	t.Helper()
	size := 0
	if _, err := fmt.Sscan(s.Exec(t, "web-0", "df -Pk /data | awk 'NR==2{print $2}'"), &size); err != nil {
		t.Fatalf("reading df: %v", err)
	}
	return size
}
