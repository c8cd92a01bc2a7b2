#!/usr/bin/env bash
# Gets Rust's library, libelf and zlib for aarch64, and prints the environment in which cargo builds for aarch64 with them, a variable per
# line. apt downloads them into the directory; the machine gets no second architecture.
#   aarch64.sh DIRECTORY   exit code 3: this machine cannot get them
set -eu
apt=$(realpath -m "$1")
unavailable() { echo "dist: no $*" >&2; exit 3; }

command -v aarch64-linux-gnu-gcc >/dev/null || unavailable "aarch64-linux-gnu-gcc"
rustup target add aarch64-unknown-linux-gnu >/dev/null 2>&1 || unavailable "Rust library for aarch64"
mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/root"
options=(-qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root
    -o Dir::State::lists="$apt/lists" -o Dir::Cache="$apt/cache" -o Dir::State::status=/dev/null)
(cd "$apt" && apt-get "${options[@]}" update && apt-get "${options[@]}" download libelf-dev zlib1g-dev) >&2 ||
    unavailable "libelf-dev and zlib1g-dev of arm64"
for package in "$apt"/*.deb; do dpkg-deb -x "$package" "$apt/root"; done
compiler=$(command -v aarch64-linux-gnu-gcc)
cat <<END
CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
LONGFAT_CC=$compiler
LIBBPF_SYS_LIBRARY_PATH=$apt/root/usr/lib/aarch64-linux-gnu
LIBBPF_SYS_EXTRA_CFLAGS=-I$apt/root/usr/include -I$apt/root/usr/include/aarch64-linux-gnu
END
