package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"drydock.dev/test/cluster/config"
	"drydock.dev/test/cluster/host"
	"drydock.dev/test/cluster/image"
)

//go:embed verify.yaml
var verifyManifest string

// verification is one run of the checks, in its own namespace.
type verification struct {
	kubectl   kubectl
	cluster   config.Cluster
	namespace string
	volumes   map[string]string // by claim
}

// verify checks on the running node that pods, names and volumes behave as the tests require.
func (p places) verify(ctx context.Context) (err error) {
	c := p.cluster(config.Node)
	if _, err := os.Stat(c.Kubeconfig()); err != nil {
		return fmt.Errorf("the node is not running. Start it with `up`: %w", err)
	}
	namespace := fmt.Sprintf("verify-%d", time.Now().UnixMilli())
	v := &verification{kubectl{p.kubectl(), c.Kubeconfig(), namespace}, c, namespace, nil}
	defer func() {
		if err != nil {
			err = errors.Join(err, v.kubectl.removeNamespace(context.WithoutCancel(ctx)))
		}
	}()
	if err := prove(ctx, v.claims()); err != nil {
		return err
	}
	return p.verifyCSI(ctx)
}

// claims returns the checks of volumes without attachment.
func (v *verification) claims() []claim {
	return []claim{
		{"a StatefulSet starts", v.start},
		{"the volume has the claimed size", v.hasClaimedSize},
		{"a user other than root can write to the volume", v.groupCanWrite},
		{"writes fail when the volume is full", v.failsWhenFull},
		{"a volume of class fixed cannot grow", v.fixedCannotGrow},
		{"a volume of class expandable grows under the running pod", v.grows},
		{"the pod resolves names of Services and pods", v.names},
		{"a retained volume outlives its claim", v.retained},
		{"a deleted volume leaves no files and devices", v.nothingLeft},
	}
}

// claim is a sentence about the cluster and its check.
type claim struct {
	sentence string
	holds    func(context.Context) error
}

// prove runs the checks in order, and stops at the first failure.
func prove(ctx context.Context, claims []claim) error {
	for _, each := range claims {
		if err := step("verified that "+each.sentence, func() error { return each.holds(ctx) }); err != nil {
			return fmt.Errorf("check failed: %s: %w", each.sentence, err)
		}
	}
	return nil
}

// start creates the set and waits until it is ready.
func (v *verification) start(ctx context.Context) error {
	err := v.kubectl.create(ctx, verifyManifest, map[string]any{"Namespace": v.namespace, "Image": image.BusyboxName})
	if err != nil {
		return err
	}
	if _, err := v.kubectl.run(ctx, "rollout", "status", "statefulset/web", "--timeout="+podDeadline.String()); err != nil {
		return fmt.Errorf("%w\nread the logs of kubelet, kube-scheduler and csi-provisioner-local: %s", err, v.cluster.Log("*"))
	}
	v.volumes = map[string]string{}
	for _, claim := range []string{dataClaim, growClaim} {
		if v.volumes[claim], err = v.kubectl.field(ctx, "pvc/"+claim, ".spec.volumeName"); err != nil {
			return err
		}
	}
	return nil
}

// The pod and the claims of the set in verify.yaml.
const (
	setPod    = "web-0"
	dataClaim = "data-web-0"
	growClaim = "grow-web-0"
)

// hasClaimedSize allows a tenth for the file system itself.
func (v *verification) hasClaimedSize(ctx context.Context) error {
	return errors.Join(v.hasSize(ctx, "/data", 64), v.hasSize(ctx, "/grow", 64))
}

func (v *verification) hasSize(ctx context.Context, path string, mebibytes int) error {
	return sizeAt(ctx, v.kubectl, setPod, path, mebibytes)
}

// sizeAt compares the size of a file system with the claimed size.
func sizeAt(ctx context.Context, k kubectl, pod, path string, mebibytes int) error {
	output, err := k.inPod(ctx, pod, "df -k "+path)
	if err != nil {
		return err
	}
	size, err := sizeInDF(output)
	if err != nil {
		return err
	}
	if claimed := mebibytes << 10; size > claimed || size < claimed-claimed/10 {
		return fmt.Errorf("df shows %d KiB at %s, want %d", size, path, claimed)
	}
	return nil
}

// sizeInDF returns the second column of the last line.
func sizeInDF(output string) (kibibytes int, err error) {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	fields := strings.Fields(lines[len(lines)-1])
	if len(fields) < 6 {
		return 0, fmt.Errorf("df printed %q", output)
	}
	kibibytes, err = strconv.Atoi(fields[1])
	if err != nil {
		return 0, fmt.Errorf("reading the size in the output of df: %w", err)
	}
	return kibibytes, nil
}

func (v *verification) groupCanWrite(ctx context.Context) error {
	owner, err := v.kubectl.inPod(ctx, setPod, "touch /data/file /grow/file && stat -c %u:%g /data/file")
	if err != nil {
		return err
	}
	if strings.TrimSpace(owner) != "1000:1000" {
		return fmt.Errorf("a file of user and group 1000 has the owner %s", owner)
	}
	return nil
}

func (v *verification) failsWhenFull(ctx context.Context) error {
	_, err := v.kubectl.inPod(ctx, setPod, "dd if=/dev/zero of=/data/fill bs=1M count=100")
	if err == nil {
		return errors.New("a volume of 64 MiB accepted 100 MiB")
	}
	if !strings.Contains(err.Error(), "No space left on device") {
		return err
	}
	_, err = v.kubectl.inPod(ctx, setPod, "rm /data/fill && df /data")
	return err
}

func (v *verification) fixedCannotGrow(ctx context.Context) error {
	if err := v.request(ctx, dataClaim, "128Mi"); err == nil {
		return errors.New("the API server accepted a larger size for the claim")
	}
	return nil
}

func (v *verification) grows(ctx context.Context) error {
	if err := v.request(ctx, growClaim, "128Mi"); err != nil {
		return err
	}
	if err := v.kubectl.waitField(ctx, "pvc/"+growClaim, ".status.capacity.storage", "128Mi"); err != nil {
		return err
	}
	return v.hasSize(ctx, "/grow", 128)
}

func (v *verification) request(ctx context.Context, claim, size string) error {
	_, err := v.kubectl.run(ctx, "patch", "pvc", claim, "--patch", `{"spec":{"resources":{"requests":{"storage":"`+size+`"}}}}`)
	return err
}

func (v *verification) names(ctx context.Context) error {
	answer, err := v.kubectl.inPod(ctx, setPod, "nslookup -type=a kubernetes.default.svc."+config.DNSDomain)
	if err != nil {
		return err
	}
	if !strings.Contains(answer, config.APIService) {
		return fmt.Errorf("DNS has a wrong address for the API server's Service: %s", answer)
	}
	// This needs the search list in the pod's resolv.conf, and kube-proxy for the port.
	if _, err := v.kubectl.inPod(ctx, setPod, "nc kubernetes.default 443 </dev/null"); err != nil {
		return err
	}
	heard, err := v.kubectl.inPod(ctx, setPod, "(echo hello | nc -l -p 8080 &) && sleep 1 && nc web-0.web 8080 </dev/null")
	if err == nil && strings.TrimSpace(heard) != "hello" {
		err = fmt.Errorf("the pod received %q from itself", heard)
	}
	return err
}

// retained deletes everything except a volume with the reclaim policy Retain.
func (v *verification) retained(ctx context.Context) error {
	volume := v.volumes[dataClaim]
	if err := v.reclaim(ctx, volume, "Retain"); err != nil {
		return err
	}
	if _, err := v.kubectl.run(ctx, "delete", "namespace", v.namespace, "--timeout=60s"); err != nil {
		return err
	}
	if err := v.kubectl.waitField(ctx, "pv/"+volume, ".status.phase", "Released"); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(v.folder(volume), "image")); err != nil {
		return fmt.Errorf("the data of volume %s was deleted: %w", volume, err)
	}
	return retry(ctx, time.Minute, func() error { return v.unused(volume) })
}

// nothingLeft deletes the retained volume and searches for remains of both volumes.
func (v *verification) nothingLeft(ctx context.Context) error {
	if err := v.reclaim(ctx, v.volumes[dataClaim], "Delete"); err != nil {
		return err
	}
	for _, volume := range v.volumes {
		if _, err := v.kubectl.run(ctx, "wait", "pv/"+volume, "--for=delete", "--timeout=60s"); err != nil {
			return err
		}
		if err := v.unused(volume); err != nil {
			return err
		}
		if _, err := os.Stat(v.folder(volume)); err == nil {
			return fmt.Errorf("the files of volume %s still exist", volume)
		}
	}
	return nil
}

func (v *verification) reclaim(ctx context.Context, volume, policy string) error {
	_, err := v.kubectl.run(ctx, "patch", "pv", volume, "--patch", `{"spec":{"persistentVolumeReclaimPolicy":"`+policy+`"}}`)
	return err
}

// folder returns the folder of a volume.
func (v *verification) folder(volume string) string {
	return volumeFolder(v.cluster, config.LocalDriver, volume)
}

// unused checks that the volume has no mount and no loop device on this machine.
func (v *verification) unused(volume string) error {
	mounted, err := host.Mounts(v.cluster.Dir())
	if err != nil {
		return err
	}
	for _, path := range mounted {
		if strings.Contains(path, volume) {
			return fmt.Errorf("volume %s is mounted at %s", volume, path)
		}
	}
	return noDevice(v.folder(volume))
}

// volumeFolder returns the folder of a volume of that driver.
func volumeFolder(c config.Cluster, driver, volume string) string {
	at := slices.IndexFunc(config.Drivers, func(d config.Driver) bool { return d.Name == driver })
	return filepath.Join(c.Volumes(config.Drivers[at]), "volumes", volume)
}

// noDevice checks that no loop device uses a file in the folder.
func noDevice(folder string) error {
	loops, err := host.Loops(folder)
	if err == nil && len(loops) > 0 {
		err = fmt.Errorf("%s has loop device %s", folder, loops[0])
	}
	return err
}
