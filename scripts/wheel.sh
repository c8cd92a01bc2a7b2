#!/usr/bin/env bash
# Builds the wheel of the Python package in target/dist: the library for every CPython from 3.9, and the static program of
# scripts/program.sh. Checks that the wheel is small enough, and runs where its name says.
#   wheel.sh [PROFILE]   cargo's profile: packaged (the default), or dev, a quick build for tests, which may be large
set -eu
cd "$(dirname "$0")/.."
profile=${1:-packaged}
# Of the wheel, bytes.
MAX_SIZE=25000000
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
venv=$target/wheel/venv
scripts=$target/wheel/data/scripts
fail() { echo "wheel: $*" >&2; exit 1; }

if [ ! -x "$venv/bin/maturin" ]; then
    python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check 'maturin>=1.9,<2'
fi
# Not by `uname -m`: Rust calls riscv64 riscv64gc, and the machine may be 64-bit with 32-bit programs.
host=$(rustc -vV | sed -n 's/^host: //p')
scripts/program.sh "$host" "$scripts/longfat" "$profile"
rm -f "$target"/dist/longfat-*.whl
# The library has no page. A relative path of the module would be relative to a folder of the build.
(cd python && LONGFAT_PLAYGROUND_WASM= CARGO_TARGET_DIR=$target "$venv/bin/maturin" build --profile "$profile" --locked --out "$target/dist")
wheel=$(ls "$target"/dist/longfat-*.whl)

size=$(stat -c %s "$wheel")
[ "$profile" = dev ] || [ "$size" -lt "$MAX_SIZE" ] || fail "$wheel has $size bytes; the limit is $MAX_SIZE"
# The oldest glibc on which the wheel runs: manylinux_2_34 in its name is glibc 2.34 (PEP 600).
oldest=$(basename "$wheel" | sed -n 's/.*manylinux_\([0-9]*\)_\([0-9]*\)_.*/\1.\2/p')
[ -n "$oldest" ] || fail "the name of $wheel names no glibc"
content=$target/wheel/content
rm -rf "$content"
python3 -m zipfile -e "$wheel" "$content"
files=("$content"/longfat/_native.abi3.so "$content"/longfat-*.data/scripts/longfat)
for file in "${files[@]}"; do
    [ -f "$file" ] || fail "$wheel has no ${file#"$content"/}"
    # A program that needs no library has no such versions.
    needed=$(readelf -W -V "$file" | sed -n 's/.*Name: GLIBC_\([0-9][0-9.]*\).*/\1/p' | sort -V | tail -1)
    [ "$(printf '%s\n' "${needed:-0}" "$oldest" | sort -V | tail -1)" = "$oldest" ] ||
        fail "${file#"$content"/} needs glibc $needed, the name of the wheel says $oldest"
    echo "wheel: ${file#"$content"/}: $(stat -c %s "$file") bytes, glibc ${needed:-not needed}"
done
rm -rf "$content"
ls -l "$wheel"
