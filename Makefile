# Every target works on a clean clone. Those that mount need root.

VERSION ?= 0.1.0
export CGO_ENABLED = 0

.PHONY: build demo test race fuzz e2e lint clean

# One static binary.
build:
	go build -trimpath -buildvcs=false -ldflags '-s -w -X main.version=$(VERSION)' -o bin/pod-info-fuse ./cmd/pod-info-fuse

# Plays the kubelet: mounts a volume, shows its files, unmounts.
demo: build
	docs/demo.sh bin/pod-info-fuse

# Everything that needs no kubelet, on real FUSE mounts.
test:
	go test -count=1 ./...

# The same with the race detector, which needs cgo.
race:
	CGO_ENABLED=1 go test -race -count=1 ./...

# Each fuzz target for a short time.
FUZZTIME ?= 20s
fuzz:
	go test -run=^$$ -fuzz=^FuzzOptions$$ -fuzztime=$(FUZZTIME) -fuzzminimizetime=1s ./flex
	go test -run=^$$ -fuzz=^FuzzAnswer$$ -fuzztime=$(FUZZTIME) -fuzzminimizetime=1s ./flex
	go test -run=^$$ -fuzz=^FuzzRecord$$ -fuzztime=$(FUZZTIME) -fuzzminimizetime=1s ./volume

# A real kubelet, built from the module proxy, on containerd and runc.
e2e: build
	e2e/setup.sh
	go test -tags e2e -count=1 -timeout 20m ./e2e/...

STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

lint:
	test -z "$$(gofmt -l .)" || { gofmt -d .; exit 1; }
	go vet ./...
	go vet -tags e2e ./e2e/...
	go run $(STATICCHECK) ./...
	go run $(STATICCHECK) -tags e2e ./e2e/...
	go mod tidy -diff
	.ci/check

clean:
	rm -rf bin e2e/bin
