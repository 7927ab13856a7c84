// Package main is CoreDNS with the plugins of a cluster's DNS only. It is a separate module, because CoreDNS requires other versions of
// the Kubernetes libraries than the cluster.
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

// directives lists the plugins in the order of CoreDNS' own plugin.cfg. A query passes them in this order.
var directives = []string{"bind", "health", "ready", "errors", "cache", "kubernetes", "forward"}

func main() {
	dnsserver.Directives = directives
	coremain.Run()
}
