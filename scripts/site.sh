#!/usr/bin/env bash
# Builds the site in target/site/html; fails on broken links. Needs Python 3, PyPI, npm's registry
# and target/playground (make playground).
#   site.sh LONGFAT   the program that makes the pages of commands and the gallery
set -eu
program=$(realpath "$1")
cd "$(dirname "$0")/.."
venv=target/site/venv
if ! cmp -s site/requirements.txt "$venv/requirements.txt"; then
    python3 -m venv --clear "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r site/requirements.txt
    cp site/requirements.txt "$venv"
fi
python3 site/pages.py "$program"
(cd target/site && tar -xzf "$(npm pack --silent iframe-worker@1.0.4)" package/shim/index.js)
mv target/site/package/shim/index.js target/site/pages/iframe-worker.js
cp -r target/playground target/site/pages/playground
NO_MKDOCS_2_WARNING=1 "$venv/bin/mkdocs" build --quiet --strict --config-file site/mkdocs.yml
echo "the site: $PWD/target/site/html/index.html"
