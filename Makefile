# Liqo. `make help` lists the targets.

SHELL := /bin/bash -o pipefail
MAKEFLAGS += --no-print-directory

# The version is a name for these very sources, so that an image tag never means two things. A release sets it: make build VERSION=v1.0.0
SOURCES := git ls-files -co --exclude-standard -- '*.go' go.mod go.sum tools/restic charts api internal/dashboard/page/dist | sort
ifndef VERSION # taken once: sources that change during a build must not give its parts different versions
VERSION := v0.1.0-$(shell $(SOURCES) | xargs -r sha1sum 2>/dev/null | sha1sum | cut -c1-12)
endif
REGISTRY ?= registry.liqo.io/liqo
export VERSION

BIN := $(CURDIR)/bin
IMAGES := controller-manager virtual-kubelet gateway fabric proxy
# The same for all that is compiled here, tests and tools too, so that no package is compiled twice.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath
GOBUILD := go build -ldflags '-s -w -X liqo.io/liqo/internal/version.Version=$(VERSION)'
# The other modules with sources of ours.
MODULES := cmd/terraform-provider-liqo playground test/monitoring tools/release tools/site
# Each part prints the minute of the check at which it begins, and how long it took. CHECK_PART is a file for its name, so that .ci/run can name the part that was
# running when the time was over.
ifndef CHECK_BEGAN
CHECK_BEGAN := $(shell date +%s)
endif
export CHECK_BEGAN
timed = @start=$$SECONDS; echo "== $(1), from minute $$((($$(date +%s) - CHECK_BEGAN) / 60))"; echo "$(1)" >"$${CHECK_PART:-/dev/null}"; { $(2); } && echo "== $(1): $$((SECONDS - start)) s"

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

##@ Use

.PHONY: demo
demo: ## Two real clusters on this machine, peered, with a pod of one running in the other.
	@demo/prerequisites.sh
	@$(MAKE) build
	@demo/up.sh

.PHONY: demo-down
demo-down: ## Take the demo down; nothing is left.
	@demo/down.sh

##@ Build

.PHONY: build
build: binaries images ## bin/liqoctl, bin/playground, bin/kubectl and the images.

.PHONY: binaries
binaries: bin/playground
	@mkdir -p $(BIN)
	@$(GOBUILD) -o $(BIN)/ ./cmd/...

.PHONY: ctl
ctl: ## bin/liqoctl only, and a copy in this folder: ./liqoctl.
	@mkdir -p $(BIN)
	@$(GOBUILD) -o $(BIN)/ ./cmd/liqoctl
	@install -m 755 $(BIN)/liqoctl liqoctl

.PHONY: terraform-provider
terraform-provider: ## The Terraform provider into bin/terraform, a mirror for Terraform: see docs/guide/terraform.md.
	@rm -rf $(BIN)/terraform # Terraform takes the newest version of a mirror
	@cd cmd/terraform-provider-liqo && $(GOBUILD) -o $(BIN)/terraform/liqo.internal/liqotech/liqo/$(firstword $(subst -, ,$(VERSION:v%=%)))/$$(go env GOOS)_$$(go env GOARCH)/ .

.PHONY: bin/playground
bin/playground:
	@mkdir -p $(BIN)
	@cd playground && go build -ldflags '-s -w' -o $(BIN)/playground .

.PHONY: components
components: bin/playground ## Kubernetes, containerd and the rest of the playground, built once and cached.
	@$(BIN)/playground build
	@ln -sf "$$($(BIN)/playground get binaries)/kubectl" $(BIN)/kubectl

# The public certificate authorities of this machine, for API servers and authentication services of peers that have a public certificate.
CA_BUNDLE := $(firstword $(wildcard /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem))

.PHONY: images
images: components binaries ## OCI archives of our components in bin/images.
	@mkdir -p $(BIN)/images
	@for c in $(IMAGES); do $(BIN)/playground build-image --name $(REGISTRY)/$$c:$(VERSION) --output $(BIN)/images/$$c.tar \
		--entrypoint /$$c --user 65532 $(BIN)/$$c:/$$c $$([ $$c = gateway ] && echo $(BIN)/keep:/keep) \
		$(if $(CA_BUNDLE),$(CA_BUNDLE):/etc/ssl/certs/ca-certificates.crt:644); done
	@# What liqoctl move volume runs, as root: it reads all files, and gives them their owners.
	@cd tools/restic && go build -ldflags '-s -w' -o $(BIN)/ github.com/restic/restic/cmd/restic github.com/restic/rest-server/cmd/rest-server
	@$(BIN)/playground build-image --name $(REGISTRY)/volume-mover:$(VERSION) --output $(BIN)/images/volume-mover.tar --entrypoint /volume-mover \
		$(BIN)/volume-mover:/volume-mover $(BIN)/restic:/restic $(BIN)/rest-server:/rest-server
	@# What liqoctl test network runs, as root: it serves port 80.
	@cd playground && $(GOBUILD) -o $(BIN)/testserver ./testserver
	@$(BIN)/playground build-image --name $(REGISTRY)/testserver:$(VERSION) --output $(BIN)/images/testserver.tar --entrypoint /testserver \
		$(BIN)/testserver:/testserver

# Without an index of Debian's packages, or with one that is too old, apt renews it first.
DATABASE := $(BIN)/playground build-image --name registry.local/mariadb-galera:10.11 --output $(BIN)/mariadb-galera.tar --user 999:999 \
	--package mariadb-server $(addprefix $(CURDIR)/examples/stateful-applications/image/,passwd:/etc/passwd:644 group:/etc/group:644) link=/usr/bin/awk:gawk
.PHONY: database
database: bin/playground bin/helm ## The image of a database, for examples/stateful-applications.
	@$(DATABASE) || { apt-get update --quiet=2 && $(DATABASE); }

# The images of examples/global-ingress. Its foreign programs have modules of their own, because they need other versions of the same libraries.
GLOBAL := $(CURDIR)/examples/global-ingress
GLOBAL_BIN := $(BIN)/global-ingress
GLOBAL_IMAGE := $(BIN)/playground build-image --output $(GLOBAL_BIN)/
NO_USERS := $(addprefix $(GLOBAL)/image/,passwd:/etc/passwd:644 group:/etc/group:644)
INGRESS_NGINX = $(GLOBAL_IMAGE)ingress-nginx.tar --name registry.local/ingress-nginx:1.11 --entrypoint /nginx-ingress-controller --env NGINX_BINARY=/usr/sbin/nginx --package nginx \
	$(NO_USERS) $(GLOBAL_BIN)/ingress-nginx:/nginx-ingress-controller $(GLOBAL)/image/nginx.conf:/etc/nginx/nginx.conf:644 $(GLOBAL)/image/nginx.tmpl:/etc/nginx/template/nginx.tmpl:644
# With the programs of a client.
BIND9 = $(GLOBAL_IMAGE)bind9.tar --name registry.local/bind9:9.18 $(addprefix --package ,bind9 bind9-dnsutils curl dash) $(NO_USERS) link=/usr/bin/sh:dash
.PHONY: global-ingress
global-ingress: bin/playground bin/helm ## The images of examples/global-ingress.
	@mkdir -p $(GLOBAL_BIN)
	@$(GOBUILD) -o $(GLOBAL_BIN)/ ./examples/global-ingress/gslb
	@cd $(GLOBAL)/modules/coredns && go build -ldflags '-s -w' -o $(GLOBAL_BIN)/coredns .
	@cd $(GLOBAL)/modules/external-dns && go build -ldflags '-s -w' -o $(GLOBAL_BIN)/external-dns .
	@cd $(GLOBAL)/modules/ingress-nginx && go build -ldflags '-s -w' -o $(GLOBAL_BIN)/ingress-nginx k8s.io/ingress-nginx/cmd/nginx
	@cd $(GLOBAL)/modules/podinfo && go build -ldflags '-s -w' -o $(GLOBAL_BIN)/podinfo github.com/stefanprodan/podinfo/cmd/podinfo
	@$(GLOBAL_IMAGE)gslb.tar --name registry.local/gslb:1 --entrypoint /gslb --user 65532 $(GLOBAL_BIN)/gslb:/gslb
	@$(GLOBAL_IMAGE)coredns.tar --name registry.local/coredns:1.15.0 --entrypoint /coredns --user 65532 $(GLOBAL_BIN)/coredns:/coredns
	@$(GLOBAL_IMAGE)external-dns.tar --name registry.local/external-dns:0.21.0 --entrypoint /external-dns --user 65532 $(GLOBAL_BIN)/external-dns:/external-dns
	@$(GLOBAL_IMAGE)podinfo.tar --name registry.local/podinfo:6.9.2 --entrypoint /podinfo --user 65532 $(GLOBAL_BIN)/podinfo:/podinfo
	@{ $(INGRESS_NGINX) && $(BIND9); } || { apt-get update --quiet=2 && $(INGRESS_NGINX) && $(BIND9); }

# The folder that users download the files of a release from.
DOWNLOADS ?= https://liqo.io/releases/$(VERSION)
.PHONY: bin/release/release
bin/release/release:
	@cd tools/release && go build -o $(BIN)/release/release .

.PHONY: bin/helm
bin/helm:
	@go build -ldflags '-s -w' -o $(BIN)/ helm.sh/helm/v4/cmd/helm

# OpenTofu, for the story about the Terraform provider.
.PHONY: bin/tofu
bin/tofu:
	@cd tools/tofu && go build -ldflags '-s -w' -o $(BIN)/ github.com/opentofu/opentofu/cmd/tofu

# A registry in memory, for the story about a release.
.PHONY: bin/registry
bin/registry:
	@cd tools/release && go build -ldflags '-s -w' -o $(BIN)/ github.com/google/go-containerregistry/cmd/registry

# What is published needs a vulnerability check that reached its database. A target that refuses for want of its variable does so before.
CHECKED := $(if $(SNAPSHOT),,release-check)

.PHONY: release
release: bin/release/release $(if $(filter file,$(origin VERSION)),,$(CHECKED)) ## Everything of a release into dist/: make release VERSION=v1.2.3. SNAPSHOT=1 builds what is not committed, too, without a vulnerability check.
ifeq ($(origin VERSION),file)
	@echo "make release needs a version: make release VERSION=v1.2.3" >&2; exit 1
endif
	$(call timed,release $(VERSION),bin/release/release build --version '$(VERSION)' --registry '$(REGISTRY)' --downloads '$(DOWNLOADS)' \
		--work $(BIN)/release $(if $(SNAPSHOT),--snapshot) --platforms '$(PLATFORMS)')

.PHONY: push
push: bin/release/release $(if $(filter file,$(origin REGISTRY)),,$(CHECKED)) ## The images and the chart of dist/ into a registry: make push REGISTRY=registry.example.org/liqo
ifeq ($(origin REGISTRY),file)
	@echo "make push needs a registry: make push REGISTRY=registry.example.org/liqo" >&2; exit 1
endif
	@bin/release/release push --registry '$(REGISTRY)'

.PHONY: previous
previous: components ## The release before this one, from its kept sources into bin/previous.
	@tools/previous.sh

.PHONY: generate
generate: bin/tools/controller-gen ## Deep copies, CRDs, RBAC, the schema, the boards and the reference of the chart and of liqoctl from the sources.
	@bin/tools/controller-gen object crd paths=./api/... output:crd:dir=charts/liqo/crds
	@bin/tools/controller-gen rbac:roleName=liqo-controller-manager,fileName=controller-manager.yaml paths=./internal/peering/... \
		paths=./internal/offload/controllers/... paths=./internal/offload/webhook/... \
		paths=./internal/ipam/controllers/... paths=./internal/network/controllers/... output:rbac:dir=charts/liqo/files
	@bin/tools/controller-gen rbac:roleName=liqo-virtual-kubelet-local,fileName=virtual-kubelet.yaml paths=./internal/offload/node/... \
		paths=./internal/offload/reflection/... paths=./internal/offload/kinds/... paths=./internal/offload/provider/... paths=./internal/volumes paths=./internal/app output:rbac:dir=charts/liqo/files
	@go run ./generate/reference charts/liqo docs/reference/values.md
	@go run ./generate/boards charts/liqo/files/boards
	@go run ./cmd/liqoctl docs docs/reference/liqoctl

.PHONY: docs
docs: ## The documents as a site in bin/site, with a search. Broken links fail it.
	@mkdir -p $(BIN)/tools && cd tools/site && go build -o $(BIN)/tools/site .
	@rm -rf $(BIN)/site && $(BIN)/tools/site . $(BIN)/site
	@echo 'module site' > $(BIN)/site/go.mod # so that go list ./... skips the sources that the documents link

.PHONY: figures
figures: bin/tools/d2 ## The figures of the documents (docs/images/*.svg) from docs/figures/*.d2. Each SVG is for light and dark pages.
	@cd docs/figures && for source in [a-z]*.d2; do [ $$source = style.d2 ] || { \
		../../bin/tools/d2 --layout elk --theme 0 --dark-theme 200 --pad 20 $$source ../images/$${source%.d2}.svg && \
		cat style.d2 $$source | sha256sum | sed 's/\([0-9a-f]*\).*/<!-- sha256 of the source: \1 -->/' >> ../images/$${source%.d2}.svg && chmod 644 ../images/$${source%.d2}.svg; } || exit; done

.PHONY: page
page: ## The page of liqoctl dashboard, after its sources changed. Needs Node.js and a registry of npm packages.
	@cd internal/dashboard/page && { [ node_modules/.package-lock.json -nt package-lock.json ] || npm ci --silent; } && \
		npm run --silent check && npm run --silent build

##@ Test

# The tests trade memory for processor time: the garbage collectors of compilers, tests, API servers and kubelets run less often.
lint unit browser api datapath presubmit playground-test scenario network-scenario moves doors examples monitoring: export GOGC ?= 300

.PHONY: test
test: lint unit api datapath presubmit ## What each change must pass: the checks, levels 0 to 3, and a story about each part of Liqo.

# The tests run on the machine itself. The target exists for those who expect to build a container for them first.
.PHONY: test-container
test-container:
	@echo "The tests need no container: run make unit. Tests of the network (make datapath) make network namespaces of their own, as root."

# The shards of test-long need nothing from each other. Each takes about 20 minutes.
.PHONY: test-long
test-long: test-offloading test-network test-peering test-volumes test-documents ## What a release must pass besides make test: all stories, in five shards that can also run alone.

.PHONY: e2e
e2e: test-long

.PHONY: test-offloading
test-offloading: scenario ## Shard: pods, namespaces, copies, quotas, storage, faults of the control plane.

.PHONY: test-network
test-network: network-scenario ## Shard: the network between clusters, and its faults.

.PHONY: test-peering
test-peering: doors ## Shard: ways to peer and to install, Terraform, releases.

.PHONY: test-volumes
test-volumes: moves ## Shard: volumes that move, and the data of a database from its installation to another one.

.PHONY: test-documents
test-documents: browser playground-test examples monitoring ## Shard: the tutorials as they are written, the dashboard, boards and alerts, the playground.

.PHONY: check
check: lint unit ## What to run before each commit: lint, drift of generated code, levels 0 and 1.

.PHONY: lint
lint: bin/tools/golangci-lint bin/tools/govulncheck ## Format, vet, linters, drift of generated code, known vulnerabilities.
	$(call timed,lint,bin/tools/golangci-lint run --allow-parallel-runners ./... && $(foreach module,$(MODULES),(cd $(module) && $(CURDIR)/bin/tools/golangci-lint run --allow-parallel-runners --config $(CURDIR)/.golangci.yaml ./...) &&) true)
	$(call timed,generated code,tools/drift.sh)
	$(call timed,vulnerabilities,tools/vulnerabilities.sh)

.PHONY: release-check
release-check: bin/tools/govulncheck ## What a release needs beyond `make test`: a vulnerability check that reached its database.
	$(call timed,vulnerabilities,REQUIRE_VULNDB=1 tools/vulnerabilities.sh)

# Levels 0 and 1 need nothing; the stories are level 4. A machine that also does other work may take longer than Go's ten minutes for internal/cli. Go keeps results of tests although files outside of their module changed, so it runs those of the site,
# which read all documents, each time.
UNIT := ./api/... ./internal/... ./cmd/... ./examples/... ./generate/... ./test/apitest ./test/bench ./test/commands ./test/dataplane/... ./test/deviceplugin ./test/flux ./test/playground ./test/scenario/story ./test/scenario/tutorial
# PACKAGE_PATH is another name of PACKAGE.
PACKAGE := $(or $(PACKAGE),$(PACKAGE_PATH))
.PHONY: unit
unit: ## Levels 0 and 1: pure and faked, needs nothing. Of some packages only: make unit PACKAGE=./internal/offload/...
ifdef PACKAGE
	$(call timed,levels 0 and 1 of $(PACKAGE),go test $(PACKAGE) -skip OnAPIServer)
else
	$(call timed,levels 0 and 1,go test $(UNIT) -skip OnAPIServer -timeout 20m && (cd playground && go test $$(go list ./... | grep -v '/test$$')) && (cd cmd/terraform-provider-liqo && go test ./...) && (cd test/monitoring && go test ./...) && (cd tools/release && go test ./...) && (cd tools/site && go test -count=1 .))
endif

.PHONY: browser
browser: docs ## Level 1 of the page of liqoctl dashboard and of the site, in headless Chromium. Installs Debian's chromium if it is missing.
	@test/prerequisites.sh
	$(call timed,pages in a browser,go test ./test/browser -count=1 -timeout 5m)

.PHONY: coverage
coverage: ## What levels 0 and 1 cover, by function. Of some packages only: make coverage PACKAGE=./internal/offload/...
	@mkdir -p $(BIN)
	@go test $(or $(PACKAGE),$(UNIT)) -skip OnAPIServer -coverprofile $(BIN)/coverage.prof
	@go tool cover -func $(BIN)/coverage.prof

# Only packages with such tests, so that no others are linked. That of liqoctl takes longest and begins first. Half
# of the time of liqoctl's tests is waiting, so two of them run at a time, which also bounds the API servers of a machine with many processors.
API_TESTS = $(sort $(dir $(shell grep -rlE '^func Test\w*OnAPIServer' --include=*_test.go api internal test/apitest)))
.PHONY: api
api: components ## Level 2: against real API servers. Go keeps the results of packages that did not change.
	$(call timed,level 2,go test ./internal/cli $(addprefix ./,$(filter-out internal/cli/,$(API_TESTS))) -run OnAPIServer -p 2 -parallel 2 -timeout 30m)

.PHONY: playground-test
playground-test: components ## The playground itself: boots, several clusters, faults, leaves nothing.
	$(call timed,playground,cd playground && go test ./test/... -count=1 -timeout 20m -v)

.PHONY: datapath
datapath: ## Level 3: the real kernel, in network namespaces. Needs root.
	$(call timed,level 3,go test ./test/datapath -count=1 -timeout 20m)

.PHONY: presubmit
presubmit: build ## Level 4, in short: a story about each part of Liqo, on one pair of clusters.
	$(call timed,level 4 in short,go test ./test/scenario -run TestPresubmit -count=1 -timeout 30m -failfast -v)

.PHONY: scenario
scenario: build ## Level 4: stories on real clusters.
	$(call timed,level 4,go test ./test/scenario -count=1 -timeout 60m -v -skip 'TestSkew|TestPresubmit')

# Stories of volumes that move run on the clusters of the stories of the network, and the one of a database on a pair of its own.
MOVES := TestStories/^(move|live)$$|TestDatabase
.PHONY: network-scenario
network-scenario: build ## Level 4: stories of the network, on three clusters of two nodes.
	$(call timed,level 4 of the network,go test ./test/scenario/network -count=1 -timeout 60m -v -skip 'TestDisturbedMoves|$(MOVES)')

.PHONY: moves
moves: build bin/helm ## Level 4: volumes that move between nodes and clusters.
	$(call timed,level 4 of moves,go test ./test/scenario/network -count=1 -timeout 60m -v -run '$(MOVES)')

.PHONY: doors
doors: build bin/helm bin/registry bin/release/release bin/tofu terraform-provider ## Level 4: the ways in which two clusters come to know each other, each told from the first word to the last, and a release.
	$(call timed,level 4 of the doors,go test ./test/scenario/doors -count=1 -timeout 50m -v)

.PHONY: examples
examples: build database global-ingress ## Level 4: the tutorials as they are written, an application over two clusters, manifests of other people.
	$(call timed,level 4 of the examples,go test ./test/scenario/examples -count=1 -timeout 60m -v)

bin/prometheus:
	@tools/prometheus.sh

.PHONY: monitoring
monitoring: build bin/prometheus ## Level 4: what Prometheus and the dashboard show of two clusters. Fetches Debian's prometheus and chromium if they are missing.
	@test/prerequisites.sh
	$(call timed,level 4 of monitoring,go test ./test/scenario/monitoring -count=1 -timeout 15m -v)

.PHONY: soak
soak: build previous ## What takes too long for make test-long: two releases together, a long partition, bursts whose virtual kubelet is killed, disturbed moves of a volume, twelve clusters.
	$(call timed,soak,go test ./test/scenario/examples -count=1 -timeout 60m -v -run TestQuickStart -soak)
	$(call timed,two releases,go test ./test/scenario -count=1 -timeout 20m -v -run TestSkew)
	$(call timed,disturbed moves,go test ./test/scenario/network -count=1 -timeout 90m -v -run TestDisturbedMoves)
	$(call timed,twelve clusters,cd playground && go test ./test -count=1 -timeout 20m -v -run TestManyClusters -clusters 12)

.PHONY: bench
bench: build ## The figures we promise, measured side by side.
	@go run ./test/bench
	@go test ./internal/app -run TestScrapesCostLittleOnAPIServer -count=1 -v

bin/tools/golangci-lint: tools/lint/go.mod
	@mkdir -p bin/tools && cd tools/lint && go build -o ../../bin/tools/ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

bin/tools/d2: tools/figures/go.mod
	@mkdir -p bin/tools && cd tools/figures && go build -o ../../bin/tools/ oss.terrastruct.com/d2

bin/tools/controller-gen bin/tools/govulncheck: tools/go.mod
	@mkdir -p bin/tools && cd tools && go build -o ../bin/tools/ sigs.k8s.io/controller-tools/cmd/controller-gen golang.org/x/vuln/cmd/govulncheck

.PHONY: clean
clean: ## Remove what was built here; the playground's cache stays.
	@rm -rf $(BIN) dist liqoctl
