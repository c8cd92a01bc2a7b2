#!/usr/bin/env bash
# Installs the .deb in a clean Debian root, runs it there, removes it, and checks that no files are left. Needs
# root; debootstrap makes the clean root from the mirror that apt uses.
#   scripts/test-deb.sh [FILE.deb]
set -eu
cd "$(dirname "$0")/.."
deb=${1:-$(ls "${CARGO_TARGET_DIR:-target}"/dist/longfat_*_"$(dpkg --print-architecture)".deb)}
. scripts/clean-root.sh
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
make_clean_root "$root"
# dpkg's own state and log do not count as leftovers of the package.
files() { (cd "$root" && find . -path ./var/lib/dpkg -prune -o -path ./var/log/dpkg.log -prune -o -path ./test -prune -o -print | LC_ALL=C sort); }
in_root() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"; }
fail() { echo "test-deb: $*" >&2; exit 1; }

before=$(files)
mkdir "$root/test"
cp "$deb" "$root/test/longfat.deb"
cp scenarios/lab8.toml "$root/test"
in_root dpkg -i /test/longfat.deb
in_root longfat --version
# A simulation loads a congestion control; the clean root has no loader and no library for it.
in_root longfat --runs /test/runs run /test/lab8.toml --engine model,sim --set duration=2s >"$root/test/output"
grep -q 'lab8\|sim' "$root/test/output" || fail "the simulator printed nothing"
in_root longfat --runs /test/runs ls | grep -q sim || fail "there is no record of the simulation"
for file in usr/share/man/man1/longfat.1.gz usr/share/man/man1/longfat-run.1.gz usr/lib/systemd/system/longfat.service \
    usr/lib/systemd/system/longfat-agent.service \
    usr/share/bash-completion/completions/longfat usr/share/zsh/vendor-completions/_longfat \
    usr/share/fish/vendor_completions.d/longfat.fish usr/share/doc/longfat/copyright \
    usr/share/doc/longfat/grafana-longfat-mesh.json usr/share/doc/longfat/prometheus-rules.yml \
    usr/share/doc/longfat/docs/decisions/README.md; do
    [ -s "$root/$file" ] || fail "$file is missing"
done
in_root bash -c '. /usr/share/bash-completion/completions/longfat && complete -p longfat' >/dev/null
[ ! -e "$root/etc/systemd/system/multi-user.target.wants/longfat.service" ] || fail "the service is enabled"
in_root sh -c 'cd / && dpkg -V longfat' || fail "files differ from the package's sums"
# The pScheduler tool, without pScheduler.
tool=$(ls "$(dirname "$deb")"/pscheduler-tool-longfat_*_all.deb)
cp "$tool" "$root/test/tool.deb"
in_root dpkg -i --force-depends /test/tool.deb
in_root /usr/lib/pscheduler/classes/tool/longfat/enumerate | grep -q '"name": "longfat"' || fail "the pScheduler tool does not run"
in_root dpkg -P pscheduler-tool-longfat
in_root dpkg -r longfat
in_root dpkg -P longfat
left=$(diff <(echo "$before") <(files)) || fail "left behind: $left"
! in_root dpkg -s longfat >/dev/null 2>&1 || fail "dpkg still lists the package"
! ls "$root"/var/lib/dpkg/info/longfat.* >/dev/null 2>&1 || fail "dpkg has files of the package"
echo "test-deb: installed, ran and removed; nothing is left"
