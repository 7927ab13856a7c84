package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"drydock.dev/test/cluster/config"
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
