package main

import (
	"context"
	"fmt"
	"os"

	"github.com/fluxcd/cli-utils/pkg/kstatus/polling"
	"github.com/fluxcd/pkg/ssa"
	ssautil "github.com/fluxcd/pkg/ssa/utils"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reconcile applies the objects of a file like Flux's kustomize-controller, and prints the result for each object.
func reconcile(ctx context.Context, namespace, file string) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	objects, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	text, err := os.Open(file)
	if err != nil {
		return err
	}
	defer text.Close() // nothing was written
	all, err := ssautil.ReadObjects(text)
	if err != nil {
		return err
	}
	for _, object := range all {
		object.SetNamespace(namespace)
	}
	manager := ssa.NewResourceManager(objects, polling.NewStatusPoller(objects, objects.RESTMapper(), polling.Options{}),
		ssa.Owner{Field: "kustomize-controller", Group: "kustomize.toolkit.fluxcd.io"})
	changes, err := manager.ApplyAllStaged(ctx, all, ssa.DefaultApplyOptions())
	if err != nil {
		return err
	}
	for _, entry := range changes.Entries {
		fmt.Println(entry.Subject, entry.Action)
	}
	return nil
}
