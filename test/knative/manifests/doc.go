// Package manifests holds the test of config/ and deploy/ against the code of Knative's webhooks.
package manifests
