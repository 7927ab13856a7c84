// Package main is CoreDNS with only the plugins a cluster's DNS needs. It is a module of its own, because CoreDNS asks
// for other versions of the Kubernetes libraries than the cluster itself.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

// directives are the plugins in the order in which a query passes them, as in CoreDNS' own plugin.cfg.
var directives = []string{"bind", "health", "ready", "errors", "cache", "kubernetes", "forward"}

func main() {
	dnsserver.Directives = directives
	coremain.Run()
}
