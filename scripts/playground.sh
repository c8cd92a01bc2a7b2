#!/usr/bin/env bash
# The playground: the model and the simulator as a WebAssembly module, and the static page that uses it.
#   playground.sh module  builds target/playground/playground.wasm (clang 16, and rustup for the target)
#   playground.sh build   also the page around it (Node 20): target/playground is a folder for any web server
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
target=wasm32-unknown-unknown
out=${CARGO_TARGET_DIR:-$root/target}/playground
cd "$root"
case ${1:-} in
module | build) ;;
*)
    sed -n '2,4s/^# //p' "$0" >&2
    exit 2
    ;;
esac
if ! rustc --print target-libdir --target $target 2>/dev/null | xargs test -d 2>/dev/null; then
    rustup target add $target || { echo "playground.sh needs Rust's target $target: rustup target add $target" >&2; exit 4; }
fi
mkdir -p "$out"
# The congestion controls are built for WebAssembly by the crate that also builds them natively.
cargo run --quiet --locked -p longfat-cc --example wasm_modules -- "$out/controls"
LONGFAT_CC_MODULES=$out/controls cargo build --locked --profile playground --target $target -p longfat-playground
cp "$out/../$target/playground/playground.wasm" "$out/playground.wasm"
if [ "$1" = build ]; then
    (cd web && LONGFAT_PLAYGROUND_OUT=$out npx --no-install vite build -c vite.playground.config.ts --logLevel warn)
fi
rm -rf "$out/controls"
