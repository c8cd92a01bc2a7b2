#!/usr/bin/env bash
# Downloads the congestion controls of the kernel's selftests from Debian's source packages, and tests each in the kernel
# and in the simulator.
#   selftests.sh write   writes the table in docs/write-your-own-cc.md
#   selftests.sh check   compares with the table
# Needs root, apt and 500 MB in SELFTESTS_PLACE (/var/tmp/longfat-selftests), where the downloads are kept. The machine's
# own package lists and sources do not change.
set -eu
cd "$(dirname "$0")/.."
place=$(realpath -m "${SELFTESTS_PLACE:-/var/tmp/longfat-selftests}")
# Suites, oldest first: stable with its updates, the next stable, and the newest release that Debian has built.
suites=("debian-security bookworm-security" "debian trixie-backports")
series=(6.1 6.12)
case ${1:-write} in
    write) export LONGFAT_SELFTESTS_WRITE=1 ;;
    check) ;;
    *) echo "usage: $0 [write|check]" >&2; exit 2 ;;
esac

mkdir -p "$place"/apt/{state/lists/partial,cache/archives/partial} "$place/debs"
for suite in "${suites[@]}"; do
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/$suite main"
done > "$place/apt/sources.list"
cat > "$place/apt/apt.conf" <<END
Dir::State "$place/apt/state";
Dir::Cache "$place/apt/cache";
Dir::Etc::sourcelist "$place/apt/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::status "/var/lib/dpkg/status";
APT::Sandbox::User "root";
END
export APT_CONFIG=$place/apt/apt.conf
apt-get update -qq
newest=$(apt-cache search '^linux-source-[0-9.]+$' | sed -n 's/^linux-source-\([0-9.]*\) .*/\1/p' | sort -V | tail -n 1)
for version in "${series[@]}" "$newest"; do
    tree=$place/linux-source-$version
    [ -d "$tree" ] && continue
    echo "linux-source-$version:" >&2
    (cd "$place/debs" && apt-get download -qq "linux-source-$version")
    archive=$(find "$place/debs" -name "linux-source-${version}_*.deb" | sort -V | tail -n 1)
    mkdir -p "$place/unpack"
    dpkg-deb --fsys-tarfile "$archive" | tar -xO --wildcards './usr/src/linux-source-*.tar.xz' |
        tar -xJ -C "$place/unpack" "linux-source-$version/tools/testing/selftests/bpf/progs"
    mv "$place/unpack/linux-source-$version" "$tree"
    rm -f "$archive"
done
unset APT_CONFIG
LONGFAT_SELFTESTS=$place cargo test -p longfat-cc --locked --test all selftests:: -- --nocapture
