#!/usr/bin/env bash
# Builds the pure crates for a target without an operating system: they must do no I/O and read no clock.
set -eu
target=wasm32-unknown-unknown
if ! rustc --print target-libdir --target $target 2>/dev/null | xargs test -d 2>/dev/null; then
    rustup target add $target 2>/dev/null || { echo "skipped: rustup cannot add the target $target"; exit 0; }
fi
# The playground includes the congestion controls, which scripts/playground.sh builds; here it is built
# without them.
modules=$(realpath -m "${CARGO_TARGET_DIR:-target}")/no-controls
mkdir -p "$modules"
echo '&[]' >"$modules/algorithms.rs"
LONGFAT_CC_MODULES=$modules cargo build --quiet --locked --target $target -p longfat-units -p longfat-datagrams -p longfat-bulk -p longfat-capture -p longfat-model -p longfat-net -p longfat-probe -p longfat-scenario -p longfat-schema -p longfat-verdict -p longfat-tcp -p longfat-engine-common -p longfat-sim -p longfat-computed-runs -p longfat-reservation -p longfat-limits -p longfat-playground
