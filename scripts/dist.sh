#!/usr/bin/env bash
# Makes the packages in target/dist: a static program in a tar file, an OCI image, a .deb with manual pages, completions and systemd units, and
# a .deb of the pScheduler tool. For this machine's architecture, and on x86_64 also for aarch64 if the cross toolchain can be installed.
# scripts/program.sh builds the program.
set -eu
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
out=$target/dist
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}

say() { echo "dist: $*" >&2; }

# Manual pages, completions, unit, licences: the same for each architecture, made by a program that runs here.
share() {
    local program=$1 tree=$out/share shell
    rm -rf "$tree"
    mkdir -p "$tree/man/man1" "$tree/completions" "$tree/doc/crates/guest"
    "$program" man -o "$tree/man/man1"
    for shell in bash zsh fish; do
        "$program" completions $shell >"$tree/completions/longfat.$shell"
    done
    awk '/@LICENSE-MIT@/ {
        while ((getline line < "LICENSE-MIT") > 0) print line == "" ? " ." : " " line
        next
    } { print }' packaging/copyright >"$tree/doc/copyright"
    # The pages with their pictures and decision records, and the files to which they link, in the repository's layout.
    cp README.md ARCHITECTURE.md CONTRIBUTING.md SECURITY.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE "$tree/doc"
    cp crates/guest/kernel.config "$tree/doc/crates/guest"
    cp -r docs "$tree/doc"
    scripts/check-docs.sh "$tree/doc"
}

# Gets Rust's library, libelf and zlib for aarch64. apt downloads them into a folder of the build; the machine gets no
# second architecture.
prepare_aarch64() {
    local apt=$out/aarch64 options
    command -v aarch64-linux-gnu-gcc >/dev/null || { say "no aarch64-linux-gnu-gcc"; return 1; }
    rustup target add aarch64-unknown-linux-gnu 2>/dev/null || { say "no Rust library for aarch64"; return 1; }
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/root"
    options=(-qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root
        -o Dir::State::lists="$apt/lists" -o Dir::Cache="$apt/cache" -o Dir::State::status=/dev/null)
    (cd "$apt" && apt-get "${options[@]}" update && apt-get "${options[@]}" download libelf-dev zlib1g-dev) >&2 ||
        { say "no libelf-dev and zlib1g-dev of arm64"; return 1; }
    for package in "$apt"/*.deb; do dpkg-deb -x "$package" "$apt/root"; done
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc LONGFAT_CC
    LONGFAT_CC=$(command -v aarch64-linux-gnu-gcc)
    export LIBBPF_SYS_LIBRARY_PATH=$apt/root/usr/lib/aarch64-linux-gnu
    export LIBBPF_SYS_EXTRA_CFLAGS="-I$apt/root/usr/include -I$apt/root/usr/include/aarch64-linux-gnu"
}

archive() {
    local triple=$1 machine=$2 name=longfat-$version-$2-linux
    local tree=$out/$name
    rm -rf "$tree"
    mkdir -p "$tree"
    cp "$out/$triple/longfat" "$tree"
    cp -r "$out/share/man" "$out/share/completions" "$out/share/doc/." packaging/longfat.service packaging/longfat-agent.service \
        packaging/grafana-longfat-mesh.json "$tree"
    install_pscheduler_tool "$tree/pscheduler-tool"
    tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$out" -czf "$out/$name.tar.gz" "$name"
    rm -rf "$tree"
    say "$out/$name.tar.gz ($machine)"
}

# The methods of the pScheduler tool, in a directory.
install_pscheduler_tool() {
    local method
    for method in enumerate can-run duration participant-data run merged-results; do
        install -D -m 755 packaging/pscheduler-tool/method "$1/$method"
    done
}

# The pScheduler tool as a package: scripts that call the program, for every architecture.
pscheduler_deb() {
    local tree=$out/pscheduler-deb
    rm -rf "$tree"
    install_pscheduler_tool "$tree/usr/lib/pscheduler/classes/tool/longfat"
    install -D -m 644 "$out/share/doc/copyright" "$tree/usr/share/doc/pscheduler-tool-longfat/copyright"
    gzip -9nc CHANGELOG.md >"$tree/usr/share/doc/pscheduler-tool-longfat/changelog.gz"
    mkdir "$tree/DEBIAN"
    install -m 644 packaging/pscheduler-tool/triggers "$tree/DEBIAN"
    sed "s/@VERSION@/$version/" packaging/pscheduler-tool/control >"$tree/DEBIAN/control"
    (cd "$tree" && find usr -type f | LC_ALL=C sort | xargs md5sum >DEBIAN/md5sums)
    find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    dpkg-deb --root-owner-group -Zxz --build "$tree" "$out/pscheduler-tool-longfat_${version}_all.deb" >&2
    rm -rf "$tree"
}

# An OCI image, in Go's names of architectures.
image() {
    local triple=$1 machine=$2 architecture
    case $machine in x86_64) architecture=amd64 ;; aarch64) architecture=arm64 ;; *) architecture=$machine ;; esac
    scripts/oci.sh "$out/$triple/longfat" "$architecture" "$version" "$out/longfat-$version-$architecture.oci.tar"
}

deb() {
    local triple=$1 machine=$2 tree=$out/deb
    rm -rf "$tree"
    install -D -m 755 "$out/$triple/longfat" "$tree/usr/bin/longfat"
    install -D -m 644 -t "$tree/usr/share/man/man1" "$out"/share/man/man1/*
    gzip -9n "$tree"/usr/share/man/man1/*
    install -D -m 644 "$out/share/completions/longfat.bash" "$tree/usr/share/bash-completion/completions/longfat"
    install -D -m 644 "$out/share/completions/longfat.zsh" "$tree/usr/share/zsh/vendor-completions/_longfat"
    install -D -m 644 "$out/share/completions/longfat.fish" "$tree/usr/share/fish/vendor_completions.d/longfat.fish"
    install -D -m 644 -t "$tree/usr/lib/systemd/system" packaging/longfat.service packaging/longfat-agent.service
    mkdir -p "$tree/usr/share/doc"
    cp -r "$out/share/doc" "$tree/usr/share/doc/longfat"
    install -m 644 packaging/grafana-longfat-mesh.json "$tree/usr/share/doc/longfat"
    # Debian has the licences in `copyright`.
    rm "$tree"/usr/share/doc/longfat/{LICENSE-MIT,LICENSE-APACHE}
    chmod -R u=rwX,go=rX "$tree/usr/share/doc/longfat"
    gzip -9nc CHANGELOG.md >"$tree/usr/share/doc/longfat/changelog.gz"
    mkdir "$tree/DEBIAN"
    install -m 755 packaging/postinst packaging/prerm packaging/postrm "$tree/DEBIAN"
    sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$machine/" \
        -e "s/@SIZE@/$(du -sk --apparent-size "$tree/usr" | cut -f1)/" packaging/control >"$tree/DEBIAN/control"
    (cd "$tree" && find usr -type f | LC_ALL=C sort | xargs md5sum >DEBIAN/md5sums)
    find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    dpkg-deb --root-owner-group -Zxz --build "$tree" "$out/longfat_${version}_$machine.deb" >&2
    rm -rf "$tree"
}

rm -rf "$out"
mkdir -p "$out"
machine=$(uname -m)
triple=$machine-unknown-linux-gnu
# Once: the same module is in the programs of all architectures.
LONGFAT_PLAYGROUND_WASM=$(scripts/playground.sh path)
export LONGFAT_PLAYGROUND_WASM
scripts/program.sh "$triple" "$out/$triple/longfat"
share "$out/$triple/longfat"
archive "$triple" "$machine"
image "$triple" "$machine"
if command -v dpkg-deb >/dev/null; then
    deb "$triple" "$(dpkg --print-architecture)"
    pscheduler_deb
else
    say "no .deb: dpkg-deb is missing"
fi
if [ "$machine" = x86_64 ]; then
    # In a subshell: the settings are for this build only.
    (
        prepare_aarch64 || { say "skipping aarch64"; exit 0; }
        scripts/program.sh aarch64-unknown-linux-gnu "$out/aarch64-unknown-linux-gnu/longfat"
        archive aarch64-unknown-linux-gnu aarch64
        image aarch64-unknown-linux-gnu aarch64
        deb aarch64-unknown-linux-gnu arm64
    )
fi
rm -rf "$out"/{share,aarch64,*-unknown-linux-gnu}
(cd "$out" && sha256sum ./*.tar.gz ./*.deb 2>/dev/null >SHA256SUMS || true)
ls -l "$out" >&2
