#!/usr/bin/env bash
# Makes all files of a release in target/dist: the output of dist.sh and wheel.sh, the bill of materials, the
# notes of this version from CHANGELOG.md, and checksums. The version is that of Cargo.toml; the tree must be committed.
set -eu
cd "$(dirname "$0")/.."
dist=$(realpath -m "${CARGO_TARGET_DIR:-target}")/dist
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
fail() { echo "release: $*" >&2; exit 1; }

[ -z "$(git status --porcelain)" ] || fail "the working tree has changes that are not committed"
notes=$(awk -v heading="## $version" 'index($0, heading) == 1 { found = 1; next } /^## / { found = 0 } found' CHANGELOG.md)
[ -n "$notes" ] || fail "CHANGELOG.md has no section \"## $version\""
for file in CITATION.cff README.md; do
    grep -q "$version" "$file" || fail "$file does not name the version $version"
done
scripts/dist.sh
scripts/wheel.sh
python3 scripts/sbom.py >"$dist/longfat-$version-sbom.cdx.json"
echo "$notes" >"$dist/longfat-$version-notes.md"
scripts/checksums.sh "$dist"
ls -l "$dist"
