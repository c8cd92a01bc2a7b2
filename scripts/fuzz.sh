#!/usr/bin/env bash
# Fuzzes each target, or the named ones, for FUZZ_SECONDS (60) each. New inputs stay below target/fuzz. Put the input of a
# crash into fuzz/corpus/TARGET together with its fix; `make test` replays it.
set -eu
cd "$(dirname "$0")/.."
seconds=${FUZZ_SECONDS:-60}
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")/fuzz
cargo fuzz --version >/dev/null 2>&1 || cargo install cargo-fuzz --locked
# The sanitizers' flags belong to the nightly compiler; this setting makes the stable one accept them.
export RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=$target
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(cargo fuzz list)
for name in "${targets[@]}"; do
    mkdir -p "$target/corpus/$name"
    cargo fuzz run "$name" "$target/corpus/$name" "fuzz/corpus/$name" -- \
        -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -print_final_stats=1
done
