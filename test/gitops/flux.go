package main

import (
	"context"
	"fmt"
	"os"

	"github.com/fluxcd/cli-utils/pkg/kstatus/polling"
	"github.com/fluxcd/pkg/ssa"
	ssautil "github.com/fluxcd/pkg/ssa/utils"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cleanup has the parts of kustomize-controller's options that matter beside kubectl: before an apply, Flux removes what kubectl apply has
// left, with a separate patch (fluxcd/kustomize-controller internal/controller, apply).
var cleanup = ssa.ApplyCleanupOptions{
	Annotations: []string{corev1.LastAppliedConfigAnnotation},
	FieldManagers: []ssa.FieldManager{
		{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationApply},
		{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationUpdate},
		{Name: "before-first-apply", OperationType: metav1.ManagedFieldsOperationUpdate},
		{Name: "kustomize-controller", OperationType: metav1.ManagedFieldsOperationUpdate},
	},
}

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
	options := ssa.DefaultApplyOptions()
	options.Cleanup = cleanup
	changes, err := manager.ApplyAllStaged(ctx, all, options)
	if err != nil {
		return err
	}
	for _, entry := range changes.Entries {
		fmt.Println(entry.Subject, entry.Action)
	}
	return nil
}
