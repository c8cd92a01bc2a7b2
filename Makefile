# longfat: `make demo` and `make test` do everything on a fresh Debian 12 machine with Rust and root.

TARGET ?= $(or $(CARGO_TARGET_DIR),target)
LONGFAT = $(TARGET)/release/longfat
DEMO = $(TARGET)/demo

.PHONY: demo test web test-web instructions bench fidelity lint fuzz build dist test-dist setup install docs-pictures clean

demo: build
	@mkdir -p $(DEMO)
	$(LONGFAT) --runs $(DEMO)/runs run scenarios/lab8-ping.toml --engine model,lab --report $(DEMO)/lab8-ping.html
	$(LONGFAT) --runs $(DEMO)/runs run scenarios/lab8.toml --engine model,lab --report $(DEMO)/lab8.html
	@echo
	@echo "The report, with plots and the reasons: $(abspath $(DEMO))/lab8.html"
	@echo "The ping report:                        $(abspath $(DEMO))/lab8-ping.html"

build: setup
	cargo build --release --locked -p longfat

test:
	@scripts/setup.sh tests
	@scripts/test.sh

lint: setup
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet
	scripts/check-pure.sh

# The page from its sources in web/ (Node 20), and its tests in a headless Chromium.
web:
	@scripts/setup.sh web
	scripts/web.sh build

test-web: build
	@scripts/setup.sh web
	LONGFAT=$(abspath $(LONGFAT)) scripts/web.sh test

# Fuzzes every decoder for a minute each.
fuzz: setup
	@scripts/fuzz.sh

# Instructions that a simulated packet costs, by valgrind, against crates/sim/benches/tcp/instructions.csv; part of
# `make test`. Where they are meant to change: cargo bench -p longfat-sim --bench tcp -- instructions write
instructions: setup
	cargo bench --locked -p longfat-sim --bench tcp -- instructions

# The network in virtual time, what simulations cost with the targets beside it (and ns-3, where that is installed), the
# lab against a plain veth pair and against the payload limit, what calls of congestion controls cost in the kernel, and
# tests against iperf3's, TCP and UDP.
bench: setup
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
fidelity: setup
	LONGFAT_PATTERNS=40 cargo test --release --locked -p longfat --test all differential:: -- --nocapture
	cargo bench --locked -p longfat --bench fidelity

# Installs what is missing for building: a C compiler, clang for eBPF, and what libbpf is built with.
setup:
	@scripts/setup.sh

# For people without a compiler: a static program and a .deb, in $(TARGET)/dist.
dist:
	@scripts/setup.sh dist
	@scripts/dist.sh

# Installs the .deb in a clean root, runs it, removes it, and sees that nothing is left (root, Debian's mirror).
test-dist: dist
	@scripts/test-deb.sh

install: build
	install -m 755 $(LONGFAT) $(or $(DESTDIR),/usr/local/bin)/longfat

# Draws the pictures of README and docs anew, by the program itself.
docs-pictures: build
	@scripts/docs-pictures.sh $(LONGFAT)

clean:
	cargo clean
