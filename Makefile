# Every target works on a clean clone. Those that mount need root.

VERSION ?= 0.2.0
export CGO_ENABLED = 0

.PHONY: build binaries image image-check release release-check release-again release-suite helm manifest manifest-check deploy-check monitoring-check demo demo-builds demo-picture demo-check test race mutate fuzz e2e chaos chaos-builds chaos-pod-fuse podchaos-builds measure-pod-fuse soak bench bench-quick bench-check bench-builds e2e-arm64 e2e-cluster cluster-builds cluster e2e-linux-6.1 e2e-selinux e2e-systemd e2e-userns programs csi-sanity vulncheck lint clean

# What is built with these flags depends on the source alone. Without traces of requests, which
# nobody looks at, the CSI plugin is a quarter smaller.
GO_BUILD = go build -tags grpcnotrace -trimpath -buildvcs=false -ldflags '-s -w -X main.version=$(VERSION)'

# Where it is built: another version, elsewhere.
BIN ?= bin

# Three static binaries: a driver, its CSI node plugin, and the other driver.
build:
	$(GO_BUILD) -o $(BIN)/ ./cmd/...

# The same for each architecture of the image. Go knows what has to be rebuilt.
ARCHITECTURES = amd64 arm64
BINARIES = $(ARCHITECTURES:%=$(BIN)/linux-%)
binaries: $(BINARIES)
$(BINARIES): $(BIN)/linux-%: .always
	GOOS=linux GOARCH=$* $(GO_BUILD) -o $@/ ./cmd/...
.PHONY: .always

# An archive of an OCI image, to be imported into a container runtime.
IMAGE ?= $(shell sed -n 's/^  repository: //p' deploy/chart/pod-info-fuse/values.yaml)
image: binaries
	go -C deploy/image build -o ../../bin/image .
	bin/image --name $(IMAGE) --version $(VERSION) --out $(BIN)/image.tar $(BINARIES)

# What is in it, and that its binaries run.
image-check: image
	deploy/image/check.sh $(VERSION)

# Everything that is published, the same bytes from the same source: docs/dev/releasing.md.
DIST ?= dist
release: binaries image
	go -C deploy/release/nfpm build -o ../../../bin/nfpm github.com/goreleaser/nfpm/v2/cmd/nfpm
	go -C deploy/release/sbom build -o ../../../bin/sbom .
	rm -rf $(DIST)
	mkdir -p $(DIST)
	deploy/release/release.sh $(VERSION) $(BIN) $(DIST)

# It is whole, and its packages do on a node what they should.
release-check: release helm
	deploy/release/check.sh $(VERSION) $(DIST)

# Another build of it, elsewhere and from nothing, gives the same bytes. Takes ten minutes.
release-again: release helm
	deploy/release/again.sh $(VERSION) $(DIST)

# The Helm that renders the chart, from the Go module proxy.
helm:
	go -C deploy/helm build -o ../../bin/helm helm.sh/helm/v3/cmd/helm

# The chart as plain manifests, for those who do not use Helm, and its README.
manifest: helm
	deploy/render.sh bin/helm deploy
	go -C deploy/check test -count=1 -run '^TestTheReadmeHasTheValues$$' . -update

# They are what the chart renders to.
manifest-check: helm
	rm -rf bin/manifest
	deploy/render.sh bin/helm bin/manifest
	for file in $(filter-out %/kustomization.yaml,$(wildcard deploy/*.yaml)); do diff -u $$file bin/manifest/$${file##*/} || exit; done
	diff -ru deploy/policies bin/manifest/policies
	diff -ru --exclude=kustomization.yaml deploy/monitoring bin/manifest/monitoring

# The chart renders to what API servers take, with each of its values.
deploy-check: build manifest-check
	go -C deploy/check test -count=1 ./...
	go -C deploy/check/psp test -count=1 ./...

# Alerts fire when they should, by promtool test rules; the dashboard is of Grafana's schema, and asks for what
# is told; the kustomizations build. promtool takes minutes to build, once.
monitoring-check: helm
	go -C deploy/check/monitoring build -tags remove_all_sd -o ../../../bin/promtool github.com/prometheus/prometheus/cmd/promtool
	go -C deploy/check/monitoring test -count=1 ./...

# Plays the kubelet: mounts a volume, and kills and upgrades what serves it under a reader.
DEMO = docs/demo.sh bin/pod-info-fuse bin/next/pod-info-fuse
demo: demo-builds
	$(DEMO)
demo-builds: build
	$(GO_BUILD) -o bin/next/ -ldflags '-s -w -X main.version=$(VERSION)-next' ./cmd/pod-info-fuse

# A recording of it, for the README.
demo-picture: demo-builds
	go run ./e2e/screencast --record docs/pictures/survival.svg $(DEMO)

# It prints what the picture shows.
demo-check: demo-builds
	go run ./e2e/screencast --check docs/pictures/survival.svg $(DEMO)

# The packages that have tests, so that nothing is said of the others.
TESTED = go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...

# Those whose tests run on nodes of internal/testnode.
ON_NODES = ./survive ./fs ./install ./survive/command ./cmd/pod-info-fuse

# SHORT=yes has each suite below take the form for which .ci/run has time. It sees the same, less often.
long = $(if $(SHORT),$2,$1)

# Everything that needs no kubelet, on real FUSE mounts. What the tests measure in seconds is not
# measured while all packages are compiled, nor are packages whose tests have a node each tested
# beside others: they fill the machine. Those of podfuse/mounter and cmd/pod-fuse wait most of the
# time: they begin first, and all others run beside them. It is lint that vets: on a clean clone, that
# is a quarter of a minute, for each package that is used besides. Without symbols, a test is linked
# in two thirds of the time.
GO_TEST = go test -vet=off -ldflags '-s -w' -count=1 -timeout 30m
test:
	go list -export -test -deps $$($(TESTED)) >/dev/null
	$(GO_TEST) -p 2 $(ON_NODES)
	$(GO_TEST) -p 3 ./podfuse/mounter ./cmd/pod-fuse \
		$$($(TESTED) | grep -v -e /podfuse/mounter$$ -e /cmd/pod-fuse$$ $(ON_NODES:.%=-e %$$))

# The same with the race detector, which needs cgo, but for what tests processes that are
# built without it. Half of the time is podfuse/standin's: it begins first.
race:
	CGO_ENABLED=1 go test -vet=off -race -count=1 -timeout 30m ./podfuse/standin \
		$$($(TESTED) | grep -v -e /cmd/ -e /examples/ -e /podfuse/mounter$$ -e /podfuse/standin$$)

# Each transition in the life of a process of the pair is taken away, or leads elsewhere:
# the table of orders must fail. The long form changes single steps of call-outs, the mounter and the
# installer, too, each of which fails a test. That takes eight minutes.
mutate:
	go test -tags mutate -count=1 -v -p 1 -timeout 30m -run TestEveryMutantFails ./survive/internal/pair $(call long,./e2e/mutants,)

# Each fuzz target for so many inputs, which takes ten seconds or some more. With a time,
# Go 1.26 may fail at its end: "context deadline exceeded" (golang.org/issue/75804).
FUZZTIME ?= $(call long,500000x,100000x)
fuzz:
	go test -run=^$$ -fuzz=^FuzzOptions$$ -fuzztime=$(FUZZTIME) -fuzzminimizetime=1s ./flex
	go test -run=^$$ -fuzz=^FuzzAnswer$$ -fuzztime=$(FUZZTIME) -fuzzminimizetime=1s ./flex
	go test -run=^$$ -fuzz=^FuzzTurns$$ -fuzztime=$(FUZZTIME) -fuzzminimizetime=1s ./survive/internal/connection
	go test -run=^$$ -fuzz=^FuzzMessage$$ -fuzztime=$(FUZZTIME) -fuzzminimizetime=1s ./survive/internal/pair
	go test -run=^$$ -fuzz=^FuzzCommand$$ -fuzztime=$(FUZZTIME) -fuzzminimizetime=1s ./survive/internal/pair
	go test -run=^$$ -fuzz=^FuzzRecord$$ -fuzztime=$(FUZZTIME) -fuzzminimizetime=1s ./survive/volume
	go test -run=^$$ -fuzz=^FuzzKubeletArgs$$ -fuzztime=$(FUZZTIME) -fuzzminimizetime=1s ./install
	go test -run=^$$ -fuzz=^FuzzRequest$$ -fuzztime=$(FUZZTIME) -fuzzminimizetime=1s ./survive/internal/metrics
	go test -run=^$$ -fuzz=^FuzzMountOptions$$ -fuzztime=$(FUZZTIME) -fuzzminimizetime=1s ./podfuse/pod
	go test -run=^$$ -fuzz=^FuzzManifest$$ -fuzztime=$(FUZZTIME) -fuzzminimizetime=1s ./podfuse/inject

# FUSE programs of Debian, as they are, in containers without privilege.
PROGRAMS = bindfs sshfs squashfuse gocryptfs unionfs-fuse archivemount fuse-zip mergerfs fuse-overlayfs s3fs rclone
programs:
	e2e/install.sh fuse3 $(PROGRAMS) openssh-sftp-server squashfs-tools zip
	go test -tags programs -count=1 -run TestForeignPrograms -v ./podfuse/pod

# The test suite of the CSI project, against the node plugin.
csi-sanity: build
	go -C e2e/csisanity test -count=1 -v .

# A real kubelet, built from the module proxy, on containerd and runc: of the version that
# e2e/kubernetes/go.mod has, or of KUBERNETES=1.36, and so in a cluster. RUNTIME=debian takes
# Debian's containerd 1.6 and runc 1.1, for kubelets before 1.36.
e2e: build
	e2e/setup.sh
	e2e/alone.sh go test -vet=off -tags e2e -count=1 -timeout 40m -parallel 8 ./e2e

# The image, the manifest and the chart on a real cluster of one node.
e2e-cluster: cluster-builds
	e2e/podfuse/setup.sh
	e2e/alone.sh go test -vet=off -tags cluster -count=1 -timeout 40m -parallel 8 ./e2e/cluster
cluster-builds: build image helm
	e2e/setup.sh cluster
	$(MAKE) image BIN=e2e/bin/next VERSION=$(VERSION)-next ARCHITECTURES=$$(go env GOARCH)
	go build -o e2e/bin/fs-loopback ./e2e/loopback

# The same cluster without tests, to try things in, until Ctrl-C. It says how to get at it.
cluster: cluster-builds
	go test -c -tags cluster -o e2e/bin/cluster ./e2e/cluster
	cd e2e/cluster && E2E_CLUSTER_KEEP=yes ../alone.sh ../bin/cluster

# Modules whose vulnerabilities a driver has: the database is of this version, or VULNDB=latest.
VULNDB ?= v0.0.0-20261105234957-e22db6528018
vulncheck:
	.ci/vulncheck golang.org/x/vuln/cmd/govulncheck@v1.9.0 $(VULNDB)

STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

# A flag of go build, for builds of e2e/builds/builds.go, which says what each is for. A program of this
# machine writes the overlay, whatever GOARCH says.
with = -overlay $$(GOARCH= go run ./e2e/builds/overlay $1)

# What the suites below break, and the program that breaks it.
E2E_BIN ?= e2e/bin
chaos-builds: build
	go build -o $(E2E_BIN)/chaos ./e2e/chaos
	go build -ldflags '-X main.version=$(VERSION)-other' -o $(E2E_BIN)/other ./cmd/pod-info-fuse
	go build $(call with,lossy) -o $(E2E_BIN)/lossy ./cmd/pod-info-fuse
	go build $(call with,noresend) -o $(E2E_BIN)/noresend ./cmd/pod-info-fuse
	go build $(call with,lossy noresend) -o $(E2E_BIN)/lossy-noresend ./cmd/pod-info-fuse
	go build $(call with,dropping) -o $(E2E_BIN)/dropping ./cmd/pod-info-fuse
	go build $(call with,strict) -o $(E2E_BIN)/strict ./cmd/pod-info-fuse
	go build -ldflags '-X main.version=$(VERSION)' -o $(E2E_BIN)/clock ./examples/clock
	go build -ldflags '-X main.version=$(VERSION)-other' -o $(E2E_BIN)/clock-other ./examples/clock
	go build $(call with,lossy) -o $(E2E_BIN)/clock-lossy ./examples/clock

# In namespaces that end with it. A suite that runs beside it has no copy of its mounts, and none of its
# PIDs, some of which chaos chooses, so that they come again soon.
ASIDE = unshare --mount --pid --fork --kill-child --mount-proc sh -c '"$$@"; exit $$?' sh

# Kills, hangs, upgrades and losses under load, with no error of any reader: of this driver,
# and of a stranger's.
CHAOS = $(ASIDE) e2e/bin/chaos
chaos: chaos-builds
	$(CHAOS) kill --driver-binary bin/pod-info-fuse $(MANY_KILLS)
	$(CHAOS) kill --driver-binary e2e/bin/noresend $(SOME_KILLS) --eintr-allowed
	$(CHAOS) kill --driver-binary e2e/bin/dropping --duration 20s --kills 200
	$(CHAOS) lossy --driver-binary e2e/bin/lossy $(ROUNDS)
	$(CHAOS) lossy --driver-binary e2e/bin/lossy-noresend --eintr-allowed $(ROUNDS)
	$(CHAOS) hang --driver-binary bin/pod-info-fuse --rounds $(call long,3,1)
	$(CHAOS) upgrade --driver-binary bin/pod-info-fuse --other-binary e2e/bin/other $(ROUNDS)
	$(CHAOS) idmap --driver-binary bin/pod-info-fuse --expect $(IDMAP)
	$(CHAOS) kill --driver-binary e2e/bin/clock $(CLOCK) $(SOME_KILLS)
	$(CHAOS) hang --driver-binary e2e/bin/clock $(CLOCK) --rounds 1
	$(CHAOS) upgrade --driver-binary e2e/bin/clock --other-binary e2e/bin/clock-other $(CLOCK) $(ROUNDS)
	$(CHAOS) lossy --driver-binary e2e/bin/clock-lossy $(CLOCK) $(ROUNDS)

MANY_KILLS = --duration $(call long,60s --kills 200,20s --kills 60)
SOME_KILLS = --duration $(call long,20s --kills 60,8s --kills 24)
ROUNDS = --rounds $(call long,20,6)

# The program in examples, and its file that chaos reads.
CLOCK = --program clock --file time

# What becomes of an id-mapped mount of a volume: EINVAL before Linux 6.12.
IDMAP ?= works

# Everything that pods and the kubelet do, for a long time, by FlexVolume, by CSI and by pod-fuse: nothing
# that the processes need is denied, and nothing leaks. PLOT is a file to draw it to, as
# docs/dev/benchmarks/soak.svg.
SOAK ?= $(call long,10m,2m)
soak: chaos-builds podchaos-builds
	go build -o e2e/bin/soak ./e2e/soak
	$(ASIDE) e2e/bin/soak --duration $(SOAK) $(addprefix --plot ,$(PLOT))

# Programs that pods serve volumes with, by the hundred killed under readers in containers, and
# what is done besides. Without pod-fuse, readers do see it, and see nothing else: the control.
PODCHAOS = e2e/bin/podchaos
POD_FUSE = --driver-binary bin/pod-fuse --beside bin/pod-info-fuse
# Dies of a system call that the other is only denied.
STRICT = --driver-binary e2e/bin/pod-fuse-strict --beside bin/pod-info-fuse
# How often a program is killed, and how often beside something else.
KILLS ?= $(call long,30,3)
FEW ?= $(call long,5,1)
# The short form kills every program alone, by each way. Beside something else, which concerns the driver's own
# processes, it kills one program in C and one in Go.
comma = ,
C_AND_GO = $(if $(SHORT),--programs bindfs$(comma)rclone)
podchaos-builds: build
	e2e/podfuse/setup.sh
	go build -o $(PODCHAOS) ./e2e/podchaos
	go build -ldflags '-X main.version=$(VERSION)-other' -o e2e/bin/pod-fuse-other ./cmd/pod-fuse
	go build $(call with,strict) -o e2e/bin/pod-fuse-strict ./cmd/pod-fuse
chaos-pod-fuse: podchaos-builds
	$(call long,$(ASIDE) $(PODCHAOS) kill --control --programs all --kills 0)
	$(ASIDE) $(PODCHAOS) kill --control --kills 5 $(C_AND_GO)
	$(ASIDE) $(PODCHAOS) stop --control --programs bindfs
	$(ASIDE) $(PODCHAOS) programs $(STRICT) --kills $(call long,3,1)
	$(ASIDE) $(PODCHAOS) programs $(POD_FUSE) --kills $(call long,3,1) --uid 0
	$(ASIDE) $(PODCHAOS) kill $(POD_FUSE) --by $(if $(SHORT),run,fusermount,run) --kills $(KILLS)
	$(call long,$(ASIDE) $(PODCHAOS) kill $(POD_FUSE) --by fd --programs sshfs$(comma)gocryptfs --kills $(FEW))
	$(ASIDE) $(PODCHAOS) kill $(POD_FUSE) --kills $(FEW) --with pair $(C_AND_GO)
	$(ASIDE) $(PODCHAOS) kill $(POD_FUSE) --kills $(FEW) --with hang $(C_AND_GO)
	$(ASIDE) $(PODCHAOS) kill $(POD_FUSE) --kills $(FEW) --with upgrade --other-binary e2e/bin/pod-fuse-other $(C_AND_GO)
	$(ASIDE) $(PODCHAOS) kill $(STRICT) --kills $(FEW) --with mounter $(C_AND_GO)
	$(ASIDE) $(PODCHAOS) kill $(STRICT) --kills $(FEW) --with attach --programs bindfs,loopback
	$(ASIDE) $(PODCHAOS) kill $(POD_FUSE) --kills $(FEW) --with storm --programs bindfs
	$(ASIDE) $(PODCHAOS) kill $(POD_FUSE) --kills $(FEW) --with silent --programs bindfs
	$(call long,$(ASIDE) $(PODCHAOS) kill --driver-binary bin/pod-fuse --kills 50 --sleepers 4000 --programs bindfs)
	$(ASIDE) $(PODCHAOS) wait $(POD_FUSE) --other-binary e2e/bin/pod-fuse-other
	$(ASIDE) $(PODCHAOS) stop $(POD_FUSE)
	$(ASIDE) $(PODCHAOS) vandal $(STRICT)

# What reading through pod-fuse costs, beside the same program mounted by root, and how long the first
# look of a container takes. After chaos-pod-fuse, which builds it.
measure-pod-fuse: build
	$(PODCHAOS) measure $(POD_FUSE)

# What is measured, with what it is compared with, which setup.sh installs.
bench-builds: build
	bench/setup.sh
	go build -o bench/bin/bench ./bench
	go build -trimpath -ldflags '-s -w' -o bench/bin ./bench/floor/nothing ./bench/floor/bind
	go build -o e2e/bin/chaos ./e2e/chaos
BENCH = bench/bin/bench --driver-binary bin/pod-info-fuse --plugin-binary bin/pod-info-fuse-csi --chaos e2e/bin/chaos

# What call-outs, memory and reads cost, beside others, in twenty minutes. Writes
# docs/dev/benchmarks.md.
bench: bench-builds
	$(BENCH) --docs docs/dev

# The same with less of everything, in four minutes. Only prints.
bench-quick: bench-builds
	$(BENCH) --quick

# Memory, allocations, requests and context switches are no worse than expected.json
# says.
bench-check: build
	go build -o bench/bin/bench ./bench
	$(ASIDE) bench/bin/bench --driver-binary bin/pod-info-fuse --plugin-binary bin/pod-info-fuse-csi --check

# Both drivers on a real Linux 6.1, in an emulated machine: no errors but those that are allowed, and
# times are only printed.
e2e-linux-6.1: chaos-builds
	e2e/linux-6.1/run.sh 'set -e; uname -r; \
		chaos kill --driver-binary /bin/strict $(MANY_KILLS) --eintr-allowed; \
		chaos lossy --driver-binary /bin/lossy --eintr-allowed $(ROUNDS); \
		chaos hang --driver-binary /bin/pod-info-fuse --eintr-allowed --rounds $(call long,3,1); \
		chaos upgrade --driver-binary /bin/pod-info-fuse --other-binary /bin/other $(ROUNDS); \
		chaos idmap --driver-binary /bin/pod-info-fuse --expect EINVAL' \
		e2e/bin/chaos e2e/bin/lossy e2e/bin/strict e2e/bin/other bin/pod-info-fuse
	e2e/podfuse/setup.sh
	go build -o $(PODCHAOS) ./e2e/podchaos
	e2e/linux-6.1/containers.sh ' \
		podchaos kill $(POD_FUSE_6.1) --kills $(call long,5,2); \
		podchaos kill $(POD_FUSE_6.1) --kills $(call long,2,1) --with pair; \
		podchaos kill $(POD_FUSE_6.1) --kills $(call long,2,1) --with mounter; \
		podchaos wait $(POD_FUSE_6.1) --kills 1 --estale-allowed --promptly 1m; \
		podchaos stop $(POD_FUSE_6.1) --promptly 1m' \
		bindfs $(PODCHAOS) bin/pod-fuse

POD_FUSE_6.1 = --driver-binary /bin/pod-fuse --modules /bin --programs bindfs --before-6.9

# Both drivers on arm64, on Debian's kernel in an emulated machine: they serve and take over, and call
# nothing that their filters of system calls deny. It is for a release: .ci/run has no time for it.
e2e-arm64:
	GOARCH=arm64 $(MAKE) chaos-builds BIN=bin/linux-arm64 E2E_BIN=$(ARM64)
	ARCH=arm64 LIMIT=3600 e2e/linux-6.1/run.sh 'set -e; uname -rm; \
		chaos kill --slow 5 --driver-binary /bin/strict --duration 30s --kills 20 --eintr-allowed; \
		chaos kill --slow 5 --driver-binary /bin/pod-info-fuse --duration 30s --kills 20 --eintr-allowed; \
		chaos lossy --slow 5 --driver-binary /bin/lossy --rounds 10 --eintr-allowed; \
		chaos hang --slow 5 --driver-binary /bin/strict --rounds 2 --eintr-allowed; \
		chaos upgrade --slow 5 --driver-binary /bin/strict --other-binary /bin/other --rounds 6; \
		chaos idmap --slow 5 --driver-binary /bin/strict --expect EINVAL; \
		chaos soak --slow 5 --driver-binary /bin/strict --other-binary /bin/other --duration 6m --eintr-allowed' \
		$(addprefix $(ARM64)/,chaos strict lossy other) bin/linux-arm64/pod-info-fuse
	GOARCH=arm64 go build -o $(ARM64)/podchaos ./e2e/podchaos
	GOARCH=arm64 go build -o $(ARM64)/loopback github.com/hanwen/go-fuse/v2/example/loopback
	GOARCH=arm64 go build $(call with,strict) -o $(ARM64)/pod-fuse ./cmd/pod-fuse
	ARCH=arm64 PACKAGES='runc libseccomp2 libc6' e2e/linux-6.1/containers.sh 'set -e; \
		podchaos kill $(POD_FUSE_ARM64) --kills 2; \
		podchaos kill $(POD_FUSE_ARM64) --kills 2 --with mounter' \
		'' $(addprefix $(ARM64)/,podchaos loopback pod-fuse)

ARM64 = e2e/bin/linux-arm64
POD_FUSE_ARM64 = --driver-binary /bin/pod-fuse --modules /bin --programs loopback --before-6.9

# Volumes read by containers where SELinux enforces a policy, in an emulated machine.
e2e-selinux: build
	go build -o e2e/bin/fs-loopback ./e2e/loopback
	e2e/selinux/run.sh bin/pod-info-fuse bin/pod-fuse e2e/bin/fs-loopback

# Volumes in containers with a user namespace, by runc.
e2e-userns: build
	e2e/userns/run.sh bin/pod-info-fuse

# A kubelet that systemd restarts, in containers with a real systemd.
e2e-systemd: build
	e2e/systemd/run.sh

# What runs before a change is called done: the long form of each suite that .ci/run has in its
# short one, the kubelets, clusters and the architecture for which .ci/run has no time, and what a release has to
# show. Prints the time of each. OLDER are kubelets: the oldest for containerd 2, and one between. A release has all.
OLDER ?= 1.34.4 1.31.4
release-suite:
	set -e; for suite in chaos chaos-pod-fuse mutate fuzz 'soak SOAK=30m' e2e-linux-6.1 $(OLDER:%='e2e KUBERNETES=%') \
		'e2e KUBERNETES=1.30 RUNTIME=debian' 'e2e-cluster KUBERNETES=1.36' e2e-arm64 release-again 'vulncheck VULNDB=latest'; do \
		begun=$$(date +%s); $(MAKE) $$suite; echo "=== make $$suite: $$(($$(date +%s) - begun)) s"; \
	done

# Modules of a few lines that use hundreds of packages, Kubernetes' and others': staticcheck would look at all of these.
OF_MANY = deploy/check deploy/check/psp deploy/check/monitoring e2e/csisanity e2e/podfuse/rclone
lint:
	test -z "$$(gofmt -l .)" || { gofmt -d .; exit 1; }
	go vet ./...
	go vet -tags e2e,cluster,systemd ./e2e/...
	go vet -tags mutate,programs $(call with,all) ./...
	go run $(STATICCHECK) ./...
	go run $(STATICCHECK) -tags e2e,cluster,systemd ./e2e/...
	go mod tidy -diff
	for module in deploy/image deploy/release/sbom; do go -C $$module run $(STATICCHECK) ./... || exit; done
	for module in deploy/image deploy/release/sbom $(OF_MANY); do go -C $$module vet ./... && go -C $$module mod tidy -diff || exit; done
	.ci/check

clean:
	rm -rf bin dist e2e/bin bench/bin
