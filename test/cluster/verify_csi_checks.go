package main

import (
	"context"
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
)

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
