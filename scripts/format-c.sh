#!/usr/bin/env bash
# The C files in the style of .clang-format.
#   format-c.sh write   formats them
#   format-c.sh check   lists the files that differ, and fails if there are any
# Versions of clang-format differ in their results, so it takes version 16, the oldest clang that builds longfat.
set -eu
cd "$(dirname "$0")/.."
formatter=
for name in clang-format-16 clang-format; do
    if "$name" --version 2>/dev/null | grep -q ' version 16\.'; then
        formatter=$name
        break
    fi
done
if [ -z "$formatter" ]; then
    echo "skipped: clang-format 16 is not installed (Debian: apt-get install clang-format-16)"
    exit 0
fi
mapfile -t files < <(git ls-files 'crates/*.c' 'crates/*.h')
case ${1:-} in
write) "$formatter" -i "${files[@]}" ;;
check)
    different=()
    for file in "${files[@]}"; do
        "$formatter" "$file" | cmp -s - "$file" || different+=("$file")
    done
    if [ ${#different[@]} -gt 0 ]; then
        printf 'not in the style of .clang-format: %s\n' "${different[@]}" >&2
        echo "run: scripts/format-c.sh write" >&2
        exit 1
    fi
    ;;
*)
    sed -n '2,4s/^# //p' "$0" >&2
    exit 2
    ;;
esac
