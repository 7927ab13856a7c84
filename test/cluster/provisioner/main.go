// Package main provides the volumes of the cluster: each is a file of the claimed size with a file system of its own,
// mounted by a loop device. So `df` in a pod shows the size of the volume, and a full volume is full.
//
//	in    claims of the StorageClasses that name this provisioner; volumes that are released
//	do    make, mount and grow file systems; unmount and remove them
//	out   PersistentVolumes of type local on this node; the capacity of claims that grew
package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		klog.ErrorS(err, "The volume provisioner ended")
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	kubeconfig := flag.String("kubeconfig", "", "the kubeconfig of the cluster")
	volumes := flag.String("volumes", "", "the folder for volumes")
	node := flag.String("node", "", "the name of the node that this machine is")
	name := flag.String("name", "", "the provisioner's name in StorageClasses")
	flag.Parse()
	if *kubeconfig == "" || *volumes == "" || *node == "" || *name == "" {
		return errors.New("the flags --kubeconfig, --volumes, --node and --name are needed")
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 100, 200 // this is the only client of its kind: claims should not wait for it
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	disk := &Disk{Folder: *volumes}
	go (&Resizer{Client: client, Disk: disk, Provisioner: *name}).Run(ctx)
	controller.NewProvisionController(ctx, client, *name, &Provisioner{Disk: disk, Node: *node},
		controller.LeaderElection(false),
		controller.AddFinalizer(true), // as CSI drivers do: no volume object goes before its data
		controller.MetricsPort(0),
		controller.ResyncPeriod(time.Minute),
	).Run(ctx)
	return nil
}
