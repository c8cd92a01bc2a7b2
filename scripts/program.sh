#!/usr/bin/env bash
# Builds the program of the packages and of the wheel: static, without symbols, and with the simulator for browsers if this machine has the
# tools for it. A program for this machine is tested.
#   program.sh TRIPLE OUTPUT [PROFILE]   Rust's target; the file to write; cargo's profile: packaged (the default), or dev
#
# Static with glibc, not musl: libbpf needs libelf and zlib, which Debian has as static libraries for glibc only. A static
# program has no dynamic loader; crates/cc/src/native/static_image.rs loads congestion controls instead.
set -eu
triple=$1 output=$(realpath -m "$2") profile=${3:-packaged}
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
built=$profile
[ "$profile" != dev ] || built=debug
LONGFAT_PLAYGROUND_WASM=$(scripts/playground.sh path)
export LONGFAT_PLAYGROUND_WASM
# With --target the flag applies to the program only, not to build scripts and macros.
# Without the date of scripts/dist.sh: each commit has another one, and with it the C sources would be compiled again, and all that
# depends on them. None of them contains the date of its compilation.
RUSTFLAGS="-C target-feature=+crt-static" env -u SOURCE_DATE_EPOCH cargo build --profile "$profile" --locked -p longfat --target "$triple" >&2
install -D -m 755 "$target/$triple/$built/longfat" "$output"
if readelf -d "$output" | grep -q NEEDED; then
    echo "program: $triple: the program still needs libraries" >&2
    exit 1
fi
if [ "$triple" = "$(rustc -vV | sed -n 's/^host: //p')" ]; then
    # Cargo strips the profile `packaged`.
    [ "$profile" != dev ] || strip "$output"
    scripts/test-program.sh "$output" "$LONGFAT_PLAYGROUND_WASM"
fi
