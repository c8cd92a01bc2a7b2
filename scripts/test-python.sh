#!/usr/bin/env bash
# Tests the Python package from the sources, with a debug build or with that of cargo's profile LONGFAT_PROFILE.
#   test-python.sh [PYTEST OPTIONS]   builds the module and the program, then runs python/tests
#   test-python.sh built ...          with LONGFAT_MODULE and LONGFAT, as `cargo test -p longfat-python` does
#   test-python.sh wheel [FILE] ...   with a wheel (that of target/dist) in a new virtual environment; prints what an import and a run cost
#   test-python.sh slow ...           the slow tests: sweeps by Ray, Dask, Slurm and MPI, with workers that are killed
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
wheel)
    shift
    wheel=$(ls "$target"/dist/longfat-*.whl 2>/dev/null | head -1)
    case ${1:-} in *.whl)
        wheel=$(realpath "$1")
        shift
        ;;
    esac
    [ -n "$wheel" ] || { echo "test-python: there is no wheel in $target/dist: make wheel" >&2; exit 1; }
    venv=$venv-wheel
    rm -rf "$venv"
    environment requirements
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$wheel"
    # Not the package of the sources.
    cd "$target/python"
    LONGFAT=$venv/bin/longfat PYTHONDONTWRITEBYTECODE=1 "$venv/bin/python" -m pytest -c "$root/python/pyproject.toml" \
        --rootdir "$root/python" -p no:cacheprovider "$root/python/tests" "$@"
    exec "$venv/bin/python" "$root/python/tests/costs.py"
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
    profile=${LONGFAT_PROFILE:-dev} built=${LONGFAT_PROFILE:-debug}
    cargo build --locked --profile "$profile" -p longfat -p longfat-python
    LONGFAT_MODULE=$target/$built/liblongfat_python.so
    export LONGFAT=$target/$built/longfat
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
