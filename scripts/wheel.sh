#!/usr/bin/env bash
# Builds the wheel of the Python package in target/dist: the library for every CPython from 3.9, and the program.
#   wheel.sh [PROFILE]   cargo's profile: release (the default), or dev, a quick build for tests
set -eu
cd "$(dirname "$0")/.."
profile=${1:-release}
built=$profile
[ "$profile" != dev ] || built=debug
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
venv=$target/wheel/venv
scripts=$target/wheel/data/scripts
if [ ! -x "$venv/bin/maturin" ]; then
    python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check 'maturin>=1.9,<2'
fi
cargo build --profile "$profile" --locked -p longfat
mkdir -p "$scripts"
strip -o "$scripts/longfat" "$target/$built/longfat"
(cd python && CARGO_TARGET_DIR=$target "$venv/bin/maturin" build --profile "$profile" --locked --out "$target/dist")
ls -l "$target"/dist/longfat-*.whl
