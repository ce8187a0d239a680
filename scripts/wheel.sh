#!/usr/bin/env bash
# Builds the source distribution and, from it, the wheel, both into build/wheel: wheel.sh
#
# The wheel is built as a user's pip builds it. Tests of the wheel therefore test the source
# distribution, too. `maturin` must be on the PATH, beside its Python.
set -euo pipefail
cd "$(dirname "$0")/.."

sources=build/from-sdist
rm -rf build/wheel "$sources"
mkdir -p build/command build/wheel "$sources"
# maturin warns of every other build backend, also of ours, which calls it.
maturin sdist --out build/wheel >build/sdist.log 2>&1 || {
    cat build/sdist.log >&2
    exit 1
}
# The files get the time of now: cargo would not look at older ones again.
tar --extract --gzip --touch --strip-components 1 --file build/wheel/*.tar.gz --directory "$sources"
export CARGO_TARGET_DIR=$PWD/target MATURIN_PEP517_ARGS="--locked --quiet"
python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index \
    --wheel-dir build/wheel "$sources"
