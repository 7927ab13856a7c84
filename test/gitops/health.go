package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/fluxcd/pkg/apis/kustomize"
	"github.com/fluxcd/pkg/runtime/cel"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// health prints the health of the StatefulSet in Argo CD and in Flux, with the health checks in the folder.
func health(ctx context.Context, namespace, name, folder string) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	objects, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	set := &unstructured.Unstructured{}
	set.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"})
	if err := objects.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, set); err != nil {
		return err
	}
	argo, err := argoHealth(set, filepath.Join(folder, "argocd-cm.yaml"))
	if err != nil {
		return err
	}
	flux, err := fluxHealth(ctx, set, filepath.Join(folder, "flux-health.yaml"))
	if err != nil {
		return err
	}
	fmt.Println(argo, flux)
	return nil
}

// argoHealth runs the health script in Argo CD's Lua interpreter. The setting useOpenLibs enables the standard libraries.
func argoHealth(set *unstructured.Unstructured, file string) (string, error) {
	patch := struct{ Data map[string]string }{}
	if err := load(file, &patch); err != nil {
		return "", err
	}
	vm := lua.NewState(lua.Options{SkipOpenLibs: patch.Data["resource.customizations.useOpenLibs.apps_StatefulSet"] != "true"})
	defer vm.Close()
	vm.SetGlobal("obj", valueOf(vm, set.Object))
	if err := vm.DoString(patch.Data["resource.customizations.health.apps_StatefulSet"]); err != nil {
		return "", err
	}
	result, ok := vm.Get(-1).(*lua.LTable)
	if !ok {
		return "", fmt.Errorf("the script in %s returned %s", file, vm.Get(-1).Type())
	}
	return result.RawGetString("status").String(), nil
}

// valueOf converts a value to Lua.
func valueOf(vm *lua.LState, value any) lua.LValue {
	switch v := value.(type) {
	case string:
		return lua.LString(v)
	case bool:
		return lua.LBool(v)
	case int64:
		return lua.LNumber(v)
	case float64:
		return lua.LNumber(v)
	case []any:
		table := vm.NewTable()
		for _, item := range v {
			table.Append(valueOf(vm, item))
		}
		return table
	case map[string]any:
		table := vm.NewTable()
		for key, item := range v {
			table.RawSetString(key, valueOf(vm, item))
		}
		return table
	}
	return lua.LNil
}

func fluxHealth(ctx context.Context, set *unstructured.Unstructured, file string) (string, error) {
	spec := struct {
		HealthCheckExprs []kustomize.CustomHealthCheck `json:"healthCheckExprs"`
	}{}
	if err := load(file, &spec); err != nil {
		return "", err
	}
	if len(spec.HealthCheckExprs) != 1 {
		return "", fmt.Errorf("%s has %d checks, want one", file, len(spec.HealthCheckExprs))
	}
	evaluator, err := cel.NewStatusEvaluator(&spec.HealthCheckExprs[0].HealthCheckExpressions)
	if err != nil {
		return "", err
	}
	result, err := evaluator.Evaluate(ctx, set)
	if err != nil {
		return "", err
	}
	return result.Status.String(), nil
}

func load(file string, into any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return yaml.Unmarshal(text, into)
}
