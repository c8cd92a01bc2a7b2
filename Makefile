# `make demo` and `make test` do everything on a fresh Debian 12 machine with Rust and root. `make help` lists all targets.

TARGET ?= $(or $(CARGO_TARGET_DIR),target)
LONGFAT = $(TARGET)/release/longfat
DEMO = $(TARGET)/demo

.PHONY: help demo test web playground test-web instructions bench fidelity lint format fuzz build dist test-dist test-tutorials wheel test-wheel test-python release site setup install docs-pictures reproduced reproduced-lab clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | awk -F '\t' '{ printf "make %-15s %s\n", $$1, $$2 }'

demo: build ## install missing packages, build, run Lab 8, print where the report is
	@mkdir -p $(DEMO)
	@# The second run starts even if the first one fails.
	@status=0; for scenario in lab8-ping lab8; do \
	    $(LONGFAT) --runs $(DEMO)/runs run scenarios/$$scenario.toml --engine model,lab --report $(DEMO)/$$scenario.html || status=$$?; \
	done; \
	echo; \
	echo "The report, with plots and the reasons: $(abspath $(DEMO))/lab8.html"; \
	echo "The ping report:                        $(abspath $(DEMO))/lab8-ping.html"; \
	exit $$status

# With the simulator for browsers where its tools are; `LONGFAT_PLAYGROUND_WASM= make build` builds without it.
build: setup ## build the program: target/release/longfat
	@module=$$(scripts/playground.sh path) && \
	LONGFAT_PLAYGROUND_WASM="$$module" cargo build --release --locked -p longfat

test: ## install the tools that tests compare with, run all tests
	@scripts/setup.sh tests
	@scripts/test.sh

# cargo-deny is not installed by this: cargo install --locked cargo-deny
lint: ## check formats, links of docs, clippy, rustdoc, licences, pure crates for WebAssembly
	@scripts/setup.sh lint
	cargo fmt --all --check
	scripts/format-comments.py check
	scripts/format-c.sh check
	scripts/check-docs.sh
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet
	scripts/check-pure.sh
	@if cargo deny --version >/dev/null 2>&1; then cargo deny check licenses bans sources; \
	else echo "skipped: cargo-deny is not installed (cargo install --locked cargo-deny)"; fi

format: ## format the Rust and C files
	cargo fmt --all
	scripts/format-comments.py write
	scripts/format-c.sh write

web: ## build the page of `longfat view` from web/ (Node 20)
	@scripts/setup.sh web
	scripts/web.sh build

playground: setup ## build the simulator for browsers and a page around it: target/playground (Node 20, rustup)
	@scripts/setup.sh web
	scripts/playground.sh build

test-web: build ## test the page in a headless Chromium
	@scripts/setup.sh web
	LONGFAT=$(abspath $(LONGFAT)) scripts/web.sh test

fuzz: setup ## fuzz every decoder for a minute each
	@scripts/fuzz.sh

# Counts by valgrind, compared with crates/sim/benches/tcp/instructions.csv; part of `make test`. After an intended change:
# cargo bench -p longfat-sim --bench tcp -- instructions write
instructions: setup ## compare the instructions per simulated packet with the committed counts
	cargo bench --locked -p longfat-sim --bench tcp -- instructions

# The network in virtual time; the cost of simulations beside the targets, and that of ns-3 if it is installed; the lab against
# a veth pair and the payload limit; large records in the page; the cost of congestion-control calls in the kernel; tests
# against iperf3's, TCP and UDP; the cost of watching connections; the accuracy of probes; the load of a measurement point (8 GB
# of disk). docs/benchmarks.md has figures.
bench: setup ## run all benchmarks and print results beside their targets
	cargo bench --locked -p longfat-net --bench hops
	cargo bench --locked -p longfat-sim --bench tcp
	scripts/bench-ns3.sh
	cargo bench --locked -p longfat-lab --bench lab
	cargo bench --locked -p longfat-view --bench page
	@scripts/setup.sh web
	scripts/web.sh bench
	cargo bench --locked -p longfat --bench cc
	cargo bench --locked -p longfat --bench iperf3
	ulimit -n 4096 && cargo bench --locked -p longfat-watch --bench sampling
	LONGFAT_PATHS=1000 cargo test --release --locked -p longfat-probe -- --nocapture
	cargo bench --locked -p longfat --bench probe
	cargo bench --locked -p longfat-agent --bench load

# The simulator against this machine's kernel in the lab: retransmissions of 40 loss patterns, and 62 scenarios of a minute
# each, four at a time. Runs are kept below target/; the result is written to docs/fidelity.md.
fidelity: setup ## compare the simulator with this kernel, half an hour
	LONGFAT_PATTERNS=40 cargo test --release --locked -p longfat --test all differential:: -- --nocapture
	cargo bench --locked -p longfat --bench fidelity

# A C compiler, clang for eBPF, and the libraries of libbpf.
setup: ## install the packages that building needs
	@scripts/setup.sh

dist: ## build a static program, an OCI image and a .deb in target/dist
	@scripts/setup.sh dist
	@scripts/dist.sh

# Needs root and Debian's mirror.
test-dist: dist ## install, run and remove the .deb in a clean root, check that nothing is left
	@scripts/test-deb.sh

# After make dist wheel. Needs root, Debian's mirror and PyPI; about half an hour.
test-tutorials: ## follow README.md's installation and the tutorials in a clean root with the packages of target/dist
	@scripts/test-tutorials.sh

# Needs Python 3.9 with venv, and PyPI for maturin.
wheel: setup ## build the Python package, with the program, in target/dist
	@scripts/wheel.sh

# After make wheel. Needs PyPI.
test-wheel: ## test the wheel of target/dist in a new virtual environment, print the cost of an import and of a run
	@scripts/test-python.sh wheel

# Part of `make test`, without the slow ones. `scripts/test-python.sh slow` needs PyPI for Ray and Dask.
test-python: setup ## test the Python package from the sources
	@scripts/test-python.sh

# The version of Cargo.toml; CHANGELOG.md must have its section.
release: setup ## make all files of a release in target/dist: packages, wheel, bill of materials, notes, checksums
	@scripts/setup.sh dist
	@scripts/release.sh

# Needs Python 3, PyPI and npm; with the playground, which needs a web server.
site: build playground ## build the site of the documentation in target/site/html
	@scripts/setup.sh web
	@scripts/site.sh $(LONGFAT)

install: build ## copy the program to /usr/local/bin (or DESTDIR)
	install -m 755 $(LONGFAT) $(or $(DESTDIR),/usr/local/bin)/longfat

docs-pictures: build ## redraw the pictures of README and docs from fresh runs
	@scripts/docs-pictures.sh $(LONGFAT)

reproduced: build ## run all published experiments, write their tables in docs/reproduced.md
	$(LONGFAT) reproduce --markdown docs/reproduced.md

reproduced-lab: build ## measure published experiments in the lab, as root on an idle machine, and write their tables
	$(LONGFAT) reproduce --engine lab --lab=3h --reuse --markdown docs/reproduced.md

clean: ## remove everything that was built
	cargo clean
