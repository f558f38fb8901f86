# Everything that CI runs is here; `make check` is all of it. Only Go and git are needed, and a C compiler for `race`.

.PHONY: check fmt vet staticcheck drift test race fuzz generate bench bench-torch chaos

# Tests and the race detector run side by side: each leaves a core idle now and then.
check: fmt vet staticcheck drift
	@$(MAKE) --no-print-directory -j 2 test race
	@$(MAKE) --no-print-directory fuzz

fmt:
	@bad="$$(gofmt -l .)"; test -z "$$bad" || { echo "gofmt is needed by:"; echo "$$bad"; exit 1; }

# The second line compiles everything for a CPU that none of the assembly is for.
vet:
	go vet ./...
	GOARCH=arm64 go vet ./...
	cd tools && go vet ./...

staticcheck:
	go tool -modfile=tools/go.mod staticcheck ./...

# Regenerates what is generated and fails if that changed anything.
drift:
	@before="$$($(GENERATED))"; $(MAKE) --no-print-directory generate; after="$$($(GENERATED))"; \
	test "$$before" = "$$after" || { echo "generated code was out of date, now it is not: commit it"; git diff --stat || true; exit 1; }

GENERATED = grep -rlE --include='*.go' --include='*.s' '^// Code generated .* DO NOT EDIT' . | sort | xargs cksum

test:
	go test ./...

# Not for role: its laws allow it no goroutine, and sim plays all of it.
race:
	@if command -v "$$(go env CC)" >/dev/null && test "$$(go env CGO_ENABLED)" = 1; \
	then echo "go test -race"; go test -race -short ./edge/... ./sim/adversary && \
	go test -race -run 'Random|Scenarios/(clean|adversaries|audit-clean|restart-phases)$$' ./sim && \
	go test -race -run 'MatMul|Close|Engine|Steady' ./learn/kernel; \
	else echo "race: SKIPPED, the race detector needs a C compiler"; fi

# Real processes, and what goes wrong with them: docs/chaos.md. About 25 minutes; `make test` runs the short form.
CHAOS ?= 5m
chaos:
	go test ./cmd/iota -run 'Chaos|FiveProcesses' -count 1 -v -timeout 60m -chaos $(CHAOS)

# Every decoder that reads from outside the process, for FUZZTIME each. What it finds is in testdata/fuzz of the package: from
# then on every test run tries that too.
FUZZTIME ?= 10s
fuzz:
	@grep -rno --include='*_test.go' '^func Fuzz[A-Za-z0-9]*' . | sed -E 's|^(.*)/[^/]*:[0-9]+:func (.*)|\1 \2|' | sort | \
	xargs -n 2 -P 2 sh -c 'log=$$(mktemp); echo "fuzz $$0 $$1"; \
		go test -run "^$$" -fuzz "^$$1\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x -parallel 2 "$$0" >$$log 2>&1; rc=$$?; \
		test $$rc = 0 || cat $$log; rm -f $$log; exit $$rc'

generate:
	cd tools && go run ./protogen ../protocol/message/message.proto ../protocol/message/service.proto
	$(if $(wildcard tools/kernelgen),cd tools && go run ./kernelgen)

# Speed and quality, measured on this machine. Takes minutes; no test depends on the numbers.
bench:
	go run ./cmd/iota bench stage
	go run ./cmd/iota bench pipeline
	go run ./cmd/iota bench clasp
	go run ./cmd/iota bench trust
	go run ./cmd/iota bench transport

# The stage beside PyTorch, in turn. COMPARE takes more flags, as in COMPARE='--case tiny,t2048 --threads 1'.
PYTHON ?= $(shell /usr/bin/python3 -c 'import torch' 2>/dev/null && echo /usr/bin/python3 || echo python3)
bench-torch:
	go build -o bin/iota ./cmd/iota
	PYTHONDONTWRITEBYTECODE=1 $(PYTHON) bench/torch/compare.py --iota bin/iota $(COMPARE)
