#!/usr/bin/env bash
# Tests the Python package from the sources with a debug build.
#   test-python.sh [PYTEST OPTIONS]   builds the module and the program, then runs python/tests
#   test-python.sh built ...          with LONGFAT_MODULE and LONGFAT, as `cargo test -p longfat-python` does
#   test-python.sh slow ...           the slow tests: sweeps by Ray and Dask, with workers that are killed
#   test-python.sh environment        makes the virtual environment in target/python/venv and nothing else
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
target=$(realpath -m "${CARGO_TARGET_DIR:-$root/target}")
venv=$target/python/venv

# A virtual environment with the packages of these lists. It is rebuilt when a list changes.
environment() {
    local list lists=() stamp=$venv/lists
    for list in "$@"; do lists+=("$root/python/tests/$list.txt"); done
    if [ -x "$venv/bin/python" ] && cat "${lists[@]}" | cmp -s - "$stamp"; then return; fi
    python3 -m venv --clear "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check $(printf -- '-r %s ' "${lists[@]}")
    cat "${lists[@]}" >"$stamp"
}

mode=${1:-}
case $mode in
environment)
    environment requirements
    exit
    ;;
built)
    shift
    ;;
*)
    lists=(requirements)
    if [ "$mode" = slow ]; then
        shift
        lists+=(requirements-slow)
        set -- -m slow "$@"
        venv=$venv-slow
    fi
    environment "${lists[@]}"
    cd "$root"
    cargo build --locked -p longfat -p longfat-python
    LONGFAT_MODULE=$target/debug/liblongfat_python.so
    export LONGFAT=$target/debug/longfat
    ;;
esac
# The package as it is installed: the pure part beside the module.
package=$target/python/package
mkdir -p "$package"
mkdir -p "$package/longfat"
for file in "$root"/python/longfat/*; do
    case $file in *__pycache__) ;; *) ln -sfn "$file" "$package/longfat/" ;; esac
done
ln -sfn "$LONGFAT_MODULE" "$package/longfat/_native.abi3.so"
# Not in python/, whose package has no native module.
cd "$target/python"
PYTHONPATH=$package PYTHONDONTWRITEBYTECODE=1 exec "$venv/bin/python" -m pytest -c "$root/python/pyproject.toml" \
    --rootdir "$root/python" -p no:cacheprovider "$root/python/tests" "$@"
