#!/usr/bin/env bash
# Checks the documentation: links to files are valid, and README.md has at most 900 words.
#   check-docs.sh [DIRECTORY]   the documentation of the repository, or the one in a directory
set -eu
cd "${1:-$(dirname "$0")/..}"
failed=0
pages() { if [ $# -gt 0 ]; then find . -name '*.md'; else git ls-files '*.md'; fi; }
while IFS=: read -r page link; do
    target=${link#](}
    target=${target%)}
    target=${target%%#*}
    case $target in '' | http*) continue ;; esac
    if [ ! -e "$(dirname "$page")/$target" ]; then
        echo "$page: no such file: $target" >&2
        failed=1
    fi
done < <(pages "$@" | xargs grep -oHE '\]\([^) ]+\)')
words=$(wc -w <README.md)
if [ "$words" -gt 900 ]; then
    echo "README.md has $words words; the limit is 900" >&2
    failed=1
fi
exit $failed
