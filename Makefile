# What a person and CI run. All of it works on a machine with Go and make
# alone; `make servers` installs, or names, whatever else the tests need.

GO        ?= go
GOFMT     := $(shell $(GO) env GOROOT)/bin/gofmt
PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
WORK      := work # the pattern of all packages of go.work
TOOLS     := internal/tools # the module of what looks at the code: not of go.work, as its dependencies are not those of holdfast
BIN       := $(CURDIR)/.tests/bin
TAGGED    := -tags holdfast_lean,proveall ./cmd/holdfast ./open/all ./prove # what has files that are left out without a tag
FILES     := -tags holdfast_lean,holdfast_files ./cmd/holdfast ./open/all ./prove # the same without the drivers of all servers
S3        := -tags holdfast_cloud,proveall ./cmd/holdfast ./open/all ./prove # the same with those of S3, DynamoDB, Azure Blob and Kubernetes

# More flags for the tests: make test TESTFLAGS='-run TestHandOver -count 20',
# and for internal/runtests: make test REPORT='-strict -format standard-verbose'.
TESTFLAGS ?=
# How many grants that were waited for make prove-all goes on for: on file, Redis, PostgreSQL and etcd; a tenth on the others.
GRANTS    ?= 1000000
# Which of its tests make prove-all runs.
PROVE     ?= TestAll
REPORT    ?=
# The packages whose mutants make mutants tries, such as ./redisstore/...
MUTANTS   ?= $(WORK)
# The parts of make nightly, see scripts/nightly-parts; default all.
PART      ?=
# What make bench and make bench-compare measure, such as 'redis poll'; default all, and what is quick. The commit that is
# compared with, and flags of the comparison, such as '-rounds 20 -slice 1s'.
BENCH      ?=
OLD        ?=
BENCHFLAGS ?=
# The file of rows that make bench-chart draws.
ROWS       ?=

.DEFAULT_GOAL := help
.PHONY: help servers prove-all nightly test mutants check platforms lint format modules api generated links site lines bench bench-compare bench-chart

help: ## say what there is to make
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST)

servers: ## install the servers that the tests start; HOLDFAST_TEST_INSTALL=no only looks
	@scripts/servers

test: servers ## run all tests, on real servers; CI adds the race detector: TESTFLAGS=-race
	$(GO) run ./internal/runtests $(REPORT) -m $(TOOLS) -- -p 2 -vet=off -ldflags=-w -timeout 30m $(TESTFLAGS)

mutants: servers ## see that each mutant is caught by its test; MUTANTS=./redisstore/... those of some packages; all take most of an hour
	HOLDFAST_NIGHTLY=1 $(GO) test -p 1 -vet=off -ldflags=-w -timeout 60m -count=1 -run EachMutant $(MUTANTS)

check: platforms lint format modules api generated links ## all that needs no test: builds, vet, linter, format, modules, API, links of the documents

.PHONY: tools
tools:
	@mkdir -p $(BIN)
	@GOWORK=off GOBIN=$(BIN) $(GO) -C $(TOOLS) install tool ./...

platforms: tools ## build and vet for this machine; type-check and vet for every operating system and processor, without cgo; who may import whom
	$(GO) build $(WORK)
	$(GO) vet $(WORK)
	$(GO) vet $(TAGGED)
	$(GO) vet $(FILES)
	$(GO) vet $(S3)
	GOWORK=off $(GO) -C $(TOOLS) vet ./...
	$(BIN)/platforms $(PLATFORMS)

.PHONY: builds $(PLATFORMS:%=build/%)
builds: $(PLATFORMS:%=build/%) ## build for every operating system and processor; takes minutes
$(PLATFORMS:%=build/%):
	GOOS=$(notdir $(@D)) GOARCH=$(@F) CGO_ENABLED=0 $(GO) build $(filter-out $(if $(filter windows/,$(dir $(@:build/%=%))),./bench/...),$(patsubst %,%/...,$(shell $(GO) work edit -json | sed -n 's/.*"DiskPath": "\(.*\)".*/\1/p')))

lint: tools ## run staticcheck
	$(BIN)/staticcheck $(WORK)
	$(BIN)/staticcheck $(TAGGED)
	$(BIN)/staticcheck $(FILES)
	$(BIN)/staticcheck $(S3)
	cd $(TOOLS) && GOWORK=off $(BIN)/staticcheck ./...

format: ## fail if gofmt would change a file
	@files=$$($(GOFMT) -l .); if [ -n "$$files" ]; then echo "gofmt -w these:"; echo "$$files"; exit 1; fi

modules: tools ## fail if a go.mod or go.sum is not what the code needs
	$(GO) mod verify
	$(BIN)/modules tidy -diff

api: tools ## fail if docs/api-changes.txt does not have what breaks programs since the last release; API=-w writes it
	$(BIN)/apichanges $(API)

generated: ## fail if go generate would change a file
	@before=$$(git status --porcelain; git diff | cksum); $(GO) generate $(WORK) && \
	after=$$(git status --porcelain; git diff | cksum); \
	if [ "$$before" != "$$after" ]; then echo "go generate changed files: commit what it wrote"; git status --short; exit 1; fi

links: tools ## fail if a link in the documents leads nowhere
	$(BIN)/site -n

site: tools ## check the links, and make a site of the documents in .site
	$(BIN)/site .site

lines: ## count the lines of the stores
	@scripts/lines

prove-all: servers ## prove every store on many seeds, and that each broken lock is found; takes hours, and goes on where it stopped
	HOLDFAST_PROVE_GRANTS=$(GRANTS) $(GO) test -tags proveall -run '$(PROVE)' -parallel 4 -timeout 0 -v ./prove

nightly: servers ## what takes longer than CI should, for this commit; PART='scale tests' runs some of it; goes on where it stopped
	@scripts/nightly $(PART)

bench: servers ## measure against other lock libraries, on real servers; takes an hour; BENCH='-rounds 5 redis' some of it
	$(GO) -C bench run . $(BENCH)

bench-compare: servers ## name the rows that are slower than at the commit OLD, beyond the noise; BENCH='redis poll' those of some suites
	@[ -n "$(OLD)" ] || { echo "bench-compare: say which commit: make bench-compare OLD=HEAD~1" >&2; exit 64; }
	$(GO) -C bench run . $(BENCHFLAGS) compare $(OLD) $(BENCH)

bench-chart: ## draw the rows of ROWS, a file of 'go -C bench run . -json', as docs/pictures/benchmarks.svg
	@[ -n "$(ROWS)" ] || { echo "bench-chart: say which file: make bench-chart ROWS=rows.jsonl" >&2; exit 64; }
	$(GO) -C bench run . chart $(abspath $(ROWS)) >docs/pictures/benchmarks.svg.new && mv docs/pictures/benchmarks.svg.new docs/pictures/benchmarks.svg
