# The commands of Pharos. `make help` lists them. Paths are relative, so that
# the tree may lie in a folder whose name has spaces.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PHAROS := bin/pharos
END_TO_END := bin/end-to-end.txt
# Tools are pinned in a module of their own; Go builds and caches them.
TOOL := go tool -modfile=tools/go.mod
LINT := $(TOOL) golangci-lint-kube-api-linter
# The race detector needs a C compiler. Without one the tests run all the same.
RACE := $(shell command -v $$(go env CC) >/dev/null && echo -race)
# The packages by how they are tested. Assigned in the recipe, because the shell
# ends it when the listing fails only if that is a command of its own.
#
# Rules and rendering have no goroutine of ours, and what they mostly run is
# Prometheus' own library, ten times as slowly with the race detector: they go
# without it. A tree is rendered by several goroutines, but the same few lines of
# it are run by each test: some are run with it, and all without.
PURE = ./rules/... ./dashboards ./cascade ./central ./edge ./operator/tree
RENDERED_TOGETHER = '^(TestEverythingRenderedIsAccepted|TestTheSameFleetGivesTheSameBytes|TestTwoRendersDoNotMeet|TestWriteFollowsTheFleet)$$'
# Those that take longest begin first, so that none of them is left alone at the end.
SLOWEST = ./operator/federation ./edge/agent ./remediator/controller ./operator/cell
UNIT = packages="$(SLOWEST) $$(go list ./... | grep -v -E '/pharos/(test/.*|rules(/.*)?|dashboards|cascade|central|edge|edge/agent|operator/(tree|federation|cell)|remediator/controller)$$')"
# Tests of the whole: stock servers that wait for each other, and share objects with
# bin/pharos. The longest begin first here, too.
LONGEST = ./test/links ./test/split
WHOLE = packages="$(LONGEST) $$(go list ./test/... | grep -v -E '/test/(e2e|tiers|links|split)$$')"
# The packages that have a benchmark: linking the tests of the others takes
# longer than every benchmark together. Those of a whole fleet are run apart: one
# round of theirs takes seconds, so a few rounds say enough.
BENCHMARKED = packages=$$(grep -rl --include='*_test.go' '^func Benchmark' . | xargs -n1 dirname | sort -u | grep -v '/test/bench$$')

say = printf '\n== %s\n' "$(1)"

##@ Use

.PHONY: demo
demo: build ## Start the fleet on this machine, break a node, and watch the loop close
	@$(PHAROS) demo

.PHONY: build
build: ## Build bin/pharos
	@$(call say,building $(PHAROS))
# -trimpath lets the build share packages with the servers, which have it too.
	@go build -trimpath -ldflags '-s -w' -o $(PHAROS) ./cmd/pharos

##@ Test

.PHONY: test
test: build ## Run every test: units, rules, controllers on real servers, end to end
	@$(if $(RACE),,echo '!! NO RACE DETECTOR: there is no C compiler here, which it needs')
	@$(MAKE) -j2 servers test-objects
	@$(MAKE) -j3 test-end-to-end test-units test-rules
	@$(MAKE) test-whole
	@$(call say,all tests passed)

# Fleets of real servers mostly wait, for minutes. So they run beside the units and the
# rules, which mostly compute and give way to them. What they say is kept until they end.
.PHONY: test-end-to-end
test-end-to-end:
	@$(call say,end to end: fleets on this machine. They say how it goes in $(END_TO_END))
	@go test $(RACE) -count=1 -timeout 15m -v ./test/e2e/... > $(END_TO_END) 2>&1 && ended=$$? || ended=$$?; \
		cat $(END_TO_END); exit $$ended

# Real servers whose intervals are a second: no more at once than the processors carry. The
# tiers run alone: they are told what has ended by what does not come for four intervals.
.PHONY: test-whole
test-whole:
	@$(call say,tiers · links · splits · sources on real servers · a fleet through bad days)
	@go test -trimpath -timeout 15m ./test/tiers
	@$(WHOLE); go test -trimpath -p 2 -timeout 15m $$packages

.PHONY: test-units
test-units:
	@$(call say,unit tests · controllers on a real kube-apiserver)
# More packages at once than there are processors: most tests wait for servers.
	@$(UNIT); nice -n 10 go test $(RACE) -p 3 -timeout 15m $$packages
	@nice -n 10 go test $(RACE) -timeout 15m -run $(RENDERED_TOGETHER) ./operator/tree

.PHONY: test-rules
test-rules:
	@$(call say,rules by promtool · what is rendered · what the race detector leaves out)
	@nice -n 10 go test -trimpath -p 2 -timeout 15m $(PURE)
	@nice -n 10 go test -trimpath -timeout 5m -run '^(TestTenThousand|TestScripts)' ./operator/federation ./cmd/pharos

# The servers and the tests' objects are built side by side: either alone leaves
# a core idle while it links or compiles one large package.
.PHONY: servers
servers: build ## Build the servers of the local fleet and of the tests that are not in the cache yet
	@$(call say,server binaries of the local fleet and of the tests)
	@$(PHAROS) local binaries --for-tests

.PHONY: test-objects
test-objects:
	@$(call say,compiling packages for the tests)
	@packages=$$(go list -f '{{if .GoFiles}}{{.ImportPath}}{{end}}' ./... | grep -v /cmd/); go build $(RACE) $$packages

.PHONY: bench
bench: ## Run the benchmarks, keep them in bin/bench, and compare with the run before
	@mkdir -p bin/bench
	@if [ -f bin/bench/new.txt ]; then mv bin/bench/new.txt bin/bench/old.txt; fi
	@$(call say,benchmarks)
	@$(BENCHMARKED); go test -run '^$$' -bench . -benchmem -count 6 -benchtime 500ms -timeout 10m $$packages | tee bin/bench/new.txt
	@$(call say,benchmarks of a whole fleet)
	@go test -run '^$$' -bench . -benchmem -count 3 -benchtime 3x -timeout 45m ./test/bench | tee -a bin/bench/new.txt
	@$(call say,statistics)
	@$(TOOL) benchstat $$(ls bin/bench/old.txt 2>/dev/null) bin/bench/new.txt

##@ Keep in order

.PHONY: generate
generate: ## Make the generated files anew
	@$(call say,generating)
	@$(TOOL) controller-gen object paths=./api/...
	@$(TOOL) controller-gen crd:generateEmbeddedObjectMeta=false paths=./api/... output:crd:dir=deploy/crds
	@go generate ./...

.PHONY: fmt
fmt: ## Format the code
	@$(LINT) fmt

.PHONY: verify
verify: tidy-check generate-check lint licences vulncheck ## Check everything that is not a test

.PHONY: tidy-check
tidy-check:
	@$(call say,are the go.mod files tidy?)
	@go mod tidy -diff
	@go -C tools mod tidy -diff
	@go -C deploy/local/servers mod tidy -diff

.PHONY: generate-check
generate-check:
	@tools/generate-check.sh

.PHONY: lint
lint: ## Run the linters
	@$(call say,linting)
	@$(LINT) run

.PHONY: licences
licences: ## Check that every library that ships has a permissive licence
	@tools/licences.sh

.PHONY: vulncheck
vulncheck: ## Look for known vulnerabilities in what the code calls
	@tools/vulncheck.sh

.PHONY: help
help: ## List the commands
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile
