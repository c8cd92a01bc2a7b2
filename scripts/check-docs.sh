#!/usr/bin/env bash
# Checks the documentation: links to files and to headings are valid, the site's navigation has all pages of docs/, and README.md has at
# most 900 words.
#   check-docs.sh [DIRECTORY]   the documentation of the repository, or the one in a directory
set -eu
cd "${1:-$(dirname "$0")/..}"
failed=0
pages() { if [ $# -gt 0 ]; then find . -name '*.md'; else git ls-files '*.md'; fi; }
# The anchors of a page's headings, as GitHub and the site make them: in lower case, without punctuation, with hyphens for spaces.
anchors() {
    sed -n '/^```/,/^```/!s/^##* //p' "$1" | sed -E 's/\[([^]]*)\]\([^)]*\)/\1/g' | tr '[:upper:]' '[:lower:]' |
        LC_ALL=C sed -E 's/[^a-z0-9 _-]//g; s/ /-/g'
}
declare -A anchors_of
while IFS=: read -r page link; do
    target=${link#](}
    target=${target%)}
    anchor=${target#"${target%%#*}"}
    target=${target%%#*}
    case $target in
    http*) continue ;;
    '') target=$page ;;
    *) target=$(dirname "$page")/$target ;;
    esac
    if [ ! -e "$target" ]; then
        echo "$page: no such file: $target" >&2
        failed=1
    elif [ -n "$anchor" ] && [[ $target = *.md ]]; then
        [ -n "${anchors_of[$target]+set}" ] || anchors_of[$target]=$(anchors "$target")
        if ! grep -qxF "${anchor#"#"}" <<<"${anchors_of[$target]}"; then
            echo "$page: $target has no heading $anchor" >&2
            failed=1
        fi
    fi
done < <(pages "$@" | xargs grep -oHE '\]\([^) ]+\)')
# Packages have no site.
if [ -e site/mkdocs.yml ]; then
    for page in docs/*.md docs/tutorials/*.md; do
        if ! grep -q "[- ]$page\$" site/mkdocs.yml; then
            echo "site/mkdocs.yml lacks $page" >&2
            failed=1
        fi
    done
fi
words=$(wc -w <README.md)
if [ "$words" -gt 900 ]; then
    echo "README.md has $words words; the limit is 900" >&2
    failed=1
fi
exit $failed
