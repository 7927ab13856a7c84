//go:build cluster

package soak

import (
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/soak/acks"
)

// expectFinalState waits until every set has its expected state.
func (s *soak) expectFinalState() {
	s.Helper()
	s.Eventually("every set has its state", func() string {
		var problems []string
		for _, set := range s.sequence.Sets() {
			problems = append(problems, set.Problems(s.live(set))...)
		}
		return strings.Join(problems, "\n")
	})
}

// expectNoCrashes reports ends of drydock-standalone that the test did not cause, and panics.
func (s *soak) expectNoCrashes() {
	s.Helper()
	for _, problem := range slices.Concat(s.process.exits, s.process.panics()) {
		s.Error(problem)
	}
}

// expectNoRemains waits until nothing is left behind.
func (s *soak) expectNoRemains() {
	s.Helper()
	s.unstageForgotten()
	s.Eventually("nothing is left behind", func() string {
		var sleeps []string
		for _, set := range s.sequence.Sets() {
			if sleep, err := api.LoadSleep(s.live(set).Set); err == nil && set.Asleep && sleep != nil {
				sleeps = append(sleeps, sleep.Operation)
			}
		}
		return strings.Join(Remains(s.Objects(), sleeps, time.Now()), "\n")
	})
}

// live returns the objects of a set.
func (s *soak) live(set Set) Live {
	s.Helper()
	live, err := s.view.live(set)
	if err != nil {
		s.Fatal(err)
	}
	return live
}

// silence is the longest time between two acknowledgements of a running member.
const silence = 15 * time.Second

// expectEveryLine checks that the members write, and that every volume has every acknowledged line.
func (s *soak) expectEveryLine() {
	s.Helper()
	hosts := map[string]string{} // URL of the folder by member
	for _, set := range s.sequence.Sets() {
		for _, pod := range s.live(set).Pods {
			hosts[pod.Name] = fmt.Sprintf("http://%s:%d", pod.Status.PodIP, writerPort)
			if latest := s.ledger.Latest(pod.Name); time.Since(latest) > silence {
				s.Errorf("member %s runs, but its latest acknowledged line is from %s", pod.Name, latest.UTC().Format(time.TimeOnly))
			}
		}
	}
	var resting []string // members with a volume and without a pod
	for _, member := range s.ledger.Members() {
		if hosts[member] == "" {
			resting = append(resting, member)
		}
	}
	for part := range slices.Chunk(resting, volumesOfReader) {
		for member, host := range s.startReader(part) {
			hosts[member] = host
		}
	}
	for member, host := range hosts {
		content, err := readFile(host + "/" + acks.LogName)
		if err != nil {
			s.Errorf("reading the file of member %s: %v", member, err)
			continue
		}
		s.ledger.CheckFile(member, content)
	}
	for _, problem := range s.ledger.Problems() {
		s.Error(problem)
	}
	s.Logf("%d members run, %d volumes have no pod; %d acknowledged lines", len(hosts)-len(resting), len(resting), s.ledger.Count())
}

func readFile(url string) (string, error) {
	response, err := http.Get(url) // a pod's address, which only this machine can reach
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, response.Status)
	}
	return string(content), err
}

// volumesOfReader is the number of volumes that one reader mounts.
const volumesOfReader = 40

// startReader starts a pod that serves the volumes of members without a pod. It returns the URL of each member's folder.
func (s *soak) startReader(members []string) map[string]string {
	s.Helper()
	spec, hosts := writerPod(""), map[string]string{}
	spec.Containers[0].Args = []string{"-folder", "/volumes"}
	for _, member := range members {
		claim := template + "-" + member
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}})
		spec.Containers[0].VolumeMounts = append(spec.Containers[0].VolumeMounts,
			corev1.VolumeMount{Name: claim, MountPath: path.Join("/volumes", member)})
	}
	pods := s.Kube.CoreV1().Pods(s.Namespace)
	made, err := pods.Create(s.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "reader-"}, Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	s.Eventually("the reader is ready", func() string {
		pod, err := pods.Get(s.ctx, made.Name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				made = pod
				return ""
			}
		}
		return string(pod.Status.Phase)
	})
	for _, member := range members {
		hosts[member] = fmt.Sprintf("http://%s:%d/%s", made.Status.PodIP, writerPort, member)
	}
	return hosts
}

// expectSteadyProcess checks that goroutines and memory of the longest life have not grown.
func (s *soak) expectSteadyProcess() {
	s.Helper()
	problems := Growth(s.process.longestLife())
	for _, problem := range problems {
		s.Error(problem)
	}
	if len(problems) > 0 {
		s.process.dumpGoroutines()
	}
}
