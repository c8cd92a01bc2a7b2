#!/usr/bin/env bash
# The playground: the model and the simulator as a WebAssembly module, and the static page that uses it.
#   playground.sh module  builds target/playground/playground.wasm (clang 16, and rustup for the target)
#   playground.sh build   also the page around it (Node 20): target/playground is a folder for any web server
#   playground.sh path    for builds of the program: builds the module and prints its path. Where a tool is missing, prints nothing, and
#                         the cause on standard error. If LONGFAT_PLAYGROUND_WASM is set, even to nothing, prints that and builds nothing
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
target=wasm32-unknown-unknown
out=$(realpath -m "${CARGO_TARGET_DIR:-$root/target}/playground")
skip() { echo "playground: the program is built without \`New run\`; missing: $*" >&2; exit; }
cd "$root"
case ${1:-} in
module | build | path) ;;
*)
    sed -n '2,6s/^# //p' "$0" >&2
    exit 2
    ;;
esac
if [ "$1" = path ]; then
    if [ -n "${LONGFAT_PLAYGROUND_WASM+set}" ]; then
        [ -z "$LONGFAT_PLAYGROUND_WASM" ] || realpath -e "$LONGFAT_PLAYGROUND_WASM"
        exit
    fi
    # Standard output has the path and nothing else.
    exec 3>&1 >&2
    [ -x "$(dirname "$(rustc --print target-libdir)")/bin/rust-lld" ] || skip "rust-lld, which rustup installs"
fi
if ! rustc --print target-libdir --target $target 2>/dev/null | xargs test -d 2>/dev/null; then
    [ "$1" != path ] || skip "Rust's target $target (rustup target add $target)"
    rustup target add $target || { echo "playground.sh needs Rust's target $target: rustup target add $target" >&2; exit 4; }
fi
mkdir -p "$out"
# Replaces a file or directory if the content differs: cargo compares times, and would build again what includes it.
replace() { diff -rq "$1" "$2" >/dev/null 2>&1 || { rm -rf "$2" && cp -r "$1" "$2"; }; }
# The congestion controls are built for WebAssembly by the crate that also builds them natively.
controls=$out-controls
rm -rf "$controls.new"
cargo run --quiet --locked -p longfat-cc --example wasm_modules -- "$controls.new"
replace "$controls.new" "$controls"
rm -rf "$controls.new"
LONGFAT_CC_MODULES=$controls cargo build --locked --profile playground --target $target -p longfat-playground
replace "$out/../$target/playground/playground.wasm" "$out/playground.wasm"
case $1 in
build) (cd web && LONGFAT_PLAYGROUND_OUT=$out npx --no-install vite build -c vite.playground.config.ts --logLevel warn) ;;
path) echo "$out/playground.wasm" >&3 ;;
esac
