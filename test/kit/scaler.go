package kit

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"drydock.dev/shared/api/v1alpha1"
)

// Scalers are the Scalers of the namespace.
func (w *World) Scalers() dynamic.ResourceInterface {
	return dynamic.NewForConfigOrDie(w.Config).Resource(v1alpha1.GroupVersion.WithResource("scalers")).Namespace(w.Namespace)
}

// CreateScaler creates a Scaler.
func (w *World) CreateScaler(name string, spec v1alpha1.ScalerSpec) error {
	scaler := &v1alpha1.Scaler{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Scaler"},
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}, Spec: spec}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(scaler)
	if err != nil {
		return err
	}
	delete(content, "status")
	_, err = w.Scalers().Create(context.Background(), &unstructured.Unstructured{Object: content}, metav1.CreateOptions{})
	return err
}

// Scaler reads a Scaler. It returns nil if the Scaler does not exist.
func (w *World) Scaler(name string) *v1alpha1.Scaler {
	w.T.Helper()
	object, err := w.Scalers().Get(context.Background(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.T.Fatal(err)
	}
	scaler := &v1alpha1.Scaler{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, scaler); err != nil {
		w.T.Fatal(err)
	}
	return scaler
}
