package command

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// secret stands in every field of the test's objects that a report must not contain.
const secret = "hunter2"

// secretMetadata adds labels, annotations and managed fields with secrets.
func secretMetadata(object metav1.Object) {
	labels, annotations := map[string]string{"team": secret, "app.kubernetes.io/name": "web"}, map[string]string{"note": secret,
		"kubectl.kubernetes.io/last-applied-configuration": secret, "example.com/token": secret}
	for key, value := range object.GetLabels() {
		labels[key] = value
	}
	for key, value := range object.GetAnnotations() {
		annotations[key] = value
	}
	object.SetLabels(labels)
	object.SetAnnotations(annotations)
	object.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: secret}})
}

func secretContainer(name string) corev1.Container {
	handler := corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{secret}}, HTTPGet: &corev1.HTTPGetAction{Host: secret,
		Path: "/" + secret, Port: intstr.FromInt32(80), HTTPHeaders: []corev1.HTTPHeader{{Name: "Authorization", Value: secret}}}}
	from := &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: secret}}
	hook := &corev1.LifecycleHandler{Exec: handler.Exec, HTTPGet: handler.HTTPGet}
	return corev1.Container{Name: name, Image: "registry.example/db:1", Command: []string{secret}, Args: []string{"--password", secret},
		WorkingDir: secret, Env: []corev1.EnvVar{{Name: "PASSWORD", Value: secret}, {Name: "TOKEN", ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: secret}}}},
		EnvFrom:       []corev1.EnvFromSource{{Prefix: secret, SecretRef: from}},
		LivenessProbe: &corev1.Probe{ProbeHandler: handler}, ReadinessProbe: &corev1.Probe{ProbeHandler: handler},
		StartupProbe: &corev1.Probe{ProbeHandler: handler}, Lifecycle: &corev1.Lifecycle{PostStart: hook, PreStop: hook},
		VolumeMounts:           []corev1.VolumeMount{{Name: "data", MountPath: "/data", SubPath: secret, SubPathExpr: secret}},
		TerminationMessagePath: secret}
}

// secretPod returns the spec of a pod with a secret in every field that may contain one.
func secretPod() corev1.PodSpec {
	name := corev1.LocalObjectReference{Name: secret}
	source := func(s corev1.VolumeSource) corev1.Volume { return corev1.Volume{Name: "v", VolumeSource: s} }
	ephemeral := corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon(secretContainer("debug"))}
	return corev1.PodSpec{Containers: []corev1.Container{secretContainer("db")}, InitContainers: []corev1.Container{secretContainer("init")},
		EphemeralContainers: []corev1.EphemeralContainer{ephemeral}, ImagePullSecrets: []corev1.LocalObjectReference{name},
		ServiceAccountName: secret, DeprecatedServiceAccount: secret, Hostname: secret, Subdomain: secret,
		HostAliases: []corev1.HostAlias{{IP: secret, Hostnames: []string{secret}}}, NodeSelector: map[string]string{"pool": secret},
		DNSConfig:       &corev1.PodDNSConfig{Nameservers: []string{secret}, Searches: []string{secret}},
		SecurityContext: &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "x", Value: secret}}},
		Tolerations:     []corev1.Toleration{{Key: "pool", Value: secret}},
		Volumes: []corev1.Volume{
			source(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret}}),
			source(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: name}}),
			source(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: secret}}),
			source(corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: secret, Path: secret}}),
			source(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d", VolumeAttributes: map[string]string{"password": secret},
				NodePublishSecretRef: &name}}),
			source(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: secret}}}}}),
			source(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-web-0"}}),
		}}
}

// newSecretServer has a set with secrets in all of its objects and logs.
func newSecretServer(t *testing.T) *logServer {
	t.Helper()
	s := newResizeServer(t)
	set := s.Lists["statefulsets"][0].(*appsv1.StatefulSet)
	set.Spec.Template.Spec = secretPod()
	secretMetadata(set)
	secretMetadata(&set.Spec.Template.ObjectMeta)
	set.Annotations[api.BeforeMemberAnnotation] = `{spec: {containers: [{name: c, command: [` + secret + `]}]}}`
	set.Annotations[api.CleanupAnnotation] = `{"version":2,"message":"` + secret + `","reason":"CleanupFailed","ordinals":[{"message":"` +
		secret + `"}]}`
	set.Annotations[api.SleepAnnotation] = secret
	for i, object := range s.Lists["pods"] {
		if object.GetNamespace() != "shop" {
			continue
		}
		pod := object.(*corev1.Pod)
		status := pod.Status
		pod.Spec = secretPod()
		secretMetadata(pod)
		status.PodIP, status.HostIP = secret, secret
		ended := &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: secret, ContainerID: secret}
		status.ContainerStatuses = append(slices.Clone(status.ContainerStatuses), corev1.ContainerStatus{Name: "ended", ContainerID: secret,
			State: corev1.ContainerState{Terminated: ended}})
		pod.Status, s.Lists["pods"][i] = status, pod
	}
	claim := build.Claim("data-web-0", "64Mi", build.OfClass("fast"), build.BoundTo("pv-data-web-0"))
	volume := build.VolumeOf(claim)
	volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: secret,
		VolumeAttributes: map[string]string{"user": secret}, NodeStageSecretRef: &corev1.SecretReference{Name: secret}}
	volume.Spec.MountOptions = []string{"password=" + secret}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: "d",
		Parameters: map[string]string{"key": secret}}
	scaler := &v1alpha1.Scaler{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "pilot"}, Spec: v1alpha1.ScalerSpec{Target: "web",
		Hooks: v1alpha1.ScalerHooks{Pre: &v1alpha1.Hook{HTTP: &v1alpha1.HookHTTP{URL: "https://x/" + secret}}}}}
	journal := build.Journal(build.Operation(api.Moving))
	journal.Annotations[api.RecreateAnnotation] = `{"metadata":{"name":"web"},"spec":{"template":{"spec":{"serviceAccountName":"` +
		secret + `"}}}}`
	event := func(name, reason string) *corev1.Event {
		return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, InvolvedObject: corev1.ObjectReference{Kind: "Pod",
			Name: "web-0"}, Reason: reason, Message: "probe with password=" + secret + " failed: " + secret,
			Source: corev1.EventSource{Component: "kubelet"}}
	}
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "drydock", Name: settingsConfigMap}, Data: map[string]string{
		"DRYDOCK_IMAGE": "example.com/drydock:1", "DRYDOCK_PROMETHEUS": "https://u:" + secret + "@prometheus",
		"OTEL_EXPORTER_OTLP_HEADERS": secret, "MINE": secret}}
	for _, object := range []metav1.Object{claim, volume, class, scaler, journal} {
		secretMetadata(object)
	}
	s.Lists["persistentvolumeclaims"], s.Lists["persistentvolumes"] = []metav1.Object{claim}, []metav1.Object{volume}
	s.Lists["storageclasses"], s.Lists["scalers"] = []metav1.Object{class}, []metav1.Object{scaler}
	s.Lists["controllerrevisions"] = []metav1.Object{journal}
	s.Lists["events"] = []metav1.Object{event("a", "Unhealthy")}
	s.Lists["configmaps"] = []metav1.Object{settings}
	s.print("drydock/restore-00001-deployment-x/function", `{"msg":"done","set":"shop/web","mine":"`+secret+
		`","error":"GET https://x?sig=`+secret+` Authorization: Bearer `+secret+secret+`"}`,
		`{"msg":"done","set":"shop/web","plan":"do X: event HookFailed \"`+secret+`\""}`)
	return s
}

// unpack returns the files of an archive as one text, and their names.
func unpack(t *testing.T, file string) (content map[string]string, names []string) {
	t.Helper()
	archive, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	compressed, err := gzip.NewReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	content = map[string]string{}
	for files := tar.NewReader(compressed); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return content, names
		}
		var text bytes.Buffer
		if _, copied := io.Copy(&text, files); err != nil || copied != nil {
			t.Fatal(err, copied)
		}
		names = append(names, header.Name)
		content[filepath.Base(header.Name)] = text.String()
	}
}

// TestReportContainsNoSecret: the objects and logs have a secret in each field that may contain one.
func TestReportContainsNoSecret(t *testing.T) {
	content, output := reportOf(t, newSecretServer(t))
	stories := golden.Open(t)
	for _, name := range []string{"README.txt", "records.yaml", "set.yaml", "volumes.yaml", "events.yaml", "settings.yaml", "logs.txt"} {
		stories.Entry(t, name, content[name])
	}
	stories.Entry(t, "the output", regexp.MustCompile(`(?m)^([a-zR][A-Za-z]+\.[a-z]+ +)[0-9]+ +`).ReplaceAllString(output, "$1… "))
}

// TestReportQuotesNoErrors: the error about an answer that cannot be read quotes the whole answer, with its secrets.
func TestReportQuotesNoErrors(t *testing.T) {
	s := newSecretServer(t)
	s.bare = true
	content, _ := reportOf(t, s)
	if !strings.Contains(content["doctor.yaml"], "unknown") {
		t.Error("doctor has met no error")
	}
}

// reportOf writes a report, and fails the test if the archive or the output contains the secret.
func reportOf(t *testing.T, s *logServer) (content map[string]string, output string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "web.tar.gz")
	out, errOut, err := s.run(t, "report", "sts/web", "--file", file)
	if err != nil {
		t.Fatal(err)
	}
	content, names := unpack(t, file)
	want := []string{"README.txt", "records.yaml", "status.yaml", "doctor.yaml", "set.yaml", "claims.yaml", "volumes.yaml", "classes.yaml",
		"pods.yaml", "jobs.yaml", "revisions.yaml", "scalers.yaml", "events.yaml", "settings.yaml", "server.txt", "logs.txt"}
	for i := range want {
		want[i] = "web/" + want[i]
	}
	if !slices.Equal(names, want) {
		t.Errorf("the archive has %v, want %v", names, want)
	}
	for name, text := range content {
		for i, line := range strings.Split(text, "\n") {
			if strings.Contains(line, secret) {
				t.Errorf("%s:%d contains the secret: %s", name, i+1, line)
			}
		}
		if len(text) < 20 {
			t.Errorf("%s is nearly empty: %q", name, text)
		}
	}
	if strings.Contains(out+errOut, secret) {
		t.Errorf("the secret is printed: %s%s", out, errOut)
	}
	return content, strings.ReplaceAll(out+errOut, filepath.Dir(file), ".")
}

// TestReportIsWrittenWithoutRights: the archive has the rest, and says what is missing.
func TestReportIsWrittenWithoutRights(t *testing.T) {
	s := newSecretServer(t)
	for _, resource := range []string{"/persistentvolumes", "/storageclasses", "/jobs", "/events", "/configmaps", "/nodes", "/log", "/version",
		"/controllerrevisions", "/scalers", "/namespaces/shop/pods", "/persistentvolumeclaims"} {
		s.forbidden[resource] = true
	}
	file := filepath.Join(t.TempDir(), "web.tar.gz")
	_, errOut, err := s.run(t, "report", "sts/web", "--file", file)
	if err != nil {
		t.Fatal(err)
	}
	content, names := unpack(t, file)
	if strings.Contains(fmt.Sprint(content), secret) {
		t.Error("the archive contains the secret")
	}
	golden.Equal(t, strings.Join(names, " ")+"\n"+errOut)
}

func TestReportKeepsExistingFiles(t *testing.T) {
	s := newResizeServer(t)
	folder := t.TempDir()
	file := filepath.Join(folder, "web.tar.gz")
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.run(t, "report", "sts/web", "--file", file); err == nil || !strings.Contains(err.Error(), "--force") {
		t.Errorf("without --force: %v", err)
	}
	if text, _ := os.ReadFile(file); string(text) != "old" {
		t.Error("the file was overwritten")
	}
	if _, _, err := s.run(t, "report", "sts/web", "--file", file, "--force"); err != nil {
		t.Errorf("with --force: %v", err)
	}
	if _, names := unpack(t, file); len(names) < 5 {
		t.Errorf("the archive has %v", names)
	}
	left, err := os.ReadDir(folder)
	if err != nil || len(left) != 1 {
		t.Errorf("temporary files are left: %v, %v", left, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others can read the archive: %v, %v", info.Mode(), err)
	}
}

func TestReportHasADefaultName(t *testing.T) {
	t.Chdir(t.TempDir())
	s := newResizeServer(t)
	if _, _, err := s.run(t, "report", "sts/web"); err != nil {
		t.Fatal(err)
	}
	unpack(t, "drydock-report-web-20260301-120000.tar.gz")
}

func TestReportRefusesMistakes(t *testing.T) {
	file := golden.Open(t)
	for _, args := range []string{"report sts/web --file web.zip", "report sts/web --file .tar.gz",
		"report sts/web --file no/such/folder/web.tar.gz", "report sts/db --file db.tar.gz", "report deploy/web"} {
		t.Chdir(t.TempDir())
		_, _, err := newResizeServer(t).run(t, strings.Fields(args)...)
		if err == nil {
			t.Errorf("%s: no error", args)
			continue
		}
		text, _, _ := strings.Cut(err.Error(), "drydock-report-")
		file.Entry(t, args, "error: "+text)
	}
}
