package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
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

var (
	//go:embed verify-csi.yaml
	verifyCSIManifest string
	//go:embed verify-snapshot.yaml
	verifySnapshotManifest string
)

// volumeClaim is a claim of verify-csi.yaml.
type volumeClaim struct {
	Name, Class, Size string
	Device            bool   // raw block volume
	Snapshot, Clone   string // name of the copy's source
}

// Claims of the verification.
var (
	dataVolume     = volumeClaim{Name: "data", Class: "csi", Size: "64Mi"}
	deviceVolume   = volumeClaim{Name: "device", Class: "csi", Size: "64Mi", Device: true}
	slowVolume     = volumeClaim{Name: "slow", Class: "csi-slow", Size: "64Mi"}
	offlineVolume  = volumeClaim{Name: "offline", Class: "csi-offline", Size: "64Mi"}
	restoredVolume = volumeClaim{Name: "restored", Class: "csi", Size: "160Mi", Snapshot: "yesterday"}
	clonedVolume   = volumeClaim{Name: "cloned", Class: "csi", Size: "192Mi", Clone: "data"}
)

// slowDelay is the shortest observed duration of an attachment in class csi-slow. It is less than 10 s, because retry polls twice a second
// and may see the start late.
const slowDelay = 8 * time.Second

// csiVerification is one run of the checks of attached volumes, in its own namespace.
type csiVerification struct {
	kubectl kubectl
	cluster config.Cluster
	volumes map[string]string // by claim
}

// verifyCSI checks that attached volumes behave as the tests require.
func (p places) verifyCSI(ctx context.Context) (err error) {
	c := p.cluster(config.Node)
	namespace := fmt.Sprintf("verify-csi-%d", time.Now().UnixMilli())
	v := csiVerification{kubectl{p.kubectl(), c.Kubeconfig(), namespace}, c, map[string]string{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, v.kubectl.removeNamespace(context.WithoutCancel(ctx)))
		}
	}()
	if _, err := v.kubectl.run(ctx, "create", "namespace", namespace); err != nil {
		return err
	}
	return prove(ctx, []claim{
		{"a slow volume is attached in ten seconds", v.attachesSlowly},
		{"the volume is detached in ten seconds, after its loop device is removed", v.detachesSlowly},
		{"a file system and a device are attached at once", v.attachesAtOnce},
		{"the file system and the device grow under the running pod", v.growsOnline},
		{"an offline volume grows only while no pod uses it, and its file system with the next pod", v.growsOffline},
		{"a snapshot is restored, and a volume is cloned, while the source is in use", v.copies},
		{"an attribute of a volume in use changes with its class", v.changesAttributes},
		{"all of these volumes are deleted completely", v.nothingLeft},
	})
}

// create creates claims and a pod that uses them, and does not wait.
func (v csiVerification) create(ctx context.Context, pod string, claims ...volumeClaim) error {
	return v.kubectl.create(ctx, verifyCSIManifest, map[string]any{"Namespace": v.kubectl.namespace, "Image": image.BusyboxName,
		"Claims": claims, "Pods": map[string][]volumeClaim{pod: claims}})
}

// createPod creates a pod that uses existing claims.
func (v csiVerification) createPod(ctx context.Context, pod string, claims ...volumeClaim) error {
	return v.kubectl.create(ctx, verifyCSIManifest, map[string]any{"Namespace": v.kubectl.namespace, "Image": image.BusyboxName,
		"Claims": []volumeClaim{}, "Pods": map[string][]volumeClaim{pod: claims}})
}

func (v csiVerification) ready(ctx context.Context, pod string) error {
	_, err := v.kubectl.run(ctx, "wait", "pod/"+pod, "--for=condition=Ready", "--timeout=90s")
	return err
}

// bound waits until a claim is bound, and stores the name of its volume.
func (v csiVerification) bound(ctx context.Context, claim volumeClaim) error {
	if err := v.kubectl.waitField(ctx, "pvc/"+claim.Name, ".status.phase", "Bound"); err != nil {
		return err
	}
	volume, err := v.kubectl.field(ctx, "pvc/"+claim.Name, ".spec.volumeName")
	v.volumes[claim.Name] = volume
	return err
}

// start creates claims and a pod that uses them, and waits until the pod is ready.
func (v csiVerification) start(ctx context.Context, pod string, claims ...volumeClaim) error {
	if err := v.create(ctx, pod, claims...); err != nil {
		return err
	}
	for _, claim := range claims {
		if err := v.bound(ctx, claim); err != nil {
			return err
		}
	}
	return v.ready(ctx, pod)
}

// attachment returns "true" or "false" for a volume with a VolumeAttachment, and "" without one.
func (v csiVerification) attachment(ctx context.Context, volume string) (string, error) {
	return v.kubectl.field(ctx, "volumeattachments", `.items[?(@.spec.source.persistentVolumeName=="`+volume+`")].status.attached`)
}

// awaitAttachment waits until attachment returns the wanted value. It returns the duration of the wait.
func (v csiVerification) awaitAttachment(ctx context.Context, volume, want string) (time.Duration, error) {
	start := time.Now()
	err := retry(ctx, time.Minute, func() error {
		is, err := v.attachment(ctx, volume)
		if err == nil && is != want {
			err = fmt.Errorf("volume %s has attached=%q, want %q", volume, is, want)
		}
		return err
	})
	return time.Since(start), err
}

func (v csiVerification) request(ctx context.Context, claim volumeClaim, size string) error {
	_, err := v.kubectl.run(ctx, "patch", "pvc", claim.Name, "--patch", `{"spec":{"resources":{"requests":{"storage":"`+size+`"}}}}`)
	return err
}

func (v csiVerification) hasSize(ctx context.Context, pod string, claim volumeClaim, mebibytes int) error {
	return sizeAt(ctx, v.kubectl, pod, "/"+claim.Name, mebibytes)
}

// expect runs a command in a pod and compares its output.
func (v csiVerification) expect(ctx context.Context, pod, command, want string) error {
	is, err := v.kubectl.inPod(ctx, pod, command)
	if err == nil && strings.TrimSpace(is) != want {
		err = fmt.Errorf("in pod %s, %s prints %q, want %q", pod, command, is, want)
	}
	return err
}

func (v csiVerification) attachesSlowly(ctx context.Context) error {
	if err := v.create(ctx, "slow", slowVolume); err != nil {
		return err
	}
	if err := v.bound(ctx, slowVolume); err != nil {
		return err
	}
	volume := v.volumes[slowVolume.Name]
	if _, err := v.awaitAttachment(ctx, volume, "false"); err != nil {
		return err
	}
	took, err := v.awaitAttachment(ctx, volume, "true")
	if err == nil && took < slowDelay {
		err = fmt.Errorf("the wait took only %s", took)
	}
	return errors.Join(err, v.ready(ctx, "slow"))
}

func (v csiVerification) detachesSlowly(ctx context.Context) error {
	volume := v.volumes[slowVolume.Name]
	if _, err := v.kubectl.run(ctx, "delete", "pod/slow"); err != nil {
		return err
	}
	err := retry(ctx, time.Minute, func() error { return noDevice(volumeFolder(v.cluster, config.CloudDriver, volume)) })
	if err != nil {
		return err
	}
	took, err := v.awaitAttachment(ctx, volume, "")
	if err == nil && took < slowDelay {
		err = fmt.Errorf("the wait took only %s", took)
	}
	return err
}

// attachesAtOnce allows a few seconds for the steps of the cluster itself.
func (v csiVerification) attachesAtOnce(ctx context.Context) error {
	if err := v.create(ctx, "quick", dataVolume, deviceVolume); err != nil {
		return err
	}
	for _, claim := range []volumeClaim{dataVolume, deviceVolume} {
		if err := v.bound(ctx, claim); err != nil {
			return err
		}
		if err := v.attachedWithin(ctx, v.volumes[claim.Name], slowDelay); err != nil {
			return err
		}
	}
	if err := v.ready(ctx, "quick"); err != nil {
		return err
	}
	_, err := v.kubectl.inPod(ctx, "quick", "echo before > /data/file && sync && echo raw > /dev/device")
	return err
}

func (v csiVerification) attachedWithin(ctx context.Context, volume string, limit time.Duration) error {
	took, err := v.awaitAttachment(ctx, volume, "true")
	if err == nil && took > limit {
		err = fmt.Errorf("volume %s was attached after %s", volume, took)
	}
	return err
}

func (v csiVerification) growsOnline(ctx context.Context) error {
	for _, claim := range []volumeClaim{dataVolume, deviceVolume} {
		if err := v.request(ctx, claim, "128Mi"); err != nil {
			return err
		}
	}
	for _, claim := range []volumeClaim{dataVolume, deviceVolume} {
		if err := v.kubectl.waitField(ctx, "pvc/"+claim.Name, ".status.capacity.storage", "128Mi"); err != nil {
			return err
		}
	}
	if err := v.hasSize(ctx, "quick", dataVolume, 128); err != nil {
		return err
	}
	return v.expect(ctx, "quick", "blockdev --getsize64 /dev/device && head -c 3 /dev/device", strconv.Itoa(128<<20)+"\nraw")
}

func (v csiVerification) growsOffline(ctx context.Context) error {
	if err := v.start(ctx, "offline", offlineVolume); err != nil {
		return err
	}
	if err := v.request(ctx, offlineVolume, "128Mi"); err != nil {
		return err
	}
	if err := retry(ctx, time.Minute, func() error { return v.refusedInUse(ctx) }); err != nil {
		return err
	}
	if err := v.hasSize(ctx, "offline", offlineVolume, 64); err != nil {
		return err
	}
	if _, err := v.kubectl.run(ctx, "delete", "pod/offline"); err != nil {
		return err
	}
	const pending = "--for=condition=FileSystemResizePending"
	if _, err := v.kubectl.run(ctx, "wait", "pvc/"+offlineVolume.Name, pending, "--timeout=60s"); err != nil {
		return err
	}
	if err := v.createPod(ctx, "offline", offlineVolume); err != nil {
		return err
	}
	if err := v.ready(ctx, "offline"); err != nil {
		return err
	}
	if err := v.kubectl.waitField(ctx, "pvc/"+offlineVolume.Name, ".status.capacity.storage", "128Mi"); err != nil {
		return err
	}
	return v.hasSize(ctx, "offline", offlineVolume, 128)
}

// refusedInUse checks that the driver's refusal is visible as an Event of the claim.
func (v csiVerification) refusedInUse(ctx context.Context) error {
	text, err := v.kubectl.run(ctx, "events", "--for=pvc/"+offlineVolume.Name, "--types=Warning")
	if err == nil && !strings.Contains(text, "expands it only offline") {
		err = fmt.Errorf("no Event of claim %s shows the refusal of the driver:\n%s", offlineVolume.Name, text)
	}
	return err
}

// copies writes between the snapshot and the clone, so that the two copies differ.
func (v csiVerification) copies(ctx context.Context) error {
	if err := v.kubectl.create(ctx, verifySnapshotManifest, map[string]any{"Namespace": v.kubectl.namespace}); err != nil {
		return err
	}
	if err := v.kubectl.waitField(ctx, "volumesnapshot/yesterday", ".status.readyToUse", "true"); err != nil {
		return err
	}
	if _, err := v.kubectl.inPod(ctx, "quick", "echo after > /data/file"); err != nil {
		return err
	}
	if err := v.start(ctx, "copies", restoredVolume, clonedVolume); err != nil {
		return err
	}
	return errors.Join(v.expect(ctx, "copies", "cat /restored/file /cloned/file", "before\nafter"),
		v.hasSize(ctx, "copies", restoredVolume, 160), v.hasSize(ctx, "copies", clonedVolume, 192))
}

// changesAttributes checks the loop device's setting on this machine.
func (v csiVerification) changesAttributes(ctx context.Context) error {
	for class, want := range map[string]string{"read-ahead-small": "64", "read-ahead-large": "1024"} {
		patch := `{"spec":{"volumeAttributesClassName":"` + class + `"}}`
		if _, err := v.kubectl.run(ctx, "patch", "pvc", dataVolume.Name, "--patch", patch); err != nil {
			return err
		}
		if err := v.kubectl.waitField(ctx, "pvc/"+dataVolume.Name, ".status.currentVolumeAttributesClassName", class); err != nil {
			return err
		}
		if err := v.hasReadAhead(v.volumes[dataVolume.Name], want); err != nil {
			return err
		}
	}
	return nil
}

func (v csiVerification) hasReadAhead(volume, want string) error {
	loops, err := host.Loops(volumeFolder(v.cluster, config.CloudDriver, volume))
	if err != nil {
		return err
	}
	if len(loops) != 1 {
		return fmt.Errorf("volume %s has the loop devices %v", volume, loops)
	}
	is, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(loops[0]), "queue", "read_ahead_kb"))
	if err == nil && strings.TrimSpace(string(is)) != want {
		err = fmt.Errorf("the read-ahead of %s is %s KiB, want %s", loops[0], strings.TrimSpace(string(is)), want)
	}
	return err
}

func (v csiVerification) nothingLeft(ctx context.Context) error {
	if _, err := v.kubectl.run(ctx, "delete", "namespace", v.kubectl.namespace, "--timeout=90s"); err != nil {
		return err
	}
	return retry(ctx, time.Minute, func() error { return v.remains(ctx) })
}

// remains searches for volumes, attachments, files, loop devices and VolumeSnapshotContents.
func (v csiVerification) remains(ctx context.Context) error {
	var left []error
	for _, claim := range slices.Sorted(maps.Keys(v.volumes)) {
		volume := v.volumes[claim]
		for _, driver := range config.Drivers {
			if _, err := os.Stat(volumeFolder(v.cluster, driver.Name, volume)); err == nil {
				left = append(left, fmt.Errorf("the files of volume %s still exist", volume))
			}
			left = append(left, noDevice(volumeFolder(v.cluster, driver.Name, volume)))
		}
		is, err := v.attachment(ctx, volume)
		if is != "" {
			err = fmt.Errorf("the attachment of volume %s still exists", volume)
		}
		left = append(left, err)
	}
	of := `.items[?(@.spec.volumeSnapshotRef.namespace=="` + v.kubectl.namespace + `")]`
	contents, err := v.kubectl.field(ctx, "volumesnapshotcontents", of+".metadata.name")
	if contents != "" {
		err = errors.Join(err, errors.New("VolumeSnapshotContent "+contents+" still exists"))
	}
	return errors.Join(append(left, err)...)
}
