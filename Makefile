# make test-unit, like go test ./..., needs only Go: no root, no cluster, no network. make demo and make test need Debian and root, too. On
# another system, or to use your own cluster, set KUBECONFIG. make help lists all targets.

SHELL := /bin/bash
.DEFAULT_GOAL := help

SIZE     ?= node
CLUSTER  := go run -C test/cluster .
NODE     := $(CURDIR)/.cluster/kubeconfig
API      := $(CURDIR)/.cluster/control-plane/kubeconfig
TOOL     := go tool -modfile=$(CURDIR)/test/tools/go.mod
BUILD    := CGO_ENABLED=0 go build -trimpath -ldflags '-s -w'
# Build tags of the tests that need more than Go. Each has its own target.
#   root     loop devices, mounts, other users, file systems' tools: test-mover
#   page     a browser: test-page
#   busybox  the shell of the demo's pods: test-demo
#   cluster  an API server or a node: test-api, test-sim, test-e2e, test-knative
TAGS := root,page,busybox,cluster

# The cluster that configure, deploy and undeploy work on: yours by KUBECONFIG, or the local node.
KUBECTL  ?= $(if $(KUBECONFIG),kubectl,$(CURDIR)/.cluster/bin/kubectl)
TARGET    = KUBECONFIG=$(or $(KUBECONFIG),$(NODE)) KUBECTL=$(KUBECTL)
IMAGE    ?= $(if $(KUBECONFIG),,dev.local/drydock:dev)
CONFIG   ?= config
FUNCTIONS := dead-letter sift detect-resize pause-owner backup restore idle-timeout cleanup-pod scale-hooks grow-volumes wake-gateway

# Debian packages of test-mover: rsync checks the copies, the others make file systems and attributes.
MOVER_PACKAGES := rsync acl attr libcap2-bin e2fsprogs xfsprogs btrfs-progs

# install installs the missing Debian packages of a target. Without root or apt it prints their names.
define install
	@missing=; for p in $(1); do dpkg -s $$p >/dev/null 2>&1 || missing="$$missing $$p"; done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
	  echo "$@ needs these Debian packages:$$missing. Install them, or run as root on Debian."; exit 0; fi; \
	echo "installing$$missing"; apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $$missing >/dev/null
endef

.PHONY: help build images etcd-image redis-image cluster cluster-down knative verify-knative configure unconfigure deploy undeploy demo \
  test test-unit test-mover test-page test-demo test-api test-sim test-e2e test-knative test-func sim model mutants traces bench \
  bench-knative fences rights generate golden lint presubmit

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / && !seen[$$1]++ {printf "%-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## bin/drydock, bin/drydock-standalone and bin/kubectl-drydock
	$(BUILD) -o bin/drydock ./cmd/drydock
	$(BUILD) -o bin/drydock-standalone ./cmd/drydock-standalone
	$(BUILD) -o bin/kubectl-drydock ./cmd/kubectl-drydock

cluster: ## a real Kubernetes on this machine (SIZE=node or SIZE=control-plane), which takes applied manifests as requests
	$(CLUSTER) up --size=$(SIZE)
	@KUBECONFIG=$(if $(filter control-plane,$(SIZE)),$(API),$(NODE)) $(CURDIR)/.cluster/bin/kubectl apply --server-side --force-conflicts \
	  --field-manager=drydock-config -k config/overlays/apply-v1beta1 >/dev/null

cluster-down: ## takes down everything that make cluster has started
	$(CLUSTER) down

knative: ## Knative on the local cluster; with KUBECONFIG set, looks whether that cluster has it
	$(CLUSTER) knative

verify-knative: ## proves that Knative works on the local cluster
	$(CLUSTER) verify-knative

images: build ## the project's images, on the local cluster
	$(CLUSTER) image --binary=$(CURDIR)/bin/drydock
	$(CLUSTER) image --binary=$(CURDIR)/bin/drydock-standalone

etcd-image: # what test/e2e resizes, on the local cluster
	cd test/etcd && $(BUILD) -o ../../bin/etcd go.etcd.io/etcd/server/v3
	$(CLUSTER) image --binary=$(CURDIR)/bin/etcd

redis-image: # the same, of Debian's packages
	$(CLUSTER) redis-image

demo: ## a nearly full StatefulSet gets bigger volumes before your eyes
ifdef KUBECONFIG
demo: build
	go run ./test/demo $(DEMO)
else
demo: build
	$(MAKE) --no-print-directory cluster images fences
	KUBECONFIG=$(NODE) DRYDOCK_IMPERSONATE=true go run ./test/demo $(DEMO)
endif

test: test-unit test-mover test-page test-demo test-api test-sim test-e2e ## every test but those that need Knative

model: ## every interleaving of a resize, without a bound of time, and 2,000 random walks
	DRYDOCK_MODEL_TIME=0 DRYDOCK_MODEL_WALKS=2000 go test -count=1 -timeout 12h -v ./test/model

mutants: ## takes each guard of backup and restore away, and says which no test misses (half an hour)
	go run ./test/model/mutants

traces: ## records what real controllers do in a resize, for the model to replay
	$(CLUSTER) up --size=control-plane
	DRYDOCK_RECORD_TRACES=true DRYDOCK_TEST_API=$(API) go test -tags cluster -count=1 -timeout 10m \
	  ./test/api -run TestModelCanDoWhatControllersDid

test-unit: ## the quick part: needs only Go, on Linux or macOS
	go test ./...

test-mover: ## the data mover on real file systems and devices; needs root
	$(call install,$(MOVER_PACKAGES))
	go test -tags root ./cmd/drydock/...

test-page: ## the waiting page of the wake gateway, in a browser
	$(call install,chromium)
	go test -tags page ./eventsource/gateway

test-demo: ## the scripts that the demo runs in its pods
	$(call install,busybox-static)
	go test -tags busybox ./test/demo

test-api: ## the functions on a real API server with its controllers
	cd test/gitops && go build -o ../../bin/gitops .
	cd test/gitops/argo && go build -o ../../../bin/argo .
	$(CLUSTER) up --size=control-plane
	DRYDOCK_TEST_API=$(API) DRYDOCK_TEST_KUBECONFIG=$(API) go test -tags cluster -count=1 -timeout 40m -parallel 16 \
	  ./test/api ./eventsource/engine ./cmd/drydock-standalone

# In its own folder go test shows what passes, too: how many schedules were tried, and the seed.
test-sim: ## crashes and interference between any two writes, a sample of a thousand (PART=14 of a hundred)
	$(CLUSTER) up --size=control-plane
	cd test/sim && DRYDOCK_TEST_API=$(API) go test -tags cluster -count=1 -timeout 40m -parallel 40 -part $(or $(PART),14)

sim: ## crashes and interference between any two writes, all of them
	$(CLUSTER) up --size=control-plane
	cd test/sim && DRYDOCK_TEST_API=$(API) go test -tags cluster -count=1 -timeout 300m -parallel 40 -part 100

ifdef KUBECONFIG
test-e2e: build ## resizes on a real node, data verified
	go test -tags cluster -count=1 -timeout 45m -parallel 3 ./test/e2e
else
test-e2e: build ## resizes on a real node, data verified
	cd test/cluster && go test . ./build ./config ./host ./image ./knative
	cd test/cluster/csi && go test ./driver
	$(MAKE) --no-print-directory cluster images etcd-image redis-image
	KUBECONFIG=$(NODE) go test -tags cluster -count=1 -timeout 45m -parallel 3 ./test/e2e
endif

# Drydock is taken away again from the local node: there would be two with the next make demo.
ifdef KUBECONFIG
test-knative: build ## resizes by the functions on a real Knative, with parts of it taken away meanwhile
	go test -tags cluster -count=1 -timeout 60m ./test/e2e/knative
else
test-knative: build ## resizes by the functions on a real Knative, with parts of it taken away meanwhile
	$(MAKE) --no-print-directory knative images
	cd test/knative && CGO_ENABLED=0 go test -trimpath ./...
	KUBECONFIG=$(NODE) go test -tags cluster -count=1 -timeout 60m ./test/e2e/knative
	$(MAKE) --no-print-directory undeploy unconfigure >/dev/null
endif

test-func: ## the root as a project of Knative's func, with the func command itself (docs/func.md)
	cd test/func && go test -count=1 -timeout 40m .

fences: ## accounts, roles and fences without Knative, and which image movers run: for drydock-standalone out of the cluster
	@[ -n "$(IMAGE)" ] || { echo "say which image movers run: make fences IMAGE=example.com/drydock@sha256:..."; exit 2; }
	$(TARGET) $(KUBECTL) apply --server-side --force-conflicts --field-manager=drydock-config -k config/rights
	$(TARGET) sh -c "deploy/mover-image $(IMAGE) | $(KUBECTL) apply --server-side --force-conflicts --field-manager=drydock-deploy -f -"

configure: ## the administrator's part on Knative, once (CONFIG=config/overlays/... for another than the whole cluster)
	$(TARGET) $(KUBECTL) apply --server-side --force-conflicts --field-manager=drydock-config -k $(CONFIG)

deploy: ## all functions on Knative, or one: FUNCTION=backup IMAGE=registry/drydock@sha256:...
	@[ -n "$(IMAGE)" ] || { echo "say which image runs: make deploy IMAGE=example.com/drydock@sha256:..."; exit 2; }
	$(TARGET) deploy/apply $(if $(filter dev.local/%,$(IMAGE)),--allow-tags) $(IMAGE) $(or $(FUNCTION),$(FUNCTIONS))

undeploy: ## removes all functions, or one: FUNCTION=backup
	@for f in $(or $(FUNCTION),$(FUNCTIONS)); do \
	  $(TARGET) sh -c "$(KUBECTL) kustomize deploy/$$f | $(KUBECTL) delete --ignore-not-found -f -" || exit 1; done

unconfigure: ## removes the administrator's part, after undeploy; the sets and their volumes stay as they are
	$(TARGET) $(KUBECTL) delete --ignore-not-found -k $(CONFIG)

bench: build ## benchmarks; the figures of docs/benchmarks.md
	$(MAKE) --no-print-directory cluster images
	$(call install,$(MOVER_PACKAGES))
	go test -tags root -run '^$$' -bench . -benchtime 3x -timeout 30m ./cmd/drydock/mover
	go test -run '^$$' -bench . ./eventsource/sift ./test/bench
	KUBECONFIG=$(NODE) go test -tags cluster -run '^$$' -bench . -benchtime 3x -timeout 90m ./test/e2e

bench-knative: build ## benchmarks on Knative, twenty minutes, ten of which nothing happens
	$(MAKE) --no-print-directory knative images
	KUBECONFIG=$(NODE) go test -tags cluster -run '^$$' -bench 'Resize|ColdStart' -benchtime 2x -timeout 40m ./test/e2e/knative
	KUBECONFIG=$(NODE) go test -tags cluster -run '^$$' -bench Quiet -benchtime 1x -timeout 20m ./test/e2e/knative
	$(MAKE) --no-print-directory undeploy unconfigure >/dev/null

rights: ## the ClusterRoles with which Drydock may pause and stop operators, all or some: OWNERS=rabbitmq,pgo
	@go run ./cmd/kubectl-drydock rbac --owners $(or $(OWNERS),all)

generate: # the custom resources in config/crd, what Go needs for them, and docs/reference
	$(TOOL) controller-gen object crd paths=./shared/api/v1alpha1 output:crd:dir=config/crd
	go test -count=1 -run TestPagesAreUpToDate ./test/reference -update

golden: ## writes what tests expect of wording into their golden files; review the difference
	go test -count=1 $$(git grep -l -e 'drydock.dev/test/golden"' -e 'drydock.dev/test/kit/build"' -- \
	  '*_test.go' ':!test/api' ':!test/sim' ':!test/e2e' | \
	  xargs -n 1 dirname | sort -u | sed 's,^,./,') -update

lint: ## gofmt, vet, staticcheck, and whether what is generated is up to date
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$unformatted" ] || { echo "not formatted: $$unformatted"; exit 1; }
	go vet ./...
	go vet -tags $(TAGS) ./...
	GOOS=darwin go vet ./...
	$(TOOL) staticcheck ./...
	$(TOOL) staticcheck -tags $(TAGS) ./...
	cd test/cluster && go vet . ./config ./host ./image ./build ./knative ./pause
	cd test/cluster/csi && go vet ./driver
	cd test/gitops && go vet .
	cd test/gitops/argo && go vet .
	$(MAKE) --no-print-directory generate && git diff --exit-code -- config/crd docs/reference shared/api/v1alpha1

presubmit: lint test ## what has to pass before a change is offered
