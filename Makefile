# Everything a newcomer or CI needs. Each target sets up what it uses, Debian packages included.

CARGO ?= cargo
FUZZ_SECONDS ?= 60

.PHONY: help demo test lint bench bench-ci bench-record dedicated baseline fuzz

help:
	@echo "make demo          a simulated control plane with sluice before it, and what to try; DEMO=\"--listen ...\" if its port is taken"
	@echo "make test          all tests"
	@echo "make lint          formatting, clippy, documentation"
	@echo "make bench         the codec's speed and the proxy's cost, for people"
	@echo "make dedicated     CPU and memory of one sluice beside nginx; fails when a bound of the design is missed"
	@echo "make bench-ci      the same, and instruction counts against the record; fails when they grow"
	@echo "make baseline      build and test the Go proxy that sluice is to be compared with"
	@echo "make bench-record  record the instruction counts (commit the file with the change that explains it)"
	@echo "make fuzz          each fuzz target for FUZZ_SECONDS ($(FUZZ_SECONDS))"

# $(call need,command,package): install a Debian package unless its command is there.
need = @command -v $(1) >/dev/null || { \
	echo "installing Debian package $(2)"; \
	apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $(2) >/dev/null; }

# Ends with Ctrl-C. Cargo becomes the program it runs, so that nothing stands between it and the terminal.
demo:
	$(call need,curl,curl)
	$(CARGO) build --release --locked -p sluice -p sluice-loadtest
	@$(CARGO) run --quiet --release --locked -p sluice-loadtest -- demo $(DEMO)

test:
	$(call need,promtool,prometheus)
	$(call need,curl,curl)
	@if $(CARGO) nextest --version >/dev/null 2>&1; \
	then $(CARGO) nextest run --workspace --locked $(if $(CI),--profile ci) && $(CARGO) test --workspace --locked --doc; \
	else $(CARGO) test --workspace --locked; fi

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items --locked
	@if $(CARGO) deny --version >/dev/null 2>&1; \
	then $(CARGO) deny --locked --config .cargo/deny.toml check bans licenses sources; \
	else echo "cargo-deny is not installed: dependencies were not checked"; fi

# Where a release build puts its programs. They are run from there: `cargo run` of one package would build it again, with fewer features.
RELEASE = $(or $(CARGO_TARGET_DIR),target)/release

bench: dedicated
	$(CARGO) bench -p sluice-bench --locked
	$(RELEASE)/sluice-bench ratios

dedicated:
	$(call need,nginx,nginx-light)
	$(CARGO) build --release --locked -p sluice -p sluice-bench
	$(RELEASE)/sluice-bench dedicated

baseline:
	mkdir -p $(RELEASE)
	bench/expfmt-baseline/build.sh $(abspath $(RELEASE))/expfmt-baseline --test

bench-ci: dedicated
	$(call need,valgrind,valgrind)
	$(RELEASE)/sluice-bench instructions

fuzz:
	$(call need,c++,g++)
	@$(CARGO) fuzz --version >/dev/null 2>&1 || $(CARGO) install cargo-fuzz --locked
	cd codec && for target in line rewrite merge; do \
	  mkdir -p fuzz/corpus/$$target && \
	  RUSTC_BOOTSTRAP=1 $(CARGO) fuzz run --sanitizer none --no-trace-compares $$target fuzz/corpus/$$target fuzz/seeds/$$target -- \
	    -dict=fuzz/exposition.dict -max_len=4096 -timeout=10 -max_total_time=$(FUZZ_SECONDS) || exit 1; \
	done

bench-record:
	$(call need,valgrind,valgrind)
	$(CARGO) run --release -p sluice-bench --locked -- instructions record
