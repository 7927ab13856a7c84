// Package manifests tests config/ and deploy/ with the code of Knative's webhooks.
package manifests
