#!/usr/bin/env bash
# Follows the installation of README.md and the tutorials in a clean Debian root with the packages of target/dist: saves the files of each
# page, and executes its commands and Python examples in order, as printed. Each page has a container: a process and a network namespace
# without other programs. Needs root, Debian's mirror and PyPI. target/tutorials has what each page printed.
#   scripts/test-tutorials.sh [PAGE...]   README.md and the tutorials of site/mkdocs.yml; or only some, as in docs/tutorials/slow-transfer.md
# Exit codes: 1 a command failed; 4 no command failed, but this machine lacks a privilege or feature for a page.
set -eu
# The user of the container must be able to read the files.
umask 022
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
dist=$target/dist logs=$target/tutorials
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
machine=$(uname -m)
say() { echo "test-tutorials: $*"; }
fail() { echo "test-tutorials: $*" >&2; exit 1; }

all=(README.md $(scripts/tutorial-script.py --list))
pages=("$@")
[ $# -gt 0 ] || pages=("${all[@]}")
for page in "${pages[@]}"; do
    [[ " ${all[*]} " == *" $page "* ]] || fail "$page is no tutorial; there are ${all[*]}"
done
# Whether one of the pages has Python examples.
has_python() { grep -q '^```python$' "${pages[@]}"; }

# The file of dist with this name, which may have a pattern.
package() {
    local pattern=$1 target=$2 found
    [ -d "$dist" ] || fail "there is no $dist: make dist wheel"
    found=$(find "$dist" -maxdepth 1 -name "$pattern" | sort)
    [ "$(grep -c . <<<"$found")" = 1 ] || fail "$dist needs one $pattern, and has ${found:-none}: make $target"
    echo "$found"
}
archive=$(package "longfat-$version-$machine-linux.tar.gz" dist)
deb=$(package "longfat_${version}_$(dpkg --print-architecture).deb" dist)
wheel=
if has_python; then wheel=$(package "longfat-$version-*_$machine.whl" wheel); fi

. scripts/clean-root.sh
for tool in unshare pivot_root ip setpriv; do
    command -v $tool >/dev/null || fail "$tool is missing: apt-get install util-linux iproute2"
done
rm -rf "$logs"
mkdir -p "$logs"
for page in "${pages[@]}"; do
    scripts/tutorial-script.py "$page" >"$logs/$(basename "$page" .md).sh"
done
# Not in /tmp, which may be mounted without set-user-ID programs.
root=$(mktemp -d "$target/root.XXXXXX")
trap 'rm -rf --one-file-system "$root"' EXIT
say "makes a clean root in $root"
make_clean_root "$root"
chmod 755 "$root"

# Executes a command in a container with the files of the root. Its processes and mounts end with it.
#   container NETWORK USER COMMAND...   NETWORK: own (loopback only), or machine
# By pivot_root, because in a root of chroot there are no user namespaces, and the propagation of mounts cannot be changed.
container() {
    local network=$1 user=$2 options=(--mount --propagation private --pid --fork --kill-child)
    shift 2
    [ "$network" = machine ] || options+=(--net)
    unshare "${options[@]}" bash -euc '
        root=$1 network=$2 user=$3 home=/home/$3
        shift 3
        [ "$user" != root ] || home=/root
        # What package managers need to reach their servers.
        mapfile -t variables < <(env | grep -E "^(https?_proxy|HTTPS?_PROXY|no_proxy|NO_PROXY|PIP_(INDEX_URL|EXTRA_INDEX_URL|DEFAULT_TIMEOUT|CERT))=")
        [ "$network" = machine ] || ip link set lo up
        mount --bind "$root" "$root"
        cd "$root"
        mount -t proc proc proc
        mount -t sysfs sysfs sys
        # Commands that need these name what is missing.
        mount -t bpf bpf sys/fs/bpf 2>/dev/null || true
        mount --rbind /sys/fs/cgroup sys/fs/cgroup 2>/dev/null || true
        mount --rbind /dev dev
        mount -t tmpfs tmpfs run
        mkdir run/old
        pivot_root . run/old
        cd /
        umount -l run/old
        rmdir run/old
        exec setpriv --reuid "$user" --regid "$user" --init-groups \
            env -i "${variables[@]}" HOME="$home" USER="$user" LANG=C.UTF-8 TERM=dumb \
            PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
    ' container "$root" "$network" "$user" "$@" </dev/null
}
# Changes the root, with the network of this machine.
setup() {
    container machine root env DEBIAN_FRONTEND=noninteractive "$@" >>"$logs/setup.log" 2>&1 ||
        { tail "$logs/setup.log" >&2; fail "cannot prepare the root: $*"; }
}
install_packages() { setup apt-get install -y -qq --no-install-recommends "$@"; }

# What a reader has before the first page: a user who may call sudo, and the files of dist.
cp -L /etc/resolv.conf "$root/etc"
mkdir "$root/dist"
cp "$archive" "$deb" ${wheel:+"$wheel"} "$root/dist"
setup apt-get update -qq
install_packages sudo
setup useradd --create-home --shell /bin/bash reader
echo 'reader ALL=(ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/reader"

# Installs the programs that the page names in its text.
prepare() {
    case $1 in
    # With recommended packages, as by the page's command.
    docs/write-your-own-cc.md) setup apt-get install -y -qq clang-16 ;;
    docs/tutorials/sweep-with-pandas.md)
        install_packages python3-venv ca-certificates
        # With certificates that were added on this machine.
        cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs" 2>/dev/null || true
        setup python3 -m venv /opt/python
        setup bash -c '/opt/python/bin/pip install --quiet /dist/*.whl pandas pyarrow matplotlib'
        ;;
    esac
}

failed=0 skipped=0 is_installed=no
for page in "${pages[@]}"; do
    if [ "$page" = README.md ] && [ "$machine" != x86_64 ]; then
        say "$page: skipped: it installs the archive of x86_64"
        continue
    fi
    if [ "$page" != README.md ] && [ $is_installed = no ]; then
        rm -f "$root/usr/local/bin/longfat"
        install_packages "/dist/$(basename "$deb")"
        is_installed=yes
    fi
    prepare "$page"
    name=$(basename "$page" .md) user=reader folder=/home/reader path=
    # Pages that say so, or whose labs need it where users may not create user namespaces.
    case $page in docs/tutorials/slow-transfer.md | docs/write-your-own-cc.md | docs/agent.md) user=root folder=/root ;; esac
    ! grep -q '^python3 ' "$logs/$name.sh" || path=/opt/python/bin:
    cp "$logs/$name.sh" "$root/dist"
    mkdir "$root$folder/$name"
    [ "$page" != README.md ] || cp "$archive" "$root$folder/$name"
    chown -R --reference="$root$folder" "$root$folder/$name"
    log=$logs/$name.log code=0
    container own $user bash -c "cd $folder/$name && PATH=$path\$PATH exec bash /dist/$name.sh" >"$log" 2>&1 || code=$?
    case $code in
    0) say "$page: followed" ;;
    4)
        say "$page: skipped, this machine lacks a privilege or feature: $(tail -3 "$log")"
        skipped=$((skipped + 1))
        ;;
    *)
        say "$page: FAILED: $log ends with:"
        tail -20 "$log"
        failed=$((failed + 1))
        ;;
    esac
done
say "${#pages[@]} pages, $failed failed, $skipped skipped; what they printed: $logs"
[ $failed = 0 ] || exit 1
[ $skipped = 0 ] || exit 4
