# longfat: `make demo` and `make test` do everything on a fresh Debian 12 machine with Rust and root. `make help` lists the rest.

TARGET ?= $(or $(CARGO_TARGET_DIR),target)
LONGFAT = $(TARGET)/release/longfat
DEMO = $(TARGET)/demo

.PHONY: help demo test web test-web instructions bench fidelity lint fuzz build dist test-dist setup install docs-pictures clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | awk -F '\t' '{ printf "make %-14s %s\n", $$1, $$2 }'

demo: build ## install what is missing, build, run Lab 8, say where the report lies
	@mkdir -p $(DEMO)
	@# The second run is made even if the first one fails.
	@status=0; for scenario in lab8-ping lab8; do \
	    $(LONGFAT) --runs $(DEMO)/runs run scenarios/$$scenario.toml --engine model,lab --report $(DEMO)/$$scenario.html || status=$$?; \
	done; \
	echo; \
	echo "The report, with plots and the reasons: $(abspath $(DEMO))/lab8.html"; \
	echo "The ping report:                        $(abspath $(DEMO))/lab8-ping.html"; \
	exit $$status

build: setup ## the program: target/release/longfat
	cargo build --release --locked -p longfat

test: ## install the tools that tests compare with, run every test
	@scripts/setup.sh tests
	@scripts/test.sh

lint: setup ## format, clippy, documentation, pure crates for WebAssembly
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet
	scripts/check-pure.sh

# The page from its sources in web/ (Node 20), and its tests in a headless Chromium.
web: ## the page of `longfat view` from web/ (Node 20)
	@scripts/setup.sh web
	scripts/web.sh build

test-web: build ## the page in a headless Chromium
	@scripts/setup.sh web
	LONGFAT=$(abspath $(LONGFAT)) scripts/web.sh test

# Fuzzes every decoder for a minute each.
fuzz: setup ## fuzz every decoder for a minute each
	@scripts/fuzz.sh

# Instructions that a simulated packet costs, by valgrind, against crates/sim/benches/tcp/instructions.csv; part of
# `make test`. Where they are meant to change: cargo bench -p longfat-sim --bench tcp -- instructions write
instructions: setup ## instructions that a simulated packet costs
	cargo bench --locked -p longfat-sim --bench tcp -- instructions

# The network in virtual time, what simulations cost with the targets beside it (and ns-3, where that is installed), the
# lab against a plain veth pair and against the payload limit, what calls of congestion controls cost in the kernel, and
# tests against iperf3's, TCP and UDP.
bench: setup ## benchmarks, beside their targets
	cargo bench --locked -p longfat-net --bench hops
	cargo bench --locked -p longfat-sim --bench tcp
	scripts/bench-ns3.sh
	cargo bench --locked -p longfat-lab --bench lab
	cargo bench --locked -p longfat-view --bench page
	@scripts/setup.sh web
	scripts/web.sh bench
	cargo bench --locked -p longfat --bench cc
	cargo bench --locked -p longfat --bench iperf3
	ulimit -n 4096 && cargo bench --locked -p longfat-watch --bench look
	LONGFAT_PATHS=1000 cargo test --release --locked -p longfat-probe -- --nocapture
	cargo bench --locked -p longfat --bench probe

# The simulator against this machine's kernel in the lab: retransmissions of 40 loss patterns, and a matrix of 62 scenarios
# of a minute each, four at a time (half an hour). Runs are kept beside the program; docs/fidelity.md says what came out.
fidelity: setup ## the simulator against this kernel, half an hour
	LONGFAT_PATTERNS=40 cargo test --release --locked -p longfat --test all differential:: -- --nocapture
	cargo bench --locked -p longfat --bench fidelity

# Installs what is missing for building: a C compiler, clang for eBPF, and what libbpf is built with.
setup: ## install what building needs
	@scripts/setup.sh

# For people without a compiler: a static program and a .deb, in $(TARGET)/dist.
dist: ## a static program and a .deb, in target/dist
	@scripts/setup.sh dist
	@scripts/dist.sh

# Installs the .deb in a clean root, runs it, removes it, and sees that nothing is left (root, Debian's mirror).
test-dist: dist ## install, run and remove the .deb in a clean root
	@scripts/test-deb.sh

install: build ## copy the program to /usr/local/bin (or DESTDIR)
	install -m 755 $(LONGFAT) $(or $(DESTDIR),/usr/local/bin)/longfat

# Draws the pictures of README and docs anew, by the program itself.
docs-pictures: build ## draw the pictures of README and docs anew
	@scripts/docs-pictures.sh $(LONGFAT)

clean: ## remove what was built
	cargo clean
