# make test-unit, like go test ./..., needs only Go: no root, no cluster, no network. make demo and make test need Debian and root, too. On
# another system, or to use your own cluster, set KUBECONFIG; make demo then needs options, see README.md. make help lists the targets.

SHELL := /bin/bash
.DEFAULT_GOAL := help

SIZE     ?= node
CLUSTER  := go run -C test/cluster .
NODE     := $(CURDIR)/.cluster/kubeconfig
API      := $(CURDIR)/.cluster/control-plane/kubeconfig
TOOL     := go tool -modfile=$(CURDIR)/test/tools/go.mod
BUILD    := go build -ldflags '-s -w'
# All targets use the same flags. Otherwise the go command compiles Kubernetes' libraries once for each set of flags.
export CGO_ENABLED := 0
export GOFLAGS := $(GOFLAGS) -trimpath
# Build tags of the tests that need more than Go. Each has its own target.
#   root     loop devices, mounts, other users, file systems' tools: test-mover
#   page     a browser: test-page
#   busybox  the shell of the demo's pods: test-demo
#   cluster  an API server or a node: test-api, test-sim, test-operators, test-e2e, test-knative
TAGS := root,page,busybox,cluster

# The cluster for configure, deploy and undeploy: that of KUBECONFIG, or the local node.
KUBECTL  ?= $(if $(KUBECONFIG),kubectl,$(CURDIR)/.cluster/bin/kubectl)
TARGET    = KUBECONFIG=$(or $(KUBECONFIG),$(NODE)) KUBECTL=$(KUBECTL)
IMAGE    ?= $(if $(KUBECONFIG),,dev.local/drydock:dev)
CONFIG   ?= config
FUNCTIONS := dead-letter sift detect-resize pause-owner backup restore idle-timeout cleanup-pod scale grow-volumes wake-gateway \
  status-page

# Debian packages of test-mover: rsync checks the copies, the others make file systems and attributes.
MOVER_PACKAGES := rsync acl attr libcap2-bin e2fsprogs xfsprogs btrfs-progs ntfs-3g

# install installs the missing Debian packages of a target. Without root or apt it prints their names.
define install
	@missing=; for p in $(1); do dpkg -s $$p >/dev/null 2>&1 || missing="$$missing $$p"; done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
	  echo "$@ needs these Debian packages:$$missing. Install them, or run as root on Debian."; exit 0; fi; \
	echo "installing$$missing"; apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $$missing >/dev/null
endef

.PHONY: help build release images etcd-image redis-image cluster cluster-down knative verify-knative configure unconfigure deploy \
  undeploy demo test test-all test-long test-unit test-swarm test-release test-mover test-monitoring test-brokers test-page \
  test-demo test-api test-sim operators test-operators gitops test-e2e test-knative test-func e2e-tools sim swarm test-fresh soak \
  chaos model mutants traces bench bench-scale bench-knative configure-standalone owner-roles generate golden lint presubmit

help: ## prints this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / && !seen[$$1]++ {printf "%-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## builds bin/drydock, bin/drydock-standalone and bin/kubectl-drydock
	$(BUILD) -o bin/drydock ./cmd/drydock
	$(BUILD) -o bin/drydock-standalone ./cmd/drydock-standalone
	$(BUILD) -o bin/kubectl-drydock ./cmd/kubectl-drydock

# Needs every module in the cache, because nothing may come from the network: run go mod download once, here and in cmd/release.
release: ## writes the files of a release to dist/: VERSION=v1.2.3 REGISTRY=example.com/drydock BASE_URL=https://example.com/v1.2.3
	@[ -n "$(VERSION)" ] || { echo "say which version, and where users find it: make release VERSION=v1.2.3 REGISTRY=... BASE_URL=..."; \
	  exit 2; }
	@git rev-parse --quiet --verify HEAD >/dev/null 2>&1 || { echo "run this in a clone of the repository: a release is made from a commit"; \
	  exit 2; }
	@[ -z "$$(git status --porcelain)" ] || { echo "commit your changes: a release is made from a commit"; exit 2; }
	@GOPROXY=off go mod verify >/dev/null
	GOPROXY=off go run -C cmd/release . --version=$(VERSION) --root=$(CURDIR) --to=$(CURDIR)/dist/$(VERSION) \
	  --commit=$$(git rev-parse HEAD) --time=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} \
	  $(if $(REGISTRY),--registry=$(REGISTRY)) $(if $(BASE_URL),--base-url=$(BASE_URL))

cluster: ## starts a real Kubernetes on this machine (SIZE=node or SIZE=control-plane), with the policies for edited manifests
	$(CLUSTER) up --size=$(SIZE)
	@KUBECONFIG=$(if $(filter control-plane,$(SIZE)),$(API),$(NODE)) $(CURDIR)/.cluster/bin/kubectl apply --server-side --force-conflicts \
	  --field-manager=drydock-config -k config/apply-v1beta1 >/dev/null

cluster-down: ## stops everything that make cluster has started
	$(CLUSTER) down

knative: ## installs Knative on the local cluster; with KUBECONFIG set, checks that cluster for Knative
	$(CLUSTER) knative

verify-knative: ## tests that Knative works on the local cluster
	$(CLUSTER) verify-knative

images: build ## puts the project's images on the local cluster
	$(CLUSTER) image --binary=$(CURDIR)/bin/drydock
	$(CLUSTER) image --binary=$(CURDIR)/bin/drydock-standalone

etcd-image: # puts etcd, which test/e2e resizes, on the local cluster
	cd test/etcd && $(BUILD) -o ../../bin/etcd go.etcd.io/etcd/server/v3
	$(CLUSTER) image --binary=$(CURDIR)/bin/etcd

redis-image: # the same for Redis, from Debian's packages
	$(CLUSTER) redis-image

demo: ## shows how a nearly full StatefulSet gets larger volumes
ifdef KUBECONFIG
demo: build
	go run ./test/demo $(DEMO)
else
demo: build
	$(MAKE) --no-print-directory cluster images configure-standalone
	KUBECONFIG=$(NODE) DRYDOCK_IMPERSONATE=true go run ./test/demo $(DEMO)
endif

# What make test runs of the tests on an API server, of the simulation and of the tests on a node. make test-all leaves these out.
SMOKE_API  := ^(TestStolenTokens|TestOnlyScaleScales|TestTenantCannotForgeRecords|TestPoliciesAreWellTyped|TestSleepAndWake|$\
  TestFunctionsWriteRecordsOnlyInTheirPhases|TestAppliedTemplatesBecomeRequest|TestExpandOnline|TestScaleDownWaitsForItsHook|$\
  TestShrinkToSmallerVolume|TestCleanupFromHighestOrdinal|TestGrowUpToLimit|TestRollbackToOldVolumes|TestEveryOwnerIsPausedAndResumed)\z
SMOKE_SIM  := ^(TestSleepSurvivesEverySabotage|TestScalingSurvivesEverySabotage|TestCleanupSurvivesEverySabotage)\z
SMOKE_NODE := ^(TestShrink|TestThreeReplicasSleepAndWake|TestScalerDrainsMembersBeforeRemoval|TestCleanupMovesEveryShard)\z

test: build test-unit test-swarm ## what every change has to pass: units, stories, and a sample of the tests on an API server and on a node
	go vet ./...
	$(MAKE) --no-print-directory test-api ONLY='$(SMOKE_API)'
	$(MAKE) --no-print-directory test-sim ONLY='$(SMOKE_SIM)' PART=1
	$(MAKE) --no-print-directory test-e2e ONLY='$(SMOKE_NODE)'
	@ran() { go test -tags cluster -list "$$@" | grep -c '^Test'; }; \
	ran="$$(go test -list . ./... | grep -c '^Test') $$(cd test/swarm && ran . ./...)"; \
	ran="$$ran $$(ran '$(SMOKE_API)' ./test/api) $$(ran '$(SMOKE_SIM)' ./test/sim) $$(ran '$(SMOKE_NODE)' ./test/e2e)"; \
	all=$$(grep -rh --include='*_test.go' '^func Test.*testing.T)' . | wc -l); \
	echo "$$(($${ran// / + })) of $$all tests have passed. make test-all runs the others but Knative's, which are make test-knative"

test-all: test-release test-mover test-monitoring test-brokers test-page test-demo ## the tests that make test leaves out, but Knative's
	$(MAKE) --no-print-directory test-api SKIP='$(SMOKE_API)'
	$(MAKE) --no-print-directory test-sim SKIP='$(SMOKE_SIM)' PART=1
	$(MAKE) --no-print-directory test-e2e SKIP='$(SMOKE_NODE)'

test-long: test-fresh sim model mutants test-operators soak chaos ## nights: fresh seeds, all schedules, all mutants; make swarm is the rest

model: ## checks every interleaving of a resize without a limit, and 2,000 random walks (test/model)
	DRYDOCK_MODEL_STATES=0 DRYDOCK_MODEL_WALKS=2000 go test -count=1 -timeout 12h -v ./test/model

mutants: ## changes one condition at a time, and counts those that no test of the package needs (PKG=./shared/turns, RECORD=1; all: a night)
	go run ./test/mutants $(if $(RECORD),-record) $(or $(PKG),./functions/... ./shared/...)

traces: ## records the actions of real controllers in a resize, which the model replays
	$(CLUSTER) up --size=control-plane
	DRYDOCK_RECORD_TRACES=true DRYDOCK_TEST_API=$(API) go test -tags cluster -count=1 -timeout 10m \
	  ./test/api -run TestModelCanDoWhatControllersDid

test-unit: ## the quick part: needs only Go, on Linux or macOS
	go test ./...

# Without -count=1, go test does not notice a change of config, which is outside of the module.
test-swarm: ## what users, operators and slow processes do at the same time, in memory; the first run compiles a part of Kubernetes
	cd test/swarm && go test -count=1 ./...

swarm: ## the same with RUNS random runs of a new SEED, for hours; FOUND is a folder for the stories that it finds
	cd test/swarm && SEED=$(or $(SEED),$(shell date +%s)) go test -count=1 -timeout 0 -v -run TestRandomRuns . -faults \
	  -runs=$(or $(RUNS),10000) -found=$(or $(FOUND),$(shell mktemp -d))

test-release: ## the archives, images, chart and manifests of a release; needs only Go
	cd cmd/release && go test ./...

test-mover: ## the data mover on real file systems and devices; needs root
	$(call install,$(MOVER_PACKAGES))
	go test -tags root ./cmd/drydock/...

# Without -count=1, go test does not notice a change of config/monitoring, which is outside of the module.
test-monitoring: ## the alerts with Prometheus' evaluation, and the dashboard with Grafana's schema; the first run compiles both
	cd test/monitoring && go test -count=1 .

# Without -count=1, go test does not notice a change of config or deploy, which are outside of the module.
test-brokers: ## the overlays for RabbitMQ and Kafka, with the code of these Brokers; the first run compiles both
	cd test/brokers && go test -count=1 .

test-page: ## the waiting page of the wake gateway and the status page, in a browser
	$(call install,chromium)
	go test -tags page ./eventsource/gateway ./eventsource/statuspage

test-demo: ## the scripts that the demo runs in its pods
	$(call install,busybox-static)
	go test -tags busybox ./test/demo

# ONLY and SKIP choose tests in test-api, test-sim and test-e2e.
CHOICE = $(if $(ONLY),-run '$(ONLY)') $(if $(SKIP),-skip '$(SKIP)')

gitops: # Helm, Flux and Argo CD, which compile two more versions of Kubernetes
	cd test/gitops && go build -o ../../bin/gitops .
	cd test/gitops/argo && go build -o ../../../bin/argo .

test-api: $(if $(ONLY),,gitops) ## tests the functions on a real API server with its controllers
	$(CLUSTER) up --size=control-plane
	DRYDOCK_TEST_API=$(API) DRYDOCK_TEST_KUBECONFIG=$(API) go test -tags cluster -count=1 -timeout 40m -parallel 16 $(CHOICE) \
	  ./test/api $(if $(ONLY),,./eventsource/engine ./cmd/drydock-standalone)

# From within its folder, go test also prints the output of passed tests: the number of schedules, and the seed.
test-sim: ## simulates crashes and interference between any two writes, a sample of a thousand (PART=14 percent)
	$(CLUSTER) up --size=control-plane
	cd test/sim && DRYDOCK_TEST_API=$(API) go test -tags cluster -count=1 -timeout 40m -parallel 40 $(CHOICE) \
	  -part $(or $(PART),14)

sim: ## simulates all crashes and interference between any two writes
	$(CLUSTER) up --size=control-plane
	cd test/sim && DRYDOCK_TEST_API=$(API) go test -tags cluster -count=1 -timeout 300m -parallel 40 -part 100

# The operators of test-operators, each with a folder in test/operators/build. zookeeper's needs root. SMOKE=1 takes one kind of one
# operator, and of the resizes those without a copy: three minutes.
# redis is an actor of the tests, and has no program. keda compiles for half an hour, so it runs only on request.
OPERATORS ?= $(if $(SMOKE),prometheus,prometheus rabbitmq eck redis zookeeper mongodb)

operators: # compiles the operators of test-operators
	for o in $(filter-out redis,$(OPERATORS)); do \
	  (cd test/operators/build/$$o && $(BUILD) -o $(CURDIR)/bin/operators/$$o/ tool) || exit 1; done

# The API server is a new one, and is removed afterwards, because the tests of test-api define the operators' kinds in another way.
empty :=
space := $(empty) $(empty)
test-operators: operators ## real operators, while their sets sleep or are resized (OPERATORS=keda: only this one; SMOKE=1: few)
	$(CLUSTER) down --size=control-plane
	$(CLUSTER) up --size=control-plane
	cd test/operators && DRYDOCK_TEST_API=$(API) go test -tags cluster -count=1 -timeout 40m -parallel 12 \
	  -run '/^($(subst $(space),|,$(strip $(OPERATORS))))$$$(if $(SMOKE),/^Prometheus$$/in_place)' .; \
	  code=$$?; cd $(CURDIR) && $(CLUSTER) down --size=control-plane; exit $$code

# It covers all packages whose tests take their seed from test/seed. test-knative and soak need a node.
test-fresh: export SEED := $(or $(SEED),$(shell date +%s))
test-fresh: ## random tests with another seed than the fixed one of all other targets; a failure prints it (SEED=7 repeats a run)
	$(call install,$(MOVER_PACKAGES))
	go test -tags root -count=1 -timeout 40m $$( \
	  git grep -l '"drydock.dev/test/seed"' -- '*_test.go' ':!test/sim' ':!test/soak' ':!test/e2e' | \
	  xargs -n 1 dirname | sort -u | sed 's,^,./,')
	$(MAKE) --no-print-directory test-sim

# It restarts parts of the node, so it needs the local one. Nothing else may use that node.
soak: build ## random operations on fifty sets for an hour, while processes are killed (FOR=5m: shorter, SEED=7: steps of an earlier run)
	$(BUILD) -o bin/soak-writer ./test/soak/writer
	KUBECONFIG= $(MAKE) --no-print-directory cluster images
	$(CLUSTER) image --binary=$(CURDIR)/bin/soak-writer
	KUBECONFIG=$(NODE) FOR=$(or $(FOR),1h) SEED=$(or $(SEED),$(shell date +%s)) \
	  go test -tags cluster -count=1 -timeout 0 -v -run TestNothingIsLostOverTime ./test/soak

# Programs that install Drydock in test/e2e: the chart, and Helm.
e2e-tools:
	cd cmd/release && go build -o ../../bin/release .
	cd test/gitops && go build -o ../../bin/gitops .

ifdef KUBECONFIG
test-e2e: build $(if $(ONLY),,e2e-tools) ## tests resizes on a real node, and verifies the data
	go test -tags cluster -count=1 -timeout 45m -parallel 6 $(CHOICE) ./test/e2e
else
test-e2e: build $(if $(ONLY),,e2e-tools) ## tests resizes on a real node, and verifies the data
ifndef ONLY
	cd test/cluster && go test . ./build ./config ./host ./image ./knative
	cd test/cluster/csi && go test ./driver
endif
	$(MAKE) --no-print-directory cluster images $(if $(ONLY),,etcd-image redis-image)
	KUBECONFIG=$(NODE) go test -tags cluster -count=1 -timeout 45m -parallel 6 $(CHOICE) ./test/e2e
endif

# The target removes Drydock from the local node, so that the next make demo does not run a second one.
ifdef KUBECONFIG
test-knative: build ## tests resizes on a real Knative, while parts of it are removed
	go test -tags cluster -count=1 -timeout 60m -skip $(CHAOS) ./test/e2e/knative
else
test-knative: build ## tests resizes on a real Knative, while parts of it are removed
	$(MAKE) --no-print-directory knative images
	cd test/knative && go test ./...
	KUBECONFIG=$(NODE) go test -tags cluster -count=1 -timeout 60m -skip $(CHAOS) ./test/e2e/knative
	$(MAKE) --no-print-directory undeploy unconfigure WAIT=false >/dev/null
endif

# Ten minutes, so it is not part of test-knative.
CHAOS := TestBrokerPodsKilledDuringFiftyOperations
chaos: build ## kills pods of the Broker in memory every few seconds, during fifty operations on Knative
	KUBECONFIG= $(MAKE) --no-print-directory knative images
	KUBECONFIG=$(NODE) go test -tags cluster -count=1 -timeout 30m -v -run $(CHAOS) ./test/e2e/knative
	KUBECONFIG= $(MAKE) --no-print-directory undeploy unconfigure WAIT=false >/dev/null

test-func: ## tests the root as a project of Knative's func, with the real func command (docs/func.md)
	cd test/func && go test -count=1 -timeout 40m .

configure-standalone: ## installs accounts, roles and policies, and allows an IMAGE for movers: for drydock-standalone outside the cluster
	@[ -n "$(IMAGE)" ] || { echo "say which image movers run: make configure-standalone IMAGE=example.com/drydock@sha256:..."; exit 2; }
	$(TARGET) $(KUBECTL) apply --server-side --force-conflicts --field-manager=drydock-config -k config/standalone
	$(TARGET) sh -c "deploy/mover-image $(IMAGE) | $(KUBECTL) apply --server-side --force-conflicts --field-manager=drydock-deploy -f -"

configure: ## installs the administrator's part on Knative, once (CONFIG=config/overlays/... for another overlay)
	$(TARGET) $(KUBECTL) apply --server-side --force-conflicts --field-manager=drydock-config -k $(CONFIG)

deploy: ## deploys all functions to Knative, or one: FUNCTION=backup IMAGE=registry/drydock@sha256:...
	@[ -n "$(IMAGE)" ] || { echo "say which image runs: make deploy IMAGE=example.com/drydock@sha256:..."; exit 2; }
	$(TARGET) deploy/apply $(if $(filter dev.local/%,$(IMAGE)),--allow-tags) $(IMAGE) $(or $(FUNCTION),$(FUNCTIONS))

undeploy: ## removes all functions, or one: FUNCTION=backup
	@for f in $(or $(FUNCTION),$(FUNCTIONS)); do \
	  $(TARGET) sh -c "$(KUBECTL) kustomize deploy/$$f | $(KUBECTL) delete --ignore-not-found -f -" || exit 1; done

unconfigure: ## removes the administrator's part, after undeploy; StatefulSets and volumes stay
	$(TARGET) $(KUBECTL) delete --ignore-not-found --wait=$(or $(WAIT),true) -k $(CONFIG)

bench: build ## runs the benchmarks of the mover, of sift, of one node and of a wake-up
	$(MAKE) --no-print-directory cluster images
	$(call install,$(MOVER_PACKAGES))
	go test -tags root -run '^$$' -bench . -benchtime 3x -timeout 60m ./cmd/drydock/mover
	go test -run '^$$' -bench . ./eventsource/sift ./test/bench
	KUBECONFIG=$(NODE) go test -tags cluster -run '^$$' -bench . -benchtime 3x -timeout 90m ./test/e2e
	$(CLUSTER) up --size=control-plane
	DRYDOCK_TEST_API=$(API) go test -tags cluster -run '^$$' -bench Wake -benchtime 20x ./test/scale

# A cluster of this size slows every other test, so the API server is a new one, and is removed afterwards.
bench-scale: build ## runs the benchmarks with 10,000 sets, 1,000 resizes at once and 2,000 sleeps at once: some hours
	$(CLUSTER) down --size=control-plane
	$(CLUSTER) up --size=control-plane
	DRYDOCK_TEST_API=$(API) go test -tags cluster -run '^$$' -bench 'Night|Resizes' -benchtime 1x -timeout 4h ./test/scale
	DRYDOCK_TEST_API=$(API) go test -tags cluster -run '^$$' -bench Sweep -benchtime 8x -timeout 1h ./test/scale
	$(CLUSTER) down --size=control-plane

bench-knative: build ## runs the benchmarks on Knative: twenty minutes, half of them without events
	$(MAKE) --no-print-directory knative images
	KUBECONFIG=$(NODE) go test -tags cluster -run '^$$' -bench 'Resize|ColdStart' -benchtime 2x -timeout 40m ./test/e2e/knative
	KUBECONFIG=$(NODE) go test -tags cluster -run '^$$' -bench Quiet -benchtime 1x -timeout 20m ./test/e2e/knative
	$(MAKE) --no-print-directory undeploy unconfigure >/dev/null

owner-roles: ## prints the ClusterRoles that let Drydock pause and stop operators, all or some: OWNERS=rabbitmq,pgo
	@go run ./cmd/kubectl-drydock rbac --owners $(or $(OWNERS),all)

generate: # writes the custom resources in config/crd, their generated Go code, and docs/reference
	$(TOOL) controller-gen object crd paths=./shared/api/v1alpha1 output:crd:dir=config/crd
	go test -count=1 -run TestPagesAreUpToDate ./test/reference -update

golden: ## writes the expected texts of tests into their golden files, to review (PKG=./functions/backup: one package, RUN=REGEXP: tests)
	go test -count=1 $(or $(PKG),$$(git grep -l -e 'drydock.dev/test/golden"' -e 'drydock.dev/test/kit/build"' -- \
	  '*_test.go' ':!test/api' ':!test/sim' ':!test/e2e' ':!cmd/release' | \
	  xargs -n 1 dirname | sort -u | sed 's,^,./,')) $(if $(RUN),-run '$(RUN)') -update
	$(if $(PKG),,cd cmd/release && go test -count=1 . ./chart ./krew ./sbom -update)

lint: ## runs gofmt, vet and staticcheck, and checks that generated files are up to date
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$unformatted" ] || { echo "not formatted: $$unformatted"; exit 1; }
	go vet ./...
	go vet -tags $(TAGS) ./...
	GOOS=darwin go vet ./...
	$(TOOL) staticcheck ./...
	$(TOOL) staticcheck -tags $(TAGS) ./...
	cd test/cluster && go vet . ./config ./host ./image ./build ./knative ./pause
	cd test/cluster/csi && go vet ./driver
	cd test/gitops && go vet .
	cd cmd/release && go vet ./...
	cd test/swarm && go vet ./...
	cd test/gitops/argo && go vet .
	cd test/monitoring && go vet .
	cd test/brokers && go vet .
	cd test/operators && go vet -tags cluster .
	$(MAKE) --no-print-directory generate && git diff --exit-code -- config/crd docs/reference shared/api/v1alpha1

presubmit: lint test test-all ## runs all checks that a change must pass
